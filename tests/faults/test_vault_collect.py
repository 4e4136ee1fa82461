"""Collection frees what nobody needs and nothing else, whatever happens meanwhile (V17, V18, V19, V22; R6)."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Conflict, Permanent, PortError, Transient
from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.blobs import Blobs
from bridgehead.testing.faulty_blobs import Crashed, Fault, FaultKind, FaultyBlobs, Operation
from bridgehead.testing.memory_blobs import MemoryBlobs
from bridgehead.testing.vault_storm import storm
from bridgehead.vault import Damaged, SiteVaults, Vault, gate, sessions
from bridgehead.vault.records import encode

A, B, TRAIN = SiteId("a"), SiteId("b"), WorkloadId("train")
FROZEN = random.Random(0).randbytes(40_000)


def files(step: int) -> dict[str, bytes]:
    """A large part that never changes, and one that is new at every step."""
    return {"frozen.bin": FROZEN, "head.bin": random.Random(step).randbytes(60_000)}


def save(vault: Vault, step: int) -> str:
    return vault.save(files(step), workload=TRAIN, step=step, epoch=Epoch(0), site=A).id


def made(steps: int, *, codec: bool = False) -> tuple[MemoryBlobs, list[str]]:
    blobs = MemoryBlobs()
    vault = Vault.init(blobs, codec=codec)
    return blobs, [save(vault, step) for step in range(steps)]


def check(blobs: Blobs, steps: list[int]) -> None:
    """Just these steps are there, to the last byte."""
    vault = Vault.open(blobs)
    assert vault.verify().damages == ()
    assert sorted(info.step for info in vault.list(TRAIN)) == steps
    for info in vault.list(TRAIN):
        assert vault.load(info.id) == files(info.step)


def test_what_is_forgotten_is_freed_and_all_else_stays() -> None:
    blobs, ids = made(5)
    vault = Vault.open(blobs)
    for snapshot in ids[1:4]:
        vault.forget(snapshot)
    dry = vault.collect(dry_run=True)
    check(blobs, [0, 4])
    done = vault.collect()
    assert (
        (dry.removed_packs, dry.repacked_packs, dry.kept_packs) == (done.removed_packs, done.repacked_packs, done.kept_packs) == (3, 0, 2)
    )
    assert done.freed_bytes > 3 * 60_000
    check(blobs, [0, 4])
    assert Vault.open(blobs).verify().unused_bytes == 0
    assert len(list(blobs.list("index/"))) == 1
    again = vault.collect()
    assert (again.removed_packs, again.freed_bytes) == (0, 0)
    save(vault, 7)
    check(blobs, [0, 4, 7])


def test_needed_blocks_move_out_of_a_pack_that_holds_little_else() -> None:
    """A base model that never changes lies in the first pack, together with a head that nobody needs any more."""
    blobs, ids = made(3)
    vault = Vault.open(blobs)
    vault.forget(ids[0])
    done = vault.collect()
    assert (done.repacked_packs, done.removed_packs) == (1, 0)
    assert 60_000 <= done.freed_bytes < 61_000
    check(blobs, [1, 2])
    assert vault.verify().unused_bytes == 0


def test_a_chain_of_bases_outlives_the_snapshots_that_brought_them() -> None:
    blobs, ids = made(4, codec=True)
    vault = Vault.open(blobs)
    for snapshot in ids[:3]:
        vault.forget(snapshot)
    vault.collect()
    check(blobs, [3])


def test_V18_nothing_is_removed_while_a_record_cannot_be_read() -> None:
    blobs, ids = made(3)
    Vault.open(blobs).forget(ids[0])
    key = next(blobs.list("snapshots/train/"))
    record = blobs.get(key)
    blobs.delete(key)
    blobs.put_new(key, record[:200])
    before = list(blobs.list("data/"))
    with pytest.raises(Damaged, match=key):
        Vault.open(blobs).collect()
    assert list(blobs.list("data/")) == before
    assert list(blobs.list("state/collection/")) == [], "writers may go on"
    save(Vault.open(blobs), 9)


@pytest.mark.parametrize("kind", [FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.IO_ERROR, FaultKind.LOST_ANSWER])
@pytest.mark.parametrize("forgotten", [[0], [1, 2]], ids=["repack", "remove"])
def test_fault_at_every_call_of_a_collection(kind: FaultKind, forgotten: list[int]) -> None:
    kept = [step for step in range(4) if step not in forgotten]
    for at in itertools.count(1):
        blobs, ids = made(4)
        for step in forgotten:
            Vault.open(blobs).forget(ids[step])
        store = FaultyBlobs(blobs, [Fault(kind, at + 1)])  # the first call opens the vault
        vault = Vault.open(store)
        try:
            vault.collect()
            failed = False
        except (Crashed, PortError):
            failed = True
        if store.missed:
            assert not failed
            break
        assert failed, "the fault was swallowed"
        check(blobs, kept)
        Vault.open(blobs).collect()
        check(blobs, kept)
        assert Vault.open(blobs).verify().unused_bytes == 0
        save(Vault.open(blobs), 9)
        check(blobs, [*kept, 9])
    assert at > 15, "the loop must have gone through the calls"


def test_V19_a_full_disk_can_be_collected() -> None:
    """No write succeeds but those that take the place of the reserve: the gate and the note that something is removed."""
    blobs, ids = made(4)
    for snapshot in ids[1:3]:
        Vault.open(blobs).forget(snapshot)
    before = len(list(blobs.list("data/")))
    full = FaultyBlobs(blobs, [Fault(FaultKind.NO_SPACE, at, Operation.PUT) for at in range(3, 9)])
    with pytest.raises(Permanent, match="no space"):
        Vault.open(full).collect()
    assert len(list(blobs.list("data/"))) == before - 2, "the space is there although the rest of the work is not done"
    check(blobs, [0, 3])
    Vault.open(blobs).collect()
    check(blobs, [0, 3])


def test_a_writer_that_does_not_end_is_named_and_nothing_is_removed() -> None:
    blobs, ids = made(2)
    Vault.open(blobs).forget(ids[0])
    store = SlowStore(blobs)
    writer = threading.Thread(target=lambda: save(Vault.open(store), 5))
    writer.start()
    assert store.reached.wait(10)
    with pytest.raises(Conflict, match="save step 5 of train"):
        Vault.open(blobs).collect(wait_s=0.1)
    store.go_on.set()
    writer.join(10)
    Vault.open(blobs).collect()
    check(blobs, [1, 5])


def test_a_new_writer_waits_for_the_collection() -> None:
    blobs, ids = made(2)
    Vault.open(blobs).forget(ids[0])
    store = SlowStore(blobs, prefix="state/collection/done")
    collector = threading.Thread(target=lambda: Vault.open(store).collect())
    collector.start()
    assert store.reached.wait(10)
    writer = threading.Thread(target=lambda: save(Vault.open(blobs), 5))
    writer.start()
    writer.join(0.3)
    assert writer.is_alive()
    store.go_on.set()
    collector.join(10)
    writer.join(10)
    check(blobs, [1, 5])


class SlowStore(FaultyBlobs):
    """Stands still at the first write below a prefix until it may go on."""

    def __init__(self, inner: Blobs, prefix: str = "data/") -> None:
        super().__init__(inner)
        self._prefix = prefix
        self.reached, self.go_on = threading.Event(), threading.Event()

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        if key.startswith(self._prefix):
            self.reached.set()
            assert self.go_on.wait(20)
        return super().put_new(key, data)


WRITER = """
import os, signal, sys
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.vault import Vault

