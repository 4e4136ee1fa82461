"""Vaults that encode: chains of a training run, their bounds, their copies, and damage anywhere in them (V22, V30, V31, R6)."""

import mmap
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import msgspec
import numpy as np
import pytest
from safetensors.numpy import save as to_safetensors

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.stamp import Stamp
from bridgehead.testing.faulty_blobs import FaultyBlobs
from bridgehead.testing.vault_damage import flip_in_block, pack_file
from bridgehead.vault import Damaged, SiteVaults, Vault, encoding
from bridgehead.vault.encoding import MAX_GENERATION
from bridgehead.vault.layout import snapshot_name
from bridgehead.vault.objects import PACK_BYTES
from bridgehead.vault.records import encode
from bridgehead.vault.snapshots import blocks_of, decode_snapshot

A, B, TRAIN = SiteId("a"), SiteId("b"), WorkloadId("train")
STAMP = Stamp(run=RunId("run-1"), step=StepId("s"), attempt=1, epoch=Epoch(1))
F, COUNT = np.float32, 40_000


class Run:
    """AdamW on noise: two tensors, one too small to have a block of its own; the state as one safetensors file."""

    def __init__(self) -> None:
        self.random = np.random.default_rng(3)
        self.w = {"wide": (self.random.standard_normal(COUNT) * 0.02).astype(F), "small": np.ones(300, F)}
        self.m = {name: np.zeros_like(value) for name, value in self.w.items()}
        self.v = {name: np.zeros_like(value) for name, value in self.w.items()}

    def step(self) -> None:
        for name, w in self.w.items():
            g = (self.random.standard_normal(len(w)) * 1e-3).astype(F)
            self.m[name] += F(0.1) * (g - self.m[name])
            self.v[name] = self.v[name] * F(0.999) + F(0.001) * g * g
            self.w[name] = w * F(0.9999) - F(1e-3) * (self.m[name] / (np.sqrt(self.v[name]) + F(1e-8)))

    def files(self) -> dict[str, bytes]:
        parts = {"master": self.w, "exp_avg": self.m, "exp_avg_sq": self.v}
        arrays = {f"{part}.{name}": value for part, values in parts.items() for name, value in values.items()}
        arrays["model.wide"] = self.w["wide"].astype(np.float16)
        return {"state.safetensors": to_safetensors(arrays), "log.txt": b"step\n" * 50}


def make(folder, *, codec=True, pack_bytes=PACK_BYTES) -> Vault:
    return Vault.init(LocalBlobs(LocalBlobsOptions(str(folder))), codec=codec, pack_bytes=pack_bytes)


def reopened(folder) -> Vault:
    return Vault.open(LocalBlobs(LocalBlobsOptions(str(folder))))


def play(vault: Vault, steps: int):
    run, saved = Run(), []
    for step in range(steps):
        files = run.files()
        saved.append((vault.save(files, workload=TRAIN, step=step, epoch=Epoch(0), site=A), files))
        run.step()
    return saved


def test_chains_are_short_to_store_bounded_and_read_back_by_another_process(tmp_path) -> None:
    saved = play(make(tmp_path / "a"), MAX_GENERATION + 4)
    generations = [max(ref.generation for file in result.snapshot.files for ref in file.blocks) for result, _ in saved]
    assert max(generations) == MAX_GENERATION
    assert generations[0] == 0
    for number, (result, files) in enumerate(saved):
        other = reopened(tmp_path / "a")
        assert other.load(result.id) == files
        other.restore(result.id, to=tmp_path / f"out-{number}")
        assert {path: (tmp_path / f"out-{number}" / path).read_bytes() for path in files} == files
    one_apart = saved[3][0]
    assert one_apart.raw_bytes == sum(map(len, saved[3][1].values()))
    assert one_apart.stored_bytes < 0.36 * one_apart.raw_bytes
    assert reopened(tmp_path / "a").verify().intact


