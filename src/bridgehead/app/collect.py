"""Collect: the script that runs the tools of a host, and running it here (M5.1)."""

from __future__ import annotations

import subprocess
from importlib.resources import as_file, files
from pathlib import Path

from bridgehead.kernel.errors import BridgeheadError, ErrorCode


def collector_script() -> str:
    """The script, for ``sh`` on any host."""
    return (files("bridgehead.discovery") / "collector.sh").read_text(encoding="utf-8")


def collect(folder: Path, *, timeout_s: int) -> None:
    """Run the script on this host; the output of its tools lies in ``folder``/HOST then. Progress goes to stderr.

    Args:
        timeout_s: the longest that one tool may take.

    Raises PORT_PERMANENT when the script cannot run or cannot write.
    """
    with as_file(files("bridgehead.discovery") / "collector.sh") as script:
        try:
            done = subprocess.run(["sh", str(script), "-o", str(folder), "-t", str(timeout_s)], stdin=subprocess.DEVNULL, check=False)
        except OSError as error:
            raise _failed(folder, f"sh cannot be started: {error.strerror}") from error
    if done.returncode != 0:
        raise _failed(folder, f"the script ended with {done.returncode}; what it said stands above")


def _failed(folder: Path, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.PORT_PERMANENT,
        tried="run the tools of this host",
        subject=str(folder),
        happened=happened,
        remedy="Check that the folder can be written; `bridgehead collect --script` shows what is run.",
    )
