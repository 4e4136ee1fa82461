"""Real trainer processes, ordered about through the files driver, moved between two vaults."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from bridgehead.drivers.process.control import FileTrainingControl
from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp
from bridgehead.ports.training import Continue, Order, Release, SaveAndHold, TrainerState, TrainingProgress
from bridgehead.training import create_vault
from bridgehead.training.state import decode
from bridgehead.vault import SiteVaults

A, B, W, JOB = SiteId("a"), SiteId("b"), WorkloadId("w"), JobName("train")

SCRIPT = """
import sys, time
import numpy as np
from bridgehead.training import Session
with Session.from_env() as session:
    state = session.restore() or {"w": np.zeros(2000, dtype=np.float32)}
    for step in session.steps(int(sys.argv[1])):
        state["w"] += np.random.default_rng(step).standard_normal(2000, dtype=np.float32)
        time.sleep(0.005)
        if session.should_checkpoint(step):
            session.save(step, state)
        if session.should_stop():
            break
"""

DUMB = """
import os, signal, sys, time
import numpy as np
from safetensors.numpy import load_file, save_file
folder = sys.argv[1]
os.makedirs(folder, exist_ok=True)
steps = sorted(int(name.split("-")[1]) for name in os.listdir(folder) if name.startswith("step-"))
step = steps[-1] if steps else 0
w = load_file(f"{folder}/step-{step}/w.safetensors")["w"] if steps else np.zeros(1000, dtype=np.float32)
asked = []
signal.signal(signal.SIGUSR1, lambda *_: asked.append(1))
while True:
    step += 1
    w += 1
    time.sleep(0.01)
    open(f"{folder}/../computed", "w").write(str(step))
    if step % 20 == 0 or asked:
        asked.clear()
        os.makedirs(f"{folder}/step-{step}")
        save_file({"w": w}, f"{folder}/step-{step}/w.safetensors")
        open(f"{folder}/step-{step}/_SUCCESS", "w").close()