def test_process_that_goes_on_encodes_against_what_it_finds(tmp_path) -> None:
    make(tmp_path / "a")
    run = Run()
    for step in range(4):
        files = run.files()
        result = reopened(tmp_path / "a").save(files, workload=TRAIN, step=step, epoch=Epoch(0), site=A)
        assert reopened(tmp_path / "a").load(result.id) == files
        run.step()
    assert result.stored_bytes < 0.4 * result.raw_bytes
    again = reopened(tmp_path / "a").save(files, workload=TRAIN, step=9, epoch=Epoch(0), site=A)
    assert again.written_blocks == 0, "equal blocks keep the form that they have"
    assert reopened(tmp_path / "a").load(again.id) == files


def test_first_step_with_equal_moments_and_tied_tensors(tmp_path) -> None:
    vault = make(tmp_path / "a")
    zeros, values = np.zeros(COUNT, F), np.random.default_rng(1).standard_normal(COUNT).astype(F)
    arrays = {"m.x": zeros, "v.x": zeros, "w.x": values, "w.tied": values, "m.tied": values, "v.tied": np.abs(values)}
    for step in (1, 2):
        result = vault.save({"s.safetensors": to_safetensors(arrays)}, workload=TRAIN, step=step, epoch=Epoch(0), site=A)
        assert reopened(tmp_path / "a").load(result.id) == {"s.safetensors": to_safetensors(arrays)}


def test_a_tensor_whose_rows_differ_is_searched_again_on_the_way(tmp_path, monkeypatch) -> None:
    """Rows of an embedding that a batch did not use keep decaying: what is best for the first block is not the best for the others (R6)."""
    rows = 4096
    monkeypatch.setattr(encoding, "ALIGNED_ELEMENTS", rows)
    random = np.random.default_rng(5)
    before, used = random.standard_normal(32 * rows).astype(F), 6 * rows
    after = before * F(0.9)
    after[:used] = random.standard_normal(used).astype(F)
    vault = make(tmp_path / "a")
    for step, values in enumerate((before, after)):
        result = vault.save({"s.safetensors": to_safetensors({"exp_avg.emb": values})}, workload=TRAIN, step=step, epoch=Epoch(0), site=A)
    assert result.stored_bytes < 0.3 * result.raw_bytes, "of 32 blocks only those before the second search, the eighth, are stored whole"
    assert reopened(tmp_path / "a").load(result.id) == {"s.safetensors": to_safetensors({"exp_avg.emb": after})}


@pytest.mark.parametrize("ranks", [1, 40])
@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("at", [0, 2, 12])
def test_blocks_that_nothing_predicts_leave_the_others_small_in_whatever_order_they_come(tmp_path, monkeypatch, ranks, dtype, at) -> None:
    """Forty blocks, of which a few are new and the others differ in few elements: of one tensor, or of one in each rank."""
    count, size, new = 40, 1 << 14, range(at, at + 6)
    monkeypatch.setattr(encoding, "ALIGNED_ELEMENTS", size)
    random = np.random.default_rng(at)

    def files(values):
        parts = np.split(values, ranks)
        return {f"rank-{number}/m.safetensors": to_safetensors({"w": part}) for number, part in enumerate(parts)}

    def fresh(elements):
        return (random.standard_normal(elements) * 1e8).astype(dtype)

    first = fresh(count * size)
    second = first.copy()
    second[::200] += dtype(1000)
    for block in new:
        second[block * size : (block + 1) * size] = fresh(size)
    written = []
    for order in range(4):
        vault = make(tmp_path / f"v{order}")
        shuffled = np.random.default_rng(order).permutation

        def one_by_one(work, items, *, workers, shuffled=shuffled):
            return [work(item) for item in shuffled(np.array(items, dtype=object))]

        vault.save(files(first), workload=TRAIN, step=1, epoch=Epoch(0), site=A)
        with monkeypatch.context() as patched:
            if order:
                patched.setattr(encoding, "parallel", one_by_one)
            written.append(vault.save(files(second), workload=TRAIN, step=2, epoch=Epoch(0), site=A).written_bytes)
    block_bytes = size * second.itemsize
    least = len(new) * block_bytes * 0.8 + (count - len(new)) * block_bytes * 0.02
    assert max(written) < least + 8 * block_bytes, f"{written} of {count * block_bytes}: a few that are new cost no more than that again"


