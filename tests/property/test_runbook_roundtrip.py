"""Every runbook that the model can hold is written so that it reads back equal, and linting it never fails."""

from __future__ import annotations

import string

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.app.wiring import action_params, undoable_actions
from bridgehead.model.runbook import (
    ActionStep,
    ApprovalStep,
    Criterion,
    GateStep,
    HoldStep,
    OnBreach,
    OnNoData,
    Retry,
    Runbook,
    TaskStep,
    UndoPolicy,
)
from bridgehead.runbook.finding import Severity
from bridgehead.runbook.language import read_runbook, write_runbook
from bridgehead.runbook.lint import lint
from bridgehead.runbook.state import CompiledRunbook

IDS = st.text(string.ascii_letters + string.digits + ".-_", min_size=1, max_size=6) | st.sampled_from(
    ["no", "on", "012", "1e3", "2026-01-01", "~x"]
)
# What YAML can hold: no control characters and no lone surrogates.
TEXTS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=20)
TIMES = st.floats(min_value=0, max_value=1e7)
SMALL = st.integers(min_value=0, max_value=1000)
LIMITS = st.none() | st.floats(min_value=0, max_value=1e6)
NEEDS = st.lists(IDS, max_size=3).map(tuple)
TITLES = st.just("") | TEXTS

SHIFTS = st.fixed_dictionaries({"service": IDS, "weights": st.dictionaries(IDS, st.integers(-5, 120), max_size=3)})
JOBS = st.fixed_dictionaries(
    {"name": IDS, "command": st.lists(TEXTS, max_size=3)}, optional={"env": st.dictionaries(IDS, TEXTS, max_size=2), "grace_s": TIMES}
)
ACTIONS = st.one_of(
    st.tuples(st.just("traffic.shift"), SHIFTS),
    st.tuples(st.just("job.start"), st.fixed_dictionaries({"site": IDS, "job": JOBS})),
)
KEPT = st.tuples(st.just(UndoPolicy.ACTION), st.just("")) | st.tuples(st.just(UndoPolicy.KEEP), TEXTS)


@st.composite
def action_steps(draw: st.DrawFn) -> ActionStep:
    action, params = draw(ACTIONS)
    undo, reason = draw(KEPT)
    return ActionStep(
        id=draw(IDS), action=action, params=params, deadline_s=draw(TIMES), needs=draw(NEEDS),
        retry=Retry(draw(SMALL), draw(TIMES)), undo=undo, undo_reason=reason, undo_deadline_s=draw(TIMES), title=draw(TITLES),
    )  # fmt: skip


CRITERIA = st.builds(
    Criterion, name=TEXTS, numerator=IDS, denominator=IDS, limit=LIMITS, over_baseline=LIMITS, ratio_to_baseline=LIMITS,
    no_data=st.sampled_from(OnNoData),
)  # fmt: skip
GATES = st.builds(
    GateStep, id=IDS, service=IDS, target=IDS, baseline=st.none() | IDS, criteria=st.lists(CRITERIA, max_size=3).map(tuple), traffic=IDS,
    min_traffic=SMALL, min_samples=SMALL, interval_s=TIMES, deadline_s=TIMES, needs=NEEDS, on_breach=st.sampled_from(OnBreach),
    title=TITLES,
)  # fmt: skip
APPROVALS = st.builds(
    ApprovalStep, id=IDS, approvers=st.lists(IDS, max_size=3).map(tuple), deadline_s=TIMES, needs=NEEDS, quorum=SMALL, text=TITLES,
    title=TITLES,
)  # fmt: skip
CHECKLISTS = st.lists(TEXTS, max_size=3).map(tuple)
TASKS = st.builds(TaskStep, id=IDS, owner=IDS, checklist=CHECKLISTS, deadline_s=TIMES, needs=NEEDS, undo_checklist=CHECKLISTS, title=TITLES)
HOLDS = st.builds(HoldStep, id=IDS, hold_s=TIMES, needs=NEEDS, title=TITLES)
STEPS = action_steps() | GATES | APPROVALS | TASKS | HOLDS
RUNBOOKS = st.builds(Runbook, name=IDS, steps=st.lists(STEPS, max_size=5).map(tuple), description=TITLES, pause_expires_s=TIMES)


@settings(max_examples=150)
@given(RUNBOOKS)
def test_any_runbook_reads_back_equal(runbook: Runbook) -> None:
    text = write_runbook(runbook, actions=action_params())
    assert read_runbook(text, file="x", actions=action_params()) == runbook


@settings(max_examples=150)
@given(RUNBOOKS)
def test_any_runbook_can_be_linted_and_without_errors_the_engine_takes_it(runbook: Runbook) -> None:
    findings = lint(runbook, action_params(), undoable=undoable_actions())
    if not any(finding.severity is Severity.ERROR for finding in findings):
        assert len(CompiledRunbook(runbook).order) == len(runbook.steps)


GRAPHS = st.lists(st.lists(st.integers(0, 7), max_size=3), min_size=1, max_size=8)


@given(GRAPHS)
def test_order_errors_are_exactly_what_the_engine_cannot_run(needs: list[list[int]]) -> None:
    steps = tuple(HoldStep(id=f"s{n}", hold_s=1.0, needs=tuple(f"s{need}" for need in set(wanted))) for n, wanted in enumerate(needs))
    runbook = Runbook(name="x", steps=steps)
    sound = not lint(runbook, {}, undoable=())
    try:
        CompiledRunbook(runbook)
        runs = True
    except (KeyError, ValueError):
        runs = False
    assert sound == runs
