"""``bridgehead vault`` under damage, kills, a full disk and competition (V12, V16, V19, V22, V24, V31)."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridgehead.app.vaults import open_vault
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.vault import Vault
from bridgehead.vault.objects import WORKERS
from bridgehead.vault.writing import INDEXED_EVERY

PATIENCE_S = 60.0
BLOCK_BYTES = 3000
PROGRAM = [sys.executable, "-m", "bridgehead.cli.main", "vault"]
SAVE = ("save", "v", "ckpt", "--workload", "train", "--step", "1", "--site", "a")


class Commands:
    """``bridgehead vault`` as processes in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, *words: str) -> subprocess.Popen[str]:
        return subprocess.Popen([*PROGRAM, *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def __call__(self, *words: str, code: int = 0) -> str:
        process = self.begin(*words)
        out, err = process.communicate(timeout=PATIENCE_S)
        assert process.returncode == code, err
        return out if "--json" in words else out + err

    def kill_when(self, seen: Callable[[], bool], *words: str) -> bool:
        """Begin a command and kill it as soon as something is seen. False: it ended before."""
        process = self.begin(*words)
        end_s = time.monotonic() + PATIENCE_S
        while not seen() and process.poll() is None:
            assert time.monotonic() < end_s, "was never seen"
            time.sleep(0.0005)
        process.kill()
        process.communicate()
        return process.returncode == -9

    def count(self, pattern: str) -> int:
        return sum(1 for _ in self.folder.glob(pattern))


@pytest.fixture
def commands(tmp_path: Path) -> Commands:
    """With a vault ``v`` and a checkpoint of 400 blocks, each in its own pack: a pack costs two disk syncs: there is time to kill."""
    commands = Commands(tmp_path)
    draw = random.Random(3)
    (tmp_path / "ckpt").mkdir()
    for number in range(400):
        (tmp_path / "ckpt" / f"{number:03d}.bin").write_bytes(draw.randbytes(BLOCK_BYTES))
    Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "v"))), pack_bytes=BLOCK_BYTES)
    return commands


def same(one: Path, other: Path) -> bool:
    names = sorted(path.name for path in one.iterdir())
    return names == sorted(path.name for path in other.iterdir()) and all(
        (one / name).read_bytes() == (other / name).read_bytes() for name in names
    )


def test_V12_save_killed_in_the_middle_leaves_nothing_that_counts_and_goes_on(commands: Commands) -> None:
    killed = 0
    for blocks in (1, 100, 250):
        killed += commands.kill_when(lambda blocks=blocks: commands.count("v/data/*/*") >= blocks, *SAVE)
        if commands.count("v/snapshots/*/*") == 0:
            commands("show", "v", "train", code=6)
    assert killed, "none was killed before its end"
    commands("verify", "v", "--read-data")
    commands(*SAVE)
    commands("restore", "v", "train", "--to", "out")
    assert same(commands.folder / "ckpt", commands.folder / "out")
    unused_bytes = json.loads(commands("verify", "v", "--read-data", "--json"))["unused_bytes"]
    assert unused_bytes <= killed * (INDEXED_EVERY + WORKERS) * BLOCK_BYTES, "what the index knew before the kill is used"


def test_V24_restore_killed_in_the_middle_shows_nothing_and_goes_on(commands: Commands) -> None:
    commands(*SAVE)
    killed = 0
    for files in (1, 200, 400):
        killed += commands.kill_when(
            lambda files=files: commands.count(".out.restoring/files/*") >= files, "restore", "v", "train", "--to", "out"
        )
        if (commands.folder / "out").exists():
            assert same(commands.folder / "ckpt", commands.folder / "out"), "it appears whole"
            break
    assert killed, "none was killed before its end"
    commands("restore", "v", "train", "--to", "out")
    assert same(commands.folder / "ckpt", commands.folder / "out")
    assert not (commands.folder / ".out.restoring").exists()


def test_replicate_killed_in_the_middle_goes_on_without_sending_again(commands: Commands) -> None:
    commands(*SAVE)
    commands("init", "w")
    words = ("replicate", "v", "w", "--json")
    for blocks in (1, 150):
        assert commands.kill_when(lambda blocks=blocks: commands.count("w/data/*/*") >= blocks, *words, "--rate", "4 Mbps")
        assert "no usable snapshot" in commands("list", "w")
    there = {path.name for path in commands.folder.glob("w/data/*/*")}
    assert len(there) >= 150
    copied = json.loads(commands(*words))
    missing = [path for path in commands.folder.glob("v/data/*/*") if path.name not in there]
    kinds = ("snapshots/train/*", "index/*", "signatures/snapshots/train/*")
    records = [path for kind in kinds for path in commands.folder.glob(f"w/{kind}")]
    assert copied["sent_bytes"] == sum(path.stat().st_size for path in (*missing, *records))
    assert copied["receipts"] == 1
    assert json.loads(commands("verify", "w", "--read-data", "--json"))["intact"]
    assert json.loads(commands(*words))["sent_bytes"] == 0


