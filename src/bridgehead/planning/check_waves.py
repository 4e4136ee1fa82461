"""Waves: their steps in order and long enough, done by people who are there (PLAN-WAVE, PLAN-CREW; M7.4, M12). Pure."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator

from bridgehead.kernel.ids import SiteId
from bridgehead.model.finding import Finding
from bridgehead.model.logistics import DAY_S, Crew, CrewId, Logistics
from bridgehead.model.plan import Task, TaskKind, Wave
from bridgehead.planning.check_case import TICK_S, Case, counted, lasting, listed, when
from bridgehead.planning.check_course import Course, steps
from bridgehead.planning.check_ground import Ground, task_of

_WET = frozenset({TaskKind.DRAIN_COOLANT, TaskKind.LEAK_TEST})
_AT_SOURCE = frozenset({TaskKind.PACK, TaskKind.DRAIN_COOLANT, TaskKind.LOAD})
_AT_TARGET = frozenset({TaskKind.UNLOAD, TaskKind.INSPECT, TaskKind.INSTALL, TaskKind.LEAK_TEST})
_HANDS_ON = _AT_SOURCE | _AT_TARGET
_NO_LOGISTICS = "the policy says nothing of crews, vehicles and handling"


def check_wave(ground: Ground) -> Iterator[Finding]:
    """``PLAN-WAVE``: of each wave."""
    logistics = ground.policy.logistics
    for wave in ground.plan.waves:
        case = Case("PLAN-WAVE", f"wave:{wave.id}")
        if logistics is None:
            case.lack(f"nobody can tell whether {wave.id} has the time it needs: {_NO_LOGISTICS}", measurement="give policy.logistics")
        _complete(ground, case, wave)
        _in_order(case, wave)
        if logistics is not None:
            for task in wave.tasks:
                _long_enough(ground, case, wave, task, logistics)
        _edges(case, wave)
        shown = f"{wave.id} with {counted(len(wave.racks), 'rack')} is away from {when(wave.out_s)} to {when(wave.joins_s)}"
        yield case.finding(f"{shown}, with all steps in order and long enough")


def _wet_racks(ground: Ground, wave: Wave) -> tuple[int, int]:
    """Racks of a wave that have liquid cooling, and those of which nobody knows."""
    wet = unsaid = 0
    for rack in wave.racks:
        shares = [node.liquid_share for node in ground.nodes.get(rack, ())]
        if any(shares):
            wet += 1
        elif None in shares:
            unsaid += 1
    return wet, unsaid


def _complete(ground: Ground, case: Case, wave: Wave) -> None:
    wet, unsaid = _wet_racks(ground, wave)
    for kind in TaskKind:
        found = sum(task.id is kind for task in wave.tasks)
        if found > 1:
            case.fault(f"{wave.id} has the step {kind} {found} times", remedy="leave one of them")
        if found or (kind in _WET and not wet and not unsaid):
            continue
        if kind in _WET and not wet:
            text = f"{wave.id} has no step {kind}, and nobody knows whether {counted(unsaid, 'rack')} of it are cooled by liquid"
            case.lack(text, measurement="give liquid_share of their nodes")
            continue
        why = f", and {counted(wet, 'rack')} of it are cooled by liquid" if kind in _WET else ""
        case.fault(f"{wave.id} has no step {kind}{why}", remedy=f"add {kind} to {wave.id} in its place")


def _in_order(case: Case, wave: Wave) -> None:
    order = list(TaskKind)
    tasks = sorted(wave.tasks, key=lambda task: order.index(task.id))
    for before, after in itertools.pairwise(tasks):
        if after.begins_s < before.ends_s - TICK_S:
            early = before.ends_s - after.begins_s
            text = f"{after.id} of {wave.id} begins {when(after.begins_s)}, {lasting(early)} before {before.id} has ended"
            case.fault(text, value=early, limit=0.0, unit="s", remedy=f"begin {after.id} at {when(before.ends_s)} or later")


def _long_enough(ground: Ground, case: Case, wave: Wave, task: Task, logistics: Logistics) -> None:
    one_s = _one_s(task.id, logistics)
    racks, length = len(wave.racks), task.ends_s - task.begins_s
    if task.id in _WET:
        wet, unsaid = _wet_racks(ground, wave)
        racks = wet
        if unsaid:
            text = f"nobody knows how many racks {task.id} of {wave.id} is for"
            case.lack(text, measurement="give liquid_share of their nodes")
    if task.id not in _HANDS_ON:
        text = f"{task.id} of {wave.id} lasts {lasting(length)}, and takes {lasting(one_s)}"
        case.at_least(length, one_s, text, unit="s", remedy=f"let it end {lasting(one_s - length)} later, with all that comes after it")
        return
    if racks and not task.teams:
        case.fault(f"no team does {task.id} of {wave.id}", value=0, limit=1, unit="teams", remedy="give it a crew and teams")
        return
    rounds = math.ceil(racks / task.teams) if racks else 0
    need = rounds * one_s
    text = f"{task.id} of {wave.id} lasts {lasting(length)}; {counted(racks, 'rack')} by {counted(task.teams, 'team')} take {lasting(need)}"
    case.at_least(length, need, text, unit="s", remedy="give it more time or more teams")


def _one_s(kind: TaskKind, logistics: Logistics) -> float:
    """How long a step takes: of one rack by one team, or of the wave."""
    handling = logistics.handling
    match kind:
        case TaskKind.DRAIN:
            return 0.0
        case TaskKind.PACK:
            return handling.pack_s
        case TaskKind.DRAIN_COOLANT:
            return handling.drain_coolant_s
        case TaskKind.LOAD | TaskKind.UNLOAD:
            return handling.load_s
        case TaskKind.TRANSIT:
            return logistics.fleet.transit_s
        case TaskKind.ACCLIMATISE:
            return handling.acclimatise_s
        case TaskKind.INSPECT:
            return handling.inspect_s
        case TaskKind.INSTALL:
            return handling.install_s
        case TaskKind.LEAK_TEST:
            return handling.leak_test_s
        case TaskKind.BURN_IN:
            return handling.burn_in_s
        case TaskKind.JOIN:
            return handling.join_s


def _edges(case: Case, wave: Wave) -> None:
    drain, load, transit, join = (task_of(wave, kind) for kind in (TaskKind.DRAIN, TaskKind.LOAD, TaskKind.TRANSIT, TaskKind.JOIN))
    if drain is not None:
        _same(case, f"drain of {wave.id} begins", drain.begins_s, wave.out_s, f"the source loses {wave.id}")
    if join is not None:
        _same(case, f"join of {wave.id} ends", join.ends_s, wave.joins_s, f"{wave.id} joins the target")
    for vehicle in wave.vehicles:
        if load is not None and vehicle.leaves_s < load.ends_s - TICK_S:
            early = load.ends_s - vehicle.leaves_s
            text = f"{vehicle.id} of {wave.id} leaves {when(vehicle.leaves_s)}, {lasting(early)} before loading ends"
            case.fault(text, value=early, limit=0.0, unit="s", remedy=f"let it leave at {when(load.ends_s)}")
        if transit is not None:
            _same(case, f"{vehicle.id} of {wave.id} arrives", vehicle.arrives_s, transit.ends_s, f"transit of {wave.id} ends")


def _same(case: Case, what: str, said_s: float, asked_s: float, because: str) -> None:
    if abs(said_s - asked_s) > TICK_S:
        text = f"{what} {when(said_s)}, but {because} {when(asked_s)}"
        case.fault(text, value=said_s - asked_s, limit=0.0, unit="s", remedy="let both be the same moment")


def check_crew(ground: Ground) -> Iterator[Finding]:
    """``PLAN-CREW``: work is done by people of the right site, in their shift, and by no more teams than there are."""
    logistics = ground.policy.logistics
    crews: dict[CrewId, Crew] = {} if logistics is None else {crew.id: crew for crew in logistics.crews}
    for wave in ground.plan.waves:
        case = Case("PLAN-CREW", f"wave:{wave.id}")
        if logistics is None:
            case.lack(f"nobody can tell whether there is a crew for {wave.id}: {_NO_LOGISTICS}", measurement="give policy.logistics")
        else:
            for task in wave.tasks:
                if task.id in _HANDS_ON:
                    site = ground.policy.source if task.id in _AT_SOURCE else ground.policy.target
                    _by_crew(case, wave, task, crews, site)
        yield case.finding(f"all work on {wave.id} is done by people of the right site in their shift")
    yield from _teams(ground, crews)


def _by_crew(case: Case, wave: Wave, task: Task, crews: dict[CrewId, Crew], site: SiteId) -> None:
    crew = crews.get(task.crew)
    right = listed(one.id for one in crews.values() if one.site == site) or "none"
    if crew is None:
        said = f"nobody does {task.id} of {wave.id}" if not task.crew else f"{task.id} of {wave.id} is for '{task.crew}', which is no crew"
        case.fault(said, remedy=f"give it to a crew of {site} ({right})")
        return
    if crew.site != site:
        text = f"{task.id} of {wave.id} is done at {site}, and {crew.id} works at {crew.site}"
        case.fault(text, remedy=f"give it to a crew of {site} ({right})")
    if task.teams > crew.teams:
        text = f"{task.id} of {wave.id} takes {task.teams} teams of {crew.id}, which has {crew.teams}"
        case.fault(text, value=task.teams, limit=crew.teams, unit="teams", remedy="take fewer teams and more time")
    if not in_shift(crew, task):
        text = f"{task.id} of {wave.id}, {when(task.begins_s)} to {when(task.ends_s)}, does not lie in one shift of {crew.id}"
        text += f" ({lasting(crew.begins_s)} after midnight, for {lasting(crew.shift_s)})"
        case.fault(text, remedy="begin it with a shift, with more teams or fewer racks")


def in_shift(crew: Crew, task: Task) -> bool:
    """Whether a task lies within one shift of a crew; days begin at midnight UTC."""
    if crew.shift_s >= DAY_S:
        return True
    if not (math.isfinite(task.begins_s) and math.isfinite(task.ends_s)):
        return False
    into_shift = (task.begins_s + TICK_S - crew.begins_s) % DAY_S - TICK_S
    return into_shift + max(0.0, task.ends_s - task.begins_s) <= crew.shift_s + TICK_S


def _teams(ground: Ground, crews: dict[CrewId, Crew]) -> Iterator[Finding]:
    courses: defaultdict[CrewId, Course] = defaultdict(Course)
    for wave in ground.plan.waves:
        for task in wave.tasks:
            courses[task.crew].add(task.teams, task.begins_s, task.ends_s)
    for name, crew in crews.items():
        case = Case("PLAN-CREW", f"crew:{name}")
        worst, over = (0.0, 0.0), 0
        for moment, (teams,) in steps(courses[name]):
            over += teams > crew.teams
            worst = (moment, teams) if teams > worst[1] else worst
        moment, teams = worst
        now = [
            f"{task.id} of {wave.id}"
            for wave in ground.plan.waves
            for task in wave.tasks
            if task.crew == name and task.teams and task.begins_s - TICK_S <= moment < task.ends_s - TICK_S / 2
        ]
        more = f"; and at {counted(over - 1, 'other moment')}" if over > 1 else ""
        text = (
            f"at {when(moment)} {int(teams)} teams of {name} are at work ({listed(now)}), {int(teams) - crew.teams} more than it has{more}"
        )
        case.at_most(teams, crew.teams, text, unit="teams", remedy="move one of them, or take fewer teams for it")
        yield case.finding(f"never more than {counted(int(teams), 'team')} of {name} are at work, of {crew.teams}")