class Sleeper(LocalBlobs):
    def put_new(self, key, data):
        if key.startswith(sys.argv[2]):
            print("stopping", flush=True)
            os.kill(os.getpid(), signal.SIGSTOP)
        return super().put_new(key, data)

vault = Vault.open(Sleeper(LocalBlobsOptions(sys.argv[1])))
vault.newest("train")  # it knows all packs from now on
vault.save({"frozen.bin": open(sys.argv[3], "rb").read(), "new.bin": b"new" * 9000}, workload="train", step=9, epoch=0, site="a")
print("saved", flush=True)
"""


@pytest.mark.parametrize("asleep_at", ["data/", "state/closing/"])
def test_V17_a_writer_that_slept_through_a_collection_is_refused_and_loses_nothing(tmp_path: Path, asleep_at: str) -> None:
    """It rests on a pack that is gone when it wakes up."""
    store = LocalBlobs(LocalBlobsOptions(str(tmp_path / "v")))
    vault = Vault.init(store)
    (tmp_path / "frozen").write_bytes(FROZEN)
    old = save(vault, 1)
    argv = [sys.executable, "-c", WRITER, str(tmp_path / "v"), asleep_at, str(tmp_path / "frozen")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "stopping\n"
        while Path(f"/proc/{writer.pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            time.sleep(0.01)
        vault.save({"other.bin": b"x"}, workload=TRAIN, step=2, epoch=Epoch(0), site=A)
        vault.forget(old)
        with pytest.raises(Conflict, match=f"process {writer.pid} on "):
            vault.collect(wait_s=0.1)
        assert vault.collect(wait_s=0.1, evict=True).removed_packs >= 1
        assert vault.verify().intact
        os.kill(writer.pid, signal.SIGCONT)
        out, err = writer.communicate(timeout=30)
    assert writer.returncode != 0
    assert "saved" not in out
    assert "set aside by a collection" in err
    assert [info.step for info in vault.list(TRAIN)] == [2]
    assert Vault.open(store).verify().intact
    again = vault.save(files(9), workload=TRAIN, step=9, epoch=Epoch(0), site=A)
    assert Vault.open(store).load(again.id) == files(9)


def test_a_killed_writer_is_no_hindrance(tmp_path: Path) -> None:
    store = LocalBlobs(LocalBlobsOptions(str(tmp_path / "v")))
    vault = Vault.init(store)
    (tmp_path / "frozen").write_bytes(FROZEN)
    argv = [sys.executable, "-c", WRITER, str(tmp_path / "v"), "state/closing/", str(tmp_path / "frozen")]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        writer.kill()
    assert vault.collect(wait_s=0.1).removed_packs == 1
    assert list(store.list("state/sessions/")) == []
    assert list(store.list("data/")) == []


def test_V22_repair_makes_the_index_anew_and_saves_what_is_intact() -> None:
    blobs, ids = made(3)
    for key in list(blobs.list("index/")):
        blobs.delete(key)
    assert Vault.open(blobs).newest(TRAIN) is None
    assert not Vault.open(blobs).verify().intact
    repaired = Vault.open(blobs).repair()
    assert (repaired.indexed_packs, repaired.lost_blocks, repaired.removed) == (3, 0, ())
    check(blobs, [0, 1, 2])
    (place,) = Vault.open(blobs).place.objects._places(Vault.open(blobs).snapshot(ids[0]).files[1].blocks[0].block)
    key = next(key for key in blobs.list("data/") if key.endswith(place.pack))
    pack = bytearray(blobs.get(key))
    pack[place.offset_bytes] ^= 4
    blobs.delete(key)
    blobs.put_new(key, bytes(pack))
    repaired = Vault.open(blobs).repair()
    assert (repaired.lost_blocks, repaired.saved_blocks, repaired.removed) == (1, 1, (key,))
    vault = Vault.open(blobs)
    assert [info.step for info in vault.list(TRAIN)] == [2, 1], "the frozen part lay in the damaged pack, and is saved"
    assert vault.load(ids[1]) == files(1)
    save(vault, 0)
    check(blobs, [0, 1, 2])


@pytest.mark.parametrize("seed", range(20))
def test_saves_copies_and_collections_at_once_under_faults_lose_nothing(seed: int) -> None:
    """What save or replicate returned from, and nobody forgot, is there to the last byte."""
    assert storm(seed) == []


def test_the_storm_notices_a_collector_that_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check that cannot fail would prove nothing."""
    monkeypatch.setattr(gate, "_wait_for_writers", lambda *arguments, **options: ())
    assert any(storm(seed) for seed in range(200))


