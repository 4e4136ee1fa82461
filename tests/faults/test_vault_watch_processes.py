"""The watcher as a process: killed anywhere, ended, doubled, and with a store that stands still (R6; V11, V13, V32)."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.testing.faulty_blobs import Crashed, Fault, FaultKind, FaultyBlobs
from bridgehead.vault import Vault
from bridgehead.vault.watch import Watch, WatchOrder
from bridgehead.vault.watch_state import WatchFolder

PROGRAM = [sys.executable, "-m", "bridgehead.cli.main", "vault"]
W = WorkloadId("train")
PATIENCE_S = 60.0
MAX_CALLS = 200

STANDING_STILL = """
import sys, time
import bridgehead.drivers.localfs as localfs
real = localfs.LocalBlobs.put_new
def put_new(self, key, data):
    while key.startswith("data/"):
        time.sleep(0.05)
    return real(self, key, data)
localfs.LocalBlobs.put_new = put_new
from bridgehead.cli.main import call
sys.exit(call(sys.argv[1:]))
"""


class Lab:
    """A vault, a trainer's directory, and watchers as processes, which are all ended."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.out = folder, folder / "out"
        self.out.mkdir()
        self.store = LocalBlobs(LocalBlobsOptions(str(folder / "vault")))
        Vault.init(self.store)
        self.running: list[subprocess.Popen[bytes]] = []

    @property
    def vault(self) -> Vault:
        return Vault.open(self.store)

    def steps(self) -> list[int]:
        return sorted(name.step for name in self.vault.names(W))

    def write(self, step: int, *, size_bytes: int = 100_000) -> None:
        """As a careful trainer: under another name first."""
        temporary = self.out / f"tmp-step-{step}"
        temporary.mkdir()
        (temporary / "w.bin").write_bytes(os.urandom(size_bytes))
        temporary.rename(self.out / f"step-{step}")

    def start(self, *more: str, program: list[str] | None = None) -> subprocess.Popen[bytes]:
        words = ["watch", "vault", "out", "--workload", "train", "--every", "0.05 s", "--settle", "0.1 s", *more]
        with (self.folder / f"{len(self.running)}.err").open("wb") as err:
            process = subprocess.Popen(
                [*(program or PROGRAM), *words], cwd=self.folder, stdout=subprocess.DEVNULL, stderr=err, stdin=subprocess.DEVNULL
            )
        self.running.append(process)
        return process

    def errors(self, number: int) -> str:
        return (self.folder / f"{number}.err").read_text()

    def until(self, seen: Callable[[], bool]) -> None:
        end_s = time.monotonic() + PATIENCE_S
        while not seen():
            assert time.monotonic() < end_s, [self.errors(number) for number in range(len(self.running))]
            time.sleep(0.02)

    def status(self) -> dict[str, object]:
        try:
            return dict(json.loads((self.folder / "status.json").read_bytes()))
        except FileNotFoundError:
            return {}


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    lab = Lab(tmp_path)
    yield lab
    for process in lab.running:
        if process.poll() is None:
            process.kill()
        process.wait()


def test_it_goes_on_until_sigterm_and_says_how_it_stands(lab: Lab) -> None:
    watcher = lab.start("--status-file", "status.json")
    lab.write(10)
    lab.until(lambda: lab.steps() == [10])
    lab.write(20)
    lab.until(lambda: lab.steps() == [10, 20] and lab.status().get("saved") == 2)
    watcher.terminate()
    assert watcher.wait(PATIENCE_S) == 0
    status = lab.status()
    assert (status["state"], status["incomplete"], status["alarm"]) == ("stopped", {}, False)
    assert str(status["newest"]).startswith("train@20.0-")
    assert not (lab.out / ".bridgehead-watch" / "hold").exists()


def test_second_watcher_says_so_and_takes_over_when_the_first_is_killed(lab: Lab) -> None:
    first = lab.start()
    lab.write(10)
    lab.until(lambda: lab.steps() == [10])
    second = lab.start()
    assert second.wait(PATIENCE_S) == 4
    assert "vault-busy" in lab.errors(1)
    first.kill()
    first.wait()
    lab.write(20)
    lab.start()
    lab.until(lambda: lab.steps() == [10, 20])


