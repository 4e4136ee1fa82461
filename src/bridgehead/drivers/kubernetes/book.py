"""Book: what the driver knows of its executions and of the epochs of runs, in one ConfigMap of the namespace.

One object, so that one resourceVersion orders all: an intent or a claim is written only if no newer epoch was noted in between (J13).
A Job counts when its uid stands in the book; it is created suspended, and released afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.drivers.kubernetes.api import KubeApi
from bridgehead.drivers.kubernetes.kept import Kept
from bridgehead.kernel.errors import Conflict, Permanent
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId
from bridgehead.model.stamp import Stamp

_KEPT: Final = 50
"""Executions of a job that are kept; a ConfigMap holds a mebibyte."""
_RUNS_KEPT: Final = 5000
WORD_OF_A_PERSON: Final = "bridgehead/over"
"""Annotation of the ConfigMap by which a person says that the Job with this uid is over."""


class Ended(msgspec.Struct, frozen=True):
    """How one execution ended; ``source`` says what told it."""

    exit_code: int | None
    ended_s: float | None
    source: str


class Execution(msgspec.Struct, frozen=True):
    """One start.

    Attributes:
        key: of the stamp that asked; ``adopted/<uid>`` for a Job that somebody else made.
        job: the Job's name, which holds the token.
        uid: of the Job that counts; "" until it is claimed.
        pods: uids of its pods, in the order in which they were seen.
        parallel: how many run at once.
        ended: by number of restarts.
        void: no Job may ever run for it.
    """

    key: str
    token: str
    job: str
    intended_s: float
    uid: str = ""
    submitted_s: float = 0.0
    parallel: int = 1
    pods: tuple[str, ...] = ()
    ended: dict[int, Ended] = {}
    void: bool = False

    @property
    def restarts(self) -> int:
        """Pods beyond those of the first run (J12)."""
        return max(0, len(self.pods) - self.parallel)

    @property
    def newest(self) -> tuple[str, ...]:
        """Pods that may still tell how it ends; those before have been replaced."""
        return self.pods[-self.parallel :]


class Book(msgspec.Struct, frozen=True):
    """All of it."""

    site: SiteId
    epochs: dict[RunId, Epoch] = {}
    jobs: dict[JobName, tuple[Execution, ...]] = {}

    def of(self, name: JobName) -> tuple[Execution, ...]:
        """The executions of a job that may count, newest first."""
        return tuple(execution for execution in self.jobs.get(name, ()) if not execution.void)

    def by_key(self, name: JobName, key: str) -> Execution | None:
        """The execution that this key started."""
        return next((execution for execution in self.of(name) if execution.key == key), None)

    def by_job(self, name: JobName, job: str) -> Execution | None:
        """The execution with this Job's name, if it may count."""
        return next((execution for execution in self.of(name) if execution.job == job), None)

    def admitted(self, stamp: Stamp, *, tried: str) -> Book:
        """The book in which the epoch is noted. Raises Conflict when a newer one was."""
        newest = self.epochs.get(stamp.run, stamp.epoch)
        if newest > stamp.epoch:
            raise Conflict(
                f"epoch {stamp.epoch} is older than epoch {newest}, which was already seen",
                tried=tried,
                subject=f"run {stamp.run} at site {self.site}",
                remedy="Another process drives the run now: stop this one.",
            )
        if newest == stamp.epoch and stamp.run in self.epochs:
            return self
        epochs = {**{run: epoch for run, epoch in self.epochs.items() if run != stamp.run}, stamp.run: stamp.epoch}
        return msgspec.structs.replace(self, epochs=dict(list(epochs.items())[-_RUNS_KEPT:]))

    def begun(self, name: JobName, execution: Execution) -> Book:
        """With a new execution. Of very old ones, and of those that never ran, only so many are kept."""
        kept = [one for one in self.jobs.get(name, ()) if not one.void or one.intended_s > execution.intended_s - 3600]
        return msgspec.structs.replace(self, jobs={**self.jobs, name: (execution, *kept[: _KEPT - 1])})

    def with_execution(self, name: JobName, changed: Execution) -> Book:
        """With ``changed`` in place of the execution of the same Job."""
        executions = tuple(changed if one.job == changed.job else one for one in self.jobs.get(name, ()))
        return msgspec.structs.replace(self, jobs={**self.jobs, name: executions})


class BookKeeper:
    """Reads and changes the book of one site."""

    def __init__(self, site: SiteId, api: KubeApi) -> None:
        self._site, self._api = site, api
        self.name = "bridgehead-" + re.sub(r"[^a-z0-9.-]", "-", site.lower()).strip(".-")[:200]
        self._kept = Kept(api, name=self.name, empty=Book(site))

    def read(self, *, tried: str) -> tuple[Book, frozenset[str]]:
        """The newest book, and the uids of Jobs of which a person says that they are over.

        Raises Permanent for another site's, Transient.
        """
        book, notes = self._kept.read(tried=tried)
        return self._ours(book, tried), frozenset(notes.get(WORD_OF_A_PERSON, "").replace(",", " ").split())

    def change(self, how: Callable[[Book], Book], *, tried: str) -> Book:
        """Apply ``how`` to the newest book, perhaps several times, and write it. Raises what ``how`` raises, Permanent, Transient."""
        return self._kept.change(lambda book: how(self._ours(book, tried)), tried=tried)

    def how_to_say_over(self, uid: str) -> str:
        """What a person does who looked, where no record tells an end."""
        command = f"kubectl -n {self._api.namespace} annotate --overwrite configmap {self.name} {WORD_OF_A_PERSON}={uid}"
        return f"Look on its nodes whether it runs. When it surely does not, say so: `{command}`."

    def _ours(self, book: Book, tried: str) -> Book:
        if book.site != self._site:
            subject = f"configmap {self.name} in {self._api.namespace}"
            remedy = "Give each site a namespace of its own."
            raise Permanent(f"it belongs to site {book.site}", tried=tried, subject=subject, remedy=remedy)
        return book
