"""Who a process is: boot id, pid namespace, pid and kernel start time: pids are reused (J15), host names change."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from bridgehead.ports.journal import DriverIdentity


def this_driver() -> DriverIdentity:
    """The identity of this process; ``started`` is "boot id:start time in clock ticks:pid namespace". Raises OSError without /proc."""
    pid = os.getpid()
    return DriverIdentity(host=socket.gethostname(), pid=pid, started=f"{_boot_id()}:{_start_ticks(pid)}:{_pid_namespace()}")


def is_alive(driver: DriverIdentity) -> bool:
    """False only on positive evidence.

    On this boot of this machine, in this pid namespace, pid and start time decide, whatever the host name. A driver of this host name from
    another boot is dead: the machine was rebooted. Any other (another machine, another container) cannot be seen from here: alive.
    """
    boot, _, rest = driver.started.partition(":")
    ticks, _, namespace = rest.partition(":")
    if boot != _boot_id():
        return driver.host != socket.gethostname()
    if namespace != _pid_namespace():
        return True
    return _start_ticks(driver.pid) == ticks


def is_surely_dead(driver: DriverIdentity) -> bool:
    """True only when this very machine, since it was started and from this pid namespace, shows that the process is gone."""
    boot, _, rest = driver.started.partition(":")
    ticks, _, namespace = rest.partition(":")
    return boot == _boot_id() and namespace == _pid_namespace() and _start_ticks(driver.pid) != ticks


def _boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _pid_namespace() -> str:
    """Its inode number: of two that exist at once, never the same."""
    return os.readlink("/proc/self/ns/pid").removeprefix("pid:[").removesuffix("]")


def _start_ticks(pid: int) -> str | None:
    """Start time in clock ticks of a live process, None when there is none (a zombie is dead)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in "ZX" else fields[19]
