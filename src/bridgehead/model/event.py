"""Events: all that can be written into a run's journal. The state of a run is the fold of its events (design rule 3)."""

from __future__ import annotations

import enum
from typing import Any

import msgspec

from bridgehead.kernel.ids import Epoch, Person, RunId, StepId
from bridgehead.model.runbook import Runbook


class Phase(enum.StrEnum):
    """The four parts of a step (design rule 4)."""

    PRECHECK = "precheck"
    APPLY = "apply"
    VERIFY = "verify"
    UNDO = "undo"


class Verdict(enum.StrEnum):
    """How a run ended; written once (J02)."""

    DONE = "done"
    ROLLED_BACK = "rolled-back"
    ABANDONED = "abandoned"
    """A person ended a stuck run and took over by hand."""


class GateVerdict(enum.StrEnum):
    """The four outcomes of a gate (G01, G02)."""

    PASS = "pass"
    BREACH = "breach"
    NO_DATA = "no-data"
    ERROR = "error"


class _Base(msgspec.Struct, frozen=True, tag_field="event"):
    at_s: float


class DoneBefore(msgspec.Struct, frozen=True):
    """What an earlier run left behind for one step."""

    recorded: dict[str, Any]
    applied: dict[str, Any]


class Undoes(msgspec.Struct, frozen=True):
    """This run rolls a finished one back; the finished one's verdict stays as it was written (J02)."""

    run: RunId
    steps: dict[StepId, DoneBefore]


class RunOpened(_Base, frozen=True, tag="run-opened"):
    """The run exists. Holds all that a resume needs: the runbook and the connections of the estate."""

    run: RunId
    runbook: Runbook
    runbook_hash: str
    estate: dict[str, Any]
    by: str
    version: str
    undoes: Undoes | None = None


class DriverTook(_Base, frozen=True, tag="driver-took"):
    """A process took the run over; commands of older epochs no longer count."""

    epoch: Epoch
    driver: str


class Intent(_Base, frozen=True, tag="intent"):
    """Written before an effect."""

    step: StepId
    phase: Phase
    attempt: int
    epoch: Epoch


class PhaseDone(_Base, frozen=True, tag="phase-done"):
    """The phase reached its end; ``evidence`` is what was seen (for precheck: the snapshot that an undo restores)."""

    step: StepId
    phase: Phase
    attempt: int
    epoch: Epoch
    evidence: dict[str, Any]


class PhaseProgress(_Base, frozen=True, tag="phase-progress"):
    """A long phase says how far it is; thinned by the shell."""

    step: StepId
    phase: Phase
    progress: dict[str, Any]


class PhaseFailed(_Base, frozen=True, tag="phase-failed"):
    """The phase failed. ``error`` is one of the five port errors or ``failed`` (the action's own negative finding)."""

    step: StepId
    phase: Phase
    attempt: int
    epoch: Epoch
    error: str
    reason: str
    remedy: str
    retry_after_s: float


class StepStarted(_Base, frozen=True, tag="step-started"):
    """A gate, approval, task or hold began to wait (an action step begins with its first intent)."""

    step: StepId


class GateMeasured(_Base, frozen=True, tag="gate-measured"):
    """One reading of both sides; None where a side could not be read, with the reason in ``error``."""

    step: StepId
    target: dict[str, float] | None
    baseline: dict[str, float] | None
    error: str


class GateJudged(_Base, frozen=True, tag="gate-judged"):
    """The verdict with the numbers that it rests on."""

    step: StepId
    verdict: GateVerdict
    findings: list[dict[str, Any]]


class Approved(_Base, frozen=True, tag="approved"):
    """A named person approved."""

    step: StepId
    by: Person
    comment: str


class Rejected(_Base, frozen=True, tag="rejected"):
    """A named person said no."""

    step: StepId
    by: Person
    comment: str


class TaskSignedOff(_Base, frozen=True, tag="task-signed-off"):
    """A person did a task (or its undo) and gave evidence for each item."""

    step: StepId
    by: Person
    evidence: list[str]


class StepDone(_Base, frozen=True, tag="step-done"):
    """The step reached its goal."""

    step: StepId


class StepFailed(_Base, frozen=True, tag="step-failed"):
    """The step cannot reach its goal: attempts used up, deadline passed, gate breached, approval refused."""

    step: StepId
    reason: str
    remedy: str


class StepUndone(_Base, frozen=True, tag="step-undone"):
    """The step's effect is taken back (or was declared to stay, then ``kept``)."""

    step: StepId
    kept: bool


class StepStuck(_Base, frozen=True, tag="step-stuck"):
    """An undo failed: frozen, with what a person must do (design rule 4)."""

    step: StepId
    reason: str
    instruction: str


class RollbackBegan(_Base, frozen=True, tag="rollback-began"):
    """From here on, steps are undone in reverse order."""

    reason: str


class Frozen(_Base, frozen=True, tag="frozen"):
    """``on_breach: freeze``: everything stays as it is until a person resumes or aborts."""

    step: StepId
    reason: str


class Paged(_Base, frozen=True, tag="paged"):
    """A person was called."""

    step: StepId
    reason: str


class Noticed(_Base, frozen=True, tag="noticed"):
    """Something outside the steps happened and was dealt with, such as a proxy that had lost its weights (G09)."""

    text: str


class WorldDiffers(_Base, frozen=True, tag="world-differs"):
    """What is seen cannot have come of what this journal tells: it was restored from an old copy, or somebody else acted (J09)."""

    differences: list[str]


class Paused(_Base, frozen=True, tag="paused"):
    """An operator holds the run."""

    by: str
    reason: str


class Resumed(_Base, frozen=True, tag="resumed"):
    """An operator lets a paused, frozen or stuck run go on."""

    by: str


class AbortAsked(_Base, frozen=True, tag="abort-asked"):
    """An operator wants everything back as it was. On a stuck run: the operator takes over by hand."""

    by: str
    reason: str


class RunEnded(_Base, frozen=True, tag="run-ended"):
    """Terminal."""

    verdict: Verdict
    reason: str


Event = (
    RunOpened
    | DriverTook
    | Intent
    | PhaseDone
    | PhaseProgress
    | PhaseFailed
    | StepStarted
    | GateMeasured
    | GateJudged
    | Approved
    | Rejected
    | TaskSignedOff
    | StepDone
    | StepFailed
    | StepUndone
    | StepStuck
    | RollbackBegan
    | Frozen
    | Paged
    | Noticed
    | WorldDiffers
    | Paused
    | Resumed
    | AbortAsked
    | RunEnded
)
