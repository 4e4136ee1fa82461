"""Starting a job's supervisor, and learning from it whether the job began."""

from __future__ import annotations

import marshal
import os
import select
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import bridgehead
from bridgehead.kernel.errors import Transient, Unknown
from bridgehead.ports.scheduler import JobSpec

START_WAIT_S = 5.0
_TRIED = "start a job"
_BOOT = "import sys; sys.path.append(sys.argv.pop(1)); from bridgehead.drivers.process import supervisor; supervisor.main()"
_ROOT = str(Path(bridgehead.__file__).parents[1])


class Refusal(Exception):
    """The job did not begin. ``stage``: "workdir", "record" (its state could not be written) or "exec"."""

    def __init__(self, stage: str, error: OSError) -> None:
        self.stage = stage
        self.error = error
        super().__init__(f"{stage}: {error}")


def launch(folder: str, spec: JobSpec, *, env: Mapping[str, str], lock: int, checkpoint: Callable[[str], None]) -> None:
    """Start ``spec`` with exactly ``env`` under a supervisor that keeps its records in ``folder``, and wait until it is executed.

    Args:
        lock: descriptor that holds the job's lock; the supervisor inherits it until the job is executed.
        checkpoint: called between the steps; tests end the process there.

    Raises:
        Refusal: it did not begin, for the reason given.
        Transient: the supervisor itself could not be started or died before the job began.
        Unknown: the supervisor did not answer in time.
    """
    answer, status = os.pipe()
    try:
        parcel = _parcel(spec, env)
        try:
            supervisor = _spawn(folder, lock=lock, status=status, parcel=parcel)
        finally:
            os.close(parcel)
            os.close(status)
        checkpoint("spawned")
        text = _read_answer(answer, subject=folder)
    finally:
        os.close(answer)
    supervisor.wait()  # it has detached: what waits here is the first of two forks, and it is over
    if text:
        stage, number = text.split()
        raise Refusal(stage, OSError(int(number), os.strerror(int(number))))
    if not os.path.exists(f"{folder}/process.json"):
        raise Transient("the supervisor died before the job began", tried=_TRIED, subject=folder, remedy=f"Read {folder}/log")


def _parcel(spec: JobSpec, env: Mapping[str, str]) -> int:
    """Command and environment in memory that the supervisor inherits: secrets in the environment never reach a disk or a process list."""
    descriptor = os.memfd_create("bridgehead-job")
    with open(descriptor, "wb", closefd=False) as file:
        command = [os.fsencode(text) for text in spec.command]
        environment = {os.fsencode(name): os.fsencode(value) for name, value in env.items()}
        marshal.dump((command, environment, os.fsencode(spec.workdir)), file)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


def _spawn(folder: str, *, lock: int, status: int, parcel: int) -> subprocess.Popen[bytes]:
    # The supervisor gets no environment of the job, which could change how Python or the loader behave.
    env = {name: value for name, value in os.environ.items() if name == "LD_LIBRARY_PATH"}
    log = os.open(f"{folder}/log", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", _BOOT, _ROOT, folder, str(lock), str(status), str(parcel)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=env,
            pass_fds=(lock, status, parcel),
            start_new_session=True,
        )
    finally:
        os.close(log)


def _read_answer(answer: int, *, subject: str) -> str:
    """What the supervisor says until it closes the pipe: nothing when the job is executed, else the stage and the error number."""
    text = b""
    poll = select.poll()
    poll.register(answer, select.POLLIN)
    while poll.poll(START_WAIT_S * 1000):
        piece = os.read(answer, 100)
        if not piece:
            return text.decode()
        text += piece
    raise Unknown("the supervisor did not answer in time", tried=_TRIED, subject=subject, remedy="Observe the job")
