"""Evidence: what is known of one execution, and when that is enough to say that it has ended (J01, J02)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from bridgehead.drivers.kubernetes.api import JOBS, PODS, KubeApi, Object, Stale, is_name
from bridgehead.drivers.kubernetes.book import Book, BookKeeper, Ended, Execution
from bridgehead.drivers.kubernetes.manifest import HELD, OF_A_NAME, RELEASED, name_label
from bridgehead.drivers.kubernetes.objects import JobView, PodView, pods_of, silent_nodes
from bridgehead.kernel.errors import PortError, Transient, Unknown
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.ports.scheduler import JobEnded, JobIdentity, JobRunning, JobState


class Look(NamedTuple):
    """The Jobs of one name, at one moment."""

    ours: tuple[JobView, ...]
    foreign: JobView | None
    """One that somebody else made, by that very name."""

    def job(self, execution: Execution) -> JobView | None:
        """The Job that counts for an execution."""
        everything = (*self.ours, *([self.foreign] if self.foreign else []))
        return next((job for job in everything if job.uid == execution.uid), None)


class Evidence:
    """Looks at the Jobs and pods of one site and writes down what must not be forgotten.

    Args:
        now: the wall clock.
    """

    def __init__(self, site: SiteId, api: KubeApi, books: BookKeeper, *, now: Callable[[], float] = time.time) -> None:
        self._site, self._api, self._books, self._now = site, api, books, now

    def look(self, name: JobName, *, tried: str) -> Look:
        """All Jobs of that name. Raises Transient."""
        ours = [JobView(job) for job in self._api.all(JOBS, labels={OF_A_NAME: name_label(name)}, tried=tried)]
        found = self._api.find(JOBS, name, tried=tried) if is_name(name) else None
        return Look(tuple(ours), JobView(found) if found is not None and not JobView(found).token else None)

    def judge(self, name: JobName, execution: Execution, look: Look, *, tried: str) -> JobState | None:
        """What is known of one execution; None when it never began. Raises Transient when that cannot be told."""
        if not execution.uid:
            return None  # without a claim nothing ever runs, whatever was made
        job = look.job(execution)
        if job is not None and not (job.released or job.asked or job.deleted):
            with contextlib.suppress(Stale, Unknown):  # the next look sees what came of it
                self.release(job, by="whoever looked", tried=tried)
        pods = pods_of(self._api, execution.uid, tried=tried)
        execution = self._noted(name, execution, pods, tried=tried)
        self._let_go([pod for pod in pods if pod.over and (pod.never_begins or pod.uid not in execution.newest)], tried=tried)
        living = [pod for pod in pods if not pod.over]
        if living:
            return self._living(name, execution, living, tried=tried)
        ended = self._ended(execution, job, pods, tried)
        if ended is not None:
            counts = self._record(name, execution, ended, tried=tried)
            self._let_go(pods, tried=tried)
            return job_ended(self.identity(name, execution), counts)
        if job is None:
            raise self._cannot_tell(name, execution, tried)
        if execution.restarts in execution.ended:
            # Somebody has let it go again: what comes is another execution than the one that has ended.
            execution = msgspec.structs.replace(execution, pods=(*execution.pods, ""))
        waiting = "suspended" if job.suspended and not job.asked else "its pods"
        return JobRunning(identity=self.identity(name, execution), waiting_for=waiting)

    def release(self, job: JobView, *, by: str, tried: str) -> None:
        """Let a claimed Job go: with the claim its start has happened, and whoever sees that it was cut off then finishes it.

        Raises Stale when the Job was changed since it was seen, Transient, Unknown.
        """
        change: Object = {"metadata": {"annotations": {RELEASED: by}}, "spec": {"suspend": False}}
        self._api.patch(JOBS, job.document, change, tried=tried)

    def identity(self, name: JobName, execution: Execution) -> JobIdentity:
        """See the port."""
        return JobIdentity(self._site, name, f"{self._api.namespace}/{execution.uid}", execution.submitted_s, execution.restarts)

    def subject(self, name: JobName) -> str:
        """For errors."""
        return f"job {name} at site {self._site}"

    def foreign(self, name: JobName, job: JobView) -> Execution:
        """How a Job that somebody else made would stand in the book."""
        return Execution(f"adopted/{job.uid}", "", job.name, job.submitted_s, job.uid, job.submitted_s, job.parallel)

    def _living(self, name: JobName, execution: Execution, living: Sequence[PodView], *, tried: str) -> JobRunning:
        silent = silent_nodes(self._api, living, now_s=self._now(), tried=tried)
        if silent:
            raise silent_error(silent, tried=tried, subject=self.subject(name))
        begun = any(pod.begun for pod in living)
        return JobRunning(identity=self.identity(name, execution), waiting_for="" if begun else living[0].waiting_for)

    def _ended(self, execution: Execution, job: JobView | None, pods: Sequence[PodView], tried: str) -> Ended | None:
        """The evidence of an end, given that no living pod is seen; None without."""
        if execution.restarts in execution.ended and (job is None or job.finished or job.suspended or job.deleted):
            return execution.ended[execution.restarts]
        if job is not None and job.finished:
            return Ended(0 if job.succeeded else _code(pods), job.ended_s, "job")
        if job is not None and job.asked and job.surely_suspended(pods_seen=len(execution.pods), now_s=self._now()):
            return Ended(_code_of_all(execution, pods), _latest(pods) or job.ended_s, "suspended")
        if (
            (job is None or job.deleted)
            and set(execution.newest) <= {pod.uid for pod in pods}
            and len(execution.newest) == execution.parallel
        ):
            return Ended(_code_of_all(execution, pods), _latest(pods), "pods")
        if job is None and execution.uid in self._books.read(tried=tried)[1]:
            return Ended(None, None, "a person who looked")
        return None

    def _noted(self, name: JobName, execution: Execution, pods: Sequence[PodView], *, tried: str) -> Execution:
        """With the pods that were not seen before, which is written down: they tell one restart from another."""
        if {pod.uid for pod in pods} <= set(execution.pods) or not execution.uid:
            return execution

        def note(book: Book) -> Book:
            known = book.by_job(name, execution.job)
            if known is None:
                return book
            new = sorted((pod for pod in pods if pod.uid not in known.pods), key=lambda pod: pod.document["metadata"]["creationTimestamp"])
            return book.with_execution(name, msgspec.structs.replace(known, pods=(*known.pods, *(pod.uid for pod in new))))

        changed = self._books.change(note, tried=tried).by_job(name, execution.job)
        return changed or msgspec.structs.replace(execution, pods=tuple(pod.uid for pod in pods))

    def _record(self, name: JobName, execution: Execution, ended: Ended, *, tried: str) -> Ended:
        """What was written first counts for ever."""

        def write(book: Book) -> Book:
            known = book.by_job(name, execution.job)
            if known is None or execution.restarts in known.ended:
                return book
            return book.with_execution(name, msgspec.structs.replace(known, ended={**known.ended, execution.restarts: ended}))

        known = self._books.change(write, tried=tried).by_job(name, execution.job)
        return known.ended[execution.restarts] if known is not None else ended

    def _let_go(self, pods: Sequence[PodView], *, tried: str) -> None:
        """The end is on record: Kubernetes may forget the pods. What fails is done at the next look."""
        for pod in pods:
            if HELD in pod.finalizers:
                with contextlib.suppress(PortError):
                    rest = [one for one in pod.finalizers if one != HELD]
                    self._api.patch(PODS, pod.document, {"metadata": {"finalizers": rest}}, tried=tried)

    def _cannot_tell(self, name: JobName, execution: Execution, tried: str) -> Transient:
        return Transient(
            f"Job {execution.job} was deleted, and no record tells its end",
            tried=tried,
            subject=self.subject(name),
            remedy=self._books.how_to_say_over(execution.uid),
            retry_after_s=10.0,
        )


def silent_error(nodes: Sequence[str], *, tried: str, subject: str) -> Transient:
    """Of nodes that do not answer."""
    return Transient(
        f"{', '.join(nodes)} does not answer, and what the job runs there may live",
        tried=tried,
        subject=subject,
        remedy="Bring the node back; or cut its power, and then taint it with node.kubernetes.io/out-of-service.",
        retry_after_s=10.0,
    )


def job_ended(identity: JobIdentity, ended: Ended) -> JobEnded:
    """What the port says of it. Two clocks: what is submitted now cannot have ended before."""
    ended_s = max(ended.ended_s, identity.submitted_s) if ended.ended_s is not None else None
    return JobEnded(identity=identity, exit_code=ended.exit_code, ended_s=ended_s)


def _code(pods: Sequence[PodView]) -> int | None:
    """Of a failure."""
    return next((pod.exit_code for pod in pods if pod.exit_code), None)


def _code_of_all(execution: Execution, pods: Sequence[PodView]) -> int | None:
    """0 when all its pods are there and say so."""
    newest = [pod for pod in pods if pod.uid in execution.newest]
    return 0 if len(newest) == execution.parallel and all(pod.succeeded for pod in newest) else _code(newest)


def _latest(pods: Sequence[PodView]) -> float | None:
    return max((pod.ended_s for pod in pods if pod.ended_s is not None), default=None)
