"""How the outcome of a recovery looks: what is reached, what was lost, what is left to do."""

from __future__ import annotations

from bridgehead.app.recover_outcome import RecoveryOutcome
from bridgehead.app.views import clock_time
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.recovery.actions.milestones import Milestone


def print_outcome(came: RecoveryOutcome, *, home_option: str) -> None:
    """A few lines; the last ones say what to do now."""
    print(f"{came.run}: {came.mode}{' (' + came.reason + ')' if came.reason else ''}")
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
    if serving is not None and protected is None and came.mode not in ("done", "rolled-back"):
        print("It serves, but it is NOT PROTECTED: the lost site is not clean, and nothing is copied to it yet.")
        print(f"When that site is back: `bridgehead run resume {came.run}{home_option}`, or `bridgehead recover protect SITE`.")


def _seconds(seconds: float) -> str:
    return format_quantity(round(seconds, 1), Dimension.DURATION)
