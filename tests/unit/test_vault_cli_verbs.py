"""``bridgehead vault``: what each verb does, its JSON and its exit code (R4, R6, R8, R10)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bridgehead.app.vaults import open_vault
from bridgehead.cli.main import call
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import Fence

A, B, TRAIN = SiteId("a"), SiteId("b"), WorkloadId("train")


class Shell:
    """Commands carried out in this process, in a folder with a vault ``v``."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self._capsys = folder, capsys
        self.err = ""

    def __call__(self, *words: str | Path, code: int = 0) -> str:
        """Its output. ``code``: the exit code that it must have."""
        found = call(["vault", *map(str, words)])
        out, self.err = self._capsys.readouterr()
        assert found == code, self.err
        return out

    def json(self, *words: str | Path, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code))

    def save(self, content: bytes, *, step: int, epoch: int = 0, code: int = 0) -> Any:
        path = self.folder / f"content-{step}-{epoch}"
        path.mkdir(exist_ok=True)
        (path / "w.bin").write_bytes(content)
        return self.json("save", "v", path, "--workload", "train", "--step", step, "--epoch", epoch, "--site", "a", code=code)

    def fence(self, epoch: int, *, counts: list[str], by: str = "run-1") -> None:
        open_vault("v").fence(Fence(TRAIN, Epoch(epoch), B, tuple(counts), by, 1.0))


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BRIDGEHEAD_EPOCH", raising=False)
    monkeypatch.delenv("BRIDGEHEAD_SITE", raising=False)
    shell = Shell(tmp_path, capsys)
    shell("init", "v")
    return shell


def test_init_twice_is_one_vault(shell: Shell) -> None:
    first = shell.json("init", "v")
    assert first == {"vault": "v", "id": open_vault("v").file.id, "created": False, "encrypted": False, "recipients": []}
    assert shell.json("init", "other")["created"] is True


def test_pack_size_is_chosen_at_init(shell: Shell) -> None:
    shell("init", "small", "--pack-size", "1 MiB")
    assert open_vault("small").file.pack_bytes == 1 << 20
    for wrong in ("0 B", "1 GiB"):
        shell("init", "other", "--pack-size", wrong, code=2)
    shell("init", "other", "--pack-size", "1 MiB", "--like", "v", code=2)


def test_init_does_not_take_a_folder_that_holds_something(shell: Shell) -> None:
    Path("home").mkdir()
    Path("home/notes.txt").write_text("mine")
    shell("init", "home", code=2)
    assert "not empty" in shell.err
    assert os.listdir("home") == ["notes.txt"]
    shell("init", "home/notes.txt", code=2)


def test_init_goes_on_where_a_killed_one_left_off(shell: Shell) -> None:
    for name in ("state", "~scratch"):
        (Path("half") / name).mkdir(parents=True)
    assert shell.json("init", "half")["created"] is True


@pytest.mark.parametrize(("place", "code", "word"), [
    ("s3://Bucket/prefix", 2, "name of a bucket"), ("gs://bucket", 2, "no kind of vault"), ("", 2, "empty"),
    ("https://host:1", 2, "no kind of vault"),
    ("nowhere", 6, "vault init nowhere"), (".", 6, "no vault"), ("http://", 2, "HOST:PORT"), ("http://host:port", 2, "HOST:PORT"),
])  # fmt: skip
def test_what_is_no_vault_is_refused(shell: Shell, place: str, code: int, word: str) -> None:
    assert shell("list", place, code=code) == ""
    assert word in shell.err


