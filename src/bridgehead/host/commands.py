"""Commands: one program of this machine, run to its end or to the end of its time."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence


class TimeUp(Exception):
    """The program did not end in time, and was killed with its children. ``stderr`` is what it had said."""

    def __init__(self, timeout_s: float, stderr: bytes) -> None:
        self.stderr = stderr
        super().__init__(f"no end within {timeout_s:g} s")


def run_command(argv: Sequence[str], *, stdin: bytes, env: Mapping[str, str], timeout_s: float) -> tuple[int, bytes, bytes]:
    """Exit code (128 + N after signal N), standard output, standard error. The program leads a session of its own.

    Raises TimeUp, OSError when it cannot be executed, ValueError for words with a zero byte.
    """
    process = subprocess.Popen(
        list(argv),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
        start_new_session=True,
    )
    try:
        output, errors = process.communicate(stdin, timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _end(process)
        # A descendant that left the session may hold the pipes open for ever: what has come by now is all that we say.
        errors = b""
        with contextlib.suppress(subprocess.TimeoutExpired):
            _, errors = process.communicate(timeout=1.0)
        raise TimeUp(timeout_s, errors) from None
    except BaseException:
        _end(process)
        raise
    code = process.returncode
    return (code if code >= 0 else 128 - code), output, errors


def _end(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
