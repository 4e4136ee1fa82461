"""Trainer: a simulated training process, as ``ports.training`` describes one. Steps are computed by formula, not one event each.

Deterministic training: a step's result depends on the step number only, so that the same step in the same epoch is the same snapshot.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import assert_never

import msgspec

from bridgehead.kernel.ids import Epoch, SnapshotId
from bridgehead.ports.training import Continue, OrderEnvelope, Release, SaveAndHold, TrainerState, TrainingProgress
from bridgehead.simulate.blueprint import TrainerPlan
from bridgehead.simulate.desk import Desk
from bridgehead.simulate.timeline import Timeline
from bridgehead.simulate.vault import HeldSnapshot, SiteVault, snapshot_id

LOOK_S = 0.005
"""How soon an order is seen."""
FOLLOW_S = 0.1
"""How often a standby looks for a newer snapshot."""
REPORT_S = 0.05
"""A report about a new step may be this old."""
SWITCH_S = 0.02
"""From an order to the first step when nothing has to be loaded."""
RETRY_SAVE_S = 0.5
_ROUNDING_S = 1e-7


class Stretch(msgspec.Struct):
    """Steps ``first`` to ``last`` were computed without a break. ``based_on`` is the snapshot that it went on from."""

    trainer: str
    epoch: Epoch
    based_on: SnapshotId | None
    first: int
    begun_s: float
    last: int | None = None
    ended_s: float | None = None
    uncounted_from: int | None = None
    """First step that the trainer completed after its epoch was closed at its site, if any; set by the world."""


class Duty(enum.StrEnum):
    """What a trainer does when the current step is over."""

    GO_ON = "go-on"
    HOLD = "hold"
    STOP = "stop"


class Trainer:
    """One process. It lives until ``die`` is called or it ends itself; ``ended`` is told then, with the exit code.

    Args:
        standby: it waits for a release.
        epoch: the epoch in which it saves, unless a release gives another one.
        history: stretches of all trainers of the workload; new ones are added here.
    """

    def __init__(
        self,
        plan: TrainerPlan,
        *,
        timeline: Timeline,
        vault: SiteVault,
        desk: Desk,
        standby: bool,
        epoch: Epoch,
        history: list[Stretch],
        ended: Callable[[int], None],
    ) -> None:
        self.plan, self.vault, self.epoch, self.standby = plan, vault, epoch, standby
        self.alive = True
        self.state = TrainerState.STARTING
        self.stretch: Stretch | None = None
        self.saved: SnapshotId | None = None
        self.loaded: SnapshotId | None = None
        self._timeline, self._desk, self._history, self._ended = timeline, desk, history, ended
        self._held: SnapshotId | None = None
        self._step = plan.first_step
        self._base_step, self._base_s = plan.first_step, timeline.now_s
        self._step_ended_s = self._first_step_s = 0.0
        self._first_new_step: int | None = None
        self._duty = Duty.GO_ON
        self._busy = True
        self._answering: OrderEnvelope | None = None
        self._generation = 0

    # life

    def start(self) -> None:
        """Begin to load."""
        self._after(self.plan.load_s, self._warm)

    def start_running(self) -> None:
        """Be in full swing, as one that has run for long."""
        self._desk.enter(self.plan.job, self)
        self._step_ended_s = self._timeline.now_s
        self._compute(based_on=None)

    def die(self) -> None:
        """End now, without a word."""
        if self.alive:
            self._pause_steps()
            self._desk.leave(self.plan.job)
            self.alive = False

    def ask_to_stop(self) -> None:
        """Finish the step, save, end; while standing still: end soon."""
        if not self.alive or self.plan.ignores_orders or self._duty is Duty.STOP:
            return
        if self._duty is Duty.HOLD and self._busy:
            self._duty = Duty.STOP  # the save that is under way comes first
        elif self.computing:
            self._finish_step(Duty.STOP)
        else:
            self._duty = Duty.STOP
            self._after(LOOK_S, lambda: self._end(0))

    def notice(self) -> None:
        """See ``Desk.put``."""
        if not self.plan.ignores_orders:
            self._after(LOOK_S, self._look)

    # what can be seen

    @property
    def computing(self) -> bool:
        """It completes steps now."""
        return self.alive and self.stretch is not None

    def step_at(self, when_s: float) -> int:
        """Newest completed step."""
        if self.stretch is None:
            return self._step
        return self._base_step + max(0, int((when_s - self._base_s + _ROUNDING_S) / self.plan.step_s))

    def ended_s(self, step: int) -> float:
        """When ``step`` of the present stretch was completed."""
        return self._base_s + (step - self._base_step) * self.plan.step_s

    def report(self) -> TrainingProgress:
        """See ``Desk.report``: in full swing a report is at most ``REPORT_S`` old; a change of state is reported at once."""
        now_s = self._timeline.now_s
        step, step_ended_s, first_s, seen_s = self._step, self._step_ended_s, self._first_step_s, now_s
        if self.stretch is not None:
            seen_s = max(self._base_s, now_s - now_s % REPORT_S)
            step = self.step_at(seen_s)
            if step > self._base_step:
                step_ended_s = self.ended_s(step)
                first_s = first_s or self.ended_s(self._base_step + 1)
        return TrainingProgress(
            state=self.state,
            step=step,
            epoch=self.epoch,
            saved=self.saved,
            loaded=self.loaded,
            obeyed=self._desk.obeyed.get(self.plan.job, ""),
            reported_s=seen_s,
            step_ended_s=step_ended_s,
            first_step_s=first_s,
        )

    # inside

    def _after(self, delay_s: float, event: Callable[[], None]) -> None:
        self._timeline.after(delay_s, lambda: event() if self.alive else None)

    def _warm(self) -> None:
        self._desk.enter(self.plan.job, self)
        self._busy = False
        if self._duty is Duty.STOP:
            return
        newest = self.vault.newest(self.plan.workload)
        if newest is not None:
            self._step, self.loaded, self._held = newest.step, newest.id, newest.id
        if self.standby:
            self.state = TrainerState.STANDBY
            self._after(FOLLOW_S, self._follow)
        else:
            self._compute(based_on=self.loaded)
        self.notice()

    def _follow(self) -> None:
        if self.state is TrainerState.STANDBY and not self._busy:
            newest = self.vault.newest(self.plan.workload)
            if newest is not None and newest.id != self.loaded:
                self._step, self.loaded, self._held = newest.step, newest.id, newest.id
            self._after(FOLLOW_S, self._follow)

    def _compute(self, *, based_on: SnapshotId | None) -> None:
        self.state, self._duty, self._busy = TrainerState.RUNNING, Duty.GO_ON, False
        self._base_step, self._base_s = self._step, self._timeline.now_s
        who = f"{self.plan.job}@{self.plan.site}"
        self.stretch = Stretch(who, self.epoch, based_on, first=self._step + 1, begun_s=self._timeline.now_s)
        self._history.append(self.stretch)
        self._generation += 1
        self._plan_save()

    def _pause_steps(self) -> None:
        """Computing ends; what was completed stays."""
        if self.stretch is None:
            return
        now_s = self._timeline.now_s
        self._step = self.step_at(now_s)
        if self._step > self._base_step:
            self._step_ended_s = self.ended_s(self._step)
            self._first_step_s = self._first_step_s or self.ended_s(self._base_step + 1)
        self.stretch.last, self.stretch.ended_s = self._step, now_s
        self.stretch = None
        self._generation += 1

    def _plan_save(self) -> None:
        """The next periodic snapshot: its commit is an event, the steps to it are none."""
        every, generation, epoch = self.plan.save_every_steps, self._generation, self.epoch
        step = (self.step_at(self._timeline.now_s) // every + 1) * every
        commit_s = self.ended_s(step) + self.plan.save_s

        def commit() -> None:
            # An asynchronous save that was begun is finished even when the trainer went on hold meanwhile.
            if self.alive:
                self._commit(step, epoch)
            if self.alive and generation == self._generation:
                self._plan_save()

        self._timeline.at(commit_s, lambda: commit() if self.alive and step <= self.step_at(self._timeline.now_s) else None)

    def _commit(self, step: int, epoch: Epoch) -> SnapshotId | None:
        """Write a snapshot of ``step``; None when the disk is full."""
        if not self.vault.has_space():
            return None
        identity = snapshot_id(self.plan.workload, step, epoch)
        now_s = self._timeline.now_s
        self.vault.put(HeldSnapshot(identity, self.plan.workload, step, epoch, self.plan.site, now_s, self.plan.snapshot_bytes, whole=True))
        self.saved = identity
        return identity

    def _finish_step(self, duty: Duty) -> None:
        """When the step that is being computed is over: save, then stand still or end."""
        self._duty, self._busy = duty, True
        now_s = self._timeline.now_s
        self._after(self.ended_s(self.step_at(now_s) + 1) - now_s, self._step_is_over)

    def _step_is_over(self) -> None:
        self._pause_steps()  # it reports itself as running until the snapshot is committed
        self._after(self.plan.save_s, self._save_and_settle)

    def _save_and_settle(self) -> None:
        saved = self._commit(self._step, self.epoch)
        if saved is None:
            self._after(RETRY_SAVE_S, self._save_and_settle)
            return
        self.state, self._busy, self._held = TrainerState.HOLDING, False, saved
        if self._duty is Duty.STOP:
            self._end(0)
            return
        if self._answering is not None:
            self._obeyed(self._answering)
        self._look()

    def _obeyed(self, envelope: OrderEnvelope) -> None:
        self._desk.obeyed[self.plan.job] = envelope.id
        self._answering = None

    def _look(self) -> None:
        envelope = self._desk.orders.get(self.plan.job)
        if self._busy or self._duty is Duty.STOP or envelope is None or envelope.id == self._desk.obeyed.get(self.plan.job):
            return
        match envelope.order:
            case SaveAndHold():
                if self.computing:
                    self._answering = envelope
                    self._finish_step(Duty.HOLD)
                else:
                    self._obeyed(envelope)
            case Continue():
                self._obeyed(envelope)
                if self.state is TrainerState.HOLDING:
                    self._compute(based_on=self._held)
            case Release():
                self._release(envelope, envelope.order)
            case _:
                assert_never(envelope.order)

    def _release(self, envelope: OrderEnvelope, order: Release) -> None:
        if self.stretch is not None:
            return  # it computes already: releasing is for those that stand still
        held = self.vault.held.get(order.snapshot)
        if order.snapshot != self._held and (held is None or not held.whole):
            self._after(RETRY_SAVE_S, self._look)
            return
        self._busy = True
        self._after(SWITCH_S if order.snapshot == self._held else self.plan.load_s, lambda: self._released(envelope, order))

    def _released(self, envelope: OrderEnvelope, order: Release) -> None:
        self._busy = False
        if order.snapshot != self._held:
            held = self.vault.held.get(order.snapshot)
            if held is None or not held.whole:
                self._look()
                return
            self._step, self.loaded, self._held = held.step, held.id, held.id
        self.epoch = order.epoch
        self._first_step_s = 0.0
        self._obeyed(envelope)
        self._compute(based_on=order.snapshot)

    def _end(self, code: int) -> None:
        self.die()
        self._ended(code)
