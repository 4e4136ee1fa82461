"""What people are told of a run: every state of a step and of a run has its words, its mark, and what can be done (R14)."""

from __future__ import annotations

import io
import typing

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from rich.console import Console

from bridgehead.app.runs import mode_word
from bridgehead.app.views import step_view, view
from bridgehead.cli.display import MARKS, _window, status_table
from bridgehead.kernel.ids import Person, RunId, ServiceId, SiteId, StepId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, ApprovalStep, Criterion, GateStep, HoldStep, Runbook, TaskStep, UndoPolicy
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import opened

STEPS = (
    ActionStep(StepId("act"), "job.start", {}, 60.0, undo=UndoPolicy.KEEP, undo_reason="it is harmless"),
    GateStep(
        StepId("gate"), ServiceId("chat"), SiteId("fra"), None, (Criterion("errors", "e", "r", limit=0.0),), "r", 10, 2, 1.0, 60.0
    ),
    ApprovalStep(StepId("agree"), (Person("ann"), Person("bob o'neill")), 60.0, text="[/b] good?"),
    TaskStep(StepId("cable"), Person("eve"), ("unplug", "label it"), 60.0, undo_checklist=("plug in",)),
    HoldStep(StepId("soak"), 60.0, title="let it [bold]settle"),
)  # fmt: skip
SAMPLE = st.GateSample(1.0, {"e": 0.0, "r": 5.0}, None, "")
ONLY_FOR = {st.Measuring: "gate", st.Asking: "agree", st.Assigned: "cable", st.Holding: "soak", st.Working: "act", st.Undoing: "act"}

times = hs.floats(0, 4e9)
texts = hs.text(max_size=30)
evidence = hs.dictionaries(
    hs.text(min_size=1, max_size=8),
    hs.none() | hs.booleans() | hs.integers() | hs.floats(allow_nan=False) | texts | hs.lists(texts, max_size=2) | hs.just({"a": 1}),
    max_size=3,
)
hs.register_type_strategy(dict, evidence)


def built(kind: type[msgspec.Struct]) -> hs.SearchStrategy[typing.Any]:
    """Any value of a state, as the engine may hold it."""
    values: dict[type, hs.SearchStrategy[typing.Any]] = {float: times, str: texts, bool: hs.booleans(), int: hs.integers(1, 9)}
    named = {
        "recorded": evidence, "applied": evidence, "verified": evidence, "progress": evidence, "phase": hs.sampled_from(ev.Phase),
        "intent_epoch": hs.none() | hs.integers(1, 9), "samples": hs.sampled_from([(), (SAMPLE,)]),
        "approved_by": hs.sampled_from([(), ("ann",), ("ann", "bob o'neill")]), "rejected_by": hs.none(),
        "direction": hs.just(st.Forward()) | hs.builds(st.Backward, texts), "verdict": hs.sampled_from(ev.Verdict),
        "differences": hs.sampled_from([(), ("site-b is at epoch 4",)]), "before": hs.just(st.Forward()) | hs.builds(st.Backward, texts),
    }  # fmt: skip
    types = typing.get_type_hints(kind)
    fields = {name: named[name] if name in named else values[types[name]] for name in kind.__struct_fields__}
    return hs.fixed_dictionaries(fields).map(lambda given: kind(**given))


STATES = {kind: built(kind) for kind in typing.get_args(st.StepState)}
MODES = {kind: built(kind) for kind in typing.get_args(st.Mode)}


@hs.composite
def runs(draw) -> st.RunState:
    state = opened(ev.RunOpened(1.0, RunId("move"), Runbook("move", STEPS), "hash", {}, "ann", "0"))
    for step in STEPS:
        kinds = [kind for kind in STATES if ONLY_FOR.get(kind, step.id) == step.id]
        state = st.with_step(state, step.id, draw(STATES[draw(hs.sampled_from(kinds))]))
    mode = draw(MODES[draw(hs.sampled_from(list(MODES)))])
    if isinstance(mode, st.NeedsPerson):
        state = st.with_step(state, StepId("act"), draw(STATES[st.Stuck]))
    return msgspec.structs.replace(state, mode=mode)


