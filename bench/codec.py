"""Stored share and speed of the vault's codec on a training run with AdamW, beside peers, on the same bytes.

Run: python bench/codec.py [--write] [--python-with-zipnn PYTHON] [--skip-tools]. The series is made here (bench/series.py): one language
model of 10 M parameters, from scratch; the state after 100 steps is the base, then 1, 10, 30 and 300 steps later. Each later state is
encoded against the base alone, as the vault would with that interval. Every encoded block is decoded and compared. One thread for the
codec, zstd and ZipNN. ZipNN is measured when PYTHON can import it; restic, borg and xdelta3 when they are installed: what they add to a
repository that holds the base.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import zstandard
from series import State, series
from table import Table, machine, write_section

from bridgehead.kernel.hashing import block_hash
from bridgehead.vault.codec import Base, Candidate, Form, Predictor, decode, encode

ELEMENTS = 1 << 20
CLASSES = {"model": "bf16 copy", "master": "fp32 master", "exp_avg": "first moment", "exp_avg_sq": "second moment"}
TARGETS = {1: 0.27, 10: 0.60, 30: 0.64}
MUST_SAVE = 0.05


class Measured:
    """Bytes in and out, and seconds."""

    def __init__(self) -> None:
        self.raw: dict[str, int] = defaultdict(int)
        self.stored: dict[str, int] = defaultdict(int)
        self.encode_s = self.decode_s = 0.0

    def share(self, *kinds: str) -> float:
        kinds = kinds or tuple(self.raw)
        return sum(self.stored[kind] for kind in kinds) / sum(self.raw[kind] for kind in kinds)

    def speeds(self) -> str:
        raw = sum(self.raw.values())
        return f"{raw / self.encode_s / 1e6:.0f} / {raw / self.decode_s / 1e6:.0f}"


def blocks(tensor: np.ndarray, form: Form) -> list[Base]:
    data = memoryview(tensor.reshape(-1)).cast("B")
    size = ELEMENTS * form.width
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return [Base(block_hash(piece), form, piece) for piece in pieces]


def of_state(state: State) -> Iterator[dict[str, Base]]:
    """Blocks that belong together: the same elements of copy, master and moments."""
    for name in [key.removeprefix("model.") for key in state if key.startswith("model.")]:
        kinds = {kind: blocks(state[f"{kind}.{name}"], Form.BFLOAT16 if kind == "model" else Form.FLOAT32) for kind in CLASSES}
        yield from (dict(zip(kinds, group, strict=True)) for group in zip(*kinds.values(), strict=True))


def candidates(kind: str, new: dict[str, Base], old: dict[str, Base] | None) -> list[Candidate]:
    if kind == "model":
        derived = [Candidate(Predictor.ROUNDED, (new["master"],))]
        return derived if old is None else [*derived, Candidate(Predictor.PREVIOUS, (old["model"],), must_save=MUST_SAVE)]
    if old is None:
        return []
    w0, m0, v0, m1, v1 = old["master"], old["exp_avg"], old["exp_avg_sq"], new["exp_avg"], new["exp_avg_sq"]
    special = {
        "exp_avg": [(Predictor.SCALED, (m0,))],
        "exp_avg_sq": [(Predictor.SCALED, (v0,)), (Predictor.SQUARES, (v0, m0, m1))],
        "master": [
            (Predictor.ADAM, (w0, m1, v1)),
            (Predictor.ADAM_FAR, (w0, m1, v1, m0, v0)),
            (Predictor.MOMENTUM, (w0, m1, m0)),
        ],
    }
    tried = [(Predictor.PREVIOUS, (old[kind],)), *special[kind]]
    return [Candidate(predictor, bases, must_save=MUST_SAVE) for predictor, bases in tried]


def measure_codec(new: State, old: State | None) -> Measured:
    result = Measured()
    before = list(of_state(old)) if old is not None else None
    for index, group in enumerate(of_state(new)):
        base = before[index] if before is not None else None
        store = {each.block: each.data for each in [*group.values(), *(base.values() if base else ())]}
        for kind, target in group.items():
            began = time.thread_time()
            encoded = encode(target.data, form=target.form, candidates=candidates(kind, group, base), block=target.block)
            middle = time.thread_time()
            plain = decode(encoded.data, size_bytes=len(target.data), fetch=store.__getitem__)
            result.encode_s += middle - began
            result.decode_s += time.thread_time() - middle
            assert plain == target.data
            result.raw[kind] += len(target.data)
            result.stored[kind] += len(encoded.data)
    return result


def measure_zstd(state: State) -> Measured:
    result = Measured()
    for kind in CLASSES:
        data = joined(state, kind)
        began = time.thread_time()
        packed = zstandard.ZstdCompressor(level=3).compress(data)
        middle = time.thread_time()
        zstandard.ZstdDecompressor().decompress(packed)
        result.encode_s += middle - began
        result.decode_s += time.thread_time() - middle
        result.raw[kind], result.stored[kind] = len(data), len(packed)
    return result


def joined(state: State, kind: str) -> bytes:
    return b"".join(value.tobytes() for key, value in state.items() if key.startswith(f"{kind}."))


ZIPNN = """
import json, sys, time
from zipnn import ZipNN
kinds = {}
for path, kind in zip(sys.argv[2:], ["bfloat16", "float32", "float32", "float32"]):
    data = open(path, "rb").read()
    tool = ZipNN(bytearray_dtype=kind, threads=1)
    began = time.process_time()
    packed = tool.compress(bytearray(data))
    middle = time.process_time()
    plain = tool.decompress(packed)
    assert bytes(plain) == data
    kinds[path.rsplit("/", 1)[-1]] = [len(data), len(packed), middle - began, time.process_time() - middle]
