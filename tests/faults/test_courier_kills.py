"""``kill -9`` of real processes that pack and receive: the next run completes (M9.3)."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.vault import Vault

PROGRAM = [sys.executable, "-m", "bridgehead.cli.main", "vault", "courier"]
TRAIN = WorkloadId("train")


def files_below(folder: Path) -> int:
    """Without scratch. ``os.walk``, unlike a glob, takes it that a folder goes away meanwhile."""
    found = 0
    for _, folders, files in os.walk(folder):
        folders[:] = [name for name in folders if name != "~scratch"]
        found += len(files)
    return found


def killed_until_done(folder: Path, words: list[str], watch: list[Path]) -> int:
    """Kill the command each time some more files have appeared; returns how often, until it ends by itself."""
    environment = {**os.environ, "BRIDGEHEAD_HOME": str(folder / "home")}
    seen, kills = 0, 0
    while True:
        process = subprocess.Popen([*PROGRAM, *words], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        while process.poll() is None:
            found = sum(files_below(place) for place in watch)
            if found >= seen + 12 and kills < 6:
                seen, kills = found, kills + 1
                process.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)
        said = process.communicate(timeout=60)[1].decode()
        if process.returncode != -signal.SIGKILL:
            assert process.returncode == 0, said
            return kills


def test_M9_3_pack_and_receive_outlive_kills(tmp_path: Path) -> None:
    rng = random.Random(3)
    files = {f"f{number}": rng.randbytes(40_000) for number in range(40)}
    source = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "v"))), pack_bytes=50_000)
    snapshot = source.save(files, workload=TRAIN, step=1, epoch=Epoch(0), site=SiteId("a")).id
    Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "far"))), pack_bytes=50_000)
    drives = ["d1", "d2", "d3"]
    for name in drives:
        (tmp_path / name).mkdir()
    killed_until_done(tmp_path, ["pack", "v", "--to", *drives], [tmp_path / name for name in drives])
    kills = killed_until_done(tmp_path, ["receive", "far", "--from", "d1", "d3"], [tmp_path / "far"])
    assert kills >= 2
    target = Vault.open(LocalBlobs(LocalBlobsOptions(str(tmp_path / "far"))))
    assert target.verify().intact
    assert target.load(snapshot) == files
