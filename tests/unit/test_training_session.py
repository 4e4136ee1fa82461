"""A session in a thread, with the test as its controller: through the control folder and the vault only."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path

import msgspec
import numpy as np
import pytest

from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.ports.training import Continue, OrderEnvelope, Release, SaveAndHold, TrainerState, TrainingProgress
from bridgehead.training import Session, SessionOptions, create_vault, open_vault
from bridgehead.training.state import decode

W, HERE, THERE = WorkloadId("w"), SiteId("here"), SiteId("there")


def options(tmp_path: Path, **changes) -> SessionOptions:
    base = SessionOptions(workload=W, site=HERE, control=tmp_path / "control", save_every_steps=10, fence_check_s=0.02, report_every_s=0.0)
    return msgspec.structs.replace(base, **changes)


def train(session: Session, total: int, *, step_s: float = 0.001, ignore_fence: bool = False) -> None:
    """The shape of every training script; its weights say how many steps they have seen."""
    with session:
        state = session.restore()
        weights = state["w"] if state is not None else np.zeros(4, dtype=np.float32)
        for step in session.steps(total):
            time.sleep(step_s)
            weights += 1
            if session.should_checkpoint(step):
                session.save(step, {"w": weights}, context={"loss": 1 / step})
            if session.should_stop() and not (ignore_fence and session.fenced):
                break


class Trainer:
    """Runs ``train`` in a thread and speaks to it as a controller does."""

    def __init__(self, tmp_path: Path, total: int = 100_000, *, ignore_fence: bool = False, **changes) -> None:
        self.control = tmp_path / "control"
        self.session = Session(open_vault(tmp_path / "vault"), options(tmp_path, **changes))
        self.error: BaseException | None = None
        self.last: TrainingProgress | None = None
        self.thread = threading.Thread(target=self._run, args=(total, ignore_fence), daemon=True)
        self.thread.start()

    def _run(self, total: int, ignore_fence: bool) -> None:
        try:
            train(self.session, total, ignore_fence=ignore_fence)
        except BaseException as error:
            self.error = error

    def order(self, name: str, order) -> None:
        write_order(self.control, name, order)

    def progress(self) -> TrainingProgress | None:
        try:
            return msgspec.json.decode((self.control / "progress.json").read_bytes(), type=TrainingProgress)
        except FileNotFoundError:
            return None

    def until(self, predicate, within_s: float = 20.0) -> TrainingProgress:
        deadline_s = time.monotonic() + within_s
        while True:
            progress = self.progress()
            if progress is not None and predicate(progress):
                return progress
            assert self.error is None, self.error
            assert time.monotonic() < deadline_s, progress
            time.sleep(0.002)

    def stop(self) -> None:
        """As SIGTERM would: the handler is only installed in a main thread (the e2e tests send the real signal)."""
        self.session._on_sigterm(15, None)
        self.thread.join(20)
        assert not self.thread.is_alive()
        self.last = self.last or self.progress()


def write_order(control: Path, name: str, order) -> None:
    control.mkdir(exist_ok=True)
    (control / "new").write_bytes(msgspec.json.encode(OrderEnvelope(id=name, order=order)))
    (control / "new").replace(control / "order.json")


@pytest.fixture
def vault(tmp_path: Path):
    return create_vault(tmp_path / "vault")


@pytest.fixture
def trainer(tmp_path: Path, vault):
    started = []

    def start(total: int = 100_000, **changes) -> Trainer:
        started.append(Trainer(tmp_path, total, **changes))
        return started[-1]

    yield start
    for one in started:
        one.stop()


def steps_in(vault, snapshot) -> float:
    return float(decode(vault.load(snapshot))["w"][0])


def fence(vault, epoch: int, *counts, holder: SiteId = THERE) -> Fence:
    return vault.fence(Fence(workload=W, epoch=Epoch(epoch), holder=holder, counts=counts, opened_by=f"run/{epoch}", opened_s=time.time()))


def test_runs_to_the_end_saves_on_schedule_and_the_last_state(tmp_path: Path, vault) -> None:
    session = Session(vault, options(tmp_path))
    train(session, 25)
    assert [info.step for info in vault.list(W)] == [25, 20, 10]
    newest = vault.newest(W)
    assert steps_in(vault, newest.id) == 25
    assert vault.snapshot(newest.id).context == {"loss": "0.04"}
    progress = msgspec.json.decode((tmp_path / "control" / "progress.json").read_bytes(), type=TrainingProgress)
    assert (progress.state, progress.step, progress.saved) == (TrainerState.FINISHED, 25, newest.id)
    assert 0 < progress.first_step_s < progress.step_ended_s <= progress.reported_s


def test_goes_on_from_the_newest_state(tmp_path: Path, vault) -> None:
    train(Session(vault, options(tmp_path)), 25)
    again = Session(vault, options(tmp_path))
    train(again, 30)
    assert steps_in(vault, vault.newest(W).id) == 30
    assert vault.newest(W).step == 30


def test_R16_save_and_hold_then_continue(vault, trainer) -> None:
    it = trainer()
    it.until(lambda p: p.state is TrainerState.RUNNING and p.step > 5)
    it.order("o1", SaveAndHold())
    held = it.until(lambda p: p.state is TrainerState.HOLDING)
    assert held.obeyed == "o1"
    assert vault.find(held.saved).verified
    assert vault.find(held.saved).step == held.step == steps_in(vault, held.saved)
    time.sleep(0.1)
    assert it.progress().step == held.step, "a step was computed on hold"
    it.order("o2", Continue())
    gone_on = it.until(lambda p: p.step > held.step + 3)
    assert (gone_on.state, gone_on.obeyed, gone_on.epoch) == (TrainerState.RUNNING, "o2", 0)


def test_sigterm_on_hold_ends_without_another_step(vault, trainer) -> None:
    it = trainer()
    it.until(lambda p: p.step > 3)
    it.order("o1", SaveAndHold())
    held = it.until(lambda p: p.state is TrainerState.HOLDING)
    it.stop()
    assert it.error is None
    assert it.progress().state is TrainerState.FINISHED
    assert it.progress().step == vault.newest(W).step == held.step


def test_sigterm_saves_the_last_state(vault, trainer) -> None:
    it = trainer(save_every_steps=0)
    it.until(lambda p: p.step > 7)
    assert vault.newest(W) is None
    it.stop()
    assert it.progress().state is TrainerState.FINISHED
    assert vault.newest(W).step == it.progress().step == steps_in(vault, vault.newest(W).id)


def test_J12_an_order_is_obeyed_once_also_by_a_trainer_that_is_started_again(vault, trainer) -> None:
    first = trainer()
    first.until(lambda p: p.step > 3)
    first.order("o1", SaveAndHold())
    first.until(lambda p: p.state is TrainerState.HOLDING)
    first.order("o2", Continue())
    first.until(lambda p: p.state is TrainerState.RUNNING)
    first.stop()
    first.order("o2", Continue())
    second = trainer()
    running = second.until(lambda p: p.state is TrainerState.RUNNING and p.step > first.last.step)
    assert running.obeyed == "o2"


def test_a_trainer_started_again_on_hold_stays_on_hold(vault, trainer) -> None:
    first = trainer()
    first.until(lambda p: p.step > 3)
    first.order("o1", SaveAndHold())
    held = first.until(lambda p: p.state is TrainerState.HOLDING)
    first.stop()
    saves = len(vault.list(W))
    second = trainer()
    again = second.until(lambda p: p.state is TrainerState.HOLDING)
    assert (again.step, again.saved, again.obeyed) == (held.step, held.saved, "o1")
    assert len(vault.list(W)) == saves, "obeyed twice"
    second.order("o2", Continue())
    second.until(lambda p: p.step > held.step)


def test_half_written_order_is_no_order(tmp_path: Path, vault, trainer) -> None:
    it = trainer()
    it.until(lambda p: p.step > 3)
    (tmp_path / "control" / "order.json").write_bytes(b'{"id":"o1","order":{"type"')
    step = it.progress().step
    it.until(lambda p: p.step > step + 5)
    it.order("o1", SaveAndHold())
    it.until(lambda p: p.state is TrainerState.HOLDING)


def test_standby_follows_and_becomes_the_writer_on_release(vault, tmp_path: Path, trainer) -> None:
    train(Session(vault, options(tmp_path, control=None)), 20)
    it = trainer(standby=True, follow_s=0.01)
    warm = it.until(lambda p: p.state is TrainerState.STANDBY)
    assert (warm.loaded, warm.step) == (vault.newest(W).id, 20)
    train(Session(vault, options(tmp_path, control=None)), 31)
    newest = vault.newest(W)
    assert it.until(lambda p: p.loaded == newest.id).step == 31
    it.order("o1", SaveAndHold())  # a standby stays what it is, and says that it obeyed
    assert it.until(lambda p: p.obeyed == "o1").state is TrainerState.STANDBY

    fence(vault, 1, newest.id)
    it.order("o2", Release(snapshot=newest.id, epoch=Epoch(1)))
    running = it.until(lambda p: p.first_step_s > 0)
    assert (running.state, running.epoch, running.obeyed, running.loaded) == (TrainerState.RUNNING, 1, "o2", newest.id)
    it.until(lambda p: p.saved is not None)
    assert vault.newest(W).epoch == 1
    assert vault.newest(W).counts
    assert steps_in(vault, vault.newest(W).id) == vault.newest(W).step


def test_release_names_the_snapshot_not_the_newest(vault, tmp_path: Path, trainer) -> None:
    train(Session(vault, options(tmp_path, control=None)), 20)
    older = next(info for info in vault.list(W) if info.step == 10)
    it = trainer(standby=True)
    it.until(lambda p: p.loaded == vault.newest(W).id)
    it.order("o1", Release(snapshot=older.id, epoch=Epoch(1)))
    assert it.until(lambda p: p.state is TrainerState.RUNNING).loaded == older.id


def test_released_standby_that_is_started_again_is_a_writer(vault, tmp_path: Path, trainer) -> None:
    train(Session(vault, options(tmp_path, control=None)), 20)
    released = vault.newest(W)
    fence(vault, 1, released.id)
    first = trainer(standby=True)
    first.order("o1", Release(snapshot=released.id, epoch=Epoch(1)))
    first.until(lambda p: p.step > 25)
    first.stop()
    second = trainer(standby=True)
    running = second.until(lambda p: p.state is TrainerState.RUNNING and p.first_step_s > 0)
    assert (running.epoch, running.obeyed) == (1, "o1")
    assert running.loaded == first.last.saved
    second.stop()
    # A newer fence has closed the epoch of that release: started for the next move, it stands by again.
    fence(vault, 2, second.last.saved)
    third = trainer(standby=True)
    assert third.until(lambda p: p.state is TrainerState.STANDBY).loaded == second.last.saved


def test_release_out_of_date_or_not_here_yet_is_not_obeyed(vault, tmp_path: Path, trainer, caplog) -> None:
    train(Session(vault, options(tmp_path, control=None)), 10)
    newest = vault.newest(W)
    fence(vault, 1, newest.id)
    fence(vault, 2, newest.id)
    it = trainer(standby=True)
    with caplog.at_level(logging.WARNING):
        it.order("o1", Release(snapshot=newest.id, epoch=Epoch(1)))
        time.sleep(0.2)
        it.order("o2", Release(snapshot=type(newest.id)("w@99.1-0123456789abcdef"), epoch=Epoch(2)))
        time.sleep(0.2)
    assert it.until(lambda p: True).state is TrainerState.STANDBY
    assert it.progress().obeyed == ""
    assert len([r for r in caplog.records if "has opened epoch 2" in r.message]) == 1
    assert len([r for r in caplog.records if "does not hold all of it" in r.message]) == 1


def test_a_trainer_on_hold_goes_on_in_the_epoch_of_a_release_of_what_it_holds(vault, trainer) -> None:
    it = trainer()
    it.until(lambda p: p.step > 3)
    it.order("o1", SaveAndHold())
    held = it.until(lambda p: p.state is TrainerState.HOLDING)
    fence(vault, 1, held.saved)
    fence(vault, 2, held.saved, holder=HERE)
    it.order("o2", Release(snapshot=held.saved, epoch=Epoch(2)))
    running = it.until(lambda p: p.step > held.step and p.state is TrainerState.RUNNING)
    assert (running.epoch, running.obeyed) == (2, "o2")
    it.until(lambda p: p.saved != held.saved)
    assert vault.newest(W).epoch == 2


def test_J05_a_closed_epoch_stops_the_trainer_and_names_the_fence(vault, trainer, caplog) -> None:
    it = trainer()
    it.until(lambda p: p.saved is not None)
    with caplog.at_level(logging.ERROR):
        counted = vault.newest(W)
        fence(vault, 1, counted.id)
        it.thread.join(20)
    assert it.session.fenced.epoch == 1
    assert any("the fence by run/1 opened epoch 1 for there" in record.message for record in caplog.records)


def test_J05_a_zombie_that_ignores_the_fence_is_harmless(vault, trainer) -> None:
    it = trainer(ignore_fence=True)
    counted = it.until(lambda p: p.saved is not None).saved
    fence(vault, 1, counted)
    zombie = it.until(lambda p: p.saved is not None and p.step > vault.find(counted).step + 40).saved
    assert zombie != counted
    assert vault.newest(W).id == counted
    assert not vault.find(zombie).counts


def test_standby_must_be_restored_before_it_computes(tmp_path: Path, vault) -> None:
    with Session(vault, options(tmp_path, standby=True)) as session, pytest.raises(BridgeheadError, match="standby computes nothing"):
        next(session.steps(1))


def test_standby_told_to_stop_exits_with_0(vault, trainer) -> None:
    it = trainer(standby=True)
    it.until(lambda p: p.state is TrainerState.STANDBY)
    it.stop()
    assert isinstance(it.error, SystemExit)
    assert it.error.code == 0
    it.error = None


def test_a_save_waits_for_the_one_before_it_and_costs_a_copy(tmp_path: Path, vault) -> None:
    big = {"w": np.random.default_rng(1).standard_normal(2_000_000, dtype=np.float32)}
    blocked_s = []
    with Session(vault, options(tmp_path, control=None)) as session:
        for step in session.steps(4):
            begin_s = time.perf_counter()
            session.save(step, big)
            blocked_s.append(time.perf_counter() - begin_s)
            big["w"] += 1  # the next save waits: what was copied must not change under the one that is being written
    print(f"8 MB: the script was blocked for {[f'{value * 1000:.1f} ms' for value in blocked_s]}")
    first = float(np.random.default_rng(1).standard_normal(1, dtype=np.float32)[0])
    assert [(info.step, steps_in(vault, info.id)) for info in vault.list(W)] == [(n, np.float32(first) + n - 1) for n in (4, 3, 2, 1)]
