"""Signals that can only reach our own processes: each target is pinned, then checked, then signalled (J12)."""

from __future__ import annotations

import errno
import os
import signal
import time
from contextlib import suppress

from bridgehead.drivers.process import procfs
from bridgehead.drivers.process.execution import Execution

WHOLE_GROUP = 4
"""PIDFD_SIGNAL_PROCESS_GROUP of Linux 6.9 and later."""
_NOT_OFFERED = (errno.ENOSYS, errno.EINVAL, errno.EPERM)
"""What an older kernel, or a container that knows only older system calls, answers to a pidfd or to the flag above."""
KILL_ROUNDS = 100
KILL_PAUSE_S = 0.01


def ask_to_end(execution: Execution) -> None:
    """SIGTERM to the job's process group (and to what is left of the family when the leader is gone), and wake who is stopped.

    Raises OSError when processes cannot be seen or may not be signalled.
    """
    for number in (signal.SIGTERM, signal.SIGCONT):
        leader = execution.leader()
        if leader is not None and leader.alive:
            _signal_group(execution, number)
        else:
            _signal_each(execution.family(), number)


def kill_all(execution: Execution) -> None:
    """SIGKILL to the group and to every child, until none lives; gives up after about a second (a process may hang in the kernel).

    Raises OSError when processes cannot be seen or may not be signalled.
    """
    for _ in range(KILL_ROUNDS):
        leader = execution.leader()
        family = execution.family()
        if leader is not None and leader.alive:
            _signal_group(execution, signal.SIGKILL)
        elif not family:
            return
        _signal_each(family, signal.SIGKILL)
        time.sleep(KILL_PAUSE_S)


def _signal_group(execution: Execution, number: signal.Signals) -> None:
    leader = execution.leader()
    if leader is None:
        return
    try:
        # The group belongs to the pinned process and not to its number, so that at no moment it could be somebody else's.
        signal_one(leader, number, flags=WHOLE_GROUP)
    except OSError as error:
        if error.errno not in _NOT_OFFERED:
            raise
        _signal_each([leader, *(one for one in execution.family() if one.group == leader.pid)], number)


def _signal_each(targets: list[procfs.Stat], number: signal.Signals) -> None:
    """Signal all, also when one refuses; then raise its OSError."""
    refused: OSError | None = None
    for target in targets:
        try:
            signal_one(target, number, flags=0)
        except OSError as error:
            refused = error
    if refused is not None:
        raise refused


def signal_one(target: procfs.Stat, number: signal.Signals, *, flags: int) -> None:
    """Pin the process, check that it is still the same one, signal it. From the pinning on, a reuse of its pid does not matter.

    No effect when it is gone. With ``flags`` WHOLE_GROUP the signal goes to its process group. Raises OSError when it may not be signalled.
    """
    with suppress(ProcessLookupError):
        try:
            pinned = os.pidfd_open(target.pid)
        except OSError as error:
            if flags or error.errno not in _NOT_OFFERED:
                raise
            if procfs.find(target.pid, target.start_ticks) is not None:
                os.kill(target.pid, number)
            return
        try:
            if procfs.find(target.pid, target.start_ticks) is not None:
                signal.pidfd_send_signal(pinned, number, None, flags)
        finally:
            os.close(pinned)
