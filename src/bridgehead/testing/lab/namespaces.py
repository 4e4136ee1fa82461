"""Namespaces and what lives in them: run a program in one, find and end every process of one, by the kernel's own bookkeeping."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from bridgehead.drivers.process.procfs import read_stat
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Transient
from bridgehead.testing.lab.record import Started

PATH: Final = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin", "/usr/local/sbin"])
"""Administrators' programs are not on every user's path."""
NAMED: Final = Path("/run/netns")
END_S: Final = 10.0


def run(*command: str, text: str = "", timeout_s: float = 20.0) -> str:
    """Run a program of the system to its end and return what it printed. Raises PORT_PERMANENT with what it complained about."""
    done = subprocess.run(
        command, input=text, capture_output=True, text=True, timeout=timeout_s, env={**os.environ, "PATH": PATH}, check=False
    )
    if done.returncode != 0:
        raise BridgeheadError(
            ErrorCode.PORT_PERMANENT,
            tried="set the lab up",
            subject=" ".join(command),
            happened=(done.stderr or done.stdout).strip() or f"exit code {done.returncode}",
            remedy="The lab needs root, and a kernel with network namespaces, TUN, tbf and nftables.",
        )
    return done.stdout


def inside(namespace: str, command: Sequence[str]) -> list[str]:
    """The command that runs ``command`` in the namespace; the process stays the same, so that its pid does."""
    nsenter = shutil.which("nsenter", path=PATH) or "nsenter"
    return [nsenter, f"--net={NAMED / namespace}", "--", *command]


def spawn(
    namespace: str, command: Sequence[str], *, name: str, place: str, log: Path, env: Mapping[str, str] | None = None, address: str = ""
) -> Started:
    """Start a program in a namespace, in a session of its own, and say which process it is."""
    with open(log, "ab") as output:
        process = subprocess.Popen(
            inside(namespace, command),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env={**os.environ, "PATH": PATH, **(env or {})},
            start_new_session=True,
        )
    stat = read_stat(process.pid)
    if stat is None:
        raise BridgeheadError(
            ErrorCode.PORT_PERMANENT, tried="start a server of the lab", subject=name, happened="it ended at once", remedy=f"See {log}."
        )
    return Started(name, place, stat.pid, stat.start_ticks, address)


def exists(namespace: str) -> bool:
    """Whether there is a namespace of that name."""
    return (NAMED / namespace).exists()


def members(namespace: str) -> list[int]:
    """The pids of all processes in the namespace, zombies left out."""
    try:
        wanted = os.stat(NAMED / namespace)
    except FileNotFoundError:
        return []
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and _lives_in(int(name), wanted)]


def end_members(namespace: str) -> int:
    """Kill every process in the namespace and wait until none is left; how many there were. Raises Transient when one stays.

    Each is asked about once more while it is held by a descriptor, so that a pid that was reused in between is never hit.
    """
    try:
        wanted = os.stat(NAMED / namespace)
    except FileNotFoundError:
        return 0
    ended: set[int] = set()
    deadline_s = time.monotonic() + END_S
    while left := members(namespace):
        if time.monotonic() > deadline_s:
            raise Transient(f"processes {left} do not end", tried="end the lab's processes", subject=namespace, remedy="Look at them.")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                descriptor = os.pidfd_open(pid)
                try:
                    if _lives_in(pid, wanted):
                        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
                        ended.add(pid)
                finally:
                    os.close(descriptor)
        time.sleep(0.02)
    return len(ended)


def end(started: Started, *, within_s: float) -> None:
    """Ask exactly this process to end (SIGTERM) and wait. Raises Transient when it stays; no effect when it is gone."""
    with contextlib.suppress(ProcessLookupError):
        descriptor = os.pidfd_open(started.pid)
        try:
            if started.alive:
                signal.pidfd_send_signal(descriptor, signal.SIGTERM)
        finally:
            os.close(descriptor)
    deadline_s = time.monotonic() + within_s
    while started.alive:
        if time.monotonic() > deadline_s:
            raise Transient(f"it does not end within {within_s:g} s", tried="end a program", subject=started.name, remedy="See its log.")
        time.sleep(0.05)


def _lives_in(pid: int, namespace: os.stat_result) -> bool:
    try:
        found = os.stat(f"/proc/{pid}/ns/net")
        stat = read_stat(pid)
    except OSError:
        return False  # gone, or a zombie, which has no namespace any more
    return stat is not None and stat.alive and (found.st_ino, found.st_dev) == (namespace.st_ino, namespace.st_dev)
