"""A fuzzer for what a vault and a courier set consist of: ``python -m bridgehead.testing.fuzz_vault --seconds N --seed S``.

Objects of a small vault, and of drives that were packed from it, are changed at random; half of the changed ones get right names and hashes
again, as from somebody who may write to the store. Whatever lies there: every look ends soon, in a value or a BridgeheadError, and a
snapshot that was saved comes back bit for bit or not at all.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import numpy as np
from safetensors.numpy import save as safetensors_file

from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import Epoch, Person, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.runbook.ledger import KeyFolder
from bridgehead.testing.fuzz_formats import MEMORY_BYTES, SLOW_S, hurt
from bridgehead.testing.memory_blobs import MemoryBlobs
from bridgehead.vault import Vault
from bridgehead.vault.access import Reading, note_restore
from bridgehead.vault.codec import BadFrame, decode
from bridgehead.vault.courier.custody import Step, read_chain, sign
from bridgehead.vault.courier.drive import Drive
from bridgehead.vault.courier.gather import gather
from bridgehead.vault.courier.layout import DriveLabel
from bridgehead.vault.courier.pack import begin, write
from bridgehead.vault.courier.receive import receive
from bridgehead.vault.holds import Hold, place_hold
from bridgehead.vault.layout import pack_key, pack_of_key
from bridgehead.vault.packindex import index_key

TRAIN: Final = WorkloadId("train")
_RECORD: Final = b'","record":'
Stores = list[dict[str, bytes]]
"""Objects of a vault, then those of its drives."""


class Sample:
    """A vault with one object of each class that is not sealed, three drives of it, and what its snapshots are."""

    def __init__(self) -> None:
        vault_blobs = MemoryBlobs()
        vault = Vault.init(vault_blobs, codec=True, pack_bytes=3000, now_s=lambda: 1.0)
        weights = np.linspace(-1, 1, 40_000, dtype=np.float32)
        self.files: dict[SnapshotId, dict[str, bytes]] = {}
        for step in (1, 2):
            tensors = safetensors_file({"w": weights + np.float32(step * 1e-4)})
            files = {"m.safetensors": tensors, "opaque": random.Random(step).randbytes(5000)}
            saved = vault.save(files, workload=TRAIN, step=step, epoch=Epoch(0), site=SiteId("a"), context={"k": "v"})
            self.files[saved.id] = files
        first = next(iter(self.files))
        vault.receipt(first, site=SiteId("a"))
        vault.fence(Fence(TRAIN, Epoch(1), SiteId("a"), tuple(self.files), "run-1", 1.0))
        place_hold(vault.place.objects, Hold(first, Person("me"), "why", 1.0, None))
        note_restore(vault.place.objects, first, Reading(1.0, 5000, 0.1))
        drives = [Drive(f"drive{number}", MemoryBlobs()) for number in (1, 2, 3)]
        with tempfile.TemporaryDirectory() as folder:
            signer = KeyFolder(Path(folder) / "keys")
            packing = begin(vault_blobs, vault.file, drives, parity=1, present=(), now_s=1.0, share_bytes=4096)
            write(packing, vault_blobs, signer=signer, moved=lambda _: None)
            for number, drive in enumerate(drives, 1):
                sign(drive, DriveLabel(packing.head, number), Step.PACKED, by=Person("me"), note="", signer=signer, now_s=1.0)
        self.stores: Stores = [_values(blobs) for blobs in (vault_blobs, *(drive.blobs for drive in drives))]
        refs = [ref for snapshot in self.files for file in vault.snapshot(snapshot).files for ref in file.blocks if ref.stored]
        owner = vault.snapshot(first)
        self.frames = [(vault.place.objects.read_block(ref.stored, ref.stored_bytes, owner=owner), ref.size_bytes) for ref in refs[:40]]


def _values(blobs: object) -> dict[str, bytes]:
    assert isinstance(blobs, MemoryBlobs)
    return {key: blobs.get(key) for key in blobs.list("")}


def _blobs(values: dict[str, bytes]) -> MemoryBlobs:
    blobs = MemoryBlobs()
    for key, value in values.items():
        with contextlib.suppress(BridgeheadError):  # a name that no store takes
            blobs.put_new(key, value)
    return blobs


def changed(stores: Stores, chance: random.Random) -> Stores:
    """One to four changed, exchanged, renamed or missing objects; half of the changed ones are named and hashed for what they are now."""
    made = [dict(values) for values in stores]
    for _ in range(chance.randint(1, 4)):
        values = made[0] if chance.random() < 0.6 else chance.choice(made[1:])
        key = chance.choice(sorted(values))
        match chance.randrange(8):
            case 0:
                del values[key]
            case 1:
                values[key] = values[chance.choice(sorted(values))]
            case 2:
                values[chance.choice((f"{key}x", key.upper(), f"snapshots/{key}", key[:-1] or "k"))] = values[key]
            case _:
                values[key] = hurt(values[key], chance)
                if chance.random() < 0.5:
                    _make_right(values, key)
        if not values:
            values["left"] = b""
    return made


def _make_right(values: dict[str, bytes], key: str) -> None:
    data = values[key]
    if pack_of_key(key) is not None:
        values[pack_key(block_hash(data))] = data  # type: ignore[arg-type]  # hex of a hash is a pack's id
    elif key.startswith("index/"):
        values[index_key(data)] = data
    elif _RECORD in data:
        body = data[data.index(_RECORD) + len(_RECORD) : -2]
        values[key] = b'{"hash":"' + hashlib.sha256(body).hexdigest().encode() + _RECORD + body + b"}\n"


def check(sample: Sample, stores: Stores) -> None:
    """All looks at such a vault and such drives. Raises AssertionError, or whatever a parser lets out."""
    for look in (_look_at_vault, _mend_vault, _look_at_drives):
        with contextlib.suppress(BridgeheadError):
            look(sample, stores)


def _look_at_vault(sample: Sample, stores: Stores) -> None:
    vault = Vault.open(_blobs(stores[0]))
    for read_data in (False, True):
        vault.verify(read_data=read_data)
    for snapshot, files in sample.files.items():
        with contextlib.suppress(BridgeheadError):
            assert vault.load(snapshot) == files, f"{snapshot} came back otherwise"
    for workload in vault.workloads():
        with contextlib.suppress(BridgeheadError):
            vault.survey(workload)
            vault.newest(workload)


def _mend_vault(sample: Sample, stores: Stores) -> None:
    blobs = _blobs(stores[0])
    whole = [snapshot for snapshot in sample.files if _loads(blobs, snapshot)]
    for act in (lambda: Vault.open(blobs).repair(), lambda: Vault.open(blobs).collect()):
        with contextlib.suppress(BridgeheadError):
            act()
    for snapshot in whole:
        assert _loads(blobs, snapshot), f"{snapshot} was lost by repair or collect"


def _loads(blobs: MemoryBlobs, snapshot: SnapshotId) -> bool:
    try:
        Vault.open(blobs).load(snapshot)
    except BridgeheadError:
        return False
    return True


def _look_at_drives(sample: Sample, stores: Stores) -> None:
    drives = [Drive(f"drive{number}", _blobs(values)) for number, values in enumerate(stores[1:], 1)]
    for drive in drives:
        with contextlib.suppress(BridgeheadError):
            label = drive.label()
            if label is not None:
                read_chain(drive, label)
    target = MemoryBlobs()
    Vault.init(target, codec=True, pack_bytes=3000, now_s=lambda: 1.0)
    with contextlib.suppress(BridgeheadError):
        receive(gather(drives), target, before_snapshots=lambda: None, moved=lambda _: None)
    vault = Vault.open(target)
    for name in vault.names(TRAIN):
        with contextlib.suppress(BridgeheadError):
            assert vault.load(name.id) == sample.files[name.id], f"{name.id} arrived otherwise"


def check_frame(data: bytes, size_bytes: int) -> None:
    """A changed encoded block gives bytes of its size, or BadFrame; its bases are zeros."""
    with contextlib.suppress(BadFrame):
        assert len(decode(data, size_bytes=size_bytes, fetch=lambda _: bytes(size_bytes))) == size_bytes


def run(*, seed: int, seconds: float, say: Callable[[str], None]) -> Iterator[tuple[Stores, BaseException]]:
    """Try until the time is over; yields what broke the promise."""
    chance, sample = random.Random(seed), Sample()
    tried, end_s = 0, time.monotonic() + seconds
    while time.monotonic() < end_s:
        frame, size_bytes = chance.choice(sample.frames)
        made, frame = changed(sample.stores, chance), hurt(frame, chance)
        began_s = time.process_time()
        try:
            check(sample, made)
            check_frame(frame, size_bytes)
            took_s = time.process_time() - began_s
            assert took_s < SLOW_S, f"it took {took_s:.1f} s"
        except (Exception, MemoryError) as error:
            yield [*made, {"frame": frame}], error
        tried += 1
    say(f"{tried} inputs, seed {seed}, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB at most")


def main(arguments: list[str]) -> int:
    """0 when nothing was found, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="fuzz_vault", description="Change objects of a vault and of courier drives at random.")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--output", type=Path, default=Path("fuzz-found"), help="folder for offending inputs")
    given = parser.parse_args(arguments)
    seed = given.seed if given.seed is not None else random.SystemRandom().randrange(2**32)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    print(f"seed {seed}", flush=True)
    found = 0
    for offending, error in run(seed=seed, seconds=given.seconds, say=lambda text: print(text, flush=True)):
        found += 1
        for number, values in enumerate(offending):
            for key, data in values.items():
                place = given.output / f"{seed}-{found}" / str(number) / key.replace("/", "~")
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(data)
        print(f"{type(error).__name__}: {error}; seed {seed}; the input is in {given.output / f'{seed}-{found}'}", flush=True)
        if found >= 20:
            break
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
