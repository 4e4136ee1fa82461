"""Desk: where orders to the trainers of one site lie, and their reports. It outlives the processes, as a folder does."""

from __future__ import annotations

from typing import Protocol

from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import JobName
from bridgehead.ports.training import OrderEnvelope, TrainingProgress


class Reporter(Protocol):
    """A living trainer."""

    def report(self) -> TrainingProgress:
        """What its newest report says."""
        ...

    def notice(self) -> None:
        """An order has come."""
        ...


class Desk:
    """Orders and reports by job name. A report of None is torn: it cannot be read."""

    def __init__(self) -> None:
        self.orders: dict[JobName, OrderEnvelope] = {}
        self.obeyed: dict[JobName, str] = {}
        self.reports: dict[JobName, TrainingProgress | None] = {}
        self.earlier_reports: dict[JobName, TrainingProgress] = {}
        """What a stale read shows."""
        self._replaced: dict[JobName, set[str]] = {}
        self._alive: dict[JobName, Reporter] = {}

    def clear(self) -> None:
        """All papers are thrown away, as with the folder that they lie in. No trainer is alive."""
        for papers in (self.orders, self.obeyed, self.reports, self.earlier_reports, self._replaced, self._alive):
            papers.clear()

    def enter(self, job: JobName, trainer: Reporter) -> None:
        """The trainer of ``job`` begins to report."""
        self._alive[job] = trainer

    def leave(self, job: JobName) -> None:
        """The trainer is gone; its last report stays."""
        trainer = self._alive.pop(job, None)
        if trainer is not None:
            self.reports[job] = trainer.report()

    def report(self, job: JobName) -> TrainingProgress | None:
        """The newest report. Raises KeyError before the first one."""
        trainer = self._alive.get(job)
        if trainer is None:
            return self.reports[job]
        return trainer.report()

    def put(self, job: JobName, envelope: OrderEnvelope) -> None:
        """Lay an order out. A repeat does nothing, nor does a late repeat of one that was replaced. Raises Conflict."""
        current = self.orders.get(job)
        if current is not None and current.id == envelope.id:
            if current.order != envelope.order:
                raise Conflict(f"order {envelope.id} was already given, with another content", tried="give an order", subject=job)
            return
        replaced = self._replaced.setdefault(job, set())
        if envelope.id in replaced:
            return
        if current is not None:
            replaced.add(current.id)
        self.orders[job] = envelope
        if job in self._alive:
            self._alive[job].notice()
