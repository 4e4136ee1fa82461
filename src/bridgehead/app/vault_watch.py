"""Watching a trainer: looks at its directory again and again, and says how far the vault is behind (R6; V32).

Saving may stand still, when the store does; the lag is therefore told by a thread of its own, which asks nobody.
"""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from bridgehead.app.vault_alarms import alarms_after_save
from bridgehead.app.vaults import usage
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import WorkloadId
from bridgehead.vault import Vault
from bridgehead.vault.tensor_alarm import Alarm
from bridgehead.vault.watch import Extra, Ingested, Look, Watch, WatchOrder
from bridgehead.vault.watch_state import WatchFolder

FOLDER = ".bridgehead-watch"
"""In the trainer's directory: the same file system, so that files can be held."""


class WatchStatus(msgspec.Struct, frozen=True):
    """What ``--status-file`` holds, as JSON.

    Attributes:
        state: ``watching``, ``saving``, ``stopped``.
        newest: the snapshot of the newest checkpoint that is durable; None before the first.
        lag_s: how long ago that checkpoint was written by the trainer; before the first, how long the watcher has been at work.
        alarm: whether the lag is above ``max_lag_s``.
        matching: how many names in the directory look like checkpoints, or match ``--step-from``, whole or not.
    """

    state: str
    directory: str
    workload: WorkloadId
    pid: int
    updated_s: float
    looks: int
    saved: int
    newest: str | None
    lag_s: float
    max_lag_s: float | None
    alarm: bool
    incomplete: dict[str, tuple[str, ...]]
    failed: dict[str, str]
    tensor_alarms: tuple[Alarm, ...]
    matching: int


class Reports(msgspec.Struct, frozen=True):
    """Who is told what: of each saved checkpoint with the alarms of its tensors, and lines for people."""

    saved: Callable[[Ingested, tuple[Alarm, ...]], None]
    say: Callable[[str], None]


def step_pattern(text: str) -> re.Pattern[str]:
    """The regular expression of ``--step-from``. Raises BAD_USAGE when it is none, or has no group."""
    try:
        pattern = re.compile(text)
        fault = "" if pattern.groups else "it has no group"
    except re.error as error:
        fault = str(error)
    if fault:
        raise usage("read --step-from", subject=repr(text), happened=fault, remedy="Write a regular expression such as 'step-([0-9]+)'.")
    return pattern