def test_a_store_that_fails_while_another_thread_waits_for_the_same_block_ends_the_save(tmp_path) -> None:
    """Equal blocks are stored once: who waits for the other one hears that it failed."""
    random = np.random.default_rng(7)

    def files(*values: np.ndarray) -> dict[str, bytes]:
        return {f"{n}.safetensors": to_safetensors({f"w.{n}": value}) for n, value in enumerate(values)}

    one, two, new = (random.standard_normal(1 << 19).astype(F) for _ in range(3))
    make(tmp_path / "a").save(files(one, two), workload=TRAIN, step=0, epoch=Epoch(0), site=A)

    class Failing(FaultyBlobs):
        def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
            if key.startswith("data/"):
                time.sleep(0.3)  # the other thread has read its block, and waits
                raise Transient("gone (planned)", tried="read a value", subject=key)
            return super().get_range(key, offset_bytes, size_bytes)

    vault = Vault.open(Failing(LocalBlobs(LocalBlobsOptions(str(tmp_path / "a")))))
    with ThreadPoolExecutor(1) as pool:
        saving = pool.submit(vault.save, files(new, new), workload=TRAIN, step=1, epoch=Epoch(0), site=A)
        with pytest.raises(Transient):
            saving.result(timeout=30)


@pytest.mark.parametrize("room", [bytearray, partial(mmap.mmap, -1)])
def test_memory_that_the_trainer_writes_to_after_a_save_is_no_base(tmp_path, room) -> None:
    """What is kept for the next save is the vault's own (V11): the trainer's buffers change in place."""
    vault, run, saved = make(tmp_path / "a"), Run(), []
    state = run.files()["state.safetensors"]
    buffer = room(len(state))
    for step in range(3):
        buffer[:] = state
        saved.append((vault.save({"s.safetensors": buffer}, workload=TRAIN, step=step, epoch=Epoch(0), site=A).id, state))
        run.step()
        state = run.files()["state.safetensors"]
    assert [reopened(tmp_path / "a").load(found)["s.safetensors"] for found, _ in saved] == [data for _, data in saved]


def test_replica_gets_bases_and_nothing_else_and_the_wire_carries_what_is_stored(tmp_path) -> None:
    source, target = make(tmp_path / "a", pack_bytes=1), make(tmp_path / "b")
    saved = play(source, 4)
    sites = SiteVaults({A: source, B: target})
    last, files = saved[-1]
    assert last.snapshot.pinned
    assert sites.replicate(last.id, source=A, target=B, budget_s=9.0, stamp=STAMP).done
    objects = {ref.block: ref.size_bytes for ref in blocks_of(last.snapshot)}
    target.place.objects.index.refresh()
    found = {entry.block: entry.size_bytes for pack in target.place.objects.index.packs() for entry in pack.entries}
    assert found == objects, "with a pack for each block"
    folders = ("data", "index", "snapshots")
    assert sites.wire_bytes == sum(p.stat().st_size for name in folders for p in (tmp_path / "b" / name).rglob("*") if p.is_file())
    receipt = sites.receipt(last.id, site=B, stamp=STAMP)
    assert receipt.blocks == len(objects)
    assert reopened(tmp_path / "b").load(last.id) == files


def test_target_without_encoding_refuses_encoded_blocks(tmp_path) -> None:
    source, target = make(tmp_path / "a"), make(tmp_path / "b", codec=False)
    (saved, _), *_ = play(source, 1)
    with pytest.raises(Permanent, match="codec-1"):
        SiteVaults({A: source, B: target}).replicate(saved.id, source=A, target=B, budget_s=9.0, stamp=STAMP)


