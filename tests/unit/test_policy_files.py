"""Policy files: read, defaults from the requirements, JSON Schema."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import msgspec
import pytest
import yaml

from bridgehead.kernel.moment import parse_moment
from bridgehead.model.policy import Policy, policy_schema, read_policy, write_policy

ROOT = Path(__file__).parents[2]
EXAMPLE = (ROOT / "examples" / "policy.yaml").read_text(encoding="utf-8")
BAD = ROOT / "tests" / "golden" / "bad" / "policy"
BEYOND_SCHEMA = {"canary_bounds", "same_ends"}
"""Faults between fields, or limits of quantities, which are text for a JSON Schema."""


def test_example_is_read_into_si() -> None:
    policy = read_policy(EXAMPLE, file="x", sites=["site-a", "site-b"])
    assert policy.windows[0].begins_s == parse_moment("2026-03-07 19:00Z")
    assert policy.limits.rate_bps == 6e10
    assert policy.canary.steps == (0.05, 0.25, 0.5, 1.0)
    assert policy.approvals[0].expires_s == 4 * 3600
    assert {objective.id: objective.rto_s for objective in policy.objectives} == {"training": 14_400.0, "serving": 900.0}
    assert policy.compute_loss.per_workload_s == 47.0


def test_M10_1_M5_3_M7_3_defaults() -> None:
    policy = read_policy("policy: x\nsource: a\ntarget: b\n", file="x")
    assert (policy.reserve, policy.margin, policy.canary.steps) == (0.1, 0.2, (0.05, 0.25, 0.5, 1.0))


def test_written_policy_reads_back_equal() -> None:
    policy = read_policy(EXAMPLE, file="x")
    assert read_policy(write_policy(policy), file="x") == policy
    assert msgspec.json.decode(msgspec.json.encode(policy), type=Policy) == policy


def test_schema_accepts_the_example() -> None:
    jsonschema.Draft202012Validator.check_schema(policy_schema())
    jsonschema.validate(yaml.safe_load(EXAMPLE), policy_schema())


@pytest.mark.parametrize("path", [p for p in sorted(BAD.glob("*.yaml")) if p.stem not in BEYOND_SCHEMA], ids=lambda path: path.stem)
def test_schema_refuses_what_it_can_express(path: Path) -> None:
    validator = jsonschema.Draft202012Validator(policy_schema())
    assert list(validator.iter_errors(yaml.safe_load(path.read_text(encoding="utf-8"))))
