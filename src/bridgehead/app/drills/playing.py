"""Playing: one drill from its bubble to its signed report, with nothing left behind (R13)."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from bridgehead import __version__
from bridgehead.app import runs, wiring
from bridgehead.app.drills import reports
from bridgehead.app.drills.cleaning import clean, empty, end
from bridgehead.app.drills.folder import BubbleRecord, begin, forget, root_of
from bridgehead.app.drills.logs import keep_logs
from bridgehead.app.drills.outcome import Seen, lost_at, outcome, proved_by
from bridgehead.app.drills.preparing import Asked, Here, Prepared, prepare
from bridgehead.app.drills.result import DrillResult
from bridgehead.app.drills.source import Looking, find, loss_for
from bridgehead.app.recover_open import open_recoveries
from bridgehead.host.durable import write_durably
from bridgehead.host.identity import this_driver
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Permanent, PortError
from bridgehead.kernel.ids import Person, RunId, SiteId, SnapshotId, WorkloadId
from bridgehead.model import event as ev
from bridgehead.model.bubble import BubbleId, DamagedBlock, SlowLine, fault_name
from bridgehead.recovery.actions.bubble import bubbles_of
from bridgehead.recovery.drills.runbook import OPEN, drill_runbook
from bridgehead.runbook import state as st

if TYPE_CHECKING:
    from bridgehead.app.drills.cleaning import Cleaned
    from bridgehead.app.home import Home
    from bridgehead.app.recover import Setting
    from bridgehead.model.objective import Need
    from bridgehead.runbook.engine import Engine, Watcher

STOPPED = "it was stopped before its end"
LOOK_PATIENCE_S = 10.0


class Drilling(msgspec.Struct, frozen=True):
    """What a drill is played on. ``needs``: objectives of the workloads."""

    home: Home
    here: Setting
    needs: dict[WorkloadId, Need]


def play(
    on: Drilling, asked: Asked, *, by: str, watcher: Watcher, on_engine: Callable[[Engine], None] = lambda engine: None
) -> DrillResult:
    """Play a drill, remove everything of it, and write its report.

    A drill that is stopped from outside (the engine's ``stop``) is rolled back at once, and reported as failed.

    Raises:
        BridgeheadError: BAD_USAGE, BAD_INPUT, RECOVERY_REFUSED beside a recovery that goes on, RUN_STATE for a name that is taken; nothing
            is made then.
        PortError: of the home's disk, or of the site's vault.
    """
    home, here = on.home, on.here
    _refuse_beside_recovery(home)
    prepared = prepare(here.recovery, on.needs, asked, Here(here.connections, here.ports, root_of(home)))
    plan, isolation = prepared.plan, prepared.isolation
    connections = isolation.connections()
    record = BubbleRecord(plan, this_driver(), by, here.recovery.name, RunId(asked.name), str(isolation.folder), connections, time.time())
    begin(home, record)
    looking = Looking(here.ports, prepared.workloads)
    hit: set[str] = set()

    def watch(state: st.RunState, events: Sequence[ev.Event]) -> None:
        if any(isinstance(event, ev.Intent) and event.step == OPEN for event in events):
            looking.begin()
        if any(isinstance(event, ev.RollbackBegan) for event in events):  # the bubble, which knows of these, is about to go
            keep_logs(isolation.folder / "jobs", reports.logs_of(home, plan.name))
            with contextlib.suppress(PortError):
                hit.update(bubbles_of(wiring.connect(connections)).hits(plan.bubble.id))
        watcher(state, events)

    try:
        _make_view(prepared)
        runs.start(home, drill_runbook(plan), connections, name=asked.name, by=by)
        state = _driven(home, record.run, watch, on_engine)
        left = _empty(home, record) if isinstance(state.mode, st.Ended) else end(home, record, by=by, reason=STOPPED)
    except BaseException:
        # Whatever it was: what was made is removed here, or by the next command when that fails too.
        with contextlib.suppress(BridgeheadError):
            end(home, record, by=by, reason=STOPPED)
        raise
    seen = msgspec.structs.replace(_seen(on, prepared, record, looking), hit=frozenset(hit), left=tuple(left))
    return report(home, record, seen, vault=isolation.production["sites"][plan.bubble.of]["vault"])


def clean_up(home: Home, *, by: str) -> list[Cleaned]:
    """Remove what drills left whose process is no more; each stands in the history as stopped."""
    return clean(home, by=by, report=lambda record, left: report(home, record, Seen(left=left), vault=None))


def report(home: Home, record: BubbleRecord, seen: Seen, *, vault: Any) -> DrillResult:
    """Read the drill's outcome, write its signed report, and note in the site's vault which snapshots were proved."""
    entries = runs.entries_of(home, record.run)
    result = outcome(record.plan, record.run, entries, seen, recovery=record.recovery, by=record.by, version=__version__)
    if vault is not None:
        _note(result, vault)
    return reports.write(home, result)


def name_for(now_s: float) -> BubbleId:
    """The name of a drill that the user did not name."""
    return BubbleId(time.strftime("drill-%Y%m%d-%H%M%S", time.gmtime(now_s)))


def _refuse_beside_recovery(home: Home) -> None:
    """A recovery that goes on needs the site, and the people. Raises RECOVERY_REFUSED."""
    for run, _ in open_recoveries(home):
        raise BridgeheadError(
            ErrorCode.RECOVERY_REFUSED,
            tried="drill",
            subject=str(run),
            happened="a recovery goes on, and a drill would take room and attention from it",
            remedy=f"`bridgehead run explain {run}{home.option}` says how far it is. Drill when it has ended.",
        )


def _driven(home: Home, run: RunId, watch: Watcher, on_engine: Callable[[Engine], None]) -> st.RunState:
    try:
        return runs.drive(home, run, watcher=watch, on_engine=on_engine)
    except Permanent as error:  # a drill that was broken off is not resumed
        clean_it = f"`bridgehead recover drill --clean{home.option}`"
        error.remedy = f"Free disk space there; {clean_it} then removes what is left of this drill. Drill again."
        raise


def _empty(home: Home, record: BubbleRecord) -> list[str]:
    left = empty(record)
    if not left:
        forget(home, record)
    return left


def _seen(on: Drilling, prepared: Prepared, record: BubbleRecord, looking: Looking) -> Seen:
    """What the drill's clock did not wait for: what was at the homes, and what the site's vault says of the proved snapshots."""
    events = [entry.event for entry in runs.entries_of(on.home, record.run)]
    source = looking.found(patience_s=LOOK_PATIENCE_S)
    lost_s = next((event.at_s for event in events if isinstance(event, ev.Intent) and event.step == OPEN), lost_at(prepared.plan, events))
    computing = {one.id: one for one in prepared.workloads if one.computes}
    proved = proved_by(prepared.plan, events)
    snapshots = {name: str(proved[name]["snapshot"]) for name in computing if name in proved}
    infos = find(on.here.ports, snapshots, site=prepared.plan.bubble.of)
    losses = {name: loss_for(computing[name], info, source, lost_s=lost_s or record.begun_s) for name, info in infos.items()}
    return Seen(source, losses)


def _make_view(prepared: Prepared) -> None:
    """``view.json``, with planned damage found in the real vault, which is only read; and the folders that jobs expect."""
    from bridgehead.vault.view import SCRATCH, VIEW_FILE, ViewFile, WrongByte, known_snapshots, wrong_bytes

    bubble, isolation, cases = prepared.plan.bubble, prepared.isolation, prepared.plan.cases
    base: dict[str, Any] = isolation.production["sites"][bubble.of]["vault"]
    for folder in (isolation.view / SCRATCH, *isolation.folders):
        folder.mkdir(parents=True)
    blobs = wiring.store_at(base)
    vault = wiring.opened(blobs)
    known = tuple(known_snapshots(vault, blobs, stored) for stored in dict.fromkeys(case.stored for case in cases) if stored is not None)
    rate_bps = sum(fault.rate_bps for fault in bubble.faults if isinstance(fault, SlowLine))
    file = isolation.view / VIEW_FILE
    write_durably(str(file), msgspec.json.encode(ViewFile(base, known=known)))
    wrong: tuple[WrongByte, ...] = ()
    if any(isinstance(fault, DamagedBlock) for fault in bubble.faults):
        seen = wiring.opened(wiring.store_at({"driver": "view", "directory": str(isolation.view)}))
        for fault in bubble.faults:
            if isinstance(fault, DamagedBlock):
                stored = next(case.stored for case in cases if case.workload == fault.workload)
                assert stored is not None
                places = wrong_bytes(seen, stored, name=fault_name(fault))
                if not places:
                    raise _no_block(stored, bubble.of)
                wrong += places
    write_durably(str(file), msgspec.json.encode(ViewFile(base, rate_bps, wrong, known)))


def _no_block(stored: WorkloadId, site: SiteId) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="plan a damaged block",
        subject=f"{stored} at {site}",
        happened="it has no snapshot with a block of its own",
        remedy="Save once more, or plan another fault.",
    )


def _note(result: DrillResult, connection: dict[str, Any]) -> None:
    """Tell the site's vault which snapshots were restored, as ``vault drill`` does; watch reads it there. A vault that takes no note is no
    reason to fail: the report is the record."""
    from bridgehead.vault.drills import Drill, record_drill

    failed = {step.workload: step.failed for step in result.steps if step.failed}
    notes = [
        Drill(
            SnapshotId(case.snapshot),
            result.began_s,
            (case.rto.measured_s if case.rto.measured_s is not None else result.ended_s - result.began_s),
            0.0,
            (case.raw_bytes or 0) if case.recovered else 0,
            passed=case.recovered,
            happened="" if case.recovered else failed[case.workload],
            by=Person(result.by),
        )
        for case in result.cases
        if case.snapshot and (case.recovered or case.workload in failed)
    ]
    if notes:
        with contextlib.suppress(PortError, BridgeheadError):
            objects = wiring.opened(wiring.store_at(connection)).place.objects
            for note in notes:
                record_drill(objects, note)