class Watching:
    """One watcher, from its first look to its end. ``stop`` may be called from a signal handler.

    Args:
        every_s: between two looks, at least a twentieth of a second.
        max_lag_s: above it the lag is an alarm; None: never.
        status_file: replaced at least every few seconds.
    """

    def __init__(
        self,
        vault: Vault,
        order: WatchOrder,
        *,
        reports: Reports,
        every_s: float,
        max_lag_s: float | None = None,
        status_file: Path | None = None,
        scratch: Path | None = None,
        extra: Callable[[], Extra] = Extra,
    ) -> None:
        place = block_hash(f"{vault.file.id} {order.workload}".encode())[:12]
        self._folder = WatchFolder((order.directory / FOLDER if scratch is None else scratch) / place)
        self._vault, self._order, self._reports, self._extra = vault, order, reports, extra
        self._every_s, self._max_lag_s, self._status_file = max(every_s, 0.05), max_lag_s, status_file
        self._watch: Watch | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._began_s = time.time()
        self._state, self._looks, self._saved = "watching", 0, 0
        self._last = Look((), {}, {})
        self._tensor_alarms: tuple[Alarm, ...] = ()
        self._alarmed = False
        self._said: set[str] = set()
        self.lagged = False
        """Whether the lag was ever too large."""

    def stop(self) -> None:
        """Begin nothing more: what is being saved is finished."""
        self._ended.set()

    def run(self, *, once: bool) -> Look:
        """Until ``stop``; or, with ``once``, until all is looked at twice and saved. Returns the last look.

        Raises BridgeheadError: VAULT_BUSY, VAULT_FENCED, BAD_USAGE, errors of opening; with ``once`` also of a save.
        """
        self._folder.open()
        reporter = threading.Thread(target=self._report_always, name="watch-report", daemon=True)
        try:
            self._watch = Watch(self._vault, self._order, self._folder, extra=self._extra)
            reporter.start()
            if once:
                return self._run_once()
            while not self._ended.is_set():
                try:
                    self._look()
                except OSError as error:  # a file system that is away for a moment
                    self._say_once(f"{error.filename or self._order.directory} cannot be read, and is tried again: {error.strerror}")
                self._ended.wait(self._every_s)
            return self._last
        finally:
            self._ended.set()
            if reporter.is_alive():
                reporter.join()
            self._state = "stopped"
            self._report()
            self._folder.close()

    def _run_once(self) -> Look:
        self._look()
        self._ended.wait(self._order.stable_s)
        if not self._ended.is_set():
            self._look()
        for error in self._last.failed.values():
            raise error
        self._judge_newest()
        return self._last

    def _judge_newest(self) -> None:
        """An alarm stands until a later save is right: also for who looks again and finds nothing to save."""
        newest = self._watch.state.newest if self._watch is not None else None
        if not self._saved and newest is not None:
            with contextlib.suppress(BridgeheadError):  # it was forgotten, or its tensors cannot be judged: that was said when it was saved
                self._tensor_alarms = alarms_after_save(self._vault, self._vault.snapshot(newest))

    def _look(self) -> None:
        assert self._watch is not None
        self._state = "saving"
        try:
            look = self._watch.look(now_s=time.monotonic(), stop=self._ended.is_set)
            self._last, self._looks = look, self._looks + 1
        finally:
            self._state = "watching"
        for one in look.saved:
            self._saved += 1
            found = self._alarms(one)
            if one.result.id == self._watch.state.newest:
                self._tensor_alarms = found
            self._reports.saved(one, found)
        if not look.matching and self._order.pattern is not None:
            self._say_once(f"--step-from {self._order.pattern.pattern!r} matches no name in {self._order.directory}")
        for name, error in look.failed.items():
            self._say_once(f"{name} is not saved, and is tried again: {error}")
        for name in self._last.incomplete.keys() - look.incomplete.keys():
            self._said.discard(name)

    def _alarms(self, one: Ingested) -> tuple[Alarm, ...]:
        try:
            return alarms_after_save(self._vault, one.result.snapshot)
        except BridgeheadError as error:  # it is saved; `vault alarms` can judge it later
            self._reports.say(f"{one.name} is saved, and its tensors could not be judged: {error}")
            return ()

    def _say_once(self, text: str) -> None:
        if text not in self._said:
            self._said.add(text)
            self._reports.say(text)

    def _report_always(self) -> None:
        pause_s = min(1.0, self._every_s, (self._max_lag_s or 4.0) / 4)
        while not self._ended.wait(pause_s):
            self._report()

    def _report(self) -> None:
        with self._lock:
            status = self.status()
            if status.alarm != self._alarmed:
                self._alarmed = status.alarm
                self._reports.say(self._lag_words(status))
            self.lagged = self.lagged or status.alarm
            if self._status_file is not None:
                with contextlib.suppress(OSError):
                    temporary = self._status_file.with_name(f".{self._status_file.name}.{os.getpid()}")
                    temporary.write_bytes(msgspec.json.encode(status) + b"\n")
                    temporary.replace(self._status_file)

    def _lag_words(self, status: WatchStatus) -> str:
        if not status.alarm:
            return f"the lag is {status.lag_s:.0f} s again, within {status.max_lag_s:.0f} s"
        what = (
            f"the newest durable checkpoint is {status.lag_s:.0f} s old" if status.newest else f"none is durable after {status.lag_s:.0f} s"
        )
        doing = f"; {status.state}" if status.state == "saving" else ""
        waiting = "; ".join(f"{name}: {', '.join(lacking[:2])}" for name, lacking in list(status.incomplete.items())[:2])
        return f"ALARM: {what}, more than {status.max_lag_s:.0f} s{doing}" + (f"; incomplete: {waiting}" if waiting else "")

    def status(self) -> WatchStatus:
        """How it stands now. Asks nobody."""
        known = self._watch.state if self._watch is not None else None
        newest = known.newest if known is not None else None
        lag_s = max(0.0, time.time() - (known.saved_s if known is not None and newest is not None else self._began_s))
        look = self._last
        return WatchStatus(
            state=self._state,
            directory=str(self._order.directory),
            workload=self._order.workload,
            pid=os.getpid(),
            updated_s=time.time(),
            looks=self._looks,
            saved=self._saved,
            newest=newest,
            lag_s=lag_s,
            max_lag_s=self._max_lag_s,
            alarm=self._max_lag_s is not None and lag_s > self._max_lag_s,
            incomplete=dict(look.incomplete),
            failed={name: str(error) for name, error in look.failed.items()},
            tensor_alarms=self._tensor_alarms,
            matching=look.matching,
        )
