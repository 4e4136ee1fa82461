"""Order: what is recovered before what, and what is restored first where the line is shared (R14)."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence

from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Protected, Role

_ROLES = tuple(Role)
_FOUNDATIONS = _ROLES.index(Role.OTHER)
"""Tiers below this one are waited for by all that lie above."""
_KINDS = (WorkloadKind.SERVICE, WorkloadKind.INFERENCE, WorkloadKind.TRAINING, WorkloadKind.BATCH)


def tier(one: Protected) -> int:
    """Identity, DNS, storage, registry, scheduler; then other services, inference, training, batch."""
    if one.kind is WorkloadKind.SERVICE and one.role is not Role.OTHER:
        return _ROLES.index(one.role)
    return len(_ROLES) + _KINDS.index(one.kind)


def ordered(workloads: Iterable[Protected]) -> list[Protected]:
    """What is needed first; among those that could come next, the lower tier, then the higher priority, then the name."""
    left = {one.id: one for one in workloads}
    among = list(left.values())
    levels = _levels(among)
    waiting = {name: set(_needed(one, among, levels)) for name, one in left.items()}
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
    """What must work before ``one``: what it names, and the nearest lower level of the estate's foundations that is recovered too.

    What a foundation names belongs to its level, directly or not (the database of a storage): it waits only for what lies below. So
    nothing ever waits for itself, whatever is named, as long as what is named does not.
    """
    return _needed(one, among, _levels(among))


def _needed(one: Protected, among: Sequence[Protected], levels: Mapping[WorkloadId, int]) -> tuple[WorkloadId, ...]:
    named = [need for need in one.needs if need in levels]
    below = min(levels[one.id], _FOUNDATIONS)
    nearest = max((level for level in levels.values() if level < below), default=-1)
    # Those that were only drawn down to that level are waited for by one that belongs there.
    lower = [other.id for other in among if levels[other.id] == tier(other) == nearest]
    return tuple(dict.fromkeys([*named, *lower]))


def _levels(among: Sequence[Protected]) -> dict[WorkloadId, int]:
    """The tier of each, or the lowest one of those that need it. A need is never at a higher level, and tiers add only needs at lower
    ones; so a ring would be one of named needs."""
    by_name = {one.id: one for one in among}
    levels = {one.id: tier(one) for one in among}
    changed = list(among)
    while changed:
        one = changed.pop()
        for need in one.needs:
            if need in levels and levels[need] > levels[one.id]:
                levels[need] = levels[one.id]
                changed.append(by_name[need])
    return levels


def chains(workloads: Sequence[Protected]) -> dict[WorkloadId, int]:
    """Of each, how many starts follow one another from its own to the last one that waits for it, directly or not."""
    order = ordered(workloads)
    levels = _levels(order)
    longest = {one.id: 1 for one in order}
    for one in reversed(order):
        for need in _needed(one, order, levels):
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
