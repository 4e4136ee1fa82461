"""Capacity: GPUs at both sites at every moment (PLAN-RESERVE-SOURCE, PLAN-RESERVE-TARGET, PLAN-BRIDGEHEAD; M7.1, M10.1). Pure."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterator

from bridgehead.kernel.ids import SiteId
from bridgehead.model.estate import Workload
from bridgehead.model.fabric import RackId
from bridgehead.model.finding import Finding
from bridgehead.planning.check_case import SLACK, Case, counted, listed, number, when
from bridgehead.planning.check_course import Course, steps
from bridgehead.planning.check_ground import Ground, count_gpus


def check_reserve_source(ground: Ground) -> Iterator[Finding]:
    """``PLAN-RESERVE-SOURCE``: what runs at the source, and the reserve of it, is there at every moment."""
    yield from _reserve(ground, "PLAN-RESERVE-SOURCE", ground.policy.source)


def check_reserve_target(ground: Ground) -> Iterator[Finding]:
    """``PLAN-RESERVE-TARGET``: the same at the target."""
    yield from _reserve(ground, "PLAN-RESERVE-TARGET", ground.policy.target)


def _reserve(ground: Ground, code: str, site: SiteId) -> Iterator[Finding]:
    standing, running = _standing(ground, site), _running(ground, site)
    for model in sorted((standing.keys() | running.keys()) - {None}, key=str):
        case = Case(code, f"gpu:{model or 'without a model'}")
        there, used = standing.get(model, Course()), running.get(model, Course())
        _judge(ground, case, site, model or "GPUs without a model", there, used)
        if None in running:
            names = listed(one.id for one in ground.workloads.values() if one.gpus and ground.gpu_model(one) is None)
            case.lack(f"nobody knows which GPU model {names} need", measurement="give gpu_model of these workloads")
        yield case.finding(f"{model} at {site}: what runs, and {ground.policy.reserve:.0%} of it, is there at every moment")


def _judge(ground: Ground, case: Case, site: SiteId, model: str, there: Course, used: Course) -> None:
    kept = 1 + ground.policy.reserve
    begins = -math.inf if ground.policy.begins_s is None else ground.policy.begins_s
    worst: tuple[float, float, float] | None = None
    over = 0
    for moment, (stand, run) in steps(there, used, begins_s=begins):
        short = run * kept - stand
        over += short > SLACK * max(1.0, stand)
        if worst is None or short > worst[1] * kept - worst[2]:
            worst = (moment, run, stand)
    if worst is None:
        return
    moment, run, stand = worst
    need = run * kept
    why = _happens(ground, site, moment)
    more = f"; and at {counted(over - 1, 'other moment')}" if over > 1 else ""
    text = f"at {when(moment)} {number(run)} {model} run at {site}; with {ground.policy.reserve:.0%} reserve that asks for {number(need)}"
    text += f", and {number(stand)} stand there: {number(need - stand)} too few{f' ({why})' if why else ''}{more}"
    case.at_most(need, stand, text, unit="GPUs", remedy=_remedy(ground, site))


def _remedy(ground: Ground, site: SiteId) -> str:
    if site == ground.policy.source:
        return "let the wave leave later, swing earlier, or shrink what may shrink"
    return "swing later, let a wave join earlier, or shrink what may shrink"


def _happens(ground: Ground, site: SiteId, moment: float) -> str:
    """What the plan does at a moment."""

    def here(at: float) -> bool:
        return abs(at - moment) < 2e-3

    plan = ground.plan
    found: list[str] = []
    if site == ground.policy.source:
        found += [f"{one.id} leaves" for one in plan.waves if here(one.out_s)]
    else:
        found += [f"{one.id} joins" for one in plan.waves if here(one.joins_s)]
    found += [f"{one.id} swings" for one in plan.swings if here(one.begins_s)]
    found += [f"{one.workload} is no longer shrunk" for one in plan.shrinks if one.site == site and here(one.ends_s)]
    return listed(found)


def _standing(ground: Ground, site: SiteId) -> dict[str | None, Course]:
    """GPUs by model over time."""
    found: dict[str | None, Course] = {}

    def add(gpus: Counter[str], begins_s: float = -math.inf, ends_s: float = math.inf) -> None:
        for model, count in gpus.items():
            found.setdefault(model, Course()).add(count, begins_s, ends_s)

    if site == ground.policy.target:
        add(count_gpus(ground.target.nodes))
        for rack in ground.carried:
            waves = ground.waves_of.get(rack)
            if waves:
                add(ground.gpus(rack), max(wave.joins_s for wave in waves))
        return found
    add(count_gpus(node for node in ground.source.nodes if node.rack not in ground.carried))
    for rack in ground.carried:
        add(ground.gpus(rack), ends_s=min((wave.out_s for wave in ground.waves_of.get(rack, ())), default=math.inf))
    return found


def _running(ground: Ground, site: SiteId) -> dict[str | None, Course]:
    """GPUs that workloads use by model over time; None is the model that nobody knows."""
    found: dict[str | None, Course] = {}
    for workload in ground.workloads.values():
        if not workload.gpus:
            continue
        begins, ends = runs_from_to(ground, workload, site)
        if ends > begins:
            course = found.setdefault(ground.gpu_model(workload), Course())
            for low, high, gpus in _pieces(ground, workload, site, begins, ends):
                course.add(gpus, low, high)
    return found


def runs_from_to(ground: Ground, workload: Workload, site: SiteId) -> tuple[float, float]:
    """When a workload takes GPUs at a site: at the target from the begin of its swing, at the source until its end. Empty: (inf, inf)."""
    source, target = ground.policy.source, ground.policy.target
    never = (math.inf, math.inf)
    if workload.site != source:
        return (-math.inf, math.inf) if workload.site == site else never
    move = ground.swings.get(workload.id) or ground.copies.get(workload.id)
    if move is None:
        return (-math.inf, math.inf) if site == source else never
    if site == source:
        return -math.inf, move.ends_s
    return (move.begins_s, math.inf) if site == target else never


def _pieces(ground: Ground, workload: Workload, site: SiteId, begins_s: float, ends_s: float) -> Iterator[tuple[float, float, int]]:
    """Spans in which it runs on the same number of GPUs."""
    cuts = {begins_s, ends_s}
    for shrink in ground.shrinks.get(workload.id, ()):
        if shrink.site == site:
            cuts |= {moment for moment in (shrink.begins_s, shrink.ends_s) if begins_s < moment < ends_s}
    edges = sorted(cuts)
    for low, high in itertools.pairwise(edges):
        yield low, high, ground.runs_on(workload, site, low)


def check_bridgehead(ground: Ground) -> Iterator[Finding]:
    """``PLAN-BRIDGEHEAD``: enough of the GPUs stand at the target when the first swing begins, and not too many were brought for that."""
    case = Case("PLAN-BRIDGEHEAD", "plan")
    share, first = ground.policy.bridgehead, ground.first_swing_s
    whole = sum(node.gpus for site in (ground.source, ground.target) for node in site.nodes)
    brought = sum(_gpus_of_wave(ground, wave.racks) for wave in ground.plan.waves if wave.bridgehead)
    if first is not None:
        there = sum(node.gpus for node in ground.target.nodes)
        there += sum(_gpus_of_wave(ground, wave.racks) for wave in ground.plan.waves if wave.joins_s <= first + 1e-3)
        text = f"when the first swing begins, {when(first)}, {number(there)} GPUs stand at {ground.target.id}, {_part(there, whole)} of"
        text += f" {number(whole)}; {share.least:.3g} of them ({number(share.least * whole)}) are asked for"
        case.at_least(there, share.least * whole, text, unit="GPUs", remedy="bring a wave before, or let the first swing begin later")
    text = f"waves of the bridgehead bring {number(brought)} GPUs, {_part(brought, whole)} of {number(whole)}"
    text += f"; at most {share.most:.3g} of them may"
    case.at_most(brought, share.most * whole, text, unit="GPUs", remedy="make one of them a later wave, or raise bridgehead.most")
    yield case.finding(
        f"waves of the bridgehead bring {number(brought)} of {number(whole)} GPUs, and enough stand there before the first swing"
    )


def _gpus_of_wave(ground: Ground, racks: tuple[RackId, ...]) -> int:
    return sum(ground.gpus(rack).total() for rack in set(racks) & ground.carried.keys())


def _part(count: float, whole: float) -> str:
    return f"{count / whole:.1%}" if whole else "none"