def test_save_is_idempotent_and_restore_gives_it_back(shell: Shell) -> None:
    source = Path("ckpt/sub")
    source.mkdir(parents=True)
    (source / "w.bin").write_bytes(os.urandom(5_000_000))
    (source / "run.sh").write_text("#!/bin/sh\n")
    (source / "run.sh").chmod(0o750)
    words = ("save", "v", "ckpt", "--workload", "train", "--step", "7", "--site", "a", "--context", "loss=1.5", "commit=abc")
    first = shell.json(*words)
    again = shell.json(*words)
    assert (first["created"], first["written_bytes"], first["counts"]) == (True, 5_000_010, True)
    assert (again["created"], again["written_bytes"], again["id"]) == (False, 0, first["id"])
    shown = shell.json("show", "v", "train@7")
    assert shown["context"] == {"loss": "1.5", "commit": "abc"}
    assert {(one["path"], one["mode"], one["size_bytes"]) for one in shown["files"]} == {
        ("sub/run.sh", 0o750, 10), ("sub/w.bin", 0o644, 5_000_000)
    }  # fmt: skip
    assert (shown["raw_bytes"], shown["stored_bytes"]) == (5_000_010, 5_000_010)
    for _ in range(2):  # the second time nothing is to do
        assert shell.json("restore", "v", "train@latest", "--to", "out")["bytes"] == 5_000_010
    assert Path("out/sub/w.bin").read_bytes() == (source / "w.bin").read_bytes()
    assert Path("out/sub/run.sh").stat().st_mode & 0o777 == 0o750


def test_several_paths_each_under_its_name(shell: Shell) -> None:
    Path("run/ckpt").mkdir(parents=True)
    Path("run/ckpt/w.bin").write_bytes(b"w")
    Path("run/config.json").write_text("{}")
    shell("save", "v", "run/ckpt", "run/config.json", "--workload", "train", "--step", "1")
    assert [one["path"] for one in shell.json("show", "v", "train")["files"]] == ["ckpt/w.bin", "config.json"]
    shell("save", "v", "run/config.json", "--workload", "single", "--step", "1")
    assert [one["path"] for one in shell.json("show", "v", "single")["files"]] == ["config.json"]
    Path("other").mkdir()
    Path("other/config.json").write_text("[]")
    shell("save", "v", "run/config.json", "other/config.json", "--workload", "train", "--step", "2", code=2)
    assert "two files would be called 'config.json'" in shell.err


def test_step_that_was_saved_with_other_content_keeps_both_and_says_so(shell: Shell) -> None:
    first, second = shell.save(b"one", step=3), shell.save(b"two", step=3)
    assert second["others"] == [first["id"]]
    assert f"saved before with other content, as {first['id']}" in shell.err
    shell("restore", "v", "train@3", "--to", "out", code=2)
    assert "more than once" in shell.err
    assert first["id"] in shell.err
    assert second["id"] in shell.err
    shell("restore", "v", first["id"], "--to", "out")
    assert Path("out/w.bin").read_bytes() == b"one"
    shell("restore", "v", "train", "--to", "newest")
    assert Path("newest/w.bin").read_bytes() == b"two"


def test_J05_J06_what_counts_is_meant_and_evidence_must_be_named(shell: Shell) -> None:
    kept, lost = shell.save(b"kept", step=5), shell.save(b"lost", step=9)
    shell.fence(1, counts=[kept["id"]])
    late = shell.save(b"late", step=6, code=1)  # a dead writer of epoch 0 goes on
    assert late["counts"] is False
    assert "vault-fenced" in shell.err
    again = shell.save(b"again", step=5, epoch=1)
    ahead = shell.save(b"ahead", step=8, epoch=4, code=1)
    assert shell.json("show", "v", "train@5")["id"] == again["id"], "of the epochs that count the newest"
    assert shell.json("show", "v", "train@5.0")["id"] == kept["id"]
    assert shell.json("show", "v", "train@latest")["id"] == again["id"]
    listed = shell.json("list", "v")
    assert [one["id"] for one in listed["snapshots"]] == [again["id"], kept["id"]]
    assert {one["snapshot"]["id"] for one in listed["passed_over"]} == {lost["id"], late["id"], ahead["id"]}
    assert all("epoch" in one["reason"] for one in listed["passed_over"])
    for step in (9, 8):
        shell("restore", "v", f"train@{step}", "--to", "out", code=6)
        assert "does not count" in shell.err
    shell("restore", "v", lost["id"], "--to", "evidence")
    assert "does not count" in shell.err
    assert Path("evidence/w.bin").read_bytes() == b"lost"


