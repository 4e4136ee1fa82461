"""Restoring: what a recovery site lacks comes from other vaults, many at once over one line, the longest path first (R14)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.kernel.ids import SiteId, StepId
from bridgehead.model.runbook import Step
from bridgehead.recovery.actions.replication import Precopy, PrecopyParams, Replicate, ReplicateParams
from bridgehead.recovery.order import restore_order
from bridgehead.recovery.steps import Case, Maker

RESTORE = "restore"
"""The limit of runbooks that counts the streams."""


def restores(maker: Maker, cases: Sequence[Case], *, begin: StepId) -> list[Step]:
    """A step ``fetch-<workload>`` for each case that has to be fetched, in the order in which they get a stream.

    None waits for another: how many go at once is the runbook's limit (``limits_of``), so that a stream that comes free takes the next
    one at once, and a restore that fails holds up nothing but what needs it.
    """
    by_name = {case.id: case for case in cases}
    first = [by_name[one.id] for one in restore_order([case.workload for case in cases])]
    return [_fetch(maker, case, case.copy_from, begin=begin) for case in first if case.copy_from is not None]


def limits_of(maker: Maker, cases: Sequence[Case]) -> dict[str, int]:
    """The limits of a runbook with these restores."""
    return {RESTORE: maker.recovery.streams} if any(case.copy_from is not None for case in cases) else {}


def _fetch(maker: Maker, case: Case, origin: SiteId, *, begin: StepId) -> Step:
    name = case.workload.served
    params: msgspec.Struct = PrecopyParams(name, origin, case.target)
    if case.model is not None:
        params = ReplicateParams(name, origin, case.target, snapshot=case.model)
    action = Precopy.name if case.model is None else Replicate.name
    title, copy_s = f"fetch {name} from {origin}", maker.deadlines.copy_s
    step = maker.step(case.step("fetch"), action, params, needs=[begin], title=title, deadline_s=copy_s)
    return msgspec.structs.replace(step, limit=RESTORE)
