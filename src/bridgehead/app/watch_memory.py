"""Memory of an observer: what it knew at its last look, so that a restart goes on where it was (J03).

<home>/watch/<estate>/<observer>/lock            held by the observer that works; free when its process dies
<home>/watch/<estate>/<observer>/memory.json     a record with its own hash, replaced at once
<home>/watch/<estate>/<observer>/history.jsonl   a line a look, the oldest half dropped when it is long
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

import msgspec
from msgspec.structs import replace

from bridgehead.host.durable import write_durably
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.recovery.watch.alarm import AlarmState
from bridgehead.recovery.watch.board import Heard
from bridgehead.recovery.watch.facts import Facts
from bridgehead.recovery.watch.liveness import SiteClock, resumed
from bridgehead.recovery.watch.readiness import WatchReport
from bridgehead.vault.records import Damaged, decode, encode
from bridgehead.vault.scratch import claim

MAX_HISTORY_BYTES: Final = 8 << 20
_STATE: Final = "memory.json"
_HISTORY: Final = "history.jsonl"


class Memory(msgspec.Struct, frozen=True):
    """All that an observer remembers.

    Attributes:
        number: of its last look.
        trail: of each workload, lost work in seconds over the last hours, as (when, lost).
    """

    number: int = 0
    clocks: dict[str, SiteClock] = {}
    heard: dict[str, Heard] = {}
    facts: Facts = Facts()
    alarms: dict[str, AlarmState] = {}
    trail: dict[str, tuple[tuple[float, float], ...]] = {}


def memory_resumed(kept: Memory, *, now_s: float) -> Memory:
    """What a new process goes on from. Times that lie ahead (the wall clock was set back) are taken for now, so that nothing that was heard
    counts as fresh for longer than it is, and no alarm waits for longer. Facts from ahead are not known at all (see ``facts``)."""

    def past(time_s: float | None) -> float | None:
        return None if time_s is None else min(time_s, now_s)

    alarms = {
        key: replace(one, raised_s=past(one.raised_s), troubled_s=past(one.troubled_s), passing_s=past(one.passing_s))
        for key, one in kept.alarms.items()
    }
    return replace(
        kept,
        clocks={name: resumed(clock, now_s=now_s) for name, clock in kept.clocks.items()},
        heard={name: replace(one, heard_s=min(one.heard_s, now_s)) for name, one in kept.heard.items()},
        alarms=alarms,
        trail={name: tuple(point for point in trail if point[0] <= now_s) for name, trail in kept.trail.items()},
    )


class HistoryWorkload(msgspec.Struct, frozen=True):
    """A workload in the history."""

    status: str
    lost_s: float | None
    lost_steps: int | None
    lag_s: float | None
    restore_s: float | None


class HistoryLine(msgspec.Struct, frozen=True):
    """One look in the history. ``sites``: state of each."""

    at_s: float
    status: str
    alarms: int
    sites: dict[str, str]
    workloads: dict[str, HistoryWorkload]


def line_of(report: WatchReport) -> HistoryLine:
    """What the history keeps of a report."""
    return HistoryLine(
        at_s=report.at_s,
        status=report.status.value,
        alarms=len(report.alarms),
        sites={one.site: one.state.value for one in report.sites},
        workloads={
            one.workload: HistoryWorkload(one.status.value, one.lost_s, one.lost_steps, one.lag_s, one.restore_s)
            for one in report.workloads
        },
    )


class MemoryFolder:
    """The folder of one observer. ``with`` takes it; ``writes`` is False for a single look beside an observer that is at work."""

    def __init__(self, folder: Path, *, alone: bool) -> None:
        self.folder = folder
        self._alone = alone
        self._lock: int | None = None

    @property
    def writes(self) -> bool:
        """Whether this process is the observer of that name."""
        return self._lock is not None

    def __enter__(self) -> MemoryFolder:
        """Raises VAULT_BUSY when it must be alone and is not, BAD_USAGE when the folder cannot be made."""
        try:
            self._lock = claim(str(self.folder))
        except OSError as error:
            raise _unusable(self.folder, error.strerror or str(error)) from error
        if self._lock is None and self._alone:
            raise BridgeheadError(
                ErrorCode.VAULT_BUSY,
                tried="watch",
                subject=str(self.folder),
                happened="another process watches this estate under the same name",
                remedy="Give this one another --observer, or end that one; when its process has died, the place is free at once.",
            )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def read(self) -> Memory:
        """What is remembered; nothing when there is nothing, or it is damaged."""
        path = self.folder / _STATE
        try:
            return decode(path.read_bytes(), Memory, key=str(path))
        except (OSError, Damaged):
            return Memory()

    def write(self, memory: Memory, line: HistoryLine) -> str:
        """Keep it; returns why it could not be kept, or nothing. Watching goes on without a disk, and says so."""
        if self._lock is None:
            return ""
        try:
            write_durably(str(self.folder / _STATE), encode(memory))
            self._append(line)
        except OSError as error:
            return f"{error.filename or self.folder}: {error.strerror or error}"
        return ""

    def _append(self, line: HistoryLine) -> None:
        path = self.folder / _HISTORY
        with path.open("ab") as stream:
            stream.write(msgspec.json.encode(line) + b"\n")
        if path.stat().st_size > MAX_HISTORY_BYTES:
            lines = path.read_bytes().splitlines(keepends=True)
            write_durably(str(path), b"".join(lines[len(lines) // 2 :]))

    def history(self) -> Iterator[HistoryLine]:
        """The looks on record, oldest first; a line that was cut off by a kill is passed over."""
        with contextlib.suppress(OSError), (self.folder / _HISTORY).open("rb") as stream:
            for line in stream:
                with contextlib.suppress(msgspec.DecodeError):
                    yield msgspec.json.decode(line, type=HistoryLine)


def _unusable(folder: Path, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE, tried="watch", subject=str(folder), happened=happened, remedy="Give --home: a folder that you may write to."
    )
