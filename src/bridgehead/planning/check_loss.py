"""Lost compute: modes of swings, what they cost, and the budgets (PLAN-MODE, PLAN-LOSS; M1, M7.3). Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bridgehead.model.finding import Finding
from bridgehead.model.logistics import HOUR_S
from bridgehead.model.plan import Swing
from bridgehead.planning.check_case import SLACK, Case, lasting, number
from bridgehead.planning.check_ground import Ground
from bridgehead.planning.check_swing_cost import fits, price

_SUM = "sums of the score"


def check_mode(ground: Ground) -> Iterator[Finding]:
    """``PLAN-MODE``: each workload goes over in a way that it can."""
    for swing in ground.plan.swings:
        workload = ground.workloads.get(swing.id)
        if workload is None:
            continue  # PLAN-COMPLETE says so
        case = Case("PLAN-MODE", f"workload:{swing.id}")
        fitting, why = fits(ground, workload, swing.mode)
        if fitting is None:
            case.lack(f"nobody can tell whether {swing.id} can go over by {swing.mode}", measurement=f"give {why}")
        elif not fitting:
            case.fault(f"{swing.id} cannot go over by {swing.mode}: {why}", remedy="choose another mode (docs/reference/plan-files.md)")
        yield case.finding(f"{swing.id} is {workload.kind} and goes over by {swing.mode}")


def check_loss(ground: Ground) -> Iterator[Finding]:
    """``PLAN-LOSS``: what swings and shrinks cost is computed right, and within the policy's budgets."""
    for swing in ground.plan.swings:
        if swing.id in ground.workloads:
            yield _swing(ground, swing)
    yield _sums(ground)


def _swing(ground: Ground, swing: Swing) -> Finding:
    case = Case("PLAN-LOSS", f"workload:{swing.id}")
    workload = ground.workloads[swing.id]
    cost = price(ground, workload, swing.mode)
    length, most = swing.ends_s - swing.begins_s, ground.policy.compute_loss.per_workload_s
    if cost.lost_s is None or cost.length_s is None:
        case.lack(f"nobody can tell what the swing of {swing.id} costs", measurement="give " + ", ".join(cost.lacks))
    else:
        if not math.isclose(swing.lost_s, cost.lost_s, rel_tol=SLACK, abs_tol=1e-3):
            text = f"{swing.id} is stopped for {lasting(cost.lost_s)} by {swing.mode}, and the plan says {lasting(swing.lost_s)}"
            case.fault(text, value=swing.lost_s, limit=cost.lost_s, unit="s", remedy=f"set 'lost' of {swing.id} to {lasting(cost.lost_s)}")
        text = f"the swing of {swing.id} lasts {lasting(length)}, and takes {lasting(cost.length_s)} at least"
        case.at_least(length, cost.length_s, text, unit="s", remedy=f"end it {lasting(cost.length_s - length)} later")
    gpus = ground.runs_on(workload, ground.policy.source, swing.begins_s)
    hours = swing.lost_s * gpus / HOUR_S
    if not math.isclose(swing.lost_gpu_hours, hours, rel_tol=SLACK, abs_tol=1e-4):
        text = f"{lasting(swing.lost_s)} of the {number(gpus)} GPUs of {swing.id} are {hours:,.4g} GPU-hours"
        text += f", the plan says {swing.lost_gpu_hours:,.4g}"
        case.fault(text, value=swing.lost_gpu_hours, limit=hours, unit="GPU-h", remedy=f"set 'lost_gpu_hours' of {swing.id} to {hours:.6g}")
    if most is not None:
        stopped = max(swing.lost_s, cost.lost_s or 0.0)
        text = f"{swing.id} is stopped for {lasting(stopped)}, and the policy allows {lasting(most)} for one workload"
        case.at_most(stopped, most, text, unit="s", remedy="choose a faster mode, a faster line or fewer lanes, or raise the budget")
    return case.finding(f"{swing.id} is stopped for {lasting(swing.lost_s)}, {swing.lost_gpu_hours:,.4g} GPU-hours")


def _sums(ground: Ground) -> Finding:
    """The sums are those of the numbers in the plan; whether each of these is right is said of its swing."""
    case = Case("PLAN-LOSS", "plan")
    plain = [one.lost_gpu_hours for one in ground.plan.swings]
    weighted = [one.lost_gpu_hours * _weight(ground, one.id) for one in ground.plan.swings]
    for shrink in ground.plan.shrinks:
        workload = ground.workloads.get(shrink.workload)
        if workload is None:
            continue
        hours = max(0, workload.gpus - shrink.gpus) * max(0.0, shrink.ends_s - shrink.begins_s) / HOUR_S
        plain.append(hours)
        weighted.append(hours * _weight(ground, shrink.workload))
    total, heavy = math.fsum(plain), math.fsum(weighted)
    levels = {level.id: level.value for level in ground.plan.score.levels}
    said = (("lost_gpu_hours", ground.plan.score.lost_gpu_hours, total), ("level lost-gpu-hours", levels.get("lost-gpu-hours"), heavy))
    for name, claimed, found in said:
        if claimed is not None and not math.isclose(claimed, found, rel_tol=SLACK, abs_tol=1e-3):
            text = f"{_SUM}: {name} is {claimed:,.6g}, but swings and shrinks together make {found:,.6g}"
            case.fault(text, value=claimed, limit=found, unit="GPU-h", remedy=f"set {name} to {found:.6g}")
    most = ground.policy.compute_loss.gpu_hours
    if most is not None:
        text = f"all swings and shrinks together cost {total:,.6g} GPU-hours, and the policy allows {most:,.6g}"
        case.at_most(total, most, text, unit="GPU-h", remedy="shrink less, swing later when more capacity is there, or raise the budget")
    return case.finding(f"all swings and shrinks together cost {total:,.6g} GPU-hours")


def _weight(ground: Ground, name: str) -> int:
    workload = ground.workloads.get(name)
    return 1 if workload is None else 1 + workload.priority
