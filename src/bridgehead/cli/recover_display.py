"""How the outcome of a recovery looks: what is reached, what was lost, what is left to do."""

from __future__ import annotations

import sys
from collections.abc import Callable

from bridgehead.app.recover_outcome import RecoveryOutcome, is_serving
from bridgehead.app.views import changed, clock_time
from bridgehead.kernel.ids import RunId
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.event import Verdict
from bridgehead.model.runbook import ActionStep
from bridgehead.recovery.actions.milestones import Milestone, ReachMilestone
from bridgehead.recovery.protection import CONFIRM, PROTECTED
from bridgehead.runbook import state as st

UNDER_WAY = ("going forward", "rolling back", "paused")


def print_outcome(came: RecoveryOutcome, *, home_option: str, state: st.RunState | None = None) -> None:
    """A few lines; the last ones say what to do now.

    Args:
        state: of the run; with it, it can be told when nothing was changed, and what the lost site is called.
    """
    print(f"{came.run}: {came.mode}{' (' + came.reason + ')' if came.reason else ''}")
    if state is not None and _came_to_nothing(state):
        print(f"  ledger head {came.ledger_head}")
        print(f"Nothing was changed.{_ask_again(state, home_option)}")
        return
    for name, reached in came.milestones.items():
        when = "not reached" if reached is None else f"reached at {clock_time(reached.at_s)}, after {_seconds(reached.after_s)}"
        print(f"  {name}: {when}")
    for loss in came.losses:
        print(f"  {loss.text}")
    for workload, steps in came.measured_steps.items():
        print(f"  {workload}: {'the lost site left no word' if steps is None else f'{steps} steps were really lost'}")
    if came.lost_compute_s is not None:
        print(f"  training stood still for {_seconds(came.lost_compute_s)}")
    print(f"  ledger head {came.ledger_head}")
    serving, protected = came.milestones[Milestone.SERVING.value], came.milestones[Milestone.PROTECTED.value]
    lost = "SITE" if state is None else _lost_site(state)
    if serving is not None and protected is None and lost and came.mode not in [verdict.value for verdict in Verdict]:
        print(_not_protected(came.run, lost, home_option=home_option))
    elif came.mode in UNDER_WAY:
        print(stopped_here(came.run, home_option=home_option), file=sys.stderr)


def is_recovery(state: st.RunState) -> bool:
    """Whether a run has milestones, so that ``print_outcome`` has more to say of it than of other runs."""
    return any(isinstance(step, ActionStep) and step.action == ReachMilestone.name for step in state.plan.runbook.steps)


def stopped_here(run: RunId, *, home_option: str) -> str:
    """How to go on with a run that was left under way."""
    return f"stopped here; the run waits where it is: `bridgehead run resume {run}{home_option}` goes on"


def _unprotected(state: st.RunState, *, home_option: str) -> str:
    """What to know of a failover that serves while its lost site has not returned; "" of any other run, and before and after."""
    lost = _lost_site(state)
    waits = lost and isinstance(state.mode, st.Forward) and is_serving(state)
    if not waits or isinstance(state.steps.get(PROTECTED), st.Finished):
        return ""
    return _not_protected(state.run, lost, home_option=home_option)


class Told:
    """Says once of a run, while it goes on, that it serves and is not protected."""

    def __init__(self, home_option: str, say: Callable[[str], None]) -> None:
        self._home_option = home_option
        self._say = say
        self._done = False

    def saw(self, state: st.RunState) -> None:
        """The run as it is now."""
        text = "" if self._done else _unprotected(state, home_option=self._home_option)
        if text:
            self._done = True
            self._say(text)


def _not_protected(run: RunId, lost: str, *, home_option: str) -> str:
    return (
        "It serves, but it is NOT PROTECTED: the lost site is not clean, and nothing is copied to it yet.\n"
        f"When that site is back: `bridgehead run resume {run}{home_option}`, or `bridgehead recover protect {lost}{home_option}`."
    )


def _lost_site(state: st.RunState) -> str:
    """Of a failover; "" of what is none."""
    look = state.plan.steps.get(CONFIRM)
    return str(look.params["site"]) if isinstance(look, ActionStep) else ""


def _came_to_nothing(state: st.RunState) -> bool:
    return isinstance(state.mode, st.Ended) and state.mode.verdict is Verdict.ROLLED_BACK and not changed(state)


def _ask_again(state: st.RunState, home_option: str) -> str:
    lost = _lost_site(state)
    return f" Ask again: `bridgehead recover failover {lost}{home_option}`" if lost else ""


def _seconds(seconds: float) -> str:
    return format_quantity(round(seconds, 1), Dimension.DURATION)
