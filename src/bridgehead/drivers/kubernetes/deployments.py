"""Deployments as jobs: services that somebody else has made, which the run scales up from 0 and down to 0."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.drivers.kubernetes.api import DEPLOYMENTS, PODS, KubeApi, Object, repeated
from bridgehead.drivers.kubernetes.book import Book, BookKeeper, Ended, Execution
from bridgehead.drivers.kubernetes.evidence import job_ended, silent_error
from bridgehead.drivers.kubernetes.objects import PodView, seconds, silent_nodes
from bridgehead.drivers.kubernetes.options import DeploymentRequest
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient, Unknown
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobIdentity, JobRunning, JobSpec, JobState

RUNS: Final = "bridgehead/execution"
"""Annotation of the Deployment: the token of the execution that has scaled it up."""
ENDS: Final = "bridgehead/asked-to-end"
_KILL_S: Final = 1


class DeploymentJobs:
    """The part of the Kubernetes scheduler for jobs that are Deployments. Errors as those of the port.

    Replicas and the token of the execution are set by one patch, against the version that was seen before the epoch was looked at. It
    has ended when its controller has seen that it shall have no replicas, and no pod of it is left.
    """

    def __init__(self, site: SiteId, api: KubeApi, books: BookKeeper, *, now: Callable[[], float]) -> None:
        self._site, self._api, self._books, self._now = site, api, books, now

    def start(self, spec: JobSpec, request: DeploymentRequest, *, stamp: Stamp) -> JobIdentity:
        """Scale up, once for each key."""
        tried = "start a deployment"
        if request.replicas < 1:
            raise Permanent("it has no replicas", tried=tried, subject=self._subject(spec.name), remedy="Give it one at least.")
        self._books.change(lambda book: book.admitted(stamp, tried=tried), tried=tried)

        def once() -> Execution:
            found = self._found(spec.name, request, tried)
            book = self._books.change(lambda book: self._intended(book, spec.name, found, request, stamp), tried=tried)
            mine = book.by_key(spec.name, stamp.key)
            if mine is None:
                raise self._conflict(spec.name, "another start has taken its place", tried)
            notes = found["metadata"].get("annotations") or {}
            if not mine.ended and mine.token not in (notes.get(RUNS), notes.get(ENDS)):
                change: Object = {"metadata": {"annotations": {RUNS: mine.token}}, "spec": {"replicas": request.replicas}}
                self._api.patch(DEPLOYMENTS, found, change, tried=tried)
            return mine

        try:
            return self._identity(spec.name, repeated(once))
        except Unknown as error:
            # Whether it was done stands in the Deployment: a repeat does no harm.
            raise Transient(error.happened, tried=tried, subject=error.subject, remedy=error.remedy) from error

    def observe(self, name: JobName, request: DeploymentRequest) -> JobState:
        """What is known; while not every replica is ready, it says what it waits for."""
        tried = "observe a deployment"
        book, said_over = self._books.read(tried=tried)
        known = book.of(name)
        found = self._api.find(DEPLOYMENTS, request.name, tried=tried)
        if found is None:
            if not known:
                return JobAbsent(name=name)
            if not known[0].ended and known[0].uid not in said_over:
                happened, remedy = "the Deployment was deleted, and no record tells its end", self._books.how_to_say_over(known[0].uid)
                raise Transient(happened, tried=tried, subject=self._subject(name), remedy=remedy, retry_after_s=10.0)
            said = known[0].ended.get(0) or Ended(None, None, "a person who looked")
            return self._recorded(name, known[0], said, tried)
        if (found.get("spec") or {}).get("replicas", 1) > 0:
            execution = known[0] if known else _foreign(found)
            if execution.ended:
                # Somebody else has scaled it up since.
                execution = msgspec.structs.replace(execution, pods=("",) * (execution.parallel + 1))
            return JobRunning(identity=self._identity(name, execution), waiting_for=self._waits(found))
        for execution in known:
            if _touched(execution, found):
                return self._ending(name, execution, found, tried)
        return JobAbsent(name=name)

    def stop(self, name: JobName, request: DeploymentRequest, *, stamp: Stamp) -> None:
        """Scale to 0; pods get SIGTERM, and their own grace."""
        self._scale_down(name, request, stamp, "stop a deployment")

    def kill(self, name: JobName, request: DeploymentRequest, *, stamp: Stamp) -> None:
        """Scale to 0, and give the pods a second."""
        tried = "kill a deployment"
        found = self._scale_down(name, request, stamp, tried)
        for pod in self._pods(found, tried) if found is not None else []:
            if not pod.over:
                self._api.delete(PODS, pod.name, uid=pod.uid, grace_s=_KILL_S, tried=tried)

    def _intended(self, book: Book, name: JobName, found: Object, request: DeploymentRequest, stamp: Stamp) -> Book:
        tried = "start a deployment"
        book = book.admitted(stamp, tried=tried)
        if book.by_key(name, stamp.key) is not None:
            return book
        if found["spec"].get("replicas", 1) > 0:
            raise self._conflict(name, f"Deployment {request.name} has replicas already", tried)
        for execution in book.of(name):
            if not _touched(execution, found):
                # It was never scaled; should that come late, it finds another version of the Deployment.
                book = book.with_execution(name, msgspec.structs.replace(execution, void=True))
                continue
            if not isinstance(self._ending(name, execution, found, tried), JobEnded):
                raise self._conflict(name, f"pods of Deployment {request.name} have not ended yet", tried)
            break
        token, uid = secrets.token_hex(16), found["metadata"]["uid"]
        job = f"{request.name}/{token}"
        return book.begun(name, Execution(stamp.key, token, job, self._now(), uid, self._now(), request.replicas))

    def _scale_down(self, name: JobName, request: DeploymentRequest, stamp: Stamp, tried: str) -> Object | None:
        """The Deployment, without replicas; None when it is gone."""

        def once() -> Object | None:
            found = self._api.find(DEPLOYMENTS, request.name, tried=tried)
            book = self._books.change(lambda book: book.admitted(stamp, tried=tried), tried=tried)
            known = book.of(name)
            scaled = found is not None and found["spec"].get("replicas", 1) > 0
            if not known and not scaled:
                raise NotFound("it was never started here", tried=tried, subject=self._subject(name), remedy="Check the name of the job.")
            if found is None:
                return None
            if not known or (scaled and known[0].ended):
                known = self._books.change(lambda book: book.begun(name, _foreign(found, self._now())), tried=tried).of(name)
            notes = found["metadata"].get("annotations") or {}
            if scaled or notes.get(ENDS) != known[0].token:
                change: Object = {"metadata": {"annotations": {RUNS: None, ENDS: known[0].token}}, "spec": {"replicas": 0}}
                return self._api.patch(DEPLOYMENTS, found, change, tried=tried)
            return found

        return repeated(once)

    def _ending(self, name: JobName, execution: Execution, found: Object, tried: str) -> JobState:
        """What is known of an execution whose Deployment shall have no replicas."""
        if 0 in execution.ended:
            return job_ended(self._identity(name, execution), execution.ended[0])
        living = [pod for pod in self._pods(found, tried) if not pod.over]
        silent = silent_nodes(self._api, living, now_s=self._now(), tried=tried)
        if silent:
            raise silent_error(silent, tried=tried, subject=self._subject(name))
        status = found.get("status") or {}
        seen = status.get("observedGeneration", 0) >= found["metadata"]["generation"]
        if living or not seen or status.get("replicas"):
            return JobRunning(identity=self._identity(name, execution), waiting_for="its pods to end")
        return self._recorded(name, execution, Ended(None, self._now(), "scaled to 0"), tried)

    def _recorded(self, name: JobName, execution: Execution, ended: Ended, tried: str) -> JobEnded:
        """What was written first counts for ever."""

        def write(book: Book) -> Book:
            known = book.by_job(name, execution.job)
            return book if known is None or known.ended else book.with_execution(name, msgspec.structs.replace(known, ended={0: ended}))

        known = self._books.change(write, tried=tried).by_job(name, execution.job)
        return job_ended(self._identity(name, execution), known.ended[0] if known is not None else ended)

    def _waits(self, found: Object) -> str:
        """ "" when every replica is ready, as its controller says of this very version."""
        status, wanted = found.get("status") or {}, found["spec"].get("replicas", 1)
        if status.get("observedGeneration", 0) < found["metadata"]["generation"]:
            return "its controller"
        ready = min(status.get("readyReplicas", 0), status.get("updatedReplicas", 0))
        return "" if ready >= wanted else f"{ready} of {wanted} replicas"

    def _pods(self, found: Object, tried: str) -> list[PodView]:
        selector = found["spec"].get("selector") or {}
        if not selector.get("matchLabels") or selector.get("matchExpressions"):
            happened = "its pods are chosen by more than labels"
            raise Permanent(happened, tried=tried, subject=found["metadata"]["name"], remedy="Give it a selector of matchLabels alone.")
        return [PodView(pod) for pod in self._api.all(PODS, labels=selector["matchLabels"], tried=tried)]

    def _found(self, name: JobName, request: DeploymentRequest, tried: str) -> Object:
        found = self._api.find(DEPLOYMENTS, request.name, tried=tried)
        if found is None:
            remedy = "Make the Deployment, with replicas: 0."
            raise Permanent(f"there is no Deployment {request.name}", tried=tried, subject=self._subject(name), remedy=remedy)
        return found

    def _identity(self, name: JobName, execution: Execution) -> JobIdentity:
        return JobIdentity(self._site, name, f"{self._api.namespace}/{execution.uid}", execution.submitted_s, execution.restarts)

    def _subject(self, name: JobName) -> str:
        return f"job {name} at site {self._site}"

    def _conflict(self, name: JobName, happened: str, tried: str) -> Conflict:
        return Conflict(happened, tried=tried, subject=self._subject(name), remedy="Stop it first, and wait until its pods have ended.")


def _touched(execution: Execution, found: Object) -> bool:
    """Whether it has ever scaled the Deployment; before, its start was recorded and cut off, and a repeat of it goes on."""
    notes = found["metadata"].get("annotations") or {}
    return bool(execution.ended) or execution.token in (notes.get(RUNS), notes.get(ENDS))


def _foreign(found: Object, now_s: float = 0.0) -> Execution:
    """A Deployment that somebody else has scaled up."""
    meta = found["metadata"]
    token = f"adopted-{meta['uid']}-{meta['generation']}"
    created_s = seconds(meta["creationTimestamp"])
    return Execution(
        f"adopted/{token}", token, f"{meta['name']}/{token}", now_s or created_s, meta["uid"], created_s, found["spec"].get("replicas", 1)
    )
