"""Look: where the protected workloads are, what can be recovered of them, and whether a site lives. Read only; all are asked at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import SiteId, SnapshotId, WorkloadId
from bridgehead.model.recovery import Protected, Recovery
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.scheduler import JobRunning
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.actions.losing import Watched, last_seen, sign_of_life
from bridgehead.recovery.loss import LastSeen
from bridgehead.recovery.quorum import fence_in_force
from bridgehead.recovery.registers import voters
from bridgehead.recovery.steps import Case
from bridgehead.recovery.traffic_place import by_traffic

LOOKERS = 16
UNSEEN = "its proxy does not answer, so where it is cannot be told"


Remembered = dict[tuple[WorkloadId, SiteId], LastSeen]
"""The newest reports of trainers, by workload and site."""


class Seen(msgspec.Struct, frozen=True):
    """Workloads at a site, each with its way to the other one; and those that are not there, with the reason."""

    cases: tuple[Case, ...]
    left_out: dict[WorkloadId, str]


def look(
    ports: Switchboard,
    recovery: Recovery,
    *,
    site: SiteId,
    only: Sequence[WorkloadId] = (),
    remembered: Remembered | None = None,
    unseen_at_home: bool = False,
    target_needed: bool = True,
) -> Seen:
    """What is at ``site`` now.

    Args:
        only: these workloads; empty: all.
        target_needed: a target that does not answer is an error; else nothing of it is needed yet.
        unseen_at_home: what cannot be told to be anywhere is taken to be at its home, as after the loss of a site with its proxies.
        remembered: what an observer saw of trainers before the site was lost.

    Raises:
        BridgeheadError: BAD_USAGE for a site or workload that the recovery file does not name.
        Transient: no majority of voters says who may write; nothing can be promoted then.
    """
    wanted = _wanted(recovery, site, only)
    with ThreadPoolExecutor(max_workers=LOOKERS, thread_name_prefix="look") as pool:
        places = list(pool.map(partial(place_of, ports, recovery), wanted))
        if unseen_at_home:
            places = [one.home if place is None else place for one, place in zip(wanted, places, strict=True)]
        here = [one for one, place in zip(wanted, places, strict=True) if place == site]
        cases = tuple(pool.map(partial(_case, ports, recovery, site, remembered or {}, target_needed), here))
    away = {one.id: f"it is at {place}" if place else UNSEEN for one, place in zip(wanted, places, strict=True) if place != site}
    return Seen(cases, away)


def signs_of_life(ports: Switchboard, site: SiteId, cases: Iterable[Case]) -> list[str]:
    """What was seen alive at ``site`` of these workloads; empty when nothing was."""
    watched = [Watched(case.workload.job(site).name, serves=case.service) for case in cases]
    with ThreadPoolExecutor(max_workers=LOOKERS, thread_name_prefix="look") as pool:
        return [sign for sign in pool.map(partial(sign_of_life, ports, site), watched) if sign]


def remembered_trainers(home: Path) -> Remembered:
    """What observers of this home saw last of trainers at each site: the newest report of each, whichever observer has it."""
    from bridgehead.app.watch_memory import MemoryFolder

    found: Remembered = {}
    for file in sorted((home / "watch").glob("*/*/memory.json")):
        for key, seen in MemoryFolder(file.parent, alone=False).read().facts.trainers.items():
            workload, _, site = key.rpartition("@")
            which, value = (WorkloadId(workload), SiteId(site)), seen.value
            if value is not None and (which not in found or found[which].reported_s < value.reported_s):
                found[which] = LastSeen(value.step, value.step_ended_s, value.reported_s, final=False)
    return found


def _wanted(recovery: Recovery, site: SiteId, only: Sequence[WorkloadId]) -> list[Protected]:
    known = {one.id: one for one in recovery.workloads}
    if site not in recovery.sites:
        raise _unknown("site", site, recovery.sites)
    for name in only:
        if name not in known:
            raise _unknown("workload", name, known)
    return [one for name, one in known.items() if (not only or name in only) and site in (one.home, one.refuge)]


def _unknown(kind: str, name: str, known: Iterable[str]) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="see what is to be recovered",
        subject=f"{kind} {name}",
        happened=f"the recovery file has no {kind} of that name",
        remedy=f"It has {', '.join(known)}.",
    )


def place_of(ports: Switchboard, recovery: Recovery, one: Protected) -> SiteId | None:
    """Where it is: by its fence, by its traffic, by its job; None when its proxy cannot be read."""
    if one.computes:
        fence = fence_in_force(one.id, voters=voters(ports.vaults, recovery.voters)).fence
        return fence.holder if fence is not None else one.home
    try:
        if one.service is not None:
            weights = ports.traffic(one.service).read(one.service)
            return by_traffic(weights, home=one.home, refuge=one.refuge)
    except PortError:
        return None
    return one.refuge if not _runs(ports, one, one.home) and _runs(ports, one, one.refuge) else one.home


def _runs(ports: Switchboard, one: Protected, site: SiteId) -> bool:
    try:
        return isinstance(ports.scheduler(site).observe(one.job(site).name), JobRunning)
    except PortError:
        return False


def _case(ports: Switchboard, recovery: Recovery, site: SiteId, remembered: Remembered, target_needed: bool, one: Protected) -> Case:
    target = one.refuge if site == one.home else one.home
    last = last_seen(ports, site, one.job(site).name) if one.computes else None
    if last is None:
        last = remembered.get((one.id, site))
    # Not caught for what computes: a target whose vault does not answer is not one that holds nothing.
    point = ports.vaults.newest(one.id, site=target) if one.computes and target_needed else _newest_if_seen(ports, one.served, target)
    model = None if one.computes else (one.snapshot or _served(ports, one, site) or (point.id if point is not None else None))
    have = (point is not None) if model is None else _holds(ports, model, target)
    origin, better = (None, None) if have and not recovery.archives else _elsewhere(ports, recovery, one, target, model, point)
    if origin is not None and one.computes:
        point = better
    if model is None and not one.computes and better is not None:
        model = better.id
    gated, saved = _counted(ports, one), _saved(ports, one, site)
    case = Case(one, site, target, point=point, last=last, model=model, copy_from=origin, gated=gated, saved=saved)
    if model is None and any("{snapshot}" in word for word in one.job(target).command):
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="see which model is to be served",
            subject=f"{one.id} at {target}",
            happened=f"its job needs {{snapshot}}, and no vault that can be reached holds one of {one.served}",
            remedy=f"Replicate it to {target}, or name it by 'snapshot' in the recovery file.",
        )
    return case


def _newest_if_seen(ports: Switchboard, workload: WorkloadId, site: SiteId) -> SnapshotInfo | None:
    """For what is only a further chance: an archive that does not answer has nothing for us."""
    try:
        return ports.vaults.newest(workload, site=site)
    except PortError:
        return None


def _saved(ports: Switchboard, one: Protected, site: SiteId) -> bool | None:
    if not one.computes:
        return None
    try:
        return ports.vaults.newest(one.id, site=site) is not None
    except PortError:
        return None


def _served(ports: Switchboard, one: Protected, site: SiteId) -> SnapshotId | None:
    """What the backend that serves now says that it serves."""
    if one.service is None:
        return None
    try:
        return SnapshotId(ports.serving(one.service).health(one.service, site).snapshot) or None
    except PortError:
        return None


def _holds(ports: Switchboard, snapshot: SnapshotId, site: SiteId) -> bool:
    try:
        return ports.vaults.find(snapshot, site=site) is not None
    except PortError:
        return False


def _elsewhere(
    ports: Switchboard, recovery: Recovery, one: Protected, target: SiteId, model: SnapshotId | None, point: SnapshotInfo | None
) -> tuple[SiteId | None, SnapshotInfo | None]:
    """An archive that has what the target lacks, or something newer to go on from."""
    best: tuple[SiteId | None, SnapshotInfo | None] = (None, None)
    step = -1 if point is None else point.step
    for archive in recovery.archives:
        if model is not None:
            if not _holds(ports, model, target) and _holds(ports, model, archive):
                return archive, None
            continue
        info = _newest_if_seen(ports, one.served, archive)
        if info is not None and info.step > step:
            best, step = (archive, info), info.step
    return best


def _counted(ports: Switchboard, one: Protected) -> bool:
    """Whether its service has counters now. When they cannot be read it has: its gates wait for them."""
    if one.service is None:
        return False
    try:
        return bool(ports.metrics.read(one.service, one.home).counters or ports.metrics.read(one.service, one.refuge).counters)
    except PortError:
        return True
