"""The state of a run: the fold of its events. Values only; ``apply`` makes them, ``decide`` reads them."""

from __future__ import annotations

import immutables
import msgspec

from bridgehead.kernel.ids import Epoch, Person, RunId, StepId
from bridgehead.model.event import Phase, Verdict
from bridgehead.model.runbook import Runbook, Step
from bridgehead.runbook.action import Json


class Waiting(msgspec.Struct, frozen=True, tag="waiting"):
    """Not started."""


class Working(msgspec.Struct, frozen=True, tag="working"):
    """An action step on its way forward.

    Attributes:
        intent_epoch: epoch of the journalled intent of this phase and attempt, None before it is written.
        looking: verify runs to find out whether an apply of unknown outcome happened (design rule 3, ``Unknown``).
        since_s: when this phase began (its first attempt).
        retry_at_s: not before.
    """

    phase: Phase
    attempt: int
    intent_epoch: Epoch | None
    looking: bool
    started_s: float
    paused_before_s: float
    since_s: float
    retry_at_s: float
    recorded: Json
    applied: Json
    progress: Json
    error: str = ""
    setbacks: int = 0
    """Transient errors of this phase in a row: the pause before the next try grows with them."""

    @property
    def may_have_changed_the_world(self) -> bool:
        """True as soon as apply may have run, even once and even with an error: an action may do several things."""
        tried = self.intent_epoch is not None or self.attempt > 1 or bool(self.error)
        return self.phase is Phase.VERIFY or (self.phase is Phase.APPLY and tried)


class GateSample(msgspec.Struct, frozen=True):
    """One pair of readings; None where a side could not be read."""

    at_s: float
    target: dict[str, float] | None
    baseline: dict[str, float] | None
    error: str


class Measuring(msgspec.Struct, frozen=True, tag="measuring"):
    """A gate collects evidence."""

    started_s: float
    paused_before_s: float
    samples: tuple[GateSample, ...]
    paged: bool = False


class Asking(msgspec.Struct, frozen=True, tag="asking"):
    """An approval waits for people."""

    started_s: float
    paused_before_s: float
    approved_by: tuple[Person, ...] = ()
    rejected_by: Person | None = None
    why_rejected: str = ""


class Assigned(msgspec.Struct, frozen=True, tag="assigned"):
    """A task is with its owner; ``undoing`` when it is the way back that is asked for."""

    started_s: float
    paused_before_s: float
    undoing: bool


class Holding(msgspec.Struct, frozen=True, tag="holding"):
    """A hold lets time pass."""

    started_s: float
    paused_before_s: float


class Finished(msgspec.Struct, frozen=True, tag="finished"):
    """The step reached its goal."""

    started_s: float
    ended_s: float
    recorded: Json
    applied: Json
    verified: Json


class Broken(msgspec.Struct, frozen=True, tag="broken"):
    """The step cannot reach its goal. ``touched``: it may have changed the world, so it has to be undone."""

    failed_s: float
    reason: str
    remedy: str
    touched: bool
    recorded: Json
    applied: Json
    paged: bool = False
    """A person was called about it, and the rest of the run goes on (``on_failure: freeze``)."""


class ToUndo(msgspec.Struct, frozen=True, tag="to-undo"):
    """Waits until all steps that build on it are undone, then is undone."""

    since_s: float
    recorded: Json
    applied: Json


class Undoing(msgspec.Struct, frozen=True, tag="undoing"):
    """The action's undo is on its way. ``since_s`` is when it began, less the time in which nobody drove the run or it was on hold."""

    attempt: int
    intent_epoch: Epoch | None
    started_s: float
    since_s: float
    paused_before_s: float
    retry_at_s: float
    recorded: Json
    applied: Json
    error: str = ""
    setbacks: int = 0


class Undone(msgspec.Struct, frozen=True, tag="undone"):
    """Taken back; ``kept`` when its undo policy lets the effect stay."""

    kept: bool


class Skipped(msgspec.Struct, frozen=True, tag="skipped"):
    """Was waiting or only looking when the rollback began; changed nothing."""


class Stuck(msgspec.Struct, frozen=True, tag="stuck"):
    """Its undo failed; a person must act."""

    reason: str
    instruction: str
    recorded: Json
    applied: Json


StepState = Waiting | Working | Measuring | Asking | Assigned | Holding | Finished | Broken | ToUndo | Undoing | Undone | Skipped | Stuck

FINAL_STEPS = (Finished, Undone, Skipped, Stuck)
ACTIVE_STEPS = (Working, Measuring, Asking, Assigned, Holding, Broken, ToUndo, Undoing)


class Forward(msgspec.Struct, frozen=True, tag="forward"):
    """On the way to the goal."""


class Backward(msgspec.Struct, frozen=True, tag="backward"):
    """Rolling back."""

    reason: str