def test_V31_damage_in_a_base_is_found_everywhere_and_healed_by_a_copy(tmp_path) -> None:
    source, target = make(tmp_path / "a"), make(tmp_path / "b")
    last, files = play(source, 4)[-1]
    SiteVaults({A: source, B: target}).replicate(last.id, source=A, target=B, budget_s=9.0, stamp=STAMP)
    base = next(ref for ref in last.snapshot.pinned if ref.stored).stored
    pack = flip_in_block(tmp_path / "b", base, at=99)
    vault = reopened(tmp_path / "b")
    for call in (
        lambda: vault.load(last.id),
        lambda: vault.receipt(last.id, site=B),
        lambda: vault.restore(last.id, to=tmp_path / "out"),
    ):
        with pytest.raises(Damaged, match=base):
            call()
    assert not (tmp_path / "out").exists()
    (damage,) = vault.verify().damages
    assert pack.name in damage.key
    assert damage.hurts
    assert vault.newest(TRAIN) is None
    sites = SiteVaults({A: source, B: vault})
    assert sites.replicate(last.id, source=A, target=B, budget_s=9.0, stamp=STAMP).done
    assert vault.load(last.id) == files


def test_V22_missing_base_takes_the_snapshot_from_the_usable_ones(tmp_path) -> None:
    saved = play(make(tmp_path / "a", pack_bytes=1), 4)
    base = next(ref for ref in saved[-1][0].snapshot.pinned if ref.stored).stored
    pack_file(tmp_path / "a", base).unlink()
    usable = {info.id for info in reopened(tmp_path / "a").list(TRAIN)}
    hurt = {result.id for result, _ in saved if base in {ref.block for ref in blocks_of(result.snapshot)}}
    assert usable == {result.id for result, _ in saved} - hurt
    run = Run()
    result = reopened(tmp_path / "a").save(run.files(), workload=TRAIN, step=99, epoch=Epoch(0), site=A)
    assert reopened(tmp_path / "a").load(result.id) == run.files(), "a save never builds on what is not there"


def test_object_that_decodes_to_something_else_is_damaged(tmp_path) -> None:
    vault = make(tmp_path / "a")
    (saved, _), *_ = play(vault, 1)
    snapshot = saved.snapshot
    file = snapshot.files[-1]
    first, second, *_ = [ref for ref in file.blocks if ref.stored]
    wrong = msgspec.structs.replace(first, stored=second.stored, stored_bytes=second.stored_bytes)
    blocks = tuple(wrong if ref == first else ref for ref in file.blocks)
    forged = msgspec.structs.replace(snapshot, files=(*snapshot.files[:-1], msgspec.structs.replace(file, blocks=blocks)))
    name = snapshot_name(snapshot.id)
    vault.place.objects.blobs.delete(name.key)
    vault.place.objects.blobs.put_new(name.key, encode(forged))
    with pytest.raises(Damaged, match="cannot be decoded"):
        reopened(tmp_path / "a").load(snapshot.id)


@pytest.mark.parametrize("fault", ["circle", "missing", "two ways", "no object"])
def test_record_with_a_broken_chain_is_damaged(tmp_path, fault: str) -> None:
    saved = play(make(tmp_path / "a"), 2)[-1][0].snapshot
    file = saved.files[-1]
    with_base = next(ref for ref in file.blocks if ref.bases)
    other = {ref.block: ref for ref in (*file.blocks, *saved.pinned)}
    base = other[with_base.bases[0]]
    change = msgspec.structs.replace
    pinned = {
        "circle": tuple(change(ref, stored=ref.stored or ref.block, stored_bytes=9, bases=(with_base.block,)) for ref in saved.pinned),
        "missing": tuple(ref for ref in saved.pinned if ref.block != base.block),
        "two ways": (*saved.pinned, change(with_base, stored=block_hash(b"x"))),
        "no object": tuple(change(ref, stored="", stored_bytes=7, bases=()) for ref in saved.pinned),
    }[fault]
    with pytest.raises(Damaged):
        decode_snapshot(encode(change(saved, pinned=pinned)), snapshot_name(saved.id))
    assert decode_snapshot(encode(saved), snapshot_name(saved.id)) == saved
