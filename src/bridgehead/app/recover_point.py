"""Recover point: what `bridgehead recover point` does: look where the workload is, check all it needs, take the point by a run."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from bridgehead.app import runs
from bridgehead.app.home import Home
from bridgehead.app.recover import Setting
from bridgehead.app.recover_look import place_of
from bridgehead.app.runs import mode_word
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import RunId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.point import Point
from bridgehead.model.recovery import DatabaseEngine, Protected
from bridgehead.recovery.points import AFTER, BEFORE, GO_ON, KEEP, PointPlan, point_runbook
from bridgehead.runbook import state as st

if TYPE_CHECKING:
    from bridgehead.runbook.engine import Engine


class PointOutcome(msgspec.Struct, frozen=True):
    """What came of it; the contract of ``recover point --json``.

    Attributes:
        snapshot: the point in the vault of ``point.site``; None while there is none.
        pause_s: how long writers of databases stood still.
        training_paused_s: how long the trainer computed nothing.
        hooks: how each hook ended.
    """

    run: RunId
    mode: str
    reason: str
    snapshot: SnapshotId | None
    point: Point | None
    pause_s: float | None
    training_paused_s: float | None
    hooks: dict[str, Any]
    ledger_head: str


def propose_point(here: Setting, workload: WorkloadId, *, home: Home, site: SiteId | None = None) -> PointPlan:
    """What would be done. Asks each database whether it can be held, and disturbs nobody.

    Raises:
        BridgeheadError: BAD_USAGE for a workload that the recovery file does not name; RECOVERY_REFUSED when there is nothing to hold.
        PortError: a database cannot be held or copied.
    """
    known = {one.id: one for one in here.recovery.workloads}
    if workload not in known:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="take a point",
            subject=f"workload {workload}",
            happened="the recovery file has no workload of that name",
            remedy=f"It has {', '.join(known)}.",
        )
    one = _rooted(known[workload])
    where = site or place_of(here.ports, here.recovery, one)
    if where is None:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="take a point",
            subject=f"workload {workload}",
            happened="at which site it is cannot be seen",
            remedy="Name it by --site.",
        )
    plan = PointPlan(f"point-{workload}", here.recovery, one, where, str(home.folder.absolute() / "points"))
    if not plan.trains and not one.databases:
        raise BridgeheadError(
            ErrorCode.RECOVERY_REFUSED,
            tried="take a point",
            subject=f"workload {workload}",
            happened="it does not train and has no databases: there is nothing whose moments could differ",
            remedy="Name its databases in the recovery file.",
        )
    for database in one.databases:
        here.ports.database(database.engine).check(database)
    return plan


def _rooted(one: Protected) -> Protected:
    """With absolute paths: a run that is resumed from another folder must find the same files."""
    databases = tuple(
        msgspec.structs.replace(db, location=os.path.abspath(db.location)) if db.engine is DatabaseEngine.SQLITE else db
        for db in one.databases
    )
    capture = one.capture
    if capture is not None:
        code, data, config = (os.path.abspath(path) if path else "" for path in (capture.code, capture.data, capture.config))
        capture = msgspec.structs.replace(capture, code=code, data=data, config=config)
    return msgspec.structs.replace(one, databases=databases, capture=capture)


def open_point(home: Home, here: Setting, plan: PointPlan, *, name: str | None, by: str) -> RunId:
    """Open the run. Raises as ``runs.start``."""
    runbook = point_runbook(plan)
    return runs.start(home, runbook, here.connections, name=name or runs.name_for(runbook, now_s=time.time()), by=by)


def drive_point(
    home: Home, run: RunId, *, show: Callable[[st.RunState], None], on_engine: Callable[[Engine], None] = lambda engine: None
) -> st.RunState:
    """Drive it until it has ended or needs a person."""
    return runs.drive(home, run, watcher=lambda state, events: show(state), on_engine=on_engine)


def outcome_of_point(home: Home, run: RunId) -> PointOutcome:
    """What came of a run so far. Raises RUN_NOT_FOUND."""
    entries = runs.entries_of(home, run)
    state = runs.state_of(home, run)
    done = {step: {**one.applied, **one.verified} for step, one in state.steps.items() if isinstance(one, st.Finished)}
    kept = done.get(KEEP, {})
    point = msgspec.convert(kept["point"], Point) if kept else None
    reason = state.mode.reason if isinstance(state.mode, st.OnHold | st.NeedsPerson | st.Ended | st.Backward) else ""
    hooks: dict[str, Any] = {}
    for step in (BEFORE, AFTER):
        hooks |= done.get(step, {}).get("hooks", {})
    return PointOutcome(
        run=run,
        mode=mode_word(state),
        reason=reason,
        snapshot=SnapshotId(kept["snapshot"]) if kept else None,
        point=point,
        pause_s=None if point is None else point.pause_s,
        training_paused_s=done.get(GO_ON, {}).get("paused_s"),
        hooks=hooks,
        ledger_head=entries[-1].hash,
    )