json.dump(kinds, open(sys.argv[1], "w"))
"""


def measure_zipnn(python: str, state: State, folder: Path) -> Measured | None:
    for kind in CLASSES:
        (folder / kind).write_bytes(joined(state, kind))
    out = folder / "zipnn.json"
    command = [python, "-W", "ignore", "-c", ZIPNN, str(out), *[str(folder / kind) for kind in CLASSES]]
    if subprocess.run(command, capture_output=True).returncode != 0:
        return None
    result = Measured()
    for kind, (raw, stored, encode_s, decode_s) in json.loads(out.read_text()).items():
        result.raw[kind], result.stored[kind] = raw, stored
        result.encode_s += encode_s
        result.decode_s += decode_s
    return result


def folder_bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure_tools(old: Path, new: Path, folder: Path) -> dict[str, float]:
    """What each installed tool adds for ``new`` when it has ``old``, as a share of ``new``."""
    environment = os.environ | {
        "RESTIC_PASSWORD": "bench", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes", "BORG_BASE_DIR": str(folder / "borg-home"),
        "XDG_CACHE_HOME": str(folder / "cache"),
    }  # fmt: skip

    def run(*command: str, at: Path = folder) -> None:
        subprocess.run(command, check=True, capture_output=True, env=environment, cwd=at)

    shares = {}
    size = new.stat().st_size
    restic, borg = folder / "restic", folder / "borg"
    if shutil.which("restic"):
        run("restic", "init", "--repo", str(restic))
        run("restic", "backup", "--repo", str(restic), old.name, at=old.parent)
        before = folder_bytes(restic)
        run("restic", "backup", "--repo", str(restic), new.name, at=new.parent)
        shares["restic"] = (folder_bytes(restic) - before) / size
        shutil.rmtree(restic)
    if shutil.which("borg"):
        run("borg", "init", "--encryption", "none", str(borg))
        run("borg", "create", "--compression", "zstd,3", f"{borg}::old", old.name, at=old.parent)
        before = folder_bytes(borg)
        run("borg", "create", "--compression", "zstd,3", f"{borg}::new", new.name, at=new.parent)
        shares["borg, zstd 3"] = (folder_bytes(borg) - before) / size
        shutil.rmtree(borg)
    if shutil.which("xdelta3"):
        delta = folder / "delta"
        run("xdelta3", "-e", "-f", "-B", str(1 << 28), "-s", str(old), str(new), str(delta))
        shares["xdelta3"] = delta.stat().st_size / size
    return shares


def main() -> None:
    parser = argparse.ArgumentParser(description="Stored share and speed of the vault's codec.")
    parser.add_argument("--write", action="store_true", help="write the tables into docs/benchmarks.md")
    parser.add_argument("--python-with-zipnn", default=sys.executable)
    parser.add_argument("--skip-tools", action="store_true")
    options = parser.parse_args()
    table = Table("steps apart", *CLASSES.values(), "whole", "target", "MB/s in / out", "zstd 3", "ZipNN", "tools with the base at hand")
    speeds = Table("codec", "share, one file of bf16", "share, whole state", "MB/s in / out, one core")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old: State | None = None
        for distance, state in series():
            zstd, zipnn = measure_zstd(state), measure_zipnn(options.python_with_zipnn, state, folder)
            new_file = folder / ("base.bin" if old is None else "new.bin")
            new_file.write_bytes(b"".join(joined(state, kind) for kind in CLASSES))
            ours = measure_codec(state, old)
            tools = {} if old is None or options.skip_tools else measure_tools(folder / "base.bin", new_file, folder)
            table.add(
                "alone" if old is None else str(distance), *[f"{ours.share(kind):.3f}" for kind in CLASSES], f"**{ours.share():.3f}**",
                f"{TARGETS[distance]:.2f}" if distance in TARGETS else "", ours.speeds(), f"{zstd.share():.3f}",
                f"{zipnn.share():.3f}" if zipnn else "not installed", ", ".join(f"{tool} {share:.3f}" for tool, share in tools.items()),
            )  # fmt: skip
            if old is None:
                old = state
                single = measure_single(state)
                for label, peer in {"this codec": ours, "zstd 3": zstd, "ZipNN": zipnn}.items():
                    if peer is not None:
                        share = single if peer is ours else peer.share("model")
                        speeds.add(label, f"{share:.4f}", f"{peer.share():.3f}", peer.speeds())
    text = f"{machine()}\n\nShare of the raw bytes (14 a parameter); every block was decoded and compared.\n\n{table}\n\n"
    text += f"One state alone, without any base (the bf16 copy is then derived from the master, except in the first column):\n\n{speeds}\n"
    print(text)
    if options.write:
        write_section("codec", "python bench/codec.py --write --python-with-zipnn PYTHON", text)


def measure_single(state: State) -> float:
    """The bf16 copy by itself, as a model file that is published alone."""
    targets = [group["model"] for group in of_state(state)]
    stored = sum(len(encode(target.data, form=target.form, block=target.block).data) for target in targets)
    return stored / sum(len(target.data) for target in targets)


if __name__ == "__main__":
    main()
