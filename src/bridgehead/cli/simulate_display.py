"""How a simulation is shown to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridgehead.app.plan_outcome import Cause, Difference, Outcome, Spread

WORKLOADS = 8


def print_outcome(found: Outcome) -> None:
    """Dates, losses, reserves, cost, what breaks first."""
    lost, late, in_time = found.lost, found.late_days, _percent(found.in_time_share)
    print(f"{found.plan}: {found.runs:,} runs, seed {found.seed}")
    print(f"  all over          planned {found.over.planned}, P50 {found.over.p50}, P90 {found.over.p90}")
    print(f"                    {late.p50:.1f} days late at P50, {late.p90:.1f} at P90; in time in {in_time} of the runs")
    if found.past_deadline_share is not None:
        print(f"                    past the policy's last day in {_percent(found.past_deadline_share)} of the runs")
    print(f"  lost to the move  planned {lost.planned_gpu_hours:,.0f} GPU-hours, {_both(lost.moved_gpu_hours)} GPU-hours")
    print(
        f"                    {_both(lost.cluster_s, 1)} s of the whole source; a workload stands still {_both(lost.stopped_each_s, 1)} s"
    )
    print(f"  interruptions     {_both(lost.interrupted_gpu_hours)} GPU-hours meanwhile, which a move does not cause")
    reserve = found.reserve
    print(f"  broken reserves   in {_percent(reserve.broken_share)} of the runs, at most for {reserve.longest_s / 3600:.0f} h on end")
    missing = f" (without {', '.join(found.cost.unpriced)})" if found.cost.unpriced else ""
    print(f"  cost of delays    {_both(found.cost.extra)} {found.cost.currency} beyond the plan{missing}")
    _print_causes("what breaks first", found.breaks_first)
    _print_causes("every delay that reached the end", found.delays)
    _print_checkpoints(found)
    hardest = sorted(found.workloads, key=lambda one: -one.moved_gpu_hours.p90)[:WORKLOADS]
    print("  workloads that lose most to the move (GPU-hours; seconds that they stand still)")
    for one in hardest:
        print(f"    {one.id:<20} {_both(one.moved_gpu_hours, 1)}; {_both(one.stopped_s, 1)} s")
    if found.guesses:
        print(f"  guesses, which nobody gave: {', '.join(found.guesses)}")
    print(f"  trace {found.trace}")


def print_difference(found: Outcome, other: Outcome, between: Difference) -> None:
    """The other plan less the first, run by run."""
    print(f"{other.plan} less {found.plan}, on the same luck (below 0: {other.plan} is better)")
    print(f"  all over          {_both(between.over_days, 2)} days; earlier in {_percent(between.other_is_earlier_share)} of the runs")
    print(f"  lost to the move  {_both(between.moved_gpu_hours)} GPU-hours")
    print(f"  lost in all       {_both(between.total_gpu_hours)} GPU-hours; less in {_percent(between.other_loses_less_share)} of the runs")


def _print_causes(title: str, causes: tuple[Cause, ...]) -> None:
    print(f"  {title}")
    if not causes:
        print("    nothing: no delay reached the end in any run")
    for one in causes:
        what = f"{one.hazard} at {one.step}"
        print(
            f"    {_percent(one.share):>6}  {what:<34} {one.owner:<14} {one.mean_delay_s / 3600:6.1f} h on average, most often {one.worst}"
        )


def _print_checkpoints(found: Outcome) -> None:
    print("  checkpoints: GPU-hours of saving, repeating and restarting, by interval policy")
    for name, one in found.checkpoints.items():
        print(f"    {name:<8} {_both(one)}")


def _both(one: Spread, digits: int = 0) -> str:
    return f"P50 {one.p50:,.{digits}f}, P90 {one.p90:,.{digits}f}"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %"
