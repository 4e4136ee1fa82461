"""A process that keeps a vault open for days, while others forget, collect and repair (V17, V18, V22, V31)."""

from __future__ import annotations

import random

import msgspec
import pytest

from bridgehead.app.vault_copies import Replication
from bridgehead.host.identity import this_driver
from bridgehead.kernel.errors import Conflict, NotFound, PortError
from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.stamp import Stamp
from bridgehead.testing.faulty_blobs import Fault, FaultKind, FaultyBlobs
from bridgehead.testing.memory_blobs import MemoryBlobs
from bridgehead.vault import Damaged, SiteVaults, Vault
from bridgehead.vault.layout import SESSIONS_PREFIX, pack_key
from bridgehead.vault.packs import OpenPack
from bridgehead.vault.records import encode
from bridgehead.vault.sessions import SessionRecord

A, B, TRAIN = SiteId("a"), SiteId("b"), WorkloadId("train")
STAMP = Stamp(run=RunId("run-1"), step=StepId("s"), attempt=1, epoch=Epoch(1))
FROZEN = random.Random(0).randbytes(40_000)


def files(step: int) -> dict[str, bytes]:
    return {"frozen.bin": FROZEN, "head.bin": random.Random(step).randbytes(60_000)}


def save(vault: Vault, step: int) -> str:
    return vault.save(files(step), workload=TRAIN, step=step, epoch=Epoch(0), site=A).id


def two_steps() -> tuple[MemoryBlobs, Vault, list[str]]:
    """A store, a process that has looked at everything in it, and the snapshots."""
    blobs = MemoryBlobs()
    writer = Vault.init(blobs)
    ids = [save(writer, step) for step in (1, 2)]
    long_lived = Vault.open(blobs)
    assert [info.step for info in long_lived.list(TRAIN)] == [2, 1]
    return blobs, long_lived, ids


def forget_and_collect(blobs: MemoryBlobs, snapshot: str) -> None:
    other = Vault.open(blobs)
    other.forget(snapshot)
    other.collect()


def test_blocks_that_a_collection_moved_are_found_where_they_are_now() -> None:
    blobs, long_lived, (first, second) = two_steps()
    sites = SiteVaults({A: long_lived, B: Vault.init(MemoryBlobs())})
    forget_and_collect(blobs, first)  # the frozen part moves into another pack
    assert long_lived.load(second) == files(2)
    assert long_lived.newest(TRAIN).id == second
    assert long_lived.receipt(second, site=A).blocks == 2
    assert sites.replicate(second, source=A, target=B, budget_s=9.0, stamp=STAMP).done


def test_what_another_process_has_forgotten_is_neither_there_nor_copied_nor_receipted() -> None:
    source, target = Vault.init(MemoryBlobs()), MemoryBlobs()
    sites = SiteVaults({A: source, B: Vault.init(target)})
    snapshot = save(source, 1)
    sites.replicate(snapshot, source=A, target=B, budget_s=9.0, stamp=STAMP)
    forget_and_collect(target, snapshot)
    assert sites.find(snapshot, site=B) is None
    with pytest.raises(NotFound):
        sites.receipt(snapshot, site=B, stamp=STAMP)
    assert sites.replicate(snapshot, source=A, target=B, budget_s=9.0, stamp=STAMP).done
    assert Vault.open(target).load(snapshot) == files(1)


def test_a_save_never_rests_on_what_was_collected_even_when_the_marks_were_wiped() -> None:
    """``state/`` may be deleted while nothing runs; a mark that came back under the same name would say nothing."""
    blobs, long_lived, (first, second) = two_steps()
    save(long_lived, 3)
    for snapshot in (first, second):
        forget_and_collect(blobs, snapshot)
    save(long_lived, 4)
    for key in list(blobs.list("state/")):
        blobs.delete(key)
    for info in Vault.open(blobs).list(TRAIN):
        Vault.open(blobs).forget(info.id)
    Vault.open(blobs).collect()
    assert Vault.open(blobs).load(save(long_lived, 5)) == files(5)


def test_the_intact_copy_of_a_block_is_the_one_that_stays() -> None:
    """Bit rot, then the remedy, saving again; the pack with more that is needed is the damaged one."""
    blobs, _, (first, second) = two_steps()
    vault = Vault.open(blobs)
    ref = next(file for file in vault.snapshot(first).files if file.path == "frozen.bin").blocks[0]
    vault.place.objects.index.refresh()
    (place,) = vault.place.objects.index.places(ref.block)
    data = bytearray(blobs.get(pack_key(place.pack)))
    data[place.offset_bytes] ^= 1
    blobs.delete(pack_key(place.pack))
    blobs.put_new(pack_key(place.pack), bytes(data))
    with pytest.raises(Damaged):
        vault.load(first)
    save(vault, 3)
    assert Vault.open(blobs).load(first) == files(1), "healed by saving the same bytes"
    Vault.open(blobs).collect()
    for snapshot, step in ((first, 1), (second, 2)):
        assert Vault.open(blobs).load(snapshot) == files(step)


def test_a_block_that_changes_in_memory_is_noticed_before_its_pack_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    add = OpenPack.add

    def add_badly(self: OpenPack, block: str, size_bytes: int, sealed: tuple[bytes, ...]) -> None:
        whole = b"".join(sealed)
        add(self, block, size_bytes, (bytes([whole[0] ^ 1]), whole[1:]))

    blobs = MemoryBlobs()
    vault = Vault.init(blobs)
    monkeypatch.setattr(OpenPack, "add", add_badly)
    with pytest.raises(Damaged, match="changed in memory"):
        save(vault, 1)
    assert list(blobs.list("data/")) == []


def test_a_host_name_is_no_evidence_that_a_writer_is_dead() -> None:
    """Another machine, or container, with the name of this one: another boot, and alive (V18)."""
    blobs, _, (first, _) = two_steps()
    boot, _, rest = this_driver().started.partition(":")
    elsewhere = msgspec.structs.replace(this_driver(), started=f"{boot[::-1]}:{rest}")
    blobs.put_new(f"{SESSIONS_PREFIX}{'e' * 32}", encode(SessionRecord("e" * 32, elsewhere, "save far away", 1.0)))
    Vault.open(blobs).forget(first)
    with pytest.raises(Conflict, match="save far away"):
        Vault.open(blobs).collect(wait_s=0.0)


def test_a_copy_that_was_forgotten_is_proved_when_it_comes_again() -> None:
    source, store = Vault.init(MemoryBlobs()), MemoryBlobs()
    Vault.init(store)
    snapshot = save(source, 1)

    def copy(store: object) -> object:
        replication = Replication(source, Vault.open(store), site=B)
        return replication.run(replication.plan([TRAIN])[0], say=lambda _: None)

    assert copy(store).receipts == 1
    forget_and_collect(store, snapshot)
    assert list(store.list("receipts/")) == [], "a receipt speaks of a record that is there"
    assert copy(store).receipts == 1


@pytest.mark.parametrize("kind", [FaultKind.IO_ERROR, FaultKind.LOST_ANSWER])
def test_no_failure_of_a_save_leaves_a_session_that_stops_collections(kind: FaultKind) -> None:
    for at in range(1, 16):
        blobs, _, _ = two_steps()
        vault = Vault.open(FaultyBlobs(blobs, [Fault(kind, at + 1)]))
        try:
            save(vault, 3)
        except PortError:
            save(vault, 3)  # the same process goes on, and ends what it could not end before
        assert list(blobs.list(SESSIONS_PREFIX)) == [], at
