"""A disk that is full while a report, an estate or a facts file is written: the old file stays, and the message names the new one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

WRITE = """
import resource, sys
from pathlib import Path
from bridgehead.app.whole_file import whole_file
from bridgehead.kernel.errors import BridgeheadError

resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    with whole_file(Path(sys.argv[1]), what="report") as stream:
        for _ in range(int(sys.argv[2])):
            stream.write(bytes(1000))
except BridgeheadError as error:
    print(error.tried, error.subject, error.happened, sep="|")
"""


@pytest.mark.parametrize("pieces", [5, 1000])
def test_a_full_disk_names_the_file_and_leaves_the_old_one(tmp_path: Path, pieces: int) -> None:
    """Few pieces fail when the stream is closed, many while they are written."""
    path = tmp_path / "report.html"
    path.write_bytes(b"old")
    done = subprocess.run([sys.executable, "-c", WRITE, str(path), str(pieces)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == f"write the report|{path}|File too large"
    assert path.read_bytes() == b"old"
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
