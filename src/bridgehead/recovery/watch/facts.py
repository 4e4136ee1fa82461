"""Facts: what an observer saw, each with the time, and what it could not see, with the reason.

Times are the observer's. A fact that is too old is no longer one: ``Sighted.known`` gives it only while it is fresh, so that a judgement
cannot be made of a stale value by mistake.
"""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

from bridgehead.kernel.ids import SiteId, SnapshotId, WorkloadId
from bridgehead.ports.training import TrainerState

T = TypeVar("T")


class Sighted(msgspec.Struct, Generic[T], frozen=True):
    """Something that is looked at again and again.

    Attributes:
        value: as it was seen last; None: never.
        seen_s: when that was.
        blind: why the last look saw nothing; empty when it did.
    """

    value: T | None = None
    seen_s: float | None = None
    blind: str = ""

    def known(self, *, now_s: float, stale_s: float) -> T | None:
        """The value while it is fresh. A look that failed lately does not take away what was seen just before it.

        What was seen in the future (the clock was set back since) has no age, and is not known.
        """
        return self.value if self.seen_s is not None and 0 <= now_s - self.seen_s < stale_s else None

    def seen(self, value: T, *, at_s: float) -> Sighted[T]:
        """After a look that saw it."""
        return Sighted(value, at_s)

    def unseen(self, happened: str) -> Sighted[T]:
        """After a look that did not."""
        return Sighted(self.value, self.seen_s, happened)


class Point(msgspec.Struct, frozen=True):
    """A snapshot that a vault holds whole. ``created_s`` is of its writer's clock."""

    id: SnapshotId
    step: int
    epoch: int
    created_s: float
    raw_bytes: int
    site: SiteId


class CopyPoint(msgspec.Struct, frozen=True):
    """A snapshot of which the site has given a receipt, and when: read back and hashed."""

    point: Point
    proved_s: float


class DrillPoint(msgspec.Struct, frozen=True):
    """The last restore test of any snapshot of the workload at this site."""

    snapshot: SnapshotId
    at_s: float
    took_s: float
    passed: bool
    happened: str


class VaultFacts(msgspec.Struct, frozen=True):
    """What one vault holds of one workload.

    Attributes:
        points: the usable snapshots, newest first, the last few only.
        copies: those of them with a receipt of this site, newest first.
        usable: how many are usable in all.
        passed_over: why the newest that is not usable is not, when it is newer than all that are; else empty.
        epoch: in force.
        holder: who may write in it; empty before the first fence.
        drill: the last one.
        bytes_per_s: measured speed of restores; None: never measured.
        speed_s: when it was measured last.
    """

    points: tuple[Point, ...] = ()
    copies: tuple[CopyPoint, ...] = ()
    usable: int = 0
    passed_over: str = ""
    epoch: int = 0
    holder: str = ""
    drill: DrillPoint | None = None
    bytes_per_s: float | None = None
    speed_s: float | None = None


class TrainerFacts(msgspec.Struct, frozen=True):
    """What a trainer says of itself."""

    state: TrainerState
    step: int
    epoch: int
    reported_s: float
    step_ended_s: float


class ServiceFacts(msgspec.Struct, frozen=True):
    """A backend of a service at one site."""

    warm: bool
    snapshot: str


class JobFacts(msgspec.Struct, frozen=True):
    """A job: ``running``, ``ended`` or ``absent``."""

    state: str


class Facts(msgspec.Struct, frozen=True):
    """All that an observer has seen, by what it is about. Missing keys: never looked at."""

    vaults: dict[str, Sighted[VaultFacts]] = {}
    """By ``at(workload, site)``."""
    trainers: dict[str, Sighted[TrainerFacts]] = {}
    """By ``at(workload, site)``."""
    services: dict[str, Sighted[ServiceFacts]] = {}
    """By ``at(service, site)``."""
    traffic: dict[str, Sighted[dict[SiteId, int]]] = {}
    """By service: how much of its traffic the proxy gives each site, in percent. Services whose proxy nobody can ask are not here."""
    jobs: dict[str, Sighted[JobFacts]] = {}
    """By ``at(job, site)``."""
    witness: Sighted[bool] = Sighted()
    """True when the witness answered; where there is none, nobody looks."""


def at(what: str | WorkloadId, site: SiteId) -> str:
    """The key of a fact."""
    return f"{what}@{site}"
