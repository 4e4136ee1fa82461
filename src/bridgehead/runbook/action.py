"""What an action is: four small functions that the engine calls, each quick and each safe to repeat (design rule 4).

An action never waits: it looks, does one idempotent thing, and says ``Pending`` when the world needs more time; the engine calls it again.
That is why the same action runs under real and under virtual time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from bridgehead.model.stamp import Stamp

Json = dict[str, Any]


class Done(msgspec.Struct, frozen=True):
    """The phase reached its end. From precheck, ``evidence`` is the snapshot that undo restores."""

    evidence: Json = {}


class Pending(msgspec.Struct, frozen=True):
    """Call again after ``poll_after_s``; ``progress`` is shown to people."""

    poll_after_s: float
    progress: Json = {}


class Failed(msgspec.Struct, frozen=True):
    """A definite negative finding (not an error of a port): the step fails without another try of this phase.

    From ``verify`` it means "the effect is not there": the engine tries apply again while attempts last.
    """

    reason: str
    remedy: str


Outcome = Done | Pending | Failed


class Call(msgspec.Struct, frozen=True):
    """What a phase is given.

    Attributes:
        recorded: evidence of this step's precheck (empty during precheck).
        applied: evidence of this step's apply (empty before).
        earlier: evidence (apply merged with verify) of each step that this one needs, directly or not, by step id.
        since_s: engine time when this phase began; an action's own time limits count from it and survive a restart.
        now_s: engine time.
    """

    stamp: Stamp
    recorded: Json
    applied: Json
    earlier: Mapping[str, Json]
    since_s: float
    now_s: float


class Action(Protocol):
    """One file in ``bridgehead.recovery.actions``, one line in ``wiring.py``.

    ``name`` is what runbooks write; ``params_type`` is the struct that ``with:`` is checked against, so that the linter can.
    Phases raise only port errors.
    """

    name: str
    params_type: type[msgspec.Struct]
    undoable: bool

    def precheck(self, params: Any, call: Call) -> Outcome:
        """May it be done now? Reads only; records what an undo needs."""
        ...

    def apply(self, params: Any, call: Call) -> Outcome:
        """Do it; a repeat does nothing more."""
        ...

    def verify(self, params: Any, call: Call) -> Outcome:
        """Read the real world back."""
        ...

    def undo(self, params: Any, call: Call) -> Outcome:
        """Restore what precheck recorded; called also when apply may not have happened. Verifies itself before Done."""
        ...
