"""The scheduler of a Kubernetes site: each execution is a Job, created suspended, claimed in the book, and released."""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable

import msgspec

from bridgehead.drivers.kubernetes.api import JOBS, PODS, SECRETS, KubeApi, Object, Stale, repeated
from bridgehead.drivers.kubernetes.book import Book, BookKeeper, Execution
from bridgehead.drivers.kubernetes.deployments import DeploymentJobs
from bridgehead.drivers.kubernetes.evidence import Evidence, Look
from bridgehead.drivers.kubernetes.manifest import ASKED, ASKED_AT, check_words, job_manifest, job_name, secret_manifest
from bridgehead.drivers.kubernetes.objects import JobView, pods_of, time_text
from bridgehead.drivers.kubernetes.options import KubernetesOptions
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError, Transient, Unknown
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobIdentity, JobRunning, JobSpec, JobState

_KILL_S = 1
"""The shortest grace after which Kubernetes still waits until the node says that the containers have ended; 0 would forget the pod."""


class KubernetesScheduler:
    """Implements :class:`bridgehead.ports.scheduler.Scheduler` for one namespace.

    - Every start makes a Job of its own, whose name holds a random token: after a lost answer it is found by it, and created twice it is
      one. It does nothing until its uid stands in the book; then whoever sees it suspended releases it.
    - ``stop`` suspends the Job: its pods get SIGTERM, and SIGKILL after the job's ``grace_s``. ``kill`` does so after a second.
    - Every change names the resourceVersion of what was seen, so that a controller that was halted between looking and acting changes
      nothing that another one has changed (J13).
    - A job is over when its Job says so, or when it is suspended and its last pod is gone. A pod whose node does not answer, and a Job that
      was deleted without a record of its end, are "cannot tell" (Transient), never an end (J01).
    - A job that the options call a Deployment is scaled up and down instead (:class:`DeploymentJobs`).
    - ``identity.native_id`` is ``namespace/uid`` of the Job; ``restarts`` counts pods that took the place of others (J12).

    Args:
        site: the site whose scheduler this is.
        options: see there.
        now: the wall clock.
        checkpoint: called between the steps of a start ("intended", "created", "claimed", "released"); fault tests end the process there.
    """

    def __init__(
        self,
        site: SiteId,
        options: KubernetesOptions,
        *,
        now: Callable[[], float] = time.time,
        checkpoint: Callable[[str], None] = lambda _name: None,
    ) -> None:
        self._site, self._options, self._now, self._checkpoint = site, options, now, checkpoint
        self._api = KubeApi(options.login, namespace=options.namespace)
        self._books = BookKeeper(site, self._api)
        self._evidence = Evidence(site, self._api, self._books, now=now)
        self._deployments = DeploymentJobs(site, self._api, self._books, now=now)
        self._keeps_rules = False

    def start(self, spec: JobSpec, *, stamp: Stamp) -> JobIdentity:
        """Start the job; a repeat of the stamp's key returns the execution that it started, whether it waits, runs or has ended.

        Raises:
            Conflict: a live job of that name was started by another key or by hand, or the epoch is old.
            Permanent: Kubernetes refuses the Job, or nothing says what its pods are. A program that the image lacks is found by the node
                only: the job then ends with code 128 or so.
            Transient: nothing was started, or it cannot be told whether another execution lives.
            Unknown: the answer was lost, and the Job is not seen (yet); a repeat looks again.
        """
        if (request := self._options.deployments.get(spec.name)) is not None:
            return self._deployments.start(spec, request, stamp=stamp)
        tried = "start a job"
        check_words(spec)
        self._books.change(lambda book: book.admitted(stamp, tried=tried), tried=tried)
        book = self._books.change(lambda book: self._intended(book, spec, stamp), tried=tried)
        mine = book.by_key(spec.name, stamp.key)
        if mine is None:
            raise self._conflict(spec.name, "another start has taken its place")
        self._checkpoint("intended")
        if not mine.uid:
            mine = self._claimed(spec, mine, self._created(spec, mine, stamp), stamp)
        self._released(spec, mine, stamp)
        return self._evidence.identity(spec.name, mine)

    def observe(self, name: JobName) -> JobState:
        """What is known about the newest execution of ``name``. Raises Transient when it cannot be told."""
        if (request := self._options.deployments.get(name)) is not None:
            return self._deployments.observe(name, request)
        tried = "observe a job"
        book, _ = self._books.read(tried=tried)
        look = self._evidence.look(name, tried=tried)
        foreign = self._foreign(name, book, look)
        for execution in book.of(name):
            state = self._evidence.judge(name, execution, look, tried=tried)
            if state is None:
                continue
            if foreign is not None and isinstance(state, JobEnded) and foreign.submitted_s >= state.identity.submitted_s:
                break
            return state
        state = self._evidence.judge(name, foreign, look, tried=tried) if foreign is not None else None
        return JobAbsent(name=name) if state is None else state

    def stop(self, name: JobName, *, stamp: Stamp) -> None:
        """SIGTERM to every pod, and SIGKILL after the job's ``grace_s``; a job that waits is cancelled. Returns at once.

        Raises NotFound when absent, Conflict when the epoch is old, Transient, Unknown.
        """
        if (request := self._options.deployments.get(name)) is not None:
            self._deployments.stop(name, request, stamp=stamp)
        else:
            repeated(lambda: self._end(name, stamp, tried="stop a job"))

    def kill(self, name: JobName, *, stamp: Stamp) -> None:
        """SIGTERM to every pod, and SIGKILL a second later.

        Raises NotFound when absent, Conflict when the epoch is old, Transient, Unknown.
        """
        if (request := self._options.deployments.get(name)) is not None:
            self._deployments.kill(name, request, stamp=stamp)
            return
        tried = "kill a job"
        for uid in repeated(lambda: self._end(name, stamp, tried=tried)):
            for pod in pods_of(self._api, uid, tried=tried):
                if not pod.over:
                    self._api.delete(PODS, pod.name, uid=pod.uid, grace_s=_KILL_S, tried=tried)

    # starting

    def _intended(self, book: Book, spec: JobSpec, stamp: Stamp) -> Book:
        """The book with an execution of this key."""
        tried = "start a job"
        book = book.admitted(stamp, tried=tried)
        if book.by_key(spec.name, stamp.key) is not None:
            return book
        look = self._evidence.look(spec.name, tried=tried)
        foreign = self._foreign(spec.name, book, look)
        if foreign is not None and not isinstance(self._evidence.judge(spec.name, foreign, look, tried=tried), JobEnded):
            raise self._conflict(spec.name, f"Job {foreign.job} of that name, which somebody else made, runs already")
        for execution in book.of(spec.name):
            if not execution.uid:
                # Whoever makes its Job cannot claim it any more, and so never releases it.
                book = book.with_execution(spec.name, msgspec.structs.replace(execution, void=True))
            elif isinstance(self._evidence.judge(spec.name, execution, look, tried=tried), JobRunning):
                raise self._conflict(spec.name, f"it runs already, started by {execution.key}")
            else:
                break
        token = secrets.token_hex(16)
        parallel = request.pods if (request := self._options.request(spec.name)) is not None else 1
        return book.begun(spec.name, Execution(stamp.key, token, job_name(spec.name, token), self._now(), parallel=parallel))

    def _created(self, spec: JobSpec, mine: Execution, stamp: Stamp) -> JobView:
        """The Job of this execution, made now or before."""
        tried = "start a job"
        try:
            document = job_manifest(spec, self._options, job=mine.job, token=mine.token, key=stamp.key)
            self._rehearsed(spec.name, document, tried)
            made = self._api.create(JOBS, document, tried=tried)
        except (Stale, Unknown) as error:
            # It exists, or may exist: its name holds the token, so it is ours.
            found = self._api.find(JOBS, mine.job, tried=tried)
            if found is None:
                raise _unknown(error) from error
            made = found
        except (Permanent, NotFound):
            # Nothing was made, and nothing will be: the same key may start the right job.
            with contextlib.suppress(PortError):
                self._void(spec.name, mine, tried)
            raise
        if spec.env:
            self._keep_secret(spec, made, tried)
        self._checkpoint("created")
        return JobView(made)

    def _rehearsed(self, name: JobName, document: Object, tried: str) -> None:
        """Raises Permanent when this server would drop a rule of a Job.

        An older one drops ``suspend`` without a word, and the Job would run before its claim; without ``podReplacementPolicy`` two pods of
        one rank would live at once.
        """
        if self._keeps_rules:
            return
        kept = self._api.create(JOBS, document, tried=tried, rehearse=True).get("spec", {})
        lost = [rule for rule in document["spec"] if rule not in kept or (rule == "suspend" and kept[rule] is not True)]
        if lost:
            raise Permanent(
                f"this server does not keep {', '.join(f'spec.{rule}' for rule in lost)} of a Job",
                tried=tried,
                subject=self._evidence.subject(name),
                remedy="Nothing was started. It takes Kubernetes 1.29 or newer, and no admission webhook that changes these.",
            )
        self._keeps_rules = True

    def _claimed(self, spec: JobSpec, mine: Execution, job: JobView, stamp: Stamp) -> Execution:
        tried = "start a job"

        def claim(book: Book) -> Book:
            book = book.admitted(stamp, tried=tried)
            known = book.by_job(spec.name, mine.job)
            if known is None or known.uid:
                return book
            return book.with_execution(spec.name, msgspec.structs.replace(known, uid=job.uid, submitted_s=job.submitted_s))

        known = self._books.change(claim, tried=tried).by_job(spec.name, mine.job)
        if known is None or known.uid != job.uid:
            with contextlib.suppress(PortError):
                self._api.delete(JOBS, job.name, uid=job.uid, tried=tried)
            raise self._conflict(spec.name, "another start has taken its place")
        self._checkpoint("claimed")
        return known

    def _released(self, spec: JobSpec, mine: Execution, stamp: Stamp) -> None:
        """Let it go, unless that was done before, or it was asked to end."""
        tried = "start a job"

        def release() -> None:
            found = self._api.find(JOBS, mine.job, tried=tried)
            if found is None or found["metadata"]["uid"] != mine.uid or JobView(found).released or JobView(found).asked:
                return
            # Seen before the epoch is looked at: whatever a newer driver does to the Job in between makes this change stale.
            self._books.read(tried=tried)[0].admitted(stamp, tried=tried)
            self._evidence.release(JobView(found), by=stamp.key, tried=tried)

        try:
            repeated(release)
        except Unknown as error:
            # A repeat does no harm: whether it was done is seen at the Job.
            raise Transient(error.happened, tried=tried, subject=self._evidence.subject(spec.name)) from error
        self._checkpoint("released")

    def _keep_secret(self, spec: JobSpec, job: Object, tried: str) -> None:
        """Before the claim: from then on whoever looks may release the Job."""
        with contextlib.suppress(Stale):  # it is there already, from a start that was cut off
            self._api.create(SECRETS, secret_manifest(spec, owner=job), tried=tried)

    def _void(self, name: JobName, execution: Execution, tried: str) -> None:
        def write(book: Book) -> Book:
            known = book.by_job(name, execution.job)
            return book if known is None or known.uid else book.with_execution(name, msgspec.structs.replace(known, void=True))

        self._books.change(write, tried=tried)

    # ending

    def _end(self, name: JobName, stamp: Stamp, *, tried: str) -> list[str]:
        """Suspend what may live of that name; the uids of those Jobs. Raises Stale when something was changed in between."""
        look = self._evidence.look(name, tried=tried)
        book = self._books.change(lambda book: self._adopting(book.admitted(stamp, tried=tried), name, look), tried=tried)
        known = book.of(name)
        if not known:
            raise NotFound(
                "it was never started here", tried=tried, subject=self._evidence.subject(name), remedy="Check the name of the job."
            )
        asked = []
        for execution in known:
            job = look.job(execution)
            if job is None:
                # Nothing is left to suspend. The newest one has ended, or its pods live, or nobody can tell.
                newest = execution is known[0]
                if newest and isinstance(self._evidence.judge(name, execution, look, tried=tried), JobRunning):
                    asked.append(execution.uid)
                continue
            if execution.restarts in execution.ended and (job.finished or job.asked):
                continue
            if not job.finished and not job.asked:
                notes = {ASKED: stamp.key, ASKED_AT: time_text(self._now())}
                self._api.patch(JOBS, job.document, {"metadata": {"annotations": notes}, "spec": {"suspend": True}}, tried=tried)
            asked.append(execution.uid)
        return asked

    def _adopting(self, book: Book, name: JobName, look: Look) -> Book:
        """With an execution for a Job that somebody else made; starts that were never claimed cannot be any more."""
        for execution in book.of(name):
            if not execution.uid:
                book = book.with_execution(name, msgspec.structs.replace(execution, void=True))
        foreign = self._foreign(name, book, look)
        return book if foreign is None else book.begun(name, foreign)

    # looking

    def _foreign(self, name: JobName, book: Book, look: Look) -> Execution | None:
        """A Job by that name that somebody else made; or one of ours, while it lives, of which the book knows nothing."""
        known = {execution.uid for execution in book.jobs.get(name, ())}
        tokens = {execution.token for execution in book.jobs.get(name, ())}
        if look.foreign is not None and look.foreign.uid not in known:
            return self._evidence.foreign(name, look.foreign)
        lost = [job for job in look.ours if job.uid not in known and job.token not in tokens and job.released and not job.finished]
        return self._evidence.foreign(name, lost[0]) if lost else None

    def _conflict(self, name: JobName, happened: str) -> Conflict:
        remedy = "Stop that execution first, or use another name."
        return Conflict(happened, tried="start a job", subject=self._evidence.subject(name), remedy=remedy)


def _unknown(error: PortError) -> Unknown:
    return Unknown(error.happened, tried=error.tried, subject=error.subject, remedy=error.remedy)
