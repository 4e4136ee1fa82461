"""Network namespaces of this machine, by the ``ip`` program: a bubble in one reaches nothing, and nothing reaches it.

The loopback of a namespace is its own, so that a job may listen on the port that its twin outside has.
"""

from __future__ import annotations

import os
import shutil
import subprocess

from bridgehead.host.netns import NETNS_FOLDER
from bridgehead.kernel.errors import Permanent, Transient

_PATIENCE_S = 10.0


def make(name: str) -> None:
    """Make it with nothing but a loopback; no effect when it is there. Raises Permanent without root or without ``ip``."""
    if not (NETNS_FOLDER / name).exists():
        _ip("netns", "add", name)
    _ip("-n", name, "link", "set", "lo", "up")


def remove(name: str) -> None:
    """Remove it; no effect when it is not there."""
    if (NETNS_FOLDER / name).exists():
        _ip("netns", "delete", name)


def processes_in(name: str) -> tuple[int, ...]:
    """Processes that live in it; () when there is none of that name."""
    if not (NETNS_FOLDER / name).exists():
        return ()
    return tuple(int(pid) for pid in _ip("netns", "pids", name).split())


def ip_program() -> str | None:
    """Path of the program ``ip``, which jobs in a namespace begin with; None when there is none."""
    return shutil.which("ip", path=os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/sbin")))


def _ip(*words: str) -> str:
    tried, subject = "use network namespaces", " ".join(("ip", *words))
    program = ip_program()
    if program is None or os.geteuid() != 0:
        happened = "there is no program 'ip'" if program is None else "it needs root"
        raise Permanent(happened, tried=tried, subject=subject, remedy="Drill with --network shared, or as root with iproute2 installed.")
    try:
        done = subprocess.run([program, *words], capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired as error:
        raise Transient(f"no answer within {_PATIENCE_S:g} s", tried=tried, subject=subject) from error
    if done.returncode:
        raise Permanent(
            done.stderr.strip() or f"exit code {done.returncode}", tried=tried, subject=subject, remedy="See the message of ip."
        )
    return done.stdout
