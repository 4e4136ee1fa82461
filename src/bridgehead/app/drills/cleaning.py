"""Cleaning: what drills left behind whose process is no more is found by their records, and removed (R13)."""

from __future__ import annotations

import shutil
import time
from typing import TYPE_CHECKING, Final

import msgspec

from bridgehead.app import runs, wiring
from bridgehead.app.drills.folder import BubbleRecord, forget, records, throw_away
from bridgehead.app.home import Home
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import Epoch, StepId
from bridgehead.model.stamp import Stamp
from bridgehead.recovery.actions.bubble import bubbles_of, emptied
from bridgehead.runbook.action import Call, Done

if TYPE_CHECKING:
    from collections.abc import Callable

PATIENCE_S: Final = 30.0
GONE: Final = "its process is no more"
_LATE_EPOCH: Final = Epoch(1_000_000)
"""Newer than any driver of the drill has been: a call of one that comes late is refused."""


class Cleaned(msgspec.Struct, frozen=True):
    """What was found of one bubble. ``left``: what could not be removed, and why; ``busy``: its drill goes on, it was left alone."""

    bubble: str
    run: str
    left: tuple[str, ...] = ()
    busy: bool = False


def clean(home: Home, *, by: str, report: Callable[[BubbleRecord, tuple[str, ...]], object]) -> list[Cleaned]:
    """Remove every bubble whose process is no more: its jobs, its network, its orders and objects; and end its run.

    Args:
        report: told of each whose run was begun, so that a drill that died stands in the history, too.
    """
    found = []
    for folder, record in list(records(home)):
        if record is None:
            shutil.rmtree(folder, ignore_errors=True)  # nothing was made before the record was whole
            found.append(Cleaned(folder.name, ""))
        elif record.owned:
            found.append(Cleaned(folder.name, record.run, busy=True))
        else:
            left = tuple(end(home, record, by=by, reason=GONE))
            found.append(Cleaned(folder.name, record.run, left=left))
            if not left and has_run(home, record):
                report(record, left)
    return found


def end(home: Home, record: BubbleRecord, *, by: str, reason: str) -> list[str]:
    """End the run of a drill, whatever it has come to, and remove its bubble. Returns what is left and why.

    The bubble goes also while the journal takes nothing, as on a full disk; then its record stays, by which the run is ended later.
    """
    unended = _unended(home, record, by=by, reason=reason)  # its undo ends the bubble, as its ledger then tells
    left = empty(record)  # and if it never got so far, or could not: without it
    if unended and not left:
        throw_away(home, record)
        unended = _unended(home, record, by=by, reason=reason)  # what was thrown away may have made room
    if left or unended:
        return [*unended, *left]
    forget(home, record)
    return []


def has_run(home: Home, record: BubbleRecord) -> bool:
    """Whether its run was opened: a process can die before that."""
    try:
        runs.entries_of(home, record.run)
    except BridgeheadError as error:
        if error.code is ErrorCode.RUN_NOT_FOUND:
            return False
        raise
    return True


def _unended(home: Home, record: BubbleRecord, *, by: str, reason: str) -> list[str]:
    """End its run; why that cannot be now."""
    try:
        if has_run(home, record) and runs.abort(home, record.run, by=by, reason=reason):
            runs.drive(home, record.run, watcher=lambda state, events: None)
    except BridgeheadError as error:
        return [f"run {record.run} is not ended: {error.subject}: {error.happened}"]
    return []


def empty(record: BubbleRecord) -> list[str]:
    """End the jobs of a bubble and remove what it consists of. Returns what is left and why."""
    try:
        ports = wiring.connect(record.connections)
        bubbles_of(ports)
    except BridgeheadError as error:
        return [f"{error.subject}: {error.happened}"]
    began_s = time.monotonic()
    stamp = Stamp(record.run, StepId("clean"), 1, _LATE_EPOCH)
    while True:
        now_s = time.monotonic()
        call = Call(stamp=stamp, recorded={}, applied={}, earlier={}, since_s=began_s, now_s=now_s)
        try:
            outcome = emptied(ports, record.bubble, call)
        except PortError as error:
            outcome, reason = None, f"{error.subject}: {error.happened}"
        else:
            reason = str(outcome)
        if isinstance(outcome, Done):
            return []
        if now_s - began_s > PATIENCE_S:
            return [reason]
        time.sleep(0.05)
