"""The runbook language: steps of every kind, parameters by action, places for findings, JSON Schema (R14, M10.4)."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from bridgehead.app.wiring import ACTIONS, action_params
from bridgehead.kernel.ids import StepId
from bridgehead.kernel.located import BadFile
from bridgehead.model.runbook import ActionStep, ApprovalStep, GateStep, HoldStep, OnNoData, Retry, TaskStep, UndoPolicy
from bridgehead.runbook.language import read_located, read_runbook, runbook_schema, write_runbook

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "examples" / "runbook.yaml").read_text(encoding="utf-8")
BAD = ROOT / "tests" / "golden" / "bad" / "runbooks"


class Near(msgspec.Struct, tag="near", tag_field="how", frozen=True):
    within_s: float


class Far(msgspec.Struct, tag="far", tag_field="how", frozen=True):
    size_bytes: int


class Params(msgspec.Struct, frozen=True):
    choice: Near | Far
    often: tuple[Near, ...] = ()


def test_example_is_read() -> None:
    runbook = read_runbook(EXAMPLE, file="x", actions=action_params())
    assert runbook.name == "swing-chat"
    assert runbook.pause_expires_s == 43_200.0
    warm, shift, gate, go, _, soak, _, announce = runbook.steps
    assert isinstance(warm, ActionStep)
    assert warm.params["job"] == {"name": "chat-b", "command": ["python3", "serve.py", "--port", "9302"], "grace_s": 20.0}
    assert (warm.deadline_s, warm.undo_deadline_s, warm.undo) == (300.0, 60.0, UndoPolicy.ACTION)
    assert isinstance(shift, ActionStep)
    assert (shift.retry, shift.needs) == (Retry(5, 0.5), ("warm-target",))
    assert isinstance(gate, GateStep)
    assert [(c.limit, c.over_baseline, c.ratio_to_baseline, c.no_data) for c in gate.criteria] == [
        (0.0, None, None, OnNoData.HOLD), (None, 0.001, None, OnNoData.OK), (None, None, 1.5, OnNoData.HOLD)
    ]  # fmt: skip
    assert isinstance(go, ApprovalStep)
    assert (go.approvers, go.quorum) == (("alice", "bob"), 1)
    assert isinstance(soak, HoldStep)
    assert soak.hold_s == 1800.0
    assert isinstance(announce, TaskStep)
    assert announce.undo_checklist


def test_parameters_are_what_the_action_takes() -> None:
    runbook = read_runbook(EXAMPLE, file="x", actions=action_params())
    for step in runbook.steps:
        if isinstance(step, ActionStep):
            assert msgspec.convert(step.params, action_params()[step.action])


def test_only_given_parameters_are_kept_so_that_defaults_stay_the_actions_own() -> None:
    runbook = read_runbook(EXAMPLE, file="x", actions=action_params())
    first = runbook.steps[0]
    assert isinstance(first, ActionStep)
    assert "env" not in first.params["job"]


def test_written_example_reads_back_equal() -> None:
    runbook = read_runbook(EXAMPLE, file="x", actions=action_params())
    text = write_runbook(runbook, actions=action_params())
    assert read_runbook(text, file="x", actions=action_params()) == runbook
    assert "grace: 20 s" in text


def test_places_lead_to_the_field() -> None:
    located = read_located("runbook: x\nsteps:\n  - id: a\n    hold: 0 s\n", file="r.yaml", actions={})
    assert located.place(StepId("a"), "hold") == "r.yaml:4:11"
    assert located.place(StepId("a"), "gate.min_samples") == "r.yaml:3:5"
    assert located.place(None) == "r.yaml:3:3"


def test_every_registered_action_can_be_described_in_files() -> None:
    schema = runbook_schema(action_params())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert len(action_params()) == len(ACTIONS)


def test_schema_accepts_the_example() -> None:
    jsonschema.validate(yaml.safe_load(EXAMPLE), runbook_schema(action_params()))


@pytest.mark.parametrize("path", sorted(BAD.glob("read_*.yaml")), ids=lambda path: path.stem)
def test_schema_refuses_what_the_reader_refuses(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(runbook_schema(action_params()))
    assert list(validator.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8"))))


def test_a_tagged_choice_among_parameters_is_read() -> None:
    params = "{choice: {how: far, size: 1 GB}, often: [{how: near, within: 1 min}]}"
    text = f"runbook: x\nsteps:\n  - {{id: a, action: go, with: {params}, deadline: 1 s}}\n"
    runbook = read_runbook(text, file="x", actions={"go": Params})
    step = runbook.steps[0]
    assert isinstance(step, ActionStep)
    assert step.params == {"choice": {"how": "far", "size_bytes": 10**9}, "often": [{"how": "near", "within_s": 60.0}]}
    assert read_runbook(write_runbook(runbook, actions={"go": Params}), file="x", actions={"go": Params}) == runbook
    with pytest.raises(BadFile, match="did you mean 'far'"):
        read_runbook(text.replace("how: far", "how: farr"), file="x", actions={"go": Params})
