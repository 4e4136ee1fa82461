"""Flows: who waits for whom when a plan hands something on that is scarce: teams, vehicles' places, lanes, bandwidth, GPUs.

A plan says when; a run that is late has to know why something could not begin. What is freed first is used first, so that every need
holds in the plan itself, and a delay reaches only those who take over what is late. Pure.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from bridgehead.kernel.ids import StepId

_ROUNDING = 1e-9


class Change(msgspec.Struct, frozen=True):
    """At a moment of the plan ``by`` frees an amount (above 0) or takes one (below 0)."""

    at_s: float
    amount: float
    by: StepId


def waits_for(initial: float, changes: Iterable[Change]) -> dict[StepId, set[StepId]]:
    """For everyone who takes: those whose freed amounts he uses. What is free in the beginning needs nobody.

    At one moment amounts are freed before they are taken. Someone who takes more than there is needs all that was freed: whether a plan may
    do that is for its checker to say.
    """
    free: deque[tuple[float, StepId | None]] = deque([(initial, None)] if initial > 0 else [])
    found: dict[StepId, set[StepId]] = {}
    for change in sorted(changes, key=lambda change: (change.at_s, change.amount < 0)):
        if change.amount >= 0:
            free.append((change.amount, change.by))
            continue
        wanted, needs = -change.amount, found.setdefault(change.by, set())
        while wanted > _ROUNDING * -change.amount and free:
            amount, giver = free.popleft()
            if giver is not None and giver != change.by:
                needs.add(giver)
            if amount > wanted:
                free.appendleft((amount - wanted, giver))
            wanted -= amount
    return found