STAMP = Stamp(run=RunId("run-1"), step=StepId("s"), attempt=1, epoch=Epoch(1))


def test_a_collection_at_the_target_between_two_slices_costs_a_second_sending_and_nothing_else() -> None:
    source, target = MemoryBlobs(), MemoryBlobs()
    vault = Vault.init(source, pack_bytes=1)
    Vault.init(target)
    snapshot = save(vault, 1)
    sites = SiteVaults({A: vault, B: Vault.open(target)})
    assert not sites.replicate(snapshot, source=A, target=B, budget_s=0.0, stamp=STAMP).done
    assert Vault.open(target).collect().removed_packs == 1
    while not sites.replicate(snapshot, source=A, target=B, budget_s=0.0, stamp=STAMP).done:
        pass
    check(target, [1])


def test_gate_of_a_dead_collector_opens_by_itself(tmp_path: Path) -> None:
    store = LocalBlobs(LocalBlobsOptions(str(tmp_path / "v")))
    vault = Vault.init(store)
    code = (
        "import os, signal, sys\n"
        "from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions\n"
        "from bridgehead.vault import Vault\n"
        "from bridgehead.vault.gate import alone\n"
        "with alone(Vault.open(LocalBlobs(LocalBlobsOptions(sys.argv[1]))).place.objects, 'test'):\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(tmp_path / "v")], check=False).returncode == -signal.SIGKILL
    assert list(store.list("state/collection/")) != []
    save(vault, 1)
    assert not [key for key in store.list("state/collection/") if "gate" in key]


def test_gate_of_a_living_collector_is_waited_for() -> None:
    blobs, _ = made(1)
    with sessions.session_record("collect") as record:
        blobs.put_new(f"{sessions.GATE}{record.id}", encode(record))
        with (
            pytest.raises(Transient, match="alone with the vault"),
            sessions.open_session(Vault.open(blobs).place.objects, "save", wait_s=0.1),
        ):
            pass


@pytest.mark.parametrize("at", [3, -1, -20])
def test_repair_keeps_a_pack_that_was_damaged_between_its_blocks(at: int) -> None:
    """The new pack has the name of the old one: it must not be removed as the old one."""
    blobs, _ = made(2)
    for key in list(blobs.list("data/")):
        data = bytearray(blobs.get(key))
        data[at] ^= 4
        blobs.delete(key)
        blobs.put_new(key, bytes(data))
    repaired = Vault.open(blobs).repair()
    assert (repaired.lost_blocks, len(repaired.removed)) == (0, 2)
    check(blobs, [0, 1])


def test_a_pack_that_is_gone_is_told_by_repair_too() -> None:
    blobs, _ = made(2)
    blobs.delete(next(blobs.list("data/")))
    assert Vault.open(blobs).repair().lost_blocks >= 1


def test_a_record_that_somebody_deleted_is_damage_and_its_blocks_are_not_collected() -> None:
    blobs, ids = made(2)
    Vault.open(blobs).receipt(ids[1], site=B)
    key = [key for key in blobs.list("snapshots/") if ids[1].split("-")[1] in key]
    blobs.delete(key[0])
    (damage,) = Vault.open(blobs).verify().damages
    assert damage.key == key[0]
    with pytest.raises(Damaged, match=r"receipt of b"):
        Vault.open(blobs).collect()
    assert len(list(blobs.list("data/"))) == 2
