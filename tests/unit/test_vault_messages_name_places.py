"""Errors of ``bridgehead vault`` say which vault, which drive and which path is meant."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.app.vaults import init_vault, open_vault
from bridgehead.cli.main import call
from bridgehead.cli.vault_display import foreseen
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId

NOBODY = 65534
AS_NOBODY = f"""
import os, sys
from bridgehead.cli.main import call
call(["vault", "list", sys.argv[1]])  # so that all modules are there before rights are given up
if os.geteuid() == 0:
    os.seteuid({NOBODY})
sys.exit(call(["vault", "list", sys.argv[1]]))
"""


class Shell:
    """Commands in a folder with a vault ``v`` of one snapshot, and three drives."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        for name in ("d1", "d2", "d3"):
            (folder / name).mkdir()
        init_vault("v")
        self.snapshot = self.save("train", b"weights" * 9000)

    def save(self, workload: str, content: bytes, name: str = "w.bin") -> str:
        return open_vault("v").save({name: content}, workload=WorkloadId(workload), step=1, epoch=Epoch(0), site=SiteId("a")).id

    def __call__(self, *words: str, code: int) -> str:
        """What it says, both streams."""
        found = call(["vault", *words, "--home", "h"] if words[0] == "courier" and words[1] != "want" else ["vault", *words])
        out, err = self._capsys.readouterr()
        assert found == code, err
        return out + err

    def flip(self, where: str) -> Path:
        """Change the last byte of the first file that is found there."""
        path = sorted(path for path in self.folder.glob(where) if path.is_file())[0]
        data = bytearray(path.read_bytes())
        data[-5] ^= 1
        path.write_bytes(data)
        return path


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    return Shell(tmp_path, capsys)


def test_courier_names_the_vault_whose_pack_is_damaged(shell: Shell) -> None:
    pack = shell.flip("v/data/*/*")
    said = shell("courier", "pack", "v", "--to", "d1", "d2", code=1)
    assert f"on:   data/{pack.parent.name}/{pack.name} in v\n" in said


def test_courier_names_the_vault_whose_vault_json_is_damaged(shell: Shell) -> None:
    shell.flip("v/vault.json")
    assert "on:   vault.json in v\n" in shell("courier", "pack", "v", "--to", "d1", "d2", code=1)


def test_courier_names_the_drive_with_a_damaged_label_or_manifest(shell: Shell) -> None:
    shell("courier", "pack", "v", "--to", "d1", "d2", "d3", code=0)
    init_vault("far")
    for drive in ("d1", "d2", "d3"):
        shell.flip(f"{drive}/bridgehead-courier/manifest.json")
    said = shell("courier", "receive", "far", "--from", "d1", "d2", "d3", code=1)
    assert "manifest.json of set " in said
    assert "on drive d1, d2, d3" in said
    shell.flip("d2/bridgehead-courier/set.json")
    assert "on:   set.json on drive d2" in shell("courier", "custody", "d2", code=1)


def test_courier_says_where_the_drive_with_damaged_shares_is(shell: Shell) -> None:
    shell("courier", "pack", "v", "--to", "d1", "d2", "d3", code=0)
    init_vault("far")
    shell.flip("d2/bridgehead-courier/shares/*")
    assert "drive 2 (d2): 1 share missing or damaged" in shell("courier", "receive", "far", "--from", "d3", "d2", "d1", code=0)


def test_V12_show_of_an_incomplete_snapshot_says_what_is_missing_and_what_to_do(shell: Shell) -> None:
    snapshot = shell.save("cut", b"", "model.safetensors")
    said = shell("show", "v", snapshot, code=0)
    assert "NOT usable: 1 file missing or cut off (below)" in said
    assert "model.safetensors: it is cut off" in said
    assert "save step 1 of cut again once those files are whole" in said


def test_V22_show_of_a_snapshot_with_missing_blocks_says_how_many_and_what_to_do(shell: Shell) -> None:
    next(iter(shell.folder.glob("v/data/*/*"))).unlink()
    said = shell("show", "v", shell.snapshot, code=0)
    assert "NOT usable: 1 block is missing, torn or damaged" in said
    assert "`bridgehead vault replicate OTHER VAULT --heal`" in said


def test_predictions_are_no_better_than_to_the_second() -> None:
    assert [foreseen(seconds) for seconds in (1.8e-6, 0.4, 1.0, 90.4)] == ["under 1 s", "under 1 s", "1 s", "1 min 30 s"]


@pytest.mark.parametrize(
    "words", ["list", "status", "verify", "collect", "repair", "retain", "courier pack", "courier want", "courier receive"]
)
def test_J01_place_that_is_not_there_is_told_the_same_by_all(shell: Shell, words: str) -> None:
    more = {"courier pack": ["--to", "d1", "d2"], "courier want": ["--to", "f"], "courier receive": ["--from", "d1", "d2"]}.get(words, [])
    if words == "courier receive":
        shell("courier", "pack", "v", "--to", "d1", "d2", code=0)
    said = shell(*words.split(), "nowhere", *more, code=6)
    assert "[vault-not-found]" in said
    assert "on:   nowhere\n  what: there is no such directory" in said


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that everybody may enter, other than those of tests."""
    folder = Path(tempfile.mkdtemp(prefix="bridgehead-rights-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def test_denied_rights_name_vault_path_and_user(open_folder: Path) -> None:
    place = open_folder / "v"
    vault, _ = init_vault(str(place))
    vault.save({"w.bin": b"x" * 1000}, workload=WorkloadId("train"), step=1, epoch=Epoch(0), site=SiteId("a"))
    place.joinpath("snapshots").chmod(0o000)
    try:
        done = subprocess.run([sys.executable, "-c", AS_NOBODY, str(place)], cwd="/", capture_output=True, text=True, check=False)
    finally:
        place.joinpath("snapshots").chmod(0o755)
    assert done.returncode == 7, done.stderr
    assert f"on:   snapshots/ in {place}\n" in done.stderr
    assert "EACCES" in done.stderr
    assert f"Give user {NOBODY if os.geteuid() == 0 else os.geteuid()} the rights there" in done.stderr