def test_rate_is_kept(commands: Commands) -> None:
    """1.2 MB at 8 Mbit/s take 1.2 s; without a limit a fraction of it."""
    commands(*SAVE)
    commands("init", "w")
    begin_s = time.monotonic()
    commands("replicate", "v", "w", "--rate", "8 Mbps")
    assert time.monotonic() - begin_s > 1.2


@pytest.mark.parametrize("other", ["same", "different"])
def test_two_saves_of_one_step_at_once(commands: Commands, other: str) -> None:
    words = list(SAVE)
    if other == "different":
        (commands.folder / "ckpt2").mkdir()
        (commands.folder / "ckpt2" / "w.bin").write_bytes(b"other")
        words[2] = "ckpt2"
    first, second = commands.begin(*SAVE, "--json"), commands.begin(*words, "--json")
    ids = {json.loads(process.communicate(timeout=PATIENCE_S)[0])["id"] for process in (first, second)}
    assert (first.returncode, second.returncode) == (0, 0)
    listed = json.loads(commands("list", "v", "--json"))["snapshots"]
    assert {one["id"] for one in listed} == ids
    assert len(ids) == (1 if other == "same" else 2)
    assert json.loads(commands("verify", "v", "--read-data", "--json"))["intact"]


def test_two_restores_and_two_replications_at_once(commands: Commands) -> None:
    commands(*SAVE)
    commands("init", "w")
    both = [commands.begin("replicate", "v", "w") for _ in range(2)]
    assert [process.wait(timeout=PATIENCE_S) for process in both] == [0, 0]
    for process in both:
        process.communicate()
    assert json.loads(commands("verify", "w", "--read-data", "--json"))["intact"]
    both = [commands.begin("restore", "v", "train", "--to", "out") for _ in range(2)]
    texts = [process.communicate(timeout=PATIENCE_S) for process in both]
    assert 0 in (both[0].returncode, both[1].returncode)
    for process, (_, err) in zip(both, texts, strict=True):
        assert process.returncode == 0 or "another process is restoring" in err or "meanwhile" in err
    assert same(commands.folder / "ckpt", commands.folder / "out")


CLASSES = ["vault.json", "data/*/*", "index/*", "snapshots/train/*", "receipts/here/*", "fences/train/*"]


@pytest.fixture
def complete(commands: Commands) -> Commands:
    """With an object of each class."""
    commands(*SAVE)
    commands("receipt", "v", "train", "--site", "here")
    vault = open_vault(str(commands.folder / "v"))
    newest = vault.newest(WorkloadId("train"))
    assert newest is not None
    vault.fence(Fence(WorkloadId("train"), Epoch(1), SiteId("b"), (newest.id,), "run-1", 1.0))
    return commands


def flip(path: Path, *, seed: int) -> None:
    data = bytearray(path.read_bytes())
    data[random.Random(seed).randrange(len(data) - 1)] ^= 1 << random.Random(seed).randrange(8)
    path.write_bytes(bytes(data))


def test_V31_flipped_bit_in_every_class_of_object_is_found_and_named(complete: Commands) -> None:
    for seed, pattern in enumerate(CLASSES):
        path = sorted((complete.folder / "v").glob(pattern))[0]
        key = path.relative_to(complete.folder / "v").as_posix()
        intact = path.read_bytes()
        flip(path, seed=seed)
        report = json.loads(complete("verify", "v", "--read-data", "--json", code=1))
        named = [damage["key"] for damage in report["damages"]]
        assert key in named, pattern
        assert named == [key] or pattern == "index/*", "without it, its blocks are in no pack that is known"
        assert (complete("verify", "v", code=0 if pattern == "data/*/*" else 1).count(key) > 0) == (pattern != "data/*/*")
        path.write_bytes(intact)
    complete("verify", "v", "--read-data")


def test_V22_block_that_is_damaged_is_named_with_what_it_hurts(complete: Commands) -> None:
    path = sorted((complete.folder / "v").glob("data/*/*"))[0]
    flip(path, seed=1)
    text = complete("verify", "v", "--read-data", code=1)
    assert path.name in text
    assert ".bin in train@1.0-" in text
    text = complete("restore", "v", "train", "--to", "out", code=1)
    assert ".bin" in text
    assert "--heal" in text
    assert not (complete.folder / "out").exists()
    complete("init", "w")
    copied = json.loads(complete("replicate", "v", "w", "--json", code=1))
    assert "at the source" in copied["failed"][0]["reason"]
    assert ".bin in train@1.0-" in copied["failed"][0]["reason"]