def test_killed_at_any_moment_nothing_is_lost_or_doubled(lab: Lab) -> None:
    for step in range(1, 9):
        lab.write(step, size_bytes=3_000_000)
        watcher = lab.start()
        time.sleep(0.35 + 0.05 * step)
        watcher.send_signal(signal.SIGKILL)
        watcher.wait()
        assert lab.vault.verify(read_data=False).damages == ()
    lab.start()
    lab.until(lambda: lab.steps() == list(range(1, 9)))
    for name in lab.vault.names(W):
        assert lab.vault.load(name.id)["w.bin"] == (lab.out / f"step-{name.step}" / "w.bin").read_bytes()


def test_a_crash_at_every_call_of_the_store(tmp_path: Path) -> None:
    """Before and after each: the next watcher goes on, and each checkpoint is there exactly once."""
    for kind in (FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER):
        for at in range(1, MAX_CALLS):
            folder = tmp_path / f"{kind.value}-{at}"
            folder.mkdir()
            lab = Lab(folder)
            for step in (10, 20):
                lab.write(step, size_bytes=100)
            faulty = FaultyBlobs(lab.store, [Fault(kind, at)])
            with contextlib.suppress(Crashed):
                look_twice(Vault.open(faulty), lab.out)
            if faulty.missed:
                break
            look_twice(lab.vault, lab.out)
            assert lab.steps() == [10, 20], (kind, at)
            assert lab.vault.verify().damages == ()
        assert at > 10


def look_twice(vault: Vault, out: Path) -> None:
    folder = WatchFolder(out / ".scratch")
    folder.open()
    try:
        watch = Watch(vault, WatchOrder(directory=out, workload=W, site=SiteId("lab"), epoch=Epoch(0), stable_s=1.0), folder)
        watch.look(now_s=0.0)
        assert watch.look(now_s=5.0).failed == {}
    finally:
        folder.close()


def test_V32_a_store_that_stands_still_raises_the_alarm_and_the_trainer_goes_on(lab: Lab) -> None:
    watcher = lab.start("--max-lag", "1 s", "--status-file", "status.json", program=[sys.executable, "-c", STANDING_STILL, "vault"])
    lab.write(10)
    lab.until(lambda: lab.status().get("alarm") is True and lab.status().get("state") == "saving")
    assert "ALARM: none is durable after" in lab.errors(0)
    lab.write(20)
    assert lab.steps() == []
    watcher.terminate()
    time.sleep(0.2)
    assert watcher.poll() is None, "the first SIGTERM lets the save finish"
    watcher.terminate()
    assert watcher.wait(PATIENCE_S) == 128 + signal.SIGTERM
    lab.start("--status-file", "status.json", "--max-lag", "1 h")
    lab.until(lambda: lab.steps() == [10, 20])


def test_lag_beyond_the_limit_is_an_alarm_that_ends(lab: Lab) -> None:
    lab.start("--max-lag", "1 s", "--status-file", "status.json")
    lab.write(10)
    lab.until(lambda: lab.steps() == [10])
    lab.until(lambda: lab.status().get("alarm") is True)
    lab.write(20)
    lab.until(lambda: "within 1 s" in lab.errors(0))


def test_once_ends_with_1_when_something_is_not_whole(lab: Lab) -> None:
    lab.write(10)
    (lab.out / "step-20").mkdir()
    (lab.out / "step-20" / "model.safetensors").write_bytes(b"torn")
    assert lab.start("--once").wait(PATIENCE_S) == 1
    assert "incomplete: step-20: model.safetensors: cut off" in lab.errors(0)
    (lab.out / "step-20" / "model.safetensors").unlink()
    assert lab.start("--once").wait(PATIENCE_S) == 0
    assert lab.steps() == [10]
    assert lab.start("--step-from", "step").wait(PATIENCE_S) == 2
    assert "no group" in lab.errors(2)