@pytest.mark.parametrize("kind", STATES)
def test_every_state_of_a_step_has_a_word_with_a_mark(kind):
    @given(STATES[kind])
    def check(step):
        state = opened(ev.RunOpened(1.0, RunId("move"), Runbook("move", STEPS), "hash", {}, "ann", "0"))
        step_id = StepId(ONLY_FOR.get(kind, "act"))
        assert step_view(st.with_step(state, step_id, step), step_id).state in MARKS

    check()


@given(runs(), hs.sampled_from(["", "process 7 on vm"]), hs.integers(20, 120), hs.none() | hs.integers(1, 40))
def test_every_run_can_be_shown_and_has_a_next_command(state, driver, columns, rows):
    seen = view(state, driver=driver, home_option=" --home /x")
    assert seen.mode == mode_word(state)
    # No state without an exit: unless a process is about to write the end down, there is something to do.
    assert seen.what_you_can_do or (driver and isinstance(state.mode, st.Abandoning))
    assert all(" --home /x" in command.split("  #")[0] for command in seen.what_you_can_do)
    assert isinstance(state.mode, st.Ended | st.Abandoning) or driver or seen.waits_for
    msgspec.json.encode(seen)
    console = Console(file=io.StringIO(), width=columns, markup=False, emoji=False, highlight=False)
    console.print(status_table(seen, rows=rows))
    assert "move" in console.file.getvalue()


@given(hs.lists(hs.sampled_from(["done", "waiting", "working", "asking", "undone", "to-undo"]), max_size=60), hs.integers(1, 30))
def test_a_table_that_is_too_long_shows_what_is_busy(words, size):
    state = opened(ev.RunOpened(1.0, RunId("move"), Runbook("move", STEPS), "hash", {}, "ann", "0"))
    one = step_view(state, StepId("act"))
    steps = tuple(msgspec.structs.replace(one, state=word) for word in words)
    before, shown, after = _window(steps, size)
    assert before + len(shown) + after == len(steps)
    assert shown == steps[before : before + len(shown)]
    assert len(shown) == min(size, len(steps))
    busy = [number for number, word in enumerate(words) if word in ("working", "asking", "to-undo")]
    if busy and size > 1:
        assert before <= busy[0] < before + len(shown)


def test_a_person_is_offered_the_whole_command():
    state = opened(ev.RunOpened(1.0, RunId("move"), Runbook("move", STEPS), "hash", {}, "ann", "0"))
    state = st.with_step(state, StepId("agree"), st.Asking(1.0, 0.0, approved_by=(Person("ann"),)))
    state = st.with_step(state, StepId("cable"), st.Assigned(1.0, 0.0, undoing=True))
    commands = view(state, driver="x").what_you_can_do
    assert """bridgehead run approve move agree --as 'bob o'"'"'neill'""" in commands
    assert "bridgehead run done move cable --as eve --evidence 'plug in: ...'" in commands


def test_a_deadline_moves_with_the_pauses_and_rests_while_paused():
    state = opened(ev.RunOpened(1.0, RunId("move"), Runbook("move", STEPS), "hash", {}, "ann", "0"))
    state = st.with_step(state, StepId("agree"), st.Asking(100.0, 5.0))
    state = msgspec.structs.replace(state, paused_total_s=25.0)
    assert step_view(state, StepId("agree")).deadline_s == 100.0 + 60.0 + 20.0
    held = msgspec.structs.replace(state, mode=st.OnHold(110.0, "ann", "lunch", False, st.Forward()))
    assert step_view(held, StepId("agree")).deadline_s is None
    assert "since " in view(held, driver="").waits_for[0]
