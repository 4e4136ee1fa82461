"""The weight in force, as the demo reads it from a journal."""

from __future__ import annotations

from bridgehead.app.demo.facts import weight_at_target, weights_at_target
from bridgehead.app.demo.places import SOURCE, TARGET
from bridgehead.kernel.ids import Epoch, StepId
from bridgehead.model import event as ev
from bridgehead.ports.journal import Entry


def read_back(at_s: float, step: str, phase: ev.Phase, percent: int) -> Entry:
    evidence = {"weights": {SOURCE: 100 - percent, TARGET: percent}}
    event = ev.PhaseDone(at_s=at_s, step=StepId(step), phase=phase, attempt=1, epoch=Epoch(1), evidence=evidence)
    return Entry(seq=1, event=event, payload=b"", previous="", hash="", signature="", key_id="")


def test_G04_after_an_undo_the_weights_before_it_are_in_force() -> None:
    entries = [
        read_back(10.0, "shift-5", ev.Phase.PRECHECK, 0),
        read_back(11.0, "shift-5", ev.Phase.VERIFY, 5),
        read_back(20.0, "shift-25", ev.Phase.PRECHECK, 5),
        read_back(21.0, "shift-25", ev.Phase.VERIFY, 25),
        read_back(30.0, "shift-25", ev.Phase.UNDO, 5),
        read_back(40.0, "shift-5", ev.Phase.UNDO, 0),
    ]
    seen = [weight_at_target(entries, at_s) for at_s in (9.0, 10.5, 11.0, 20.5, 25.0, 30.0, 39.0, 40.0)]
    assert seen == [0, 0, 5, 5, 25, 5, 5, 0]


def intent(at_s: float, step: str, phase: ev.Phase) -> Entry:
    event = ev.Intent(at_s=at_s, step=StepId(step), phase=phase, attempt=1, epoch=Epoch(1))
    return Entry(seq=1, event=event, payload=b"", previous="", hash="", signature="", key_id="")


def test_G04_while_a_change_is_on_its_way_either_weight_may_be_in_force() -> None:
    entries = [
        intent(10.0, "shift-5", ev.Phase.APPLY),
        read_back(11.0, "shift-5", ev.Phase.VERIFY, 5),
        intent(20.0, "other", ev.Phase.UNDO),
        intent(30.0, "shift-5", ev.Phase.UNDO),
        read_back(36.0, "shift-5", ev.Phase.UNDO, 0),  # reading back may take long on a busy machine
    ]
    seen = [weights_at_target(entries, at_s) for at_s in (9.0, 10.5, 12.0, 25.0, 29.9, 33.0, 36.5)]
    assert seen == [(0,), (0, 5), (5,), (5,), (5,), (5, 0), (0,)]
    assert weights_at_target(entries[:4], 33.0) == (5, 0, 100), "it was never read back"
