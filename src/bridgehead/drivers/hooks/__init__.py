"""Hooks of applications, run through the shell of their site, with a limit of time; what they said is kept in files."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.kernel.errors import Conflict, PortError, Transient, Unknown
from bridgehead.kernel.ids import SiteId
from bridgehead.model.recovery import Hook
from bridgehead.model.stamp import Stamp
from bridgehead.ports.hooks import HookRun
from bridgehead.ports.shell import Shell

TAIL_BYTES: Final = 2000
"""How much of the output goes into the journal; all of it is in the log."""


class ShellHooks:
    """Implements :class:`bridgehead.ports.hooks.Hooks`. Each hook has a thread, a log ``<at>.<id>.<attempt>.log`` and a result ``.json``.

    Args:
        shells: of sites.
        elsewhere: where hooks of sites without a shell of their own are run.
    """

    def __init__(self, shells: Mapping[SiteId, Shell], *, elsewhere: Callable[[], Shell]) -> None:
        self._shells, self._elsewhere = shells, elsewhere
        self._running: dict[Path, threading.Thread] = {}
        self._ended: dict[Path, HookRun] = {}
        """Also where a result could not be written: it is not run again for that."""
        self._lock = threading.Lock()

    def run(self, hook: Hook, *, site: SiteId, folder: str, env: dict[str, str], stamp: Stamp) -> HookRun | None:
        """See the port."""
        place = Path(folder)
        name = f"{hook.at.value}.{hook.id}"
        mine = place / f"{name}.{stamp.step}-{stamp.attempt}.json"
        try:
            place.mkdir(parents=True, exist_ok=True)
            _accept(place, stamp)
            for file in (mine, *sorted(place.glob(f"{name}.*.json"))):
                if file.exists():
                    result = msgspec.json.decode(file.read_bytes(), type=HookRun)
                    if file == mine or result.well:
                        return result
        except (OSError, msgspec.MsgspecError) as error:
            raise Transient(f"its results cannot be kept: {error}", tried="run a hook", subject=f"{hook.id} in {folder}") from error
        with self._lock:
            if mine in self._ended:
                return self._ended[mine]
            if mine not in self._running or not self._running[mine].is_alive():
                shell = self._shells[site] if site in self._shells else self._elsewhere()
                work = (shell, hook, {**env, **hook.env}, mine)
                thread = threading.Thread(target=self._work, args=work, name=f"hook {hook.id}", daemon=True)
                self._running[mine] = thread
                thread.start()
        return None

    def _work(self, shell: Shell, hook: Hook, env: dict[str, str], file: Path) -> None:
        done, said = _run(shell, hook, env, str(file.with_suffix(".log")))
        with contextlib.suppress(OSError):
            file.with_suffix(".log").write_bytes(said)
            _write(file, msgspec.json.encode(done))
        self._ended[file] = done


def _run(shell: Shell, hook: Hook, env: dict[str, str], log: str) -> tuple[HookRun, bytes]:
    began_s = time.time()
    code, happened, said = None, "", b""
    try:
        result = shell.run(hook.command, env=env, timeout_s=hook.timeout_s)
        code, said = result.exit_code, result.stdout + result.stderr
        happened = "" if code == 0 else f"it ended with {code}: {result.complaint}"
    except Unknown as error:
        happened = f"no end is known within {hook.timeout_s:g} s: {error.happened}"
    except PortError as error:
        happened = error.happened
    output = said[-TAIL_BYTES:].decode("utf-8", "replace")
    return HookRun(code, happened, output, log, began_s, time.time() - began_s), said


def _write(file: Path, data: bytes) -> None:
    partial = file.with_suffix(".part")
    with partial.open("wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    partial.rename(file)


def _accept(place: Path, stamp: Stamp) -> None:
    """A driver that was replaced runs no more hooks (J13). Raises Conflict."""
    file = place / f"driver-{stamp.run}"
    seen = int(file.read_text()) if file.exists() else 0
    if stamp.epoch < seen:
        happened, subject = f"driver {seen} of the run has taken over", f"driver {stamp.epoch} of {stamp.run}"
        raise Conflict(happened, tried="run a hook", subject=subject)
    if stamp.epoch > seen:
        _write(file, str(stamp.epoch).encode())
