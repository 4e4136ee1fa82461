"""``bridgehead vault`` as whole: over HTTP, with large files in little memory, started quickly, and as its page says."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from bridgehead.drivers.httpblobs.server import BlobServer
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.testing.servers import free_port
from bridgehead.vault.memory import MEMORY_VARIABLE

PROGRAM = [sys.executable, "-m", "bridgehead.cli.main", "vault"]
PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "keep-checkpoints.md"
SIZE_BYTES = 400 << 20
LIMIT_BYTES = 288 << 20
"""Eight workers hold a block of at most 8 MiB each, at source and target; the interpreter has 30 MiB."""


def run(folder: Path, *words: str, code: int = 0) -> str:
    done = subprocess.run([*PROGRAM, *words], cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    blobs = LocalBlobs(LocalBlobsOptions(str(tmp_path / "far")))
    with BlobServer(blobs) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_every_verb_over_http(tmp_path: Path, server: str) -> None:
    (tmp_path / "ckpt").mkdir()
    (tmp_path / "ckpt" / "w.bin").write_bytes(os.urandom(9_000_000))
    assert "directory of the store is not there" in run(tmp_path, "list", server, code=7)
    (tmp_path / "far").mkdir()
    assert "no vault" in run(tmp_path, "list", server, code=6)
    for _ in range(2):
        run(tmp_path, "init", server)
    run(tmp_path, "save", server, "ckpt", "--workload", "train", "--step", "1", "--site", "near")
    assert [one["step"] for one in json.loads(run(tmp_path, "list", server, "--json"))["snapshots"]] == [1]
    assert json.loads(run(tmp_path, "verify", server, "--read-data", "--json"))["read_bytes"] >= 9_000_000
    run(tmp_path, "restore", server, "train", "--to", "out")
    assert (tmp_path / "out" / "w.bin").read_bytes() == (tmp_path / "ckpt" / "w.bin").read_bytes()
    run(tmp_path, "receipt", server, "train", "--site", "far")
    run(tmp_path, "init", "near")
    assert json.loads(run(tmp_path, "replicate", server, "near", "--json"))["receipts"] == 1
    (tmp_path / "ckpt" / "w.bin").write_bytes(b"next")
    run(tmp_path, "save", "near", "ckpt", "--workload", "train", "--step", "2", "--site", "near")
    copied = json.loads(run(tmp_path, "replicate", "near", server, "--json"))
    assert (len(copied["copied"]), copied["present"]) == (1, 1)
    assert json.loads(run(tmp_path, "status", server, "--json"))["workloads"][0]["newest"]["step"] == 2
    assert run(tmp_path, "diff", server, "train@1", "train@2", code=1) == ""


def test_server_that_is_out_of_reach_is_told_apart_from_one_without_a_vault(tmp_path: Path) -> None:
    text = run(tmp_path, "list", f"http://127.0.0.1:{free_port()}", code=7)
    assert "port-transient" in text
    assert "server runs" in text


def peak_bytes(folder: Path, *words: str) -> int:
    """The most memory that a command had, by the kernel's own high-water mark.

    Not by the usage that ``wait4`` gives: that counts what the forking test process had, too.
    """
    peak = 0
    environment = os.environ | {MEMORY_VARIABLE: "256 MiB"}
    with subprocess.Popen([*PROGRAM, *words], cwd=folder, env=environment, stdout=subprocess.DEVNULL) as process:
        started = Path(f"/proc/{process.pid}/status")
        while process.poll() is None:
            lines = [line for line in started.read_text().splitlines() if line.startswith("VmHWM")]
            peak = max([peak, *(int(line.split()[1]) * 1024 for line in lines)])
            time.sleep(0.002)
    assert process.returncode == 0
    assert peak > 0
    return peak


def test_large_files_are_never_in_memory_as_a_whole(tmp_path: Path) -> None:
    (tmp_path / "ckpt").mkdir()
    piece = os.urandom(1 << 20)
    header = json.dumps({"w": {"dtype": "U8", "shape": [SIZE_BYTES // 2], "data_offsets": [0, SIZE_BYTES // 2]}}).encode()
    with open(tmp_path / "ckpt" / "model.safetensors", "wb") as model, open(tmp_path / "ckpt" / "opaque.bin", "wb") as opaque:
        model.write(len(header).to_bytes(8, "little") + header)
        for number in range(SIZE_BYTES // 2 >> 20):
            for file in (model, opaque):
                file.write(number.to_bytes(4, "little") + piece[4:])
    for name in ("v", "w"):
        run(tmp_path, "init", name)
    for words in (
        ("save", "v", "ckpt", "--workload", "train", "--step", "1"), ("restore", "v", "train", "--to", "out"),
        ("restore", "v", "train", "--to", "some", "--tensor", "w"), ("cat", "v", "train", "opaque.bin"),
        ("show", "v", "train", "--json"), ("verify", "v", "--read-data"), ("replicate", "v", "w"),
    ):  # fmt: skip
        peak = peak_bytes(tmp_path, *words)
        print(f"{words[0]}: {peak >> 20} MiB")
        assert peak < LIMIT_BYTES, words
    assert (tmp_path / "out" / "opaque.bin").stat().st_size == SIZE_BYTES // 2


def test_reader_of_cat_that_goes_away_is_no_fault(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(os.urandom(9_000_000))
    run(tmp_path, "init", "v")
    run(tmp_path, "save", "v", "w.bin", "--workload", "train", "--step", "1")
    process = subprocess.Popen([*PROGRAM, "cat", "v", "train", "w.bin"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(10) == (tmp_path / "w.bin").read_bytes()[:10]
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 141


def test_listing_loads_nothing_heavy(tmp_path: Path) -> None:
    run(tmp_path, "init", "v")
    heavy = ("numpy", "rich", "cryptography", "aiohttp", "sqlite3", "safetensors", "http.client", "asyncio", "bridgehead.app.wiring")
    program = f"import sys; from bridgehead.cli.main import call; assert call(['vault', 'list', 'v']) == 0; {heavy!r}"
    program += f"; print(*[name for name in {heavy!r} if name in sys.modules], file=sys.stderr)"
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr.split() == []


def test_library_example_of_the_page_runs(tmp_path: Path) -> None:
    found = re.search(r"<!-- test: library -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    examples = PAGE.parents[2] / "examples" / "checkpoints" / "step-100"
    (tmp_path / "checkpoint").symlink_to(examples)
    done = subprocess.run([sys.executable, "-c", found[1]], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.match(r"toy@100\.0-[0-9a-f]{16} True 830\n", done.stdout)
    assert "norm.bias F32 (8,) 32" in done.stdout
    assert (tmp_path / "back" / "trainer.json").read_bytes() == (examples / "trainer.json").read_bytes()
