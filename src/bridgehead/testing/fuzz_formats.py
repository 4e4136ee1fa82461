"""A fuzzer for everything that reads what others wrote: ``python -m bridgehead.testing.fuzz_formats --seconds N --seed S``.

Files that our own writers made are changed at random and looked at: every format, distributed metadata, shard indices, the rules of whole
checkpoints, snapshot records. Whatever the bytes are, each look must end soon, in bounded memory, in a value or in the error that it
promises; and the cut must tile the file. The input that breaks this is written to a file, with the seed that made it.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import random
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from safetensors.numpy import save as safetensors_file

from bridgehead.kernel.ids import BlockId, Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import BlockRef, EntryKind, FileEntry, Hole, Snapshot
from bridgehead.testing.dcp_files import checkpoint_files, metadata_file
from bridgehead.testing.torch_files import Tensor, torch_file, zipped
from bridgehead.vault.compare import parents
from bridgehead.vault.cut import divide, without_zeros
from bridgehead.vault.findings import findings_of
from bridgehead.vault.formats import examine
from bridgehead.vault.formats.dcp import read_metadata
from bridgehead.vault.layout import SnapshotName, content_digest
from bridgehead.vault.paths import on_disk, recorded
from bridgehead.vault.records import Damaged, encode
from bridgehead.vault.snapshots import decode_snapshot, places_of
from bridgehead.vault.sources import MemorySource

MEMORY_BYTES: Final = 2 << 30
"""Address space of the process: numpy alone maps some hundred MiB."""
SLOW_S: Final = 10.0
"""A look that takes longer, in time of the processor, has run away: the inputs have some kB."""
_WORDS: Final = (b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"\x93NUMPY", b"\x80\x02", b"\x80\x04", b"\0" * 8, b"\xff" * 8)
_TEXTS: Final = (b'"data_offsets"', b"..", b"/", b"-00001-of-99999", b"9" * 30, b"[" * 50, b"{", b'"', b"\\ud800", b"NaN", b"1e999")

Input = dict[str, bytes]
"""Path to content: one file, or those of a checkpoint."""


def samples() -> list[Input]:
    """Valid inputs of every kind, small, because small ones are tried more often."""
    array = np.arange(12, dtype=np.float32).reshape(3, 4)
    npy, npz = io.BytesIO(), io.BytesIO()
    np.save(npy, array)
    np.savez(npz, a=array, b=array.T)
    tensors = {"embed": Tensor("0", "F32", (3, 4)), "head": Tensor("0", "F32", (2,), 4), "f8": Tensor("1", "float8_e4m3fn", (8,))}
    torch = torch_file({"model": tensors, "step": 7, "list": [1, None, True]}, {"0": array.tobytes(), "1": b"12345678"})
    shards = {f"m-0000{n}-of-00002.safetensors": safetensors_file({f"w{n}": array}) for n in (1, 2)}
    where = {f"w{n}": f"m-0000{n}-of-00002.safetensors" for n in (1, 2)}
    states = torch_file({"dp_world_size": 2, "mp_world_size": 1}, {})
    ranks = {f"global_step1/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt": torch for rank in range(2)}
    distributed = checkpoint_files([2, 0, 1])
    return [
        {"m.safetensors": safetensors_file({"a": array, "b": np.zeros((0, 3)), "c": array.astype(np.float16)}, {"k": "v"})},
        {"m.pt": torch},
        {"m.npy": npy.getvalue()},
        {"m.npz": npz.getvalue()},
        {"m.zip": zipped({"a/b": b"1234", "c": b""})},
        {"__0_0.distcp": torch + torch},
        distributed,
        {".metadata": metadata_file({f"n{n}": (f"__{n}_0.distcp", n, 10) for n in range(5)})},
        {**shards, "m.safetensors.index.json": msgspec.json.encode({"metadata": {}, "weight_map": where})},
        {**ranks, "latest": b"global_step1", "global_step1/mp_rank_00_model_states.pt": states},
        {"latest_checkpointed_iteration.txt": b"7", "iter_0000007/mp_rank_00_000/model_optim_rng.pt": torch},
        {"record": record()},
    ]


def record() -> bytes:
    """A snapshot record with every kind of entry."""
    block = BlockId("ab" * 32)
    files = (
        FileEntry("a", 0o644, 10, (BlockRef(block, 0, 4),), holes=(Hole(4, 6),), mtime_ns=5),
        FileEntry("b", 0o644, 10, (BlockRef(block, 0, 4),), holes=(Hole(4, 6),), mtime_ns=5, same_as="a"),
        FileEntry("d", 0o700, 0, (), kind=EntryKind.FOLDER),
        FileEntry("d/l\0ff", 0o777, 0, (), kind=EntryKind.LINK, target="../a"),
    )
    return encode(named(Snapshot(_name(files).id, WorkloadId("w"), 1, Epoch(0), SiteId("s"), 1.0, 20, files)))


def named(snapshot: Snapshot) -> Snapshot:
    """The snapshot with the id that its content has."""
    return msgspec.structs.replace(snapshot, id=_name(snapshot.files).id)


def _name(files: tuple[FileEntry, ...]) -> SnapshotName:
    return SnapshotName(WorkloadId("w"), Epoch(0), 1, content_digest(WorkloadId("w"), 1, Epoch(0), files))


def changed(given: Input, chance: random.Random, others: list[Input]) -> Input:
    """The input with one to eight changes: bits, words, numbers, parts cut out, doubled or of other inputs; files left out or renamed."""
    made = dict(given)
    for _ in range(chance.randint(1, 8)):
        path = chance.choice(sorted(made))
        match chance.randrange(12):
            case 0 if len(made) > 1:
                del made[path]
            case 1:
                made[_renamed(path, chance)] = made.pop(path)
            case 2:
                other = chance.choice(others)
                made[chance.choice(sorted(other))] = other[chance.choice(sorted(other))]
            case _:
                made[path] = hurt(made[path], chance)
    return made


def _renamed(path: str, chance: random.Random) -> str:
    numbers = [index for index, sign in enumerate(path) if sign.isdigit()]
    if numbers and chance.random() < 0.7:
        at = chance.choice(numbers)
        return path[:at] + chance.choice("0129") * chance.choice((1, 1, 1, 3)) + path[at + 1 :]
    return chance.choice(("m.pt", "m.safetensors", "x.npz", ".metadata", "m.index.json", "latest", f"d/{path}"))


def hurt(data: bytes, chance: random.Random) -> bytes:
    """The bytes with one change."""
    at = chance.randrange(len(data) + 1)
    end = min(len(data), at + chance.choice((1, 1, 2, 4, 8, 50, 1000)))
    match chance.randrange(8):
        case 0:
            return data[:at]
        case 1:
            return data[:at] + data[end:]
        case 2:
            return data[:end] + data[at:]
        case 3:
            return data[:at] + chance.choice(_WORDS) + data[end:]
        case 4:
            return data[:at] + chance.choice(_TEXTS) + data[end:]
        case 5:
            number = chance.choice((0, 1, -1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, len(data)))
            size = chance.choice((1, 2, 4, 8))
            raw = (number & ((1 << 8 * size) - 1)).to_bytes(size, "little" if chance.random() < 0.7 else "big")
            return data[:at] + raw + data[at + size :]
        case 6:
            return data[:at] + chance.randbytes(end - at) + data[end:]
        case _:
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :] if at < len(data) else data


def check(given: Input) -> None:
    """Everything that looks at such files. Raises AssertionError, or whatever a parser lets out."""
    entries = []
    for path, data in given.items():
        source = MemorySource(path, data)
        contents = examine(path, len(data), lambda offset, size, data=data: data[offset : offset + size])  # type: ignore[misc]  # bound now
        pieces, holes = without_zeros(source, divide(source, contents))
        ranges = [(piece.offset_bytes, piece.size_bytes) for piece in pieces] + [(hole.offset_bytes, hole.size_bytes) for hole in holes]
        places = sorted(ranges)
        assert all(size > 0 for _, size in places), "an empty piece"
        assert [0, *(offset + size for offset, size in places)] == [*(offset for offset, _ in places), len(data)], "the cut does not tile"
        for tensor in (*contents.tensors, *contents.views):
            assert 0 <= tensor.offset_bytes <= tensor.offset_bytes + tensor.size_bytes <= len(data), "a tensor that is not in the file"
        read_metadata(data)
        with contextlib.suppress(Damaged):
            decode_snapshot(data, _name(()))
        check_record(data)
        entries.append(FileEntry(path, 0o644, len(data), (), contents.tensors))
    findings_of(entries, [], lambda file, offset, size: given[file.path][offset : offset + size])


def check_record(data: bytes) -> None:
    """A record whose hash and id are made right again, so that what it says is judged: if it is taken, nothing in it leads out."""
    try:
        body = data[data.index(b'"record":') + len(b'"record":') : data.rindex(b"}")]
        given = msgspec.json.decode(body, type=Snapshot)
        whole = named(msgspec.structs.replace(given, workload=WorkloadId("w"), step=1, epoch=Epoch(0)))
        snapshot = decode_snapshot(encode(whole), _name(whole.files))
    except (ValueError, msgspec.DecodeError, RecursionError, Damaged):
        return
    closed = {file.path for file in snapshot.files if file.kind is not EntryKind.FOLDER}
    for file in snapshot.files:
        path = on_disk(file.path)
        assert os.path.normpath(path) == path, f"{path!r} is not plain"
        assert path[:1] != "/", f"{path!r} leads out"
        assert ".." not in path.split("/"), f"{path!r} leads out"
        assert not closed & {recorded(parent) for parent in parents(path)}, f"{path!r} lies below what is no folder"
        places = places_of(file)
        assert [0, *(place.offset_bytes + place.size_bytes for place in places)] == [
            *(place.offset_bytes for place in places),
            file.size_bytes,
        ], f"{path!r} is not covered"


def run(*, seed: int, seconds: float, say: Callable[[str], None]) -> Iterator[tuple[Input, BaseException]]:
    """Try until the time is over; yields what broke the promise."""
    chance, seeds = random.Random(seed), samples()
    pool, tried, end_s, told_s = list(seeds), 0, time.monotonic() + seconds, time.monotonic()
    while time.monotonic() < end_s:
        given = changed(chance.choice(pool), chance, seeds)
        began_s = time.process_time()
        try:
            check(given)
            took_s = time.process_time() - began_s
            assert took_s < SLOW_S, f"it took {took_s:.1f} s"
        except (Exception, MemoryError) as error:
            yield given, error
        tried += 1
        if chance.random() < 0.02 and sum(map(len, given.values())) < 20_000:  # changes pile up
            pool = [*pool[-400:], *seeds, given]
        if time.monotonic() - told_s > 60:
            told_s = time.monotonic()
            say(f"{tried} inputs, seed {seed}, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB at most")
    say(f"{tried} inputs, seed {seed}, {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB at most")


def main(arguments: list[str]) -> int:
    """0 when nothing was found, 1 otherwise."""
    parser = argparse.ArgumentParser(prog="fuzz_formats", description="Change valid files at random and look at them.")
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
        folder = given.output / f"{seed}-{found}"
        for path, data in offending.items():
            place = folder / path.replace("/", "~").replace("\0", "~")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        print(f"{type(error).__name__}: {error}; seed {seed}; the input is in {folder}", flush=True)
        if found >= 20:
            break
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
