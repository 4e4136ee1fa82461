"""The supervisor of one job: a tiny process that outlives the controller, waits for the job and records its exit code durably.

Started as ``python -I -S -c ... FOLDER LOCK STATUS PARCEL``; it imports nothing that is not built in, so that it is there in milliseconds.
The order of events makes each gap harmless:

- the lock that the controller holds is inherited, so that it stays taken until the job has been started, or never will be;
- the job's own process writes ``process.json`` before it becomes the job: no job without record, no record without job;
- the job stays a zombie until ``ended.json`` is on disk, so that neither its pid nor its session number can be reused before;
- the space of ``ended.json`` is reserved before the start, so that a full disk cannot lose the exit code.
"""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]  # the public module builds enums, half of the start-up time
import marshal
import os
import sys
import time

from bridgehead.drivers.process import procfs
from bridgehead.host import durable

RECORD_BYTES = 160
FIRST_PAUSE_S = 0.02
LONGEST_PAUSE_S = 1.0
EXEC_FAILED = 127


def main() -> None:
    """Detach, start the job, wait for it."""
    folder = sys.argv[1]
    lock, status, parcel = (int(text) for text in sys.argv[2:5])
    for descriptor in (lock, status):
        os.set_inheritable(descriptor, False)
    with open(parcel, "rb") as file:
        command, env, workdir = marshal.load(file)
    if os.fork():
        os._exit(0)  # the controller waits for this one, and the other belongs to nobody
    # The end of a terminal or of a shell must not take the exit code with it.
    for number in (_signal.SIGHUP, _signal.SIGINT, _signal.SIGTERM):
        _signal.signal(number, _signal.SIG_IGN)
    try:
        durable.reserve(f"{folder}/ended.reserved", RECORD_BYTES)
        supervisor = procfs.read_stat(os.getpid())
        assert supervisor is not None
        child = os.fork()
    except OSError as error:
        _report(status, "record", error)
        os._exit(1)
    if child == 0:
        _become_job(folder, command, env, workdir, status=status, supervisor=supervisor)
    os.close(status)
    os.close(lock)
    _watch(folder, child, env[procfs.TOKEN_VARIABLE.encode()].decode())


def _become_job(
    folder: str, command: list[bytes], env: dict[bytes, bytes], workdir: bytes, *, status: int, supervisor: procfs.Stat
) -> None:
    """In the child: record who we are, then exec. Never returns."""
    stage = "record"
    try:
        os.setsid()
        me = procfs.read_stat(os.getpid())
        assert me is not None
        stage = "workdir"
        os.chdir(workdir or f"{folder}/work")
        stage = "record"
        record = b'{"pid":%d,"start_ticks":%d,"supervisor_pid":%d,"supervisor_start_ticks":%d}' % (
            me.pid,
            me.start_ticks,
            supervisor.pid,
            supervisor.start_ticks,
        )
        durable.write_durably(f"{folder}/process.json", record)
        stage = "exec"
        _default_signals()
        os.execvpe(command[0], command, env)
    except OSError as error:
        if stage == "exec":
            os.unlink(f"{folder}/process.json")
        _report(status, stage, error)
    finally:
        os._exit(EXEC_FAILED)


def _default_signals() -> None:
    """A job begins with the signals as a shell would give them, whatever Python, nohup or a thread of the controller left behind."""
    for number in range(1, _signal.NSIG):
        try:
            _signal.signal(number, _signal.SIG_DFL)
        except (OSError, ValueError):
            continue  # SIGKILL, SIGSTOP and those that the C library keeps for itself
    _signal.pthread_sigmask(_signal.SIG_SETMASK, ())


def _report(status: int, stage: str, error: OSError) -> None:
    try:  # noqa: SIM105  (contextlib would cost each supervisor several milliseconds)
        os.write(status, f"{stage} {error.errno}".encode())
    except OSError:
        pass  # the controller is gone; the missing process.json tells its successor


def _watch(folder: str, child: int, token: str) -> None:
    """Wait for the leader, then for what it left behind; then record the end."""
    info = os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
    if info is None or not os.path.exists(f"{folder}/process.json"):
        return  # it never became the job
    code = info.si_status if info.si_code == os.CLD_EXITED else 128 + info.si_status
    leader = procfs.read_stat(child)
    assert leader is not None
    left_s, pause_s = time.time(), FIRST_PAUSE_S
    while procfs.family(child, leader.start_ticks, token=token, log=f"{folder}/log", supervisor_pid=os.getpid()):
        if pause_s == FIRST_PAUSE_S:
            _record(f"{folder}/leader.json", code, left_s)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        left_s = time.time()
    while True:
        try:
            durable.commit_reserved(f"{folder}/ended.reserved", f"{folder}/ended.json", _ended(code, left_s))
            return
        except FileNotFoundError:
            return  # somebody removed the folder: nobody is left to be told
        except OSError:
            time.sleep(LONGEST_PAUSE_S)  # nobody else knows the exit code


def _record(path: str, code: int, at_s: float) -> None:
    try:  # noqa: SIM105  (as above)
        durable.write_durably(path, _ended(code, at_s))
    except OSError:
        pass  # only a second copy, for the case that this process is killed before the family ends


def _ended(code: int, at_s: float) -> bytes:
    return b'{"exit_code":%d,"ended_s":%.6f}' % (code, at_s)
