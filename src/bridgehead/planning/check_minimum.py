"""Shrinks: only what may, not too far, and where it runs (PLAN-MINIMUM; M13). Pure."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

from bridgehead.model.estate import Workload
from bridgehead.model.finding import Finding
from bridgehead.model.plan import Shrink
from bridgehead.planning.check_capacity import runs_from_to
from bridgehead.planning.check_case import TICK_S, Case, lasting, when
from bridgehead.planning.check_ground import Ground


def check_minimum(ground: Ground) -> Iterator[Finding]:
    """``PLAN-MINIMUM``: of each workload that shrinks."""
    for name in sorted(ground.shrinks):
        case = Case("PLAN-MINIMUM", f"workload:{name}")
        workload = ground.workloads.get(name)
        if workload is None:
            case.fault(f"the estate has no workload '{name}', and the plan shrinks it", remedy="take the shrink out")
            yield case.finding("")
            continue
        shrinks = sorted(ground.shrinks[name], key=lambda one: (one.site, one.begins_s, one.ends_s))
        for shrink in shrinks:
            _judge(ground, case, workload, shrink)
        for before, after in itertools.pairwise(shrinks):
            if before.site == after.site and after.begins_s < before.ends_s - TICK_S:
                over = min(before.ends_s, after.ends_s) - after.begins_s
                text = f"two shrinks of {name} at {after.site} overlap for {lasting(over)} from {when(after.begins_s)}"
                case.fault(text, value=over, limit=0.0, unit="s", remedy="let the first end when the second begins")
        yield case.finding(f"{name} shrinks to {min(one.gpus for one in shrinks)} of its {workload.gpus} GPUs at least, as it may")


def _judge(ground: Ground, case: Case, workload: Workload, shrink: Shrink) -> None:
    name, least = workload.id, workload.min_gpus
    during = f"from {when(shrink.begins_s)} to {when(shrink.ends_s)}"
    if shrink.ends_s <= shrink.begins_s:
        case.fault(f"a shrink of {name} {during} ends before it begins", remedy="put its end after its begin, or take it out")
    if shrink.gpus > workload.gpus:
        text = f"{name} shrinks to {shrink.gpus} GPUs {during}, and has {workload.gpus}"
        case.fault(text, value=shrink.gpus, limit=workload.gpus, unit="GPUs", remedy="take the shrink out")
    if not (shrink.gpus == 0 and workload.pausable):
        if least is None:
            if not workload.pausable:
                case.lack(f"nobody knows with how many GPUs {name} still makes sense", measurement=f"give workloads.{name}.min_gpus")
            else:
                case.lack(
                    f"{name} may pause, and nobody knows whether it runs on {shrink.gpus} GPUs",
                    measurement=f"give workloads.{name}.min_gpus",
                )
        elif shrink.gpus < least:
            pause = "may pause only as a whole" if workload.pausable else "may not pause"
            text = f"{name} shrinks to {shrink.gpus} GPUs {during}, {least - shrink.gpus} fewer than its least ({least}), and {pause}"
            case.fault(text, value=shrink.gpus, limit=least, unit="GPUs", remedy=f"shrink it to {least} at least")
        elif least >= workload.gpus:
            case.fault(f"{name} cannot shrink: it needs all of its {workload.gpus} GPUs", remedy="take the shrink out")
    begins, ends = runs_from_to(ground, workload, shrink.site)
    if shrink.begins_s < begins - TICK_S or shrink.ends_s > ends + TICK_S:
        where = f"runs at {shrink.site} from {when(begins)}" if begins > shrink.begins_s else f"is gone from {shrink.site} at {when(ends)}"
        text = f"{name} shrinks at {shrink.site} {during}, and {'never runs there' if begins >= ends else where}"
        case.fault(text, remedy="let the shrink lie where and while the workload runs")
