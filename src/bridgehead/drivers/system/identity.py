"""Who a process is: host with boot id, pid, and kernel start time, since pids are reused (J15)."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from bridgehead.ports.journal import DriverIdentity


def this_driver() -> DriverIdentity:
    """The identity of this process."""
    pid = os.getpid()
    started = _started(pid)
    assert started is not None
    return DriverIdentity(host=socket.gethostname(), pid=pid, started=started)


def is_alive(driver: DriverIdentity) -> bool:
    """False only on positive evidence: same host, and no process of that pid and start time.

    A driver on another host cannot be seen from here, so it counts as alive.
    """
    if driver.host != socket.gethostname():
        return True
    return _started(driver.pid) == driver.started


def _started(pid: int) -> str | None:
    """Boot id and start time in clock ticks of a live process, None when there is none (a zombie is dead)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    if fields[0] in "ZX":
        return None
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{fields[19]}"
