"""Conformance suite of the training control port (R16; J13; design rule 11). A driver inherits the class and fills in the hooks.

Call ``pytest.register_assert_rewrite("bridgehead.testing.training_suite")`` in a ``conftest.py`` to see values in failed assertions.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import msgspec
import pytest

from bridgehead.kernel.errors import Conflict, NotFound, Transient
from bridgehead.kernel.ids import Epoch, JobName, RunId, SnapshotId, StepId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.training import (
    Continue,
    Order,
    OrderEnvelope,
    Release,
    SaveAndHold,
    TrainerState,
    TrainingControl,
    TrainingProgress,
)

JOB = JobName("train")
OTHER = JobName("train-other")

REPORT = TrainingProgress(
    state=TrainerState.RUNNING,
    step=41,
    epoch=Epoch(1),
    saved=SnapshotId("w@40.1"),
    loaded=None,
    obeyed="",
    reported_s=1000.5,
    step_ended_s=1000.25,
    first_step_s=900.0,
)


def stamp(step: str = "order", *, run: str = "run-1", epoch: int = 1) -> Stamp:
    """A stamp of ``run`` in ``epoch``."""
    return Stamp(run=RunId(run), step=StepId(step), attempt=1, epoch=Epoch(epoch))


class TrainingControlSuite:
    """What every training control must do. The hooks play the trainer: they must not go through the control itself."""

    @pytest.fixture
    def control(self) -> TrainingControl:
        """A control whose trainers have neither reported nor been given an order."""
        raise NotImplementedError

    def report(self, control: TrainingControl, job: JobName, progress: TrainingProgress) -> None:
        """As the trainer: write ``progress``."""
        raise NotImplementedError

    def received(self, control: TrainingControl, job: JobName) -> OrderEnvelope | None:
        """As the trainer: the newest order that was delivered, None before the first."""
        raise NotImplementedError

    def tear_report(self, control: TrainingControl, job: JobName) -> None:
        """Damage the trainer's report, as a write that was cut off would."""
        raise NotImplementedError

    def reopened(self, control: TrainingControl) -> TrainingControl:
        """Another controller's view of the same site; it shares no memory with ``control``."""
        raise NotImplementedError

    def blinded(self, control: TrainingControl) -> AbstractContextManager[None]:
        """Inside of it the site cannot be seen."""
        raise NotImplementedError

    def advance(self, seconds_s: float) -> None:
        """Let time pass."""
        time.sleep(seconds_s)

    def eventually(self, predicate: Callable[[], bool], *, within_s: float = 10.0, step_s: float = 0.02) -> None:
        """Let time pass until ``predicate`` holds; an assertion fails when it does not within ``within_s``."""
        passed_s = 0.0
        while not predicate():
            assert passed_s < within_s, f"did not happen within {within_s} s"
            self.advance(step_s)
            passed_s += step_s

    def delivered(self, control: TrainingControl, job: JobName, envelope: OrderEnvelope) -> None:
        """Assert that the trainer gets exactly this order."""
        self.eventually(lambda: self.received(control, job) == envelope)

    # progress

    def test_a_trainer_that_has_not_reported_is_not_found(self, control: TrainingControl) -> None:
        """Also when it has been given an order."""
        with pytest.raises(NotFound):
            control.progress(JOB)
        control.request(JOB, SaveAndHold(), order_id="o1", stamp=stamp())
        with pytest.raises(NotFound):
            control.progress(JOB)

    def test_the_newest_report_is_read_exactly(self, control: TrainingControl) -> None:
        """Field by field, each job its own."""
        self.report(control, JOB, REPORT)
        assert control.progress(JOB) == REPORT
        newer = msgspec.structs.replace(REPORT, step=42, state=TrainerState.HOLDING, obeyed="o1", reported_s=1001.5)
        self.report(control, JOB, newer)
        self.report(control, OTHER, REPORT)
        assert control.progress(JOB) == newer
        assert control.progress(OTHER) == REPORT

    def test_a_torn_report_is_no_answer(self, control: TrainingControl) -> None:
        """Neither "not found" nor half a progress; the next whole report counts."""
        self.report(control, JOB, REPORT)
        self.tear_report(control, JOB)
        with pytest.raises(Transient):
            control.progress(JOB)
        self.report(control, JOB, REPORT)
        assert control.progress(JOB) == REPORT

    def test_J01_a_site_that_cannot_be_seen_is_no_answer(self, control: TrainingControl) -> None:
        """Neither for a trainer that has reported nor for one that has not; nor can an order be given."""
        self.report(control, JOB, REPORT)
        with self.blinded(control):
            for job in (JOB, OTHER):
                with pytest.raises(Transient):
                    control.progress(job)
                with pytest.raises(Transient):
                    control.request(job, SaveAndHold(), order_id="o1", stamp=stamp())
        assert control.progress(JOB) == REPORT
        assert self.received(control, JOB) is None

    # orders

    @pytest.mark.parametrize("order", [SaveAndHold(), Continue(), Release(snapshot=SnapshotId("w@40.1"), epoch=Epoch(2))])
    def test_an_order_reaches_its_trainer_whole(self, control: TrainingControl, order: Order) -> None:
        """And no other trainer."""
        control.request(JOB, order, order_id="o1", stamp=stamp())
        self.delivered(control, JOB, OrderEnvelope(id="o1", order=order))
        assert self.received(control, OTHER) is None

    def test_repeating_an_order_is_the_same_order(self, control: TrainingControl) -> None:
        """Also for a newer driver."""
        control.request(JOB, SaveAndHold(), order_id="o1", stamp=stamp())
        control.request(JOB, SaveAndHold(), order_id="o1", stamp=stamp())
        self.reopened(control).request(JOB, SaveAndHold(), order_id="o1", stamp=stamp(epoch=2))
        self.delivered(control, JOB, OrderEnvelope(id="o1", order=SaveAndHold()))

    def test_a_newer_order_replaces_the_older_one(self, control: TrainingControl) -> None:
        """The trainer knows only the last."""
        control.request(JOB, SaveAndHold(), order_id="o1", stamp=stamp())
        control.request(JOB, Continue(), order_id="o2", stamp=stamp("undo"))
        self.delivered(control, JOB, OrderEnvelope(id="o2", order=Continue()))

    def test_a_late_repeat_of_a_replaced_order_is_not_delivered_again(self, control: TrainingControl) -> None:
        """The trainer would obey it a second time, because it remembers only the last id."""
        control.request(JOB, SaveAndHold(), order_id="o1", stamp=stamp())
        control.request(JOB, Continue(), order_id="o2", stamp=stamp("undo"))
        control.request(JOB, SaveAndHold(), order_id="o1", stamp=stamp())
        self.reopened(control).request(JOB, SaveAndHold(), order_id="o1", stamp=stamp())
        self.delivered(control, JOB, OrderEnvelope(id="o2", order=Continue()))

    def test_J13_an_older_epoch_is_refused(self, control: TrainingControl) -> None:
        """By every controller, and nothing is delivered."""
        control.request(JOB, SaveAndHold(), order_id="o1", stamp=stamp(epoch=3))
        for either in (control, self.reopened(control)):
            with pytest.raises(Conflict):
                either.request(JOB, Continue(), order_id="o2", stamp=stamp(epoch=2))
            with pytest.raises(Conflict):
                either.request(JOB, SaveAndHold(), order_id="o1", stamp=stamp(epoch=2))
            with pytest.raises(Conflict):
                either.request(OTHER, Continue(), order_id="o3", stamp=stamp(epoch=2))
        self.advance(0.05)
        self.delivered(control, JOB, OrderEnvelope(id="o1", order=SaveAndHold()))
        assert self.received(control, OTHER) is None

    def test_J13_epochs_of_different_runs_do_not_compare(self, control: TrainingControl) -> None:
        """They count per run."""
        control.request(JOB, SaveAndHold(), order_id="o1", stamp=stamp(run="run-1", epoch=3))
        control.request(JOB, Continue(), order_id="o2", stamp=stamp(run="run-2", epoch=1))
        self.delivered(control, JOB, OrderEnvelope(id="o2", order=Continue()))