def test_V15_V22_damaged_blocks_are_healed_from_a_replica(complete: Commands) -> None:
    complete("init", "w")
    complete("replicate", "v", "w")
    for path in sorted((complete.folder / "v").glob("data/*/*"))[::100]:
        flip(path, seed=2)
    assert json.loads(complete("replicate", "w", "v", "--site", "here", "--json"))["healed"] == 0, "it has a receipt, so it is not read"
    copied = json.loads(complete("replicate", "w", "v", "--site", "here", "--heal", "--json"))
    size_bytes = path.stat().st_size
    assert (copied["healed"], copied["failed"]) == (1, [])
    assert abs(copied["sent_bytes"] - 4 * size_bytes) < size_bytes, "the damaged packs, and an index"
    complete("verify", "v", "--read-data")
    flip(sorted((complete.folder / "v").glob("data/*/*"))[0], seed=3)
    flip(sorted((complete.folder / "w").glob("data/*/*"))[0], seed=3)
    copied = json.loads(complete("replicate", "w", "v", "--heal", "--json", code=1))
    assert "at the source" in copied["failed"][0]["reason"], "damaged in both: told, and nothing is made worse"


@pytest.mark.parametrize("how", ["missing", "torn"])
def test_V16_V20_block_that_is_missing_or_torn_is_seen_without_reading_data(complete: Commands, how: str) -> None:
    path = sorted((complete.folder / "v").glob("data/*/*"))[0]
    if how == "missing":
        path.unlink()
    else:
        os.truncate(path, 1000)
    text = complete("verify", "v", code=1)
    assert path.name in text
    assert "missing" in text if how == "missing" else "1000 bytes instead of 30" in text
    assert "missing, torn or damaged" in complete("restore", "v", "train", "--to", "out", code=6)
    status = json.loads(complete("status", "v", "--json", code=1))["workloads"][0]
    assert status["newest"] is None
    assert len(status["damage"]) == 1
    complete("save", "v", "ckpt", "--workload", "train", "--step", "2", "--epoch", "1")  # the same bytes again heal it
    complete("verify", "v", "--read-data")


def test_fence_that_cannot_be_read_stops_what_depends_on_it(complete: Commands) -> None:
    flip(next((complete.folder / "v/fences/train").iterdir()), seed=5)
    assert "fences/train/00000001.json" in complete("list", "v", code=1)
    assert "fences/train/00000001.json" in complete("restore", "v", "train", "--to", "out", code=1)
    status = json.loads(complete("status", "v", "--json", code=1))["workloads"][0]
    assert "fences/train/00000001.json" in status["damage"][0]


@pytest.mark.parametrize("how", ["deleted", "flipped"])
def test_V22_site_is_not_up_to_date_with_a_record_that_is_lost_here(complete: Commands, how: str) -> None:
    (complete.folder / "ckpt/w.bin").write_bytes(os.urandom(9000))
    complete("save", "v", "ckpt", "--workload", "train", "--step", "2", "--epoch", "1")
    complete("init", "w")
    complete("replicate", "v", "w", "--site", "b")
    assert "b holds step 2: up to date" in complete("status", "v")
    record = max((complete.folder / "v/snapshots/train").iterdir())
    if how == "deleted":
        record.unlink()
    else:
        flip(record, seed=6)
    text = complete("status", "v", code=1)
    assert "up to date, as far as can be told: 1 newer snapshot damaged or lost here" in text
    assert f"DAMAGE snapshots/train/{record.name}" in " ".join(text.split())
    (workload,) = json.loads(complete("status", "v", "--json", code=1))["workloads"]
    assert {one["site"]: one["unusable_newer"] for one in workload["receipts"]}["b"] == 1


def test_V22_lost_record_of_the_only_snapshot_shows_in_status(complete: Commands) -> None:
    complete("receipt", "v", "train", "--site", "b")
    next((complete.folder / "v/snapshots/train").iterdir()).unlink()
    (complete.folder / "v/fences/train/00000001.json").unlink()
    assert "the record is missing, and there is a receipt of b for it" in complete("status", "v", code=1)


def test_list_of_snapshots_none_of_which_is_usable_is_no_success(complete: Commands) -> None:
    next((complete.folder / "v").glob("data/*/*")).unlink()
    assert json.loads(complete("list", "v", "--json", code=1))["snapshots"] == []


