"""A crash, an error or a full disk at every call of a shard that saves and closes a snapshot (V17, V19; issue 3, part 5)."""

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.ports.blobs import Blobs
from bridgehead.testing.faulty_blobs import Crashed, Fault, FaultKind, FaultyBlobs, Operation
from bridgehead.vault import Vault
from bridgehead.vault.shards import PARTS_PREFIX, PartSaved
from bridgehead.vault.sharing import Shard

A, TRAIN = SiteId("a"), WorkloadId("train")
FILES = {"model.bin": b"new" * 1000, "kept.bin": b"kept" * 1000, "more.bin": b"more" * 1000}


def store(folder: Path) -> LocalBlobs:
    return LocalBlobs(LocalBlobsOptions(str(folder)))


def save(blobs: Blobs, number: int) -> PartSaved:
    return Vault.open(blobs).save_part(FILES, shard=Shard(number, 2), workload=TRAIN, step=2, epoch=Epoch(0), site=A)


@pytest.mark.parametrize("number", [1, 2], ids=["first", "last"])
@pytest.mark.parametrize(
    "kind", [FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.IO_ERROR, FaultKind.LOST_ANSWER, FaultKind.NO_SPACE]
)
def test_fault_at_every_call_of_a_shard(tmp_path: Path, kind: FaultKind, number: int) -> None:
    operation = Operation.PUT if kind is FaultKind.NO_SPACE else None
    for at in itertools.count(1):
        blobs = store(tmp_path / str(at))
        old = Vault.init(blobs).save({"old": b"old"}, workload=TRAIN, step=1, epoch=Epoch(0), site=A).id
        if number == 2:
            save(blobs, 1)
        faulty = FaultyBlobs(blobs, [Fault(kind, at, operation)])
        try:
            save(faulty, number)
            failed = False
        except (Crashed, PortError):
            failed = True
        if faulty.missed:
            assert not failed
            break
        vault = Vault.open(blobs)
        assert vault.verify().damages == ()
        newest = vault.newest(TRAIN)
        assert vault.load(newest.id) in ({"old": b"old"}, FILES)
        assert vault.load(old) == {"old": b"old"}
        for again in (1, 2):  # the whole job does the same again
            closed = save(blobs, again).snapshot
        assert closed is not None
        assert vault.load(closed.id) == FILES
        assert list(blobs.list(PARTS_PREFIX)) == []
        assert len(vault.names(TRAIN)) == 2
    assert at > (3 if operation else 8), "the loop must have gone through the shard's calls"


CHILD = """
import sys
from pathlib import Path
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.training import open_vault
from bridgehead.vault.sharing import Shard
print("go", flush=True)
saved = open_vault(Path(sys.argv[1])).save_part(
    sys.argv[2], shard=Shard(int(sys.argv[3]), 3), workload=WorkloadId("train"), step=1, epoch=Epoch(0), site=SiteId("a")
)
print("done", flush=True)
"""


def test_killed_shards_are_started_again_and_one_snapshot_comes_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "checkpoint"
    folder.mkdir()
    for number in range(9):
        (folder / f"{number}.bin").write_bytes(os.urandom(400_000))
    Vault.init(store(tmp_path / "vault"))

    def start(number: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", CHILD, str(tmp_path / "vault"), str(folder), str(number)]
        return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)

    for delay_s in (0.0, 0.02, 0.05):
        shards = [start(number) for number in (1, 2, 3)]
        for shard in shards:
            assert shard.stdout.readline() == "go\n"
        time.sleep(delay_s)
        for shard in shards:
            shard.send_signal(signal.SIGKILL)
            shard.communicate()
    for shard in [start(number) for number in (1, 2, 3)]:
        shard.communicate(timeout=60)
        assert shard.returncode == 0
    vault = Vault.open(store(tmp_path / "vault"))
    assert len(vault.names(TRAIN)) == 1
    assert vault.load(vault.newest(TRAIN).id) == {file.name: file.read_bytes() for file in folder.iterdir()}
    assert vault.verify().damages == ()
