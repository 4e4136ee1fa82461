"""Things: what of an estate has to be there again after a disaster, with its need and its state (R1, R2, M5.2)."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.model.estate import Dataset, Estate, Service, Workload, WorkloadKind
from bridgehead.model.finding import Origin
from bridgehead.model.objective import Bound, Need, Part, strictest
from bridgehead.model.objectivefile import Continuity


class Change(enum.StrEnum):
    """How the state of a thing changes, which decides what it takes to have a recent copy of it."""

    NONE = "none"
    """Never written again, or no state: a copy is never too old."""
    SNAPSHOTS = "snapshots"
    """From one snapshot to the next (training, batch)."""
    STREAM = "stream"
    """All the time (data sets)."""


class Thing(msgspec.Struct, frozen=True, kw_only=True):
    """Something that has to be there again.

    Attributes:
        need: what the objectives say of it.
        rpo: the same after what depends on it is asked; None: no time is set.
        rto: as ``rpo``: nothing may take longer than what cannot work without it.
        because: what depends on it and is stricter; empty when nothing is.
        home: where it is now.
        gpus: that it uses now.
        least_gpus: with which it works after a disaster (M13).
        state_bytes: of one copy; None: not known.
        change_bps: of a stream; None: not known.
        every_s: time between two snapshots now; None: not known.
        save_s: for which a save blocks; None: not known.
        restore_s: measured time to restore; None: not known.
        warm_up_s: from restored to useful; 0 when nobody said.
        users: what runs only where this is (of data sets).
        gaps: what is not known and would change the price.
    """

    need: Need
    rpo: Bound | None
    rto: Bound | None
    because: str = ""
    home: SiteId
    gpus: int = 0
    least_gpus: int = 0
    gpu_model: str = ""
    state_bytes: int | None = None
    change: Change = Change.NONE
    change_bps: float | None = None
    every_s: float | None = None
    save_s: float | None = None
    restore_s: float | None = None
    warm_up_s: float = 0.0
    kind: WorkloadKind | None = None
    users: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Its name in the estate."""
        return self.need.id

    @property
    def part(self) -> Part:
        """What it is."""
        return self.need.part


def things_of(estate: Estate, continuity: Continuity) -> tuple[Thing, ...]:
    """Everything that has to be there again, by part and name.

    A service that a workload serves is there with it; the workload then has the stricter need of both.
    """
    needs = {one.id: one for one in continuity.needs(estate)}
    above = dependents(estate)
    found = [_workload(one, needs, above) for one in estate.workloads]
    found += [_service(one, needs, above) for one in estate.services if one.workload is None]
    found += [_dataset(one, needs, above, estate) for one in estate.datasets]
    return tuple(sorted(found, key=lambda one: (one.part, one.id)))


def direct_needs(estate: Estate) -> dict[str, tuple[str, ...]]:
    """What each thing cannot work without: its needs, the workload of a service, the data sets of a workload."""
    needs: dict[str, tuple[str, ...]] = {one.id: (*one.needs, *one.datasets) for one in estate.workloads}
    needs |= {one.id: (*one.needs, *([one.workload] if one.workload is not None else [])) for one in estate.services}
    return needs


def dependents(estate: Estate) -> dict[str, tuple[str, ...]]:
    """By thing: all that cannot work without it, directly or not, sorted."""
    needs = direct_needs(estate)
    above: dict[str, set[str]] = {}
    for name in needs:
        ahead = list(needs[name])
        while ahead:
            below = ahead.pop()
            if name not in above.setdefault(below, set()):
                above[below].add(name)
                ahead += needs.get(below, ())
    return {name: tuple(sorted(names)) for name, names in above.items()}


def _asked(need: Need, needs: dict[str, Need], above: Iterable[str]) -> tuple[Bound | None, str]:
    """The recovery time that counts, and because of whom."""
    bound, because = need.rto, ""
    for name in above:
        other = needs[name].rto
        if other is not None and (bound is None or other.value_s < bound.value_s):
            bound, because = Bound(other.value_s, Origin.DERIVED, f"{name} needs it"), name
    return bound, because


def _workload(one: Workload, needs: dict[str, Need], above: dict[str, tuple[str, ...]]) -> Thing:
    need = needs[one.id]
    rto, because = _asked(need, needs, above.get(one.id, ()))
    served = [needs[name].rpo for name in above.get(one.id, ()) if needs[name].part is Part.SERVICE]
    changes = one.kind in (WorkloadKind.TRAINING, WorkloadKind.BATCH)
    size = one.total_checkpoint_bytes
    if size is None and one.parameters is not None and one.bytes_per_parameter is not None:
        size = round(one.parameters * one.bytes_per_parameter)
    gaps = [f"{one.id}: size of its state"] if size is None and one.gpus else []
    return Thing(
        need=need,
        rpo=need.rpo if changes else strictest([need.rpo, *served]),
        rto=rto,
        because=because,
        home=one.site,
        gpus=one.gpus,
        least_gpus=one.gpus if one.min_gpus is None else one.min_gpus,
        gpu_model=one.gpu_model,
        state_bytes=size if size is not None or one.gpus else 0,
        change=Change.SNAPSHOTS if changes else Change.NONE,
        every_s=one.checkpoint_every_s,
        save_s=one.save_s,
        restore_s=one.restore_s,
        warm_up_s=one.warm_up_s or 0.0,
        kind=one.kind,
        gaps=tuple(gaps),
    )


def _service(one: Service, needs: dict[str, Need], above: dict[str, tuple[str, ...]]) -> Thing:
    rto, because = _asked(needs[one.id], needs, above.get(one.id, ()))
    return Thing(need=needs[one.id], rpo=needs[one.id].rpo, rto=rto, because=because, home=one.sites[0], state_bytes=0)


def _dataset(one: Dataset, needs: dict[str, Need], above: dict[str, tuple[str, ...]], estate: Estate) -> Thing:
    rto, because = _asked(needs[one.id], needs, above.get(one.id, ()))
    return Thing(
        need=needs[one.id],
        rpo=needs[one.id].rpo,
        rto=rto,
        because=because,
        home=one.site,
        state_bytes=one.size_bytes,
        change=Change.NONE if one.change_bps == 0 else Change.STREAM,
        change_bps=one.change_bps,
        users=tuple(sorted(workload.id for workload in estate.workloads if one.id in workload.datasets)),
        gaps=() if one.change_bps is not None else (f"{one.id}: how much of it changes",),
    )
