"""Reserve: spares, checkpoint intervals, and what a cut-over costs (M1, M10.1, M4; rules section 7, CK1 to CK7)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.checkpoint_math import (
    GPU_HOURS_PER_HARDWARE_FAULT,
    GPU_HOURS_PER_INTERRUPTION,
    between_interruptions_s,
    daly_s,
    lost_gpu_hours,
    lost_share,
    saxena_s,
    spares_needed,
    young_s,
)  # fmt: skip
from bridgehead.assess.fleet import counting, shown
from bridgehead.assess.power_math import spares
from bridgehead.assess.scope import Scope
from bridgehead.assess.workloads import SAVES, objective_of, ordered, save_s
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import Site, Workload, WorkloadKind
from bridgehead.model.finding import Finding, Origin, Severity

_SPARES: Final = "count the spare GPUs that stand ready at each site"
_RECORDS: Final = "count unexpected interruptions and GPU-hours of the last months (sacct, incident records)"
_TIMES: Final = "measure restore and warm-up of each workload, and give the interval of checkpoints"
_AHEAD: Final = "replicate ahead, and keep the target restored and warm"
_WEEK_H: Final = 168.0
_CHANCE: Final = 0.95
_ROUGH: Final = 0.1
"""Above this share of the time between failures the formulas for intervals do not hold."""
_EXCESS: Final = 1.25
"""An interval is called bad when it loses a quarter more than the best one."""


def _spares(scope: Scope) -> Iterator[Finding]:
    for site in sorted(scope.sites, key=lambda one: one.id):
        gpus = site.gpus + (sum(node.gpus for node in scope.incoming) if site is scope.target else 0)
        if not gpus:
            continue
        case = Case(SPARES, site.id)
        case.take("GPUs", gpus, "", f"sites.{site.id}.nodes.*", origin=Origin.DERIVED)
        case.take("reserve", scope.policy.reserve, "1", "policy.reserve", origin=Origin.DEFAULT)
        spare = case.take("spares", site.spare_gpus, "", f"sites.{site.id}.spare_gpus")
        need = spares(gpus, share=scope.policy.reserve)
        if spare is None:
            yield case.unknown(
                f"{counting(need, 'spare GPU')} should stand ready for {gpus}, and nobody said how many do", measurement=_SPARES
            )
            continue
        text = f"{counting(spare, 'spare GPU')} for {gpus} GPUs, {need} should stand ready"
        yield case.at_least(spare, need, "", text, remedy="place spare GPUs, or rent capacity for the time of the move")


def _faults(scope: Scope) -> Iterator[Finding]:
    site = scope.target
    gpus = site.gpus + sum(node.gpus for node in scope.incoming)
    if not gpus:
        return
    case = Case(FAULTS, site.id)
    hours = case.guess(
        "GPU-hours per fault",
        site.gpu_hours_per_interruption,
        "",
        f"sites.{site.id}.gpu_hours_per_interruption",
        otherwise=GPU_HOURS_PER_HARDWARE_FAULT,
        because="one published run of H100 (rules section 7)",
    )
    expected = gpus * _WEEK_H / hours
    need = spares_needed(expected, chance=_CHANCE)
    spare = case.take("spares", site.spare_gpus, "", f"sites.{site.id}.spare_gpus")
    text = (
        f"about {expected:.3g} hardware faults a week are expected of {gpus} GPUs; {counting(need, 'spare')} last that week in "
        f"{_CHANCE:.0%} of all cases"
    )
    if spare is None:
        yield case.unknown(text, measurement=_SPARES)
        return
    yield case.at_least(spare, need, "", f"{text}, and {spare} stand ready", remedy="place more spare GPUs", measurement=_RECORDS)


def _between_s(case: Case, site: Site | None, workload: Workload) -> float:
    hours = case.guess(
        "GPU-hours per interruption",
        None if site is None else site.gpu_hours_per_interruption,
        "",
        f"sites.{workload.site}.gpu_hours_per_interruption",
        otherwise=GPU_HOURS_PER_INTERRUPTION,
        because="one published run of H100 (rules section 7)",
    )
    case.take("GPUs", workload.gpus, "", f"workloads.{workload.id}.gpus")
    return between_interruptions_s(workload.gpus, gpu_hours=hours)


def _interval(scope: Scope) -> Iterator[Finding]:
    sites = {site.id: site for site in scope.sites}
    for workload in ordered(scope, WorkloadKind.TRAINING):
        if not workload.gpus:
            continue
        case = Case(INTERVAL, f"workload:{workload.id}")
        every = case.take("interval", workload.checkpoint_every_s, "s", f"workloads.{workload.id}.checkpoint_every")
        saving = save_s(case, scope, workload)
        restart = case.take("restart", workload.restore_s, "s", f"workloads.{workload.id}.restore") or 0.0
        if not every or not saving:
            ask = "measure how long a save blocks training, and give the interval of checkpoints"
            yield case.unknown("its interval or its time to save is not known", measurement=ask)
            continue
        between = _between_s(case, sites.get(workload.site), workload)
        free = young_s(saving, between_s=between)
        best = min(free, _allowed_s(case, scope, workload, saving))
        now, least = (lost_share(saving, between_s=between, interval_s=interval) for interval in (every, best))
        three = (("Young", free), ("Daly", daly_s(saving, between_s=between)),
                 ("Saxena", saxena_s(saving, between_s=between, restart_s=restart)))  # fmt: skip
        words = ", ".join(f"{name} {shown(max(0.0, interval), Dimension.DURATION)}" for name, interval in three)
        within = f", and {shown(best, Dimension.DURATION)} is what its RPO allows" if best < free else ""
        text = (
            f"saving every {shown(every, Dimension.DURATION)} loses {now:.2%} of the work; the best interval is {words}{within}, which"
            f" loses {least:.2%}"
        )
        if saving > _ROUGH * between:
            text += "; a save is so long against the time between failures that these formulas are rough"
        yield case.at_most(
            now, _EXCESS * least, "", text, remedy=f"save about every {shown(best, Dimension.DURATION)}", measurement=_RECORDS
        )


def _allowed_s(case: Case, scope: Scope, workload: Workload, saving_s: float) -> float:
    """The longest interval that the RPO allows; without one, or with one that no interval meets, there is no such limit."""
    objective = objective_of(scope, workload)
    if objective is None or objective.rpo_s <= saving_s:
        return math.inf
    case.take("RPO", objective.rpo_s, "s", f"policy.objectives.{workload.objective}.rpo")
    return objective.rpo_s - saving_s


def _cut_over(scope: Scope) -> Iterator[Finding]:
    if scope.source is None:
        return
    budget = scope.policy.compute_loss
    total, complete = 0.0, True
    whole = Case(CUT_OVER, scope.target.id)
    for workload in [one for one in ordered(scope, *SAVES) if one.site == scope.source.id and one.gpus]:
        case = Case(CUT_OVER, f"workload:{workload.id}")
        path = f"workloads.{workload.id}"
        parts = [
            case.take(name, value, "s", f"{path}.{field}")
            for name, value, field in (
                ("interval", workload.checkpoint_every_s, "checkpoint_every"),
                ("restore", workload.restore_s, "restore"),
                ("warm-up", workload.warm_up_s, "warm_up"),
            )
        ]
        since, restore, warm_up = (part or 0.0 for part in parts)
        lost = lost_gpu_hours(since, restore_s=restore, warm_up_s=warm_up, gpus=workload.gpus)
        total += lost
        complete = complete and None not in parts
        takes = since + restore + warm_up
        text = (
            f"a plain stop costs it up to {shown(takes, Dimension.DURATION)} ({lost:.3g} GPU-hours): work since the last checkpoint, "
            "restore and warm-up"
        )
        if budget.per_workload_s is None:
            continue
        limit = budget.per_workload_s
        case.take("budget", limit, "s", "policy.compute_loss.per_workload")
        if takes <= limit and None in parts:
            yield case.unknown("what a stop costs was not measured", measurement=_TIMES)
        else:
            text = f"{text}; {shown(limit, Dimension.DURATION)} are allowed"
            yield case.at_most(takes, limit, "s", text, remedy=_AHEAD, measurement=_TIMES)
    if budget.gpu_hours is not None:
        whole.take("budget", budget.gpu_hours, "GPU-hours", "policy.compute_loss.gpu_hours")
        whole.take("lost", total if complete else None, "GPU-hours", "workloads.*", origin=Origin.DERIVED)
        text = f"plain stops of all workloads cost up to {total:.4g} GPU-hours together, {budget.gpu_hours:g} are allowed"
        yield whole.at_most(total, budget.gpu_hours, "GPU-hours", text, remedy=_AHEAD, measurement=_TIMES)


SPARES = Check(
    "RSV-SPARES",
    "Do spare GPUs stand ready at both sites?",
    ("M10.1",),
    "spares >= ceil(reserve · GPUs) (rules section 7, M10.1)",
    _spares,
    Severity.WARNING,
)
FAULTS = Check(
    "RSV-FAULTS",
    "Do spares last a week?",
    ("M10.1",),
    "smallest k with Poisson P(X <= k) >= 95 % for GPUs · 168 h / GPU-hours per fault (rules section 7)",
    _faults,
    Severity.WARNING,
)
INTERVAL = Check(
    "RSV-INTERVAL",
    "Are checkpoints saved at a good interval?",
    ("M4", "M1"),
    "loss = C/T + T/(2M) <= 1.25 · loss at min(√(2CM), RPO - C), M = GPU-hours per interruption / GPUs (rules section 7)",
    _interval,
    Severity.WARNING,
)
CUT_OVER = Check(
    "RSV-CUT-OVER",
    "Would even a plain stop stay within the budget of lost compute?",
    ("M1",),
    "(since last verified checkpoint + restore + warm-up) · GPUs <= budget (rules section 7)",
    _cut_over,
    Severity.WARNING,
)
CHECKS = (SPARES, FAULTS, INTERVAL, CUT_OVER)