"""


class Site:
    """A site with a vault and, at most, one trainer."""

    def __init__(self, root: Path, site: SiteId) -> None:
        self.site, self.root = site, root / site
        self.vault = create_vault(self.root / "vault")
        self.control = FileTrainingControl(site, str(self.root / "control"))
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, arguments: list[str], *, standby: bool = False, save_every: int = 25) -> None:
        env = {
            **os.environ,
            "BRIDGEHEAD_VAULT": str(self.root / "vault"),
            "BRIDGEHEAD_WORKLOAD": W,
            "BRIDGEHEAD_SITE": self.site,
            "BRIDGEHEAD_CONTROL": str(self.root / "control" / JOB),
            "BRIDGEHEAD_EPOCH": "0",
            "BRIDGEHEAD_STANDBY": "1" if standby else "0",
            "BRIDGEHEAD_SAVE_EVERY_STEPS": str(save_every),
        }
        self.process = subprocess.Popen([sys.executable, *arguments], env=env, cwd=self.root)

    def order(self, number: int, order: Order) -> None:
        stamp = Stamp(run=RunId("r"), step=StepId(f"s{number}"), attempt=1, epoch=Epoch(1))
        self.control.request(JOB, order, order_id=f"o{number}", stamp=stamp)

    def until(self, predicate, within_s: float = 30.0) -> TrainingProgress:
        deadline_s = time.monotonic() + within_s
        progress = None
        while time.monotonic() < deadline_s:
            with contextlib.suppress(NotFound):
                progress = self.control.progress(JOB)
                if predicate(progress):
                    return progress
            time.sleep(0.005)
        raise AssertionError(progress)

    def stop(self) -> int:
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(30)


@pytest.fixture
def sites(tmp_path: Path):
    both = (Site(tmp_path, A), Site(tmp_path, B))
    yield both
    for site in both:
        if site.process is not None and site.process.poll() is None:
            site.process.kill()
            site.process.wait()


def fence(sites, epoch: int, snapshot, holder: SiteId) -> None:
    for site in sites:
        site.vault.fence(Fence(workload=W, epoch=Epoch(epoch), holder=holder, counts=(snapshot,), opened_by=f"r/{epoch}", opened_s=1.0))


def copy(source: Site, target: Site, snapshot) -> None:
    vaults = SiteVaults({source.site: source.vault, target.site: target.vault})
    stamp = Stamp(run=RunId("r"), step=StepId("copy"), attempt=1, epoch=Epoch(1))
    assert vaults.replicate(snapshot, source=source.site, target=target.site, budget_s=30.0, stamp=stamp).done


def weights_unmoved(steps: int) -> np.ndarray:
    w = np.zeros(2000, dtype=np.float32)
    for step in range(1, steps + 1):
        w += np.random.default_rng(step).standard_normal(2000, dtype=np.float32)
    return w


def test_moved_and_moved_back_bit_for_bit(sites, tmp_path: Path) -> None:
    a, b = sites
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    a.start([str(script), "100000"])
    first = a.until(lambda p: p.saved is not None)
    copy(a, b, first.saved)
    b.start([str(script), "100000"], standby=True)
    b.until(lambda p: p.state is TrainerState.STANDBY and p.loaded == first.saved)
    a.order(1, SaveAndHold())
    held = a.until(lambda p: p.state is TrainerState.HOLDING)
    copy(a, b, held.saved)
    fence(sites, 1, held.saved, B)
    b.order(1, Release(snapshot=held.saved, epoch=Epoch(1)))
    resumed = b.until(lambda p: p.first_step_s > 0)
    print(f"lost compute of this move: {resumed.first_step_s - held.step_ended_s:.3f} s")
    assert resumed.step > held.step

    # The move is taken back after the fence: the trainer at a, still on hold in its loop, gets a newer state and a newer epoch.
    b.order(2, SaveAndHold())
    back = b.until(lambda p: p.state is TrainerState.HOLDING)
    copy(b, a, back.saved)
    fence(sites, 2, back.saved, A)
    pid = a.process.pid
    a.order(2, Release(snapshot=back.saved, epoch=Epoch(2)))
    again = a.until(lambda p: p.first_step_s > 0 and p.epoch == 2)
    assert (again.state, again.obeyed, again.loaded) == (TrainerState.RUNNING, "o2", back.saved)
    assert again.step > back.step
    assert (a.process.pid, a.process.poll()) == (pid, None)
    assert b.stop() == 0
    assert a.stop() == 0
    newest = a.vault.newest(W)
    assert newest.epoch == 2
    assert decode(a.vault.load(newest.id))["w"].tobytes() == weights_unmoved(newest.step).tobytes()


def test_kill_at_any_moment_resumes_from_a_whole_snapshot(sites, tmp_path: Path) -> None:
    site, _ = sites
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    step = 0
    for after in (1, 3, 10):
        site.start([str(script), "100000"], save_every=2)
        site.until(lambda p, least=step + after: p.state is TrainerState.RUNNING and p.step >= least)
        site.process.kill()
        site.process.wait()
        newest = site.vault.newest(W)
        step = newest.step if newest is not None else 0
        if newest is not None:
            assert decode(site.vault.load(newest.id))["w"].tobytes() == weights_unmoved(step).tobytes()
    assert step > 0


def test_sidecar_moves_a_trainer_that_knows_nothing(sites, tmp_path: Path) -> None:
    a, b = sites
    dumb = tmp_path / "dumb.py"
    dumb.write_text(DUMB)

    def sidecar(site: Site) -> list[str]:
        folder = str(site.root / "ckpt")
        flags = ["--directory", folder, "--pattern", "step-([0-9]+)", "--mark-inside", "_SUCCESS", "--stable-s", "0.1"]
        return ["-m", "bridgehead.training.sidecar", *flags, "--checkpoint-signal", "USR1", "--", sys.executable, str(dumb), folder]

    a.start(sidecar(a))
    a.until(lambda p: p.saved is not None and p.state is TrainerState.RUNNING)
    b.start(sidecar(b), standby=True)
    b.until(lambda p: p.state is TrainerState.STANDBY)
    a.order(1, SaveAndHold())
    held = a.until(lambda p: p.state is TrainerState.HOLDING)
    assert held.obeyed == "o1"
    computed = (a.root / "computed").read_text()
    time.sleep(0.2)
    assert (a.root / "computed").read_text() == computed, "it goes on computing on hold"
    copy(a, b, held.saved)
    fence(sites, 1, held.saved, B)
    b.order(1, Release(snapshot=held.saved, epoch=Epoch(1)))
    resumed = b.until(lambda p: p.first_step_s > 0)
    assert resumed.step > held.step
    assert resumed.epoch == 1
    w = decode_file(b.vault.load(resumed.saved))
    assert w[0] == resumed.step
    assert a.stop() == 0
    assert a.until(lambda p: True).state is TrainerState.FINISHED
    assert b.stop() == 0


def test_sidecar_lets_the_trainer_go_on_after_a_called_off_move(sites, tmp_path: Path) -> None:
    a, _ = sites
    dumb = tmp_path / "dumb.py"
    dumb.write_text(DUMB)
    folder = str(a.root / "ckpt")
    flags = ["--directory", folder, "--pattern", "step-([0-9]+)", "--mark-inside", "_SUCCESS", "--stable-s", "0.1"]
    a.start(["-m", "bridgehead.training.sidecar", *flags, "--checkpoint-signal", "USR1", "--", sys.executable, str(dumb), folder])
    a.until(lambda p: p.saved is not None)
    a.order(1, SaveAndHold())
    held = a.until(lambda p: p.state is TrainerState.HOLDING)
    a.order(2, Continue())
    on = a.until(lambda p: p.step > held.step)
    assert (on.state, on.obeyed) == (TrainerState.RUNNING, "o2")
    assert a.stop() == 0


def decode_file(files: dict[str, bytes]) -> np.ndarray:
    from safetensors.numpy import load

    return load(files["w.safetensors"])["w"]