def test_J05_epoch_is_never_guessed_once_there_is_a_fence(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("w").write_bytes(b"w")
    words = ("save", "v", "w", "--workload", "train", "--step", "1")
    shell.fence(1, counts=[])
    shell(*words, code=2)
    assert "give --epoch 1" in shell.err
    monkeypatch.setenv("BRIDGEHEAD_EPOCH", "1")
    monkeypatch.setenv("BRIDGEHEAD_SITE", "b")
    assert shell.json(*words)["id"].startswith("train@1.1-")
    assert shell.json("show", "v", "train")["site"] == "b"


def test_names_that_lead_nowhere(shell: Shell) -> None:
    shell("list", "v")
    shell("show", "v", "train", code=6)
    assert "The vault is empty" in shell.err
    shell.save(b"x", step=100)
    for name, code, word in (
        ("trian", 6, "Did you mean 'train'"), ("train@101", 6, "Nearest: 100"), ("train@100.3", 6, "train@100.0-"),
        ("train@", 2, "NAME@STEP"), ("train@x", 2, "NAME@STEP"), ("../x@1", 2, "NAME@STEP"), ("", 2, "NAME@STEP"),
        ("train@100.0-0000000000000000", 6, "train@100.0-"),
    ):  # fmt: skip
        shell("show", "v", name, code=code)
        assert word in shell.err, name
    shell("list", "v", "--workload", "nope", code=6)
    shell("restore", "v", "train", "--to", "out", "--file", "w.bni", code=6)
    assert "Did you mean 'w.bin'" in shell.err
    assert not Path("out").exists()


@pytest.mark.parametrize(("words", "code", "word"), [
    (("save", "v", "--workload", "train", "--step", "1"), 2, "no PATH"),
    (("save", "v", "gone", "--workload", "train", "--step", "1"), 2, "gone"),
    (("save", "v", "w", "--workload", "a/b", "--step", "1"), 2, "a/b"),
    (("save", "v", "w", "--workload", "train", "--step", "-1"), 2, "step must be from 0"),
    (("save", "v", "w", "--workload", "train", "--step", "x"), 2, "step"),
    (("save", "v", "w", "--workload", "train", "--step", "1", "--context", "loss"), 2, "KEY=VALUE"),
    (("save", "v", ".", "--workload", "train", "--step", "1"), 2, "vault itself"),
    (("save", "v", "empty", "--workload", "train", "--step", "1"), 2, "no file to save"),
    (("restore", "v", "train", "--to", "v/out"), 2, "inside the vault"),
    (("restore", "v", "train", "--to", "-"), 2, "one --file"),
    (("replicate", "v", "./v"), 2, "same vault"),
    (("replicate", "v", "nowhere"), 6, "vault init nowhere"),
    (("replicate", "v", "x", "--rate", "100"), 2, "unit"),
    (("replicate", "v", "x", "--rate", "0 bps"), 2, "never ends"),
    (("receipt", "v", "train", "--site", "a b"), 2, "--site"),
])  # fmt: skip
def test_wrong_use_is_told_and_changes_nothing(shell: Shell, words: tuple[str, ...], code: int, word: str) -> None:
    shell.save(b"x", step=1)
    Path("w").write_bytes(b"w")
    Path("empty").mkdir()
    before = sorted(Path("v").rglob("*"))
    shell(*words, code=code)
    assert word in shell.err
    assert sorted(Path("v").rglob("*")) == before


def test_restore_into_a_folder_with_something_in_it_is_refused(shell: Shell) -> None:
    shell.save(b"x", step=1)
    Path("out").mkdir()
    Path("out/mine").write_text("mine")
    for extra in ((), ("--file", "w.bin")):
        shell("restore", "v", "train", "--to", "out", *extra, code=2)
        assert "holds something else" in shell.err
    assert [path.name for path in Path("out").iterdir()] == ["mine"]
    Path("empty").mkdir()
    shell("restore", "v", "train", "--to", "empty")
    assert Path("empty/w.bin").read_bytes() == b"x"


def test_V12_file_that_is_cut_off_is_kept_and_reported(shell: Shell) -> None:
    Path("model.safetensors").write_bytes((100).to_bytes(8, "little") + b'{"w":')
    saved = shell.json("save", "v", "model.safetensors", "--workload", "train", "--step", "1", code=1)
    assert saved["incomplete"] == ["model.safetensors"]
    assert "cut off" in shell.err
    shell("restore", "v", "train", "--to", "out", code=6)
    assert "cut off" in shell.err
    shell("restore", "v", "train@1", "--to", "out")


def test_links_stay_links_and_those_that_lead_out_are_told(shell: Shell) -> None:
    Path("c/d").mkdir(parents=True)
    Path("w").write_bytes(b"w")
    Path("c/out").symlink_to("../w")
    shell("save", "v", "c", "--workload", "train", "--step", "1", code=2)
    assert "there is no file to save" in shell.err
    Path("c/w").write_bytes(b"w")
    Path("c/folder").symlink_to("d")
    Path("c/gone").symlink_to("nowhere")
    said = shell("save", "v", "c", "--workload", "train", "--step", "1")
    assert "1 B in 1 file, 3 links, 1 folder, 1 B new" in said
    assert "warning: out: the link leads out of the folder, to ../w; what is there is not in the snapshot" in shell.err
    assert "folder -> d" in shell("show", "v", "train")
    shell("restore", "v", "train", "--to", "back")
    assert [os.readlink(f"back/{name}") for name in ("out", "folder", "gone")] == ["../w", "d", "nowhere"]
    shell("cat", "v", "train", "gone", code=6)
    assert "it is a link to 'nowhere' and has no content" in shell.err
    shell("save", "v", "c/w", "c/out", "--workload", "named", "--step", "1")
    assert shell("cat", "v", "named", "out") == "w", "a link that is named itself is the file"
    os.mkfifo("c/pipe")
    shell("save", "v", "c", "--workload", "train", "--step", "2", code=2)
    assert "a named pipe" in shell.err


@pytest.mark.parametrize("inside", [True, False])
def test_names_that_are_not_utf8_come_back(shell: Shell, inside: bool) -> None:
    os.mkdir(b"c")
    with open(b"c/w-\xff.bin", "wb") as file:
        file.write(b"w")
    words = [b"c" if inside else b"c/w-\xff.bin", b"--workload", b"train", b"--step", b"1"]
    done = subprocess.run([sys.executable, "-m", "bridgehead.cli.main", "vault", "save", "v", *words], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "w-\\xff.bin" in shell("show", "v", "train")
    assert shell.json("show", "v", "train")["files"][0]["path"] == "w-\0ff.bin"
    for to in ("out", "-"):
        words = [b"--file", b"w-\xff.bin", b"--to", to]
        done = subprocess.run(
            [sys.executable, "-m", "bridgehead.cli.main", "vault", "restore", "v", "train", *words], capture_output=True, check=False
        )
        assert done.returncode == 0, done.stderr
    assert done.stdout == b"w"
    assert os.listdir(b"out") == [b"w-\xff.bin"]


@pytest.mark.parametrize("path", ["c", "c/secret.bin"])
@pytest.mark.parametrize("closed", ["c", "c/secret.bin"])
def test_unreadable_path_is_named(shell: Shell, path: str, closed: str) -> None:
    """As root without the capability that lets root read everything."""
    limited = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"] if os.getuid() == 0 else []
    if limited and shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed: unreadable paths were NOT tested as root")
    Path("c").mkdir()
    Path("c/secret.bin").write_bytes(b"s")
    Path(closed).chmod(0)
    words = [sys.executable, "-m", "bridgehead.cli.main", "vault", "save", "v", path, "--workload", "train", "--step", "1"]
    done = subprocess.run([*limited, *words], capture_output=True, text=True, check=False)
    Path(closed).chmod(0o700)
    assert done.returncode == 2, done.stderr
    assert f"on:   {max(path, closed) if closed != 'c' else path}\n" in done.stderr
    assert "cannot be read (Permission denied)" in done.stderr


def test_replicate_brings_all_that_counts_with_fences_and_receipts(shell: Shell) -> None:
    kept, lost = shell.save(os.urandom(4000), step=5), shell.save(os.urandom(4000), step=9)
    shell.fence(1, counts=[kept["id"]])
    new = shell.save(os.urandom(3000), step=6, epoch=1)
    shell("init", "w")
    copied = shell.json("replicate", "v", "w", "--site", "b")
    assert copied["copied"] == [new["id"], kept["id"]]
    assert copied["receipts"] == 2
    assert 7000 < copied["sent_bytes"] < 7000 + 2 * 2000
    assert (copied["failed"], copied["skipped"]) == ([], [])
    assert shell.json("show", "w", "train")["id"] == new["id"], "with the fence it counts there too"
    assert lost["id"] not in shell("list", "w")
    again = shell.json("replicate", "v", "w", "--site", "b")
    assert (again["copied"], again["present"], again["sent_bytes"], again["receipts"]) == ([], 2, 0, 0)
    (workload,) = shell.json("status", "v")["workloads"]
    (replica,) = workload["receipts"]
    assert (replica["site"], replica["step"], replica["lag_steps"], replica["lag_bytes"]) == ("b", 6, 0, 0)
    assert shell.json("verify", "w", "--read-data")["intact"] is True
    shell.save(os.urandom(5000), step=16, epoch=1)
    (workload,) = shell.json("status", "v")["workloads"]
    (replica,) = workload["receipts"]
    assert (replica["lag_steps"], replica["lag_bytes"]) == (10, 5000)
    assert replica["lag_s"] > 0
    assert workload["fence"]["epoch"] == 1
    assert workload["newest"]["step"] == 16
    assert 0 <= workload["age_s"] < 600


def test_J05_replicate_does_not_undo_a_newer_fence_of_the_target(shell: Shell) -> None:
    old = shell.save(b"old", step=1)
    shell("init", "w")
    shell("replicate", "v", "w")
    open_vault("w").fence(Fence(TRAIN, Epoch(1), B, (old["id"],), "run-1", 1.0))
    stale = shell.save(b"stale", step=2)
    copied = shell.json("replicate", "v", "w")
    assert [one["what"] for one in copied["skipped"]] == [stale["id"]]
    assert copied["present"] == 1
    assert shell.json("show", "w", "train")["id"] == old["id"]


def test_J06_vaults_that_disagree_about_an_epoch_are_not_mixed(shell: Shell) -> None:
    shell.save(b"old", step=1)
    shell("init", "w")
    shell.fence(1, counts=[], by="run-1")
    open_vault("w").fence(Fence(TRAIN, Epoch(1), A, (), "run-2", 1.0))
    copied = shell.json("replicate", "v", "w", code=1)
    assert "run-2" in copied["failed"][0]["reason"]
    assert copied["copied"] == []


def test_receipt_is_given_once(shell: Shell) -> None:
    saved = shell.save(b"x" * 100, step=1)
    first = shell.json("receipt", "v", "train@1", "--site", "here")
    assert (first["snapshot"], first["site"], first["blocks"], first["raw_bytes"]) == (saved["id"], "here", 1, 100)
    assert shell.json("receipt", "v", "train", "--site", "here") == first
    assert "here holds step 1: up to date" in shell("status", "v")


def test_empty_vault_is_no_error(shell: Shell) -> None:
    assert shell.json("list", "v") == {"vault": "v", "snapshots": [], "passed_over": []}
    assert "vault save v PATH" in shell("list", "v")
    assert shell.json("status", "v")["workloads"] == []
    assert shell.json("verify", "v") == {
        "vault": "v", "read_data": False, "intact": True, "packs": 0, "blocks": 0, "snapshots": 0,
        "read_bytes": 0, "unused_bytes": 0, "damages": [],
    }  # fmt: skip


@pytest.mark.parametrize("address", ["s3://AK:hush@bucket", "s3://AK:hu/hush@bucket/p", "s3://b/p?state=s3://AK:hush@c"])
def test_error_does_not_tell_keys_that_stand_in_an_address(shell: Shell, address: str) -> None:
    shell("list", address, code=2)
    assert "hush" not in shell.err


def test_V22_verify_names_a_file_once_however_many_of_its_blocks_are_hurt(shell: Shell) -> None:
    saved = shell.save(os.urandom(12 << 20), step=1)
    for pack in Path("v/data").rglob("*/*"):
        pack.unlink()
    hurts = [hurt for one in shell.json("verify", "v", code=1)["damages"] for hurt in one["hurts"]]
    assert len(hurts) == 1
    assert "blocks, 12582912 bytes, of w.bin in " + saved["id"] in hurts[0]
