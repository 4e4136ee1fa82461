"""Order: what is recovered before what, and what is restored first where the line is shared (R14)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Protected, Role

_ROLES = tuple(Role)
_KINDS = (WorkloadKind.SERVICE, WorkloadKind.INFERENCE, WorkloadKind.TRAINING, WorkloadKind.BATCH)


def tier(one: Protected) -> int:
    """Identity, DNS, storage, registry, scheduler; then other services, inference, training, batch."""
    if one.kind is WorkloadKind.SERVICE and one.role is not Role.OTHER:
        return _ROLES.index(one.role)
    return len(_ROLES) + _KINDS.index(one.kind)


def ordered(workloads: Iterable[Protected]) -> list[Protected]:
    """What is needed first; among those that could come next, the lower tier, then the higher priority, then the name."""
    left = {one.id: one for one in workloads}
    waiting = {name: set(needed(one, list(left.values()))) for name, one in left.items()}
    dependents: dict[WorkloadId, list[WorkloadId]] = {name: [] for name in left}
    for name, needs in waiting.items():
        for need in needs:
            dependents[need].append(name)
    ready = [_key(one) for name, one in left.items() if not waiting[name]]
    heapq.heapify(ready)
    order: list[Protected] = []
    while ready:
        name = heapq.heappop(ready)[-1]
        order.append(left[name])
        for dependent in dependents[name]:
            waiting[dependent].discard(name)
            if not waiting[dependent]:
                heapq.heappush(ready, _key(left[dependent]))
    return order


def _key(one: Protected) -> tuple[int, int, WorkloadId]:
    return tier(one), -one.priority, one.id


def needed(one: Protected, among: Sequence[Protected]) -> tuple[WorkloadId, ...]:
    """What must work before ``one``: what it names, and the nearest lower tier of the estate's foundations that is recovered too.

    A need that goes against the tiers (storage that needs a database) keeps its word: then the tier is not waited for.
    """
    by_name = {other.id: other for other in among}
    named = [need for need in one.needs if need in by_name]
    lower = [other for other in among if tier(other) < min(tier(one), len(_ROLES) - 1) and not _waits_for(other, one.id, by_name)]
    nearest = max((tier(other) for other in lower), default=-1)
    return tuple(dict.fromkeys([*named, *(other.id for other in lower if tier(other) == nearest)]))


def _waits_for(one: Protected, name: WorkloadId, by_name: Mapping[WorkloadId, Protected]) -> bool:
    """Whether ``one`` needs ``name``, directly or not, or something of the same foundations that does."""
    ahead, seen = [one.id], {one.id}
    while ahead:
        here = by_name[ahead.pop()]
        more = [*here.needs, *(other.id for other in by_name.values() if tier(other) < tier(here) and tier(here) < len(_ROLES))]
        for need in more:
            if need == name:
                return True
            if need in by_name and need not in seen:
                seen.add(need)
                ahead.append(need)
    return False


def chains(workloads: Sequence[Protected]) -> dict[WorkloadId, int]:
    """Of each, how many starts follow one another from its own to the last one that waits for it, directly or not."""
    order = ordered(workloads)
    longest = {one.id: 1 for one in order}
    for one in reversed(order):
        for need in needed(one, order):
            longest[need] = max(longest[need], 1 + longest[one.id])
    return longest


def restore_order(workloads: Sequence[Protected]) -> list[Protected]:
    """Which restore begins first where not all may go at once.

    A start waits for its own restore and for the starts that it needs, not for their restores. So the restores are independent jobs with
    tails, and the one with the longest chain of starts behind it goes first (largest delivery time first, Jackson 1955): that is optimal
    for one line whatever the sizes, and with several streams no order of theirs is worse than the bound of list scheduling (Graham 1969).
    Between equal chains: the lower tier, the higher priority, then the larger one, so that no large one is left for the end.
    """
    longest = chains(workloads)
    return sorted(workloads, key=lambda one: (-longest[one.id], tier(one), -one.priority, -(one.restore_bytes or 0), one.id))


def lanes(restores: Sequence[tuple[WorkloadId, int]], *, streams: int) -> dict[WorkloadId, WorkloadId]:
    """Which restore waits for which other, so that never more than ``streams`` go at once. In the given order, each goes to the lane that
    is free first, by the bytes in it; what is left out waits for none."""
    free: list[tuple[int, int, WorkloadId | None]] = [(0, number, None) for number in range(streams)]
    heapq.heapify(free)
    after: dict[WorkloadId, WorkloadId] = {}
    for name, size_bytes in restores:
        busy_bytes, number, last = heapq.heappop(free)
        if last is not None:
            after[name] = last
        heapq.heappush(free, (busy_bytes + max(1, size_bytes), number, name))
    return after
