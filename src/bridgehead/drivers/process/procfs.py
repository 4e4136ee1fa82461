"""What the kernel says about processes. Imports ``os`` alone, because the supervisor of each job pays for it.

A pid says nothing, because pids are reused; a pid together with its start time since boot names one process for ever (J12).
"""

from __future__ import annotations

import os

TOKEN_VARIABLE = "BRIDGEHEAD_EXECUTION"
"""Environment variable with a random token by which even a child that left the session is recognised as ours."""


class Stat:
    """The fields of ``/proc/PID/stat`` that tell who a process is."""

    __slots__ = ("group", "pid", "session", "start_ticks", "state", "threads")

    def __init__(self, pid: int, fields: list[bytes]) -> None:
        self.pid = pid
        self.state = fields[0].decode()
        self.group = int(fields[2])
        self.session = int(fields[3])
        self.threads = int(fields[17])
        self.start_ticks = int(fields[19])

    @property
    def alive(self) -> bool:
        """Can still do something: no zombie (a zombie with more threads is a process whose first thread ended before the others)."""
        return self.state not in "ZXx" or self.threads > 1


def boot_id() -> str:
    """Changes with each boot of the machine. Raises OSError where /proc is missing, so that "no /proc" never reads as "no process"."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()


def pid_namespace() -> str:
    """The numbering of pids that this process sees; another container has another one. Raises OSError."""
    return os.readlink("/proc/self/ns/pid")


def read_stat(pid: int) -> Stat | None:
    """The process that has ``pid`` now; None when there is none. Raises OSError when it cannot be seen."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            text = file.read()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name, in brackets, may hold blanks and brackets itself: the fields begin behind the last one.
    return Stat(pid, text[text.rindex(b")") + 2 :].split())


def find(pid: int, start_ticks: int) -> Stat | None:
    """The process with this pid *and* start time, alive or zombie; None when it is gone, whoever has the pid now."""
    stat = read_stat(pid)
    return stat if stat is not None and stat.start_ticks == start_ticks else None


def family(pid: int, start_ticks: int, *, token: str, log: str, supervisor_pid: int) -> list[Stat]:
    """The living processes of an execution besides its leader ``pid``: members of its session, and descendants that left it.

    A process of the session belongs to us while the leader is there, be it as a zombie, because the kernel does not reuse a number that is
    taken. Once the leader is gone the number alone proves nothing: then, and outside of the session, only the inherited token, or output
    that still goes to the job's log, counts as evidence. Raises OSError when processes cannot be listed.
    """
    found = []
    for name in os.listdir("/proc"):
        if not name.isdigit() or int(name) in (pid, supervisor_pid):
            continue
        try:
            stat = read_stat(int(name))
        except PermissionError:
            continue  # another user's process where /proc is mounted with hidepid
        if stat is None or not stat.alive:
            continue
        in_session = stat.session == pid
        if (in_session and (find(pid, start_ticks) is not None or _writes_to(stat.pid, log))) or _carries(stat.pid, token):
            found.append(stat)
    return found


def _carries(pid: int, token: str) -> bool:
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            return f"{TOKEN_VARIABLE}={token}".encode() in file.read().split(b"\0")
    except OSError:
        return False  # gone, or another user's, which ours never becomes unseen by us: no evidence


def _writes_to(pid: int, log: str) -> bool:
    for descriptor in (1, 2):
        try:
            if os.readlink(f"/proc/{pid}/fd/{descriptor}") == log:
                return True
        except OSError:
            continue
    return False
