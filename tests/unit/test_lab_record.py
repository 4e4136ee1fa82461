"""Of two who change a lab, one is refused and told who the other is."""

from __future__ import annotations

import fcntl
import os
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.testing.lab import record
from bridgehead.testing.lab.record import LabFolder


@pytest.fixture
def held(tmp_path: Path) -> Iterator[int]:
    """The lock's open file, held as by somebody who has just taken it: no number is in it yet."""
    descriptor = os.open(tmp_path / "lab.lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    yield descriptor
    os.close(descriptor)


def refused(folder: Path) -> str:
    with pytest.raises(BridgeheadError) as caught, LabFolder(folder).locked("end the lab"):
        pass
    assert caught.value.code is ErrorCode.LAB_BUSY
    return caught.value.happened


def test_who_is_refused_waits_for_the_number_of_the_other(held: int, tmp_path: Path) -> None:
    writer = threading.Timer(0.1, lambda: os.pwrite(held, str(os.getpid()).encode(), 0))
    writer.start()
    assert refused(tmp_path) == f"process {os.getpid()} is changing this lab"
    writer.join()


@pytest.mark.parametrize("left", [True, False])
def test_the_number_of_one_that_was_killed_is_not_named(held: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, left: bool) -> None:
    monkeypatch.setattr(record, "NAMED_WITHIN_S", 0.05)
    if left:
        with subprocess.Popen(["true"]) as ended:
            ended.wait()
        os.pwrite(held, str(ended.pid).encode(), 0)
    assert refused(tmp_path) == "a process that gives no number is changing this lab"


def test_the_lock_is_taken_when_the_other_gives_it_back_unnamed(held: int, tmp_path: Path) -> None:
    release = threading.Timer(0.05, lambda: fcntl.flock(held, fcntl.LOCK_UN))
    release.start()
    with LabFolder(tmp_path).locked("end the lab"):
        assert (tmp_path / "lab.lock").read_text() == str(os.getpid())
    assert (tmp_path / "lab.lock").read_text() == ""
    release.join()
