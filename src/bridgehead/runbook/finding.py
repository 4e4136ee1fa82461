"""Findings of the linter: stable codes, each explained in docs/reference/runbook-lint.md."""

from __future__ import annotations

import enum
from typing import Final

import msgspec

from bridgehead.kernel.ids import StepId


class Severity(enum.StrEnum):
    """An error makes the runbook unsafe to run and is refused; a warning is for the reviewer to judge."""

    ERROR = "error"
    WARNING = "warning"


class LintCode(enum.StrEnum):
    """What can be wrong with a runbook that can be read."""

    EMPTY = "empty"
    DUPLICATE_STEP = "duplicate-step"
    UNKNOWN_NEED = "unknown-need"
    CYCLE = "cycle"
    UNREACHABLE = "unreachable"
    UNKNOWN_ACTION = "unknown-action"
    BAD_PARAMS = "bad-params"
    STEP_REFERENCE = "step-reference"
    UNDO_MISSING = "undo-missing"
    KEEP_REASON = "keep-reason"
    DEADLINE_MISSING = "deadline-missing"
    DEADLINE_ABSURD = "deadline-absurd"
    RETRY = "retry"
    LIMIT = "limit"
    GATE_SAMPLES = "gate-samples"
    GATE_TRAFFIC = "gate-traffic"
    GATE_CRITERIA = "gate-criteria"
    GATE_LIMIT = "gate-limit"
    GATE_BASELINE = "gate-baseline"
    GATE_DEADLINE = "gate-deadline"
    IDLE_BASELINE = "idle-baseline"
    WEIGHTS = "weights"
    APPROVERS = "approvers"
    QUORUM = "quorum"
    CHECKLIST = "checklist"
    COLD_TARGET = "cold-target"
    FENCE_WITHOUT_RECEIPT = "fence-without-receipt"
    UNGATED = "ungated"


WARNINGS: Final = frozenset(
    {LintCode.DEADLINE_ABSURD, LintCode.COLD_TARGET, LintCode.FENCE_WITHOUT_RECEIPT, LintCode.IDLE_BASELINE, LintCode.UNGATED}
)


class Finding(msgspec.Struct, frozen=True):
    """One thing that the linter found.

    Attributes:
        step: None when it concerns the runbook as a whole.
        field: what of the step, as files write it ("deadline", "gate.min_samples"); empty for the step as a whole.
        message: what is wrong, and what to do.
        location: ``file:line:column`` when the runbook was read from a file.
    """

    code: LintCode
    severity: Severity
    step: StepId | None
    field: str
    message: str
    location: str = ""

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        step = f"step '{self.step}': " if self.step is not None else ""
        return f"{place}{self.severity.value} [{self.code.value}] {step}{self.message}"


def found(code: LintCode, step: StepId | None, field: str, message: str) -> Finding:
    """A finding with the severity of its code."""
    return Finding(code, Severity.WARNING if code in WARNINGS else Severity.ERROR, step, field, message)
