"""Verbs of the lab refuse what cannot be, before anything is done, and say what to do instead. No lab is needed to see it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from bridgehead.app.lab.work import CLIENTS, COPIES, start_work, stop_clients
from bridgehead.drivers.process.procfs import read_stat
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.testing.lab.lab import Lab
from bridgehead.testing.lab.record import HUB, SITE_B, LabFolder, Started, new_record


def lab_with(folder: Path, *programs: Started) -> Lab:
    """A lab that is there as far as its record tells."""
    folder.mkdir()
    LabFolder(folder).write(msgspec.structs.replace(new_record(now_s=0.0, net="198.18.250"), programs=programs))
    return Lab(folder)


def program(name: str, place: str, *, alive: bool) -> Started:
    """This very process, or one of the same pid that is gone."""
    me = read_stat(os.getpid())
    assert me is not None
    return Started(name, place, me.pid, me.start_ticks + (0 if alive else 1))


def test_a_second_work_is_refused_and_says_how_the_first_ends(tmp_path: Path) -> None:
    lab = lab_with(tmp_path / "lab", program(CLIENTS, HUB, alive=True))
    before = lab.record
    with pytest.raises(BridgeheadError, match="it has work already") as told:
        start_work(lab)
    assert told.value.exit_code == 2
    assert f"`bridgehead lab rest --dir {tmp_path / 'lab'}`" in told.value.remedy
    assert lab.record == before


def test_a_program_that_died_does_not_count(tmp_path: Path) -> None:
    lab = lab_with(tmp_path / "lab", program(CLIENTS, HUB, alive=False), program(COPIES, SITE_B, alive=True))
    assert (lab.runs(CLIENTS), lab.runs(COPIES)) == (False, True)


def test_rest_without_clients_says_so(tmp_path: Path) -> None:
    lab = lab_with(tmp_path / "lab", program(COPIES, SITE_B, alive=True))
    with pytest.raises(BridgeheadError, match="no clients run") as told:
        stop_clients(lab)
    assert told.value.exit_code == 2
    assert "bridgehead lab work" in told.value.remedy


def test_rest_of_clients_that_died_names_their_log(tmp_path: Path) -> None:
    lab = lab_with(tmp_path / "lab", program(CLIENTS, HUB, alive=False))
    with pytest.raises(BridgeheadError, match="had died") as told:
        stop_clients(lab)
    assert "clients-hub.log" in told.value.remedy


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """A lab's folder into which this process may not look, even where tests run as root."""
    outside = Path(tempfile.mkdtemp(prefix="bh-rights-", dir="/tmp"))
    outside.chmod(0o755)
    lab_with(outside / "lab").folder.root.chmod(0)
    root = os.geteuid() == 0
    try:
        if root:
            os.seteuid(65534)
        yield outside / "lab"
    finally:
        if root:
            os.seteuid(0)
        (outside / "lab").chmod(0o700)
        shutil.rmtree(outside)


@pytest.mark.parametrize("verb", [Lab.down, lambda lab: lab.record])
def test_without_root_a_lab_says_that_it_needs_root(forbidden: Path, verb) -> None:
    with pytest.raises(BridgeheadError, match="need root") as told:
        verb(Lab(forbidden))
    assert told.value.code is ErrorCode.BAD_USAGE
