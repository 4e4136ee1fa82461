"""Schedulers and training controls of simulated sites."""

from __future__ import annotations

from bridgehead.drivers.world.calls import Calls
from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobIdentity, JobRunning, JobSpec, JobState
from bridgehead.ports.training import Order, OrderEnvelope, TrainingProgress


class WorldScheduler:
    """Implements ``ports.scheduler.Scheduler``."""

    def __init__(self, site: SiteId, calls: Calls) -> None:
        self._site = site
        self._calls = calls
        self._place = f"scheduler@{site}"

    def start(self, spec: JobSpec, *, stamp: Stamp) -> JobIdentity:
        """See the port."""
        world = self._calls.world
        return self._calls.write(
            "scheduler.start", self._site, lambda: world.start(self._site, spec, stamp.key), stamp=stamp, place=self._place
        )

    def observe(self, name: JobName) -> JobState:
        """See the port."""
        return self._calls.read("scheduler.observe", self._site, lambda: self._seen(name))

    def stop(self, name: JobName, *, stamp: Stamp) -> None:
        """See the port."""
        world = self._calls.world
        self._calls.write("scheduler.stop", self._site, lambda: world.stop(self._site, name), stamp=stamp, place=self._place)

    def kill(self, name: JobName, *, stamp: Stamp) -> None:
        """See the port."""
        world = self._calls.world
        self._calls.write("scheduler.kill", self._site, lambda: world.kill(self._site, name), stamp=stamp, place=self._place)

    def _seen(self, name: JobName) -> JobState:
        job = self._calls.world.newest(self._site, name)
        if job is None:
            return JobAbsent(name)
        if job.waiting:
            return JobRunning(job.identity, waiting_for="an open node, or its release")
        return JobRunning(job.identity) if job.running else JobEnded(job.identity, job.exit_code, job.ended_s)


class WorldTrainingControl:
    """Implements ``ports.training.TrainingControl``."""

    def __init__(self, site: SiteId, calls: Calls) -> None:
        self._site = site
        self._calls = calls
        self._desk = calls.world.desks[site]

    def request(self, job: JobName, order: Order, *, order_id: str, stamp: Stamp) -> None:
        """See the port."""
        envelope = OrderEnvelope(order_id, order)
        place = f"training@{self._site}"
        self._calls.write("training.request", self._site, lambda: self._desk.put(job, envelope), stamp=stamp, place=place)

    def progress(self, job: JobName) -> TrainingProgress:
        """See the port."""
        return self._calls.read("training.progress", self._site, lambda: self._read(job), stale=lambda: self._stale(job))

    def _read(self, job: JobName) -> TrainingProgress:
        try:
            report = self._desk.report(job)
        except KeyError:
            raise NotFound("it has not reported yet", tried="read the progress of a trainer", subject=f"{job} at {self._site}") from None
        if report is None:
            raise Transient("its report is torn", tried="read the progress of a trainer", subject=f"{job} at {self._site}")
        self._desk.earlier_reports[job] = report
        return report

    def _stale(self, job: JobName) -> TrainingProgress:
        return self._desk.earlier_reports.get(job) or self._read(job)