class OnHold(msgspec.Struct, frozen=True, tag="on-hold"):
    """Paused by an operator or frozen by a gate; ``direction`` is what goes on after a resume."""

    since_s: float
    by: str
    reason: str
    frozen: bool
    direction: Forward | Backward


class NeedsPerson(msgspec.Struct, frozen=True, tag="needs-person"):
    """A step is Stuck, or the world differs from the journal: nothing new starts.

    Attributes:
        differences: how the world differs; empty when a step is stuck.
        before: what goes on when a person says so in spite of the differences.
    """

    since_s: float
    reason: str
    differences: tuple[str, ...] = ()
    before: Forward | Backward | OnHold | None = None


class Abandoning(msgspec.Struct, frozen=True, tag="abandoning"):
    """A person takes a stuck run over by hand; the run is about to end."""

    by: str
    reason: str


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """Terminal."""

    at_s: float
    verdict: Verdict
    reason: str


Mode = Forward | Backward | OnHold | NeedsPerson | Abandoning | Ended


class CompiledRunbook:
    """A runbook with the look-up tables that deciding needs; made once for a run.

    ``descendants[id]`` is a bit mask over step positions: all steps that need ``id``, directly or not.
    Expects a runbook that passed the linter (known needs, no cycle).
    """

    def __init__(self, runbook: Runbook) -> None:
        self.runbook = runbook
        self.steps: dict[StepId, Step] = {step.id: step for step in runbook.steps}
        self.position = {step.id: position for position, step in enumerate(runbook.steps)}
        self.bit = {step_id: 1 << position for step_id, position in self.position.items()}
        self.dependents: dict[StepId, list[StepId]] = {step.id: [] for step in runbook.steps}
        for step in runbook.steps:
            for need in step.needs:
                self.dependents[need].append(step.id)
        self.order = self._topological()
        self.descendants: dict[StepId, int] = {}
        for step_id in reversed(self.order):
            mask = 0
            for dependent in self.dependents[step_id]:
                mask |= self.bit[dependent] | self.descendants[dependent]
            self.descendants[step_id] = mask

    def needs(self, step_id: StepId, other: StepId) -> bool:
        """Whether ``step_id`` needs ``other``, directly or not."""
        return bool(self.descendants.get(other, 0) & self.bit[step_id])

    def _topological(self) -> list[StepId]:
        missing = {step.id: len(step.needs) for step in self.runbook.steps}
        ready = [step.id for step in self.runbook.steps if not step.needs]
        order: list[StepId] = []
        while ready:
            step_id = ready.pop(0)
            order.append(step_id)
            for dependent in self.dependents[step_id]:
                missing[dependent] -= 1
                if missing[dependent] == 0:
                    ready.append(dependent)
        if len(order) != len(self.steps):
            raise ValueError("the runbook's needs form a cycle; run the linter")
        return order


class RunState(msgspec.Struct, frozen=True):
    """All that is known of a run.

    Attributes:
        active: steps that are neither waiting nor final.
        ready: waiting steps all of whose needs are finished.
        unfinished: number of steps that are not Finished.
        driven_s: time of the newest event that a driver wrote; words of operators come at any time.
        paused_total_s: how long the run was on hold so far (ended holds); deadlines are extended by it.
    """

    run: RunId
    opened_s: float
    plan: CompiledRunbook
    epoch: Epoch
    mode: Mode
    steps: immutables.Map[StepId, StepState]
    active: frozenset[StepId]
    ready: frozenset[StepId]
    unfinished: int
    paused_total_s: float
    last_s: float
    driven_s: float
    undoes: RunId | None = None
    accepted: tuple[str, ...] = ()
    """Differences between world and journal that a person knows of."""


def with_step(state: RunState, step_id: StepId, step: StepState) -> RunState:
    """``state`` with one step replaced and the derived sets kept right."""
    before = state.steps[step_id]
    active = state.active
    if isinstance(step, ACTIVE_STEPS):
        if step_id not in active:
            active = active | {step_id}
    elif step_id in active:
        active = active - {step_id}
    ready = state.ready
    if step_id in ready and not isinstance(step, Waiting):
        ready = ready - {step_id}
    unfinished = state.unfinished + int(isinstance(before, Finished)) - int(isinstance(step, Finished))
    return msgspec.structs.replace(state, steps=state.steps.set(step_id, step), active=active, ready=ready, unfinished=unfinished)


def unlock(state: RunState, step_id: StepId) -> RunState:
    """Steps whose last missing need is ``step_id`` become ready."""
    ready = {
        dependent
        for dependent in state.plan.dependents[step_id]
        if isinstance(state.steps[dependent], Waiting)
        and all(isinstance(state.steps[need], Finished) for need in state.plan.steps[dependent].needs)
    }
    return msgspec.structs.replace(state, ready=state.ready | ready) if ready else state