def test_V22_lost_index_sends_to_repair_and_lost_packs_to_another_vault(complete: Commands) -> None:
    complete("init", "w")
    complete("replicate", "v", "w")
    for path in (complete.folder / "w/index").iterdir():
        path.unlink()
    for words in (("list", "w"), ("status", "w"), ("verify", "w"), ("restore", "w", "train@1", "--to", "out")):
        assert "bridgehead vault repair" in complete(*words, code=1)
    assert "bridgehead vault repair" in complete("restore", "w", "train", "--to", "out", code=6)
    complete("repair", "w")
    complete("verify", "w", "--read-data")
    for path in (complete.folder / "w").glob("data/*/*"):
        path.unlink()
    complete("repair", "w", code=1)
    text = complete("verify", "w", code=1)
    assert "replicate OTHER w --heal" in text
    assert "repair w" not in text, "it was told to repair, and cannot be told so again"
    complete("replicate", "v", "w", "--heal")
    complete("verify", "w", "--read-data")


@pytest.mark.parametrize("how", ["deleted", "torn"])
def test_V20_lost_vault_json_is_made_anew(complete: Commands, how: str) -> None:
    path = complete.folder / "v/vault.json"
    if how == "deleted":
        path.unlink()
    else:
        os.truncate(path, 20)
    for words in (("list", "v"), ("init", "v"), (*SAVE,), ("verify", "v")):
        assert "bridgehead vault repair v" in complete(*words, code=1)
    assert "vault.json" in complete("repair", "v")
    complete("verify", "v", "--read-data")
    complete("restore", "v", "train", "--to", "out")
    assert same(complete.folder / "ckpt", complete.folder / "out")


def test_init_in_a_folder_with_data_of_somebody_else_is_no_repair(complete: Commands) -> None:
    (complete.folder / "mine/data/aa").mkdir(parents=True)
    (complete.folder / "mine/data/aa/notes").write_text("x")
    assert "not empty" in complete("init", "mine", code=2)
    assert "there is no vault in it" in complete("list", "mine", code=6)


@pytest.mark.parametrize("what", ["snapshots/train/*", "receipts/b/*", "signatures/snapshots/train/*"])
def test_V22_damaged_record_is_healed_from_the_other_vault(complete: Commands, what: str) -> None:
    complete("save", "v", "ckpt", "--workload", "train", "--step", "2", "--epoch", "1")
    complete("init", "w")
    complete("replicate", "v", "w", "--site", "b")
    path = max((complete.folder / "w").glob(what))
    before = path.read_bytes()
    flip(path, seed=7)
    assert "replicate OTHER w --heal" in complete("verify", "w", code=1)
    if what.startswith("snapshots"):
        copied = json.loads(complete("replicate", "v", "w", "--site", "b", "--json", code=1))
        assert "at the target w" in copied["failed"][0]["reason"]
    copied = json.loads(complete("replicate", "v", "w", "--site", "b", "--heal", "--json"))
    assert copied["healed_records"] == [str(path.relative_to(complete.folder / "w"))]
    assert path.read_bytes() == before
    complete("verify", "w", "--read-data")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1.2 MB inside; needs the right to mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1200k", "none", str(disk)], capture_output=True, text=True, check=False)
    if mounted.returncode != 0:
        pytest.skip(f"may not mount a small file system, full disks were NOT tested: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def test_V19_full_disk_during_save_restore_and_replicate(commands: Commands, small_disk: Path) -> None:
    commands("init", "disk/v")
    commands("save", "disk/v", "ckpt/000.bin", "--workload", "small", "--step", "1")
    words = ("save", "disk/v", *SAVE[2:])
    text = commands(*words, code=7)
    assert "vault-full" in text
    assert "no space left" in text
    commands("verify", "disk/v", "--read-data")
    commands("restore", "disk/v", "small", "--to", "out")
    commands(*SAVE)
    header = json.dumps({"w": {"dtype": "U8", "shape": [3_000_000], "data_offsets": [0, 3_000_000]}}).encode()
    (commands.folder / "big").write_bytes(len(header).to_bytes(8, "little") + header + os.urandom(3_000_000))
    commands("save", "v", "big", "--workload", "large", "--step", "1")
    tensor = ("restore", "v", "large", "--to", "disk/tensor", "--tensor", "w")
    assert "vault-full" in commands(*tensor, code=7)
    assert list((small_disk / "tensor").iterdir()) == []
    for name in ("train", "large"):
        assert "vault-full" in commands("restore", "v", name, "--to", "disk/out", code=7)
        assert not (small_disk / "out").exists()
    assert "vault-full" in commands("replicate", "v", "disk/v", code=7)
    subprocess.run(["mount", "-o", "remount,size=20m", str(small_disk)], check=True)
    commands(*tensor)
    commands(*words)
    commands("replicate", "v", "disk/v")
    commands("restore", "v", "train", "--to", "disk/out")
    assert same(commands.folder / "ckpt", small_disk / "out")
    commands("verify", "disk/v", "--read-data")
