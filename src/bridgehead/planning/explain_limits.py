"""Limits: from which moment on each rule alone would allow a swing, a wave or a copy, everything else in the plan being as it is. Pure.

What allows latest is what binds. Where a rule gives chances (windows for swings, mornings for waves), a limit also binds when it made the
thing miss the chance before. Counted from plan, estate and policy alone; the planner is not asked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from bridgehead.kernel.ids import WorkloadId
from bridgehead.kernel.quantity import format_duration, format_rate
from bridgehead.model.logistics import DAY_S
from bridgehead.model.plan import PhaseId, ServiceCopy, Swing, TaskKind, Transfer, Wave
from bridgehead.planning.course import Course
from bridgehead.planning.resources import racks_at_dock, teams_busy, vehicles_away
from bridgehead.planning.steps import Steps, allowed_from
from bridgehead.planning.waiting import data_of, free_period, last_chance, needed_by

_ROUNDING: Final = 1e-6
_NOW_S: Final = 1.0
"""Two moments that are closer are one."""


class Limit(msgspec.Struct, frozen=True):
    """One rule.

    Attributes:
        code: of the rule, as in the contract of plan files.
        allows_s: from then on it would have allowed it.
        binds: whether nothing later and no chance lies between that and the beginning.
        text: what is the case, with numbers.
        change: what would have to change for it to allow it earlier.
        who: the swing, wave, transfer or service that released it; empty where it was none.
    """

    code: str
    allows_s: float
    binds: bool
    text: str
    change: str
    who: str = ""


def swing_limits(course: Course, swing: Swing) -> tuple[Limit, ...]:
    """What holds a swing back, the latest first."""
    workload = course.workloads.get(swing.id)
    at_s, lasts_s = swing.begins_s, swing.ends_s - swing.begins_s
    found = [_after_services(course)]
    for name, ends_s in needed_by(course, swing.id):
        found.append(
            Limit("PLAN-NEEDS", ends_s, False, f"it needs {name}, which is there then", f"{name} would have to go over earlier", name)
        )
    for one in data_of(course, swing.id):
        change = f"{one.id} would have to be there earlier: more of the line, or begun sooner"
        found.append(Limit("PLAN-DATA", one.ends_s, False, f"{one.id} is there then", change, one.id))
    since_s, window = free_period(course.policy, at_s, lasts_s)
    if window:
        found.append(Limit("PLAN-WINDOW", since_s, False, window, "a window that is earlier or longer"))
    found.append(_lanes(course, swing))
    if workload is not None and workload.gpus:
        found.append(_target_reserve(course, swing))
    return _judged(found, at_s, last_chance(course.policy, at_s, lasts_s))


def wave_limits(course: Course, wave: Wave) -> tuple[Limit, ...]:
    """What holds a wave back, the latest first; waves leave once a day."""
    at_s = wave.out_s
    begins_s = course.plan.begins_s
    first = Limit("PLAN-PHASES", begins_s, False, "the bridgehead begins then", "policy.begins earlier")
    found = [first if wave.bridgehead else _after_services(course)]
    found += [_source_reserve(course, wave, model) for model in course.models if any(course.gpus_of(rack)[model] for rack in wave.racks)]
    found += [*_crews(course, wave), *_vehicles(course, wave), *_dock(course, wave), *_apart(course, wave)]
    unloaded = next((task.ends_s for task in wave.tasks if task.id is TaskKind.UNLOAD), at_s)
    ended = [
        (one.ends_s, one.reason) for one in course.policy.blackouts if one.ends_s <= at_s and one.ends_s > at_s - DAY_S - (unloaded - at_s)
    ]
    found += [
        Limit("PLAN-WINDOW", end, False, f"a blackout ends then ({why or 'no reason given'})", "a shorter blackout") for end, why in ended
    ]
    return _judged(found, at_s, at_s - DAY_S)


def transfer_limits(course: Course, transfer: Transfer) -> tuple[Limit, ...]:
    """What holds a copy back, the latest first."""
    if transfer.courier:
        begun = Limit("PLAN-PHASES", course.plan.begins_s, False, "a courier may go from the first day on", "policy.begins earlier")
        return _judged([begun], transfer.begins_s, transfer.begins_s)
    phase = course.phase(PhaseId.BRIDGEHEAD)
    since_s = course.plan.begins_s if phase is None else phase.ends_s
    found = [Limit("PLAN-DATA", since_s, False, "the bridgehead with its lines stands then", "phases.bridgehead shorter")]
    use, rate_bps = course.line_use_without(transfer.id), course.line_rate_bps
    from_s = allowed_from(
        use.moments_s, lambda moment: use.at(moment) + transfer.rate_bps <= rate_bps * (1 + _ROUNDING),
        until_s=transfer.begins_s, since_s=course.plan.begins_s,
    )  # fmt: skip
    before = use.before(from_s)
    asked, taken, whole = (format_rate(rate, digits=3) for rate in (transfer.rate_bps, before, rate_bps))
    text = f"the line leaves {asked} from then on; {taken} of {whole} were taken before"
    found.append(Limit("PLAN-LINE", from_s, False, text, "more line, or a higher limits.rate", _ended_at(course, from_s, transfer.id)))
    return _judged(found, transfer.begins_s, transfer.begins_s)


def copy_limits(course: Course, copy: ServiceCopy) -> tuple[Limit, ...]:
    """What holds the copy of a service back, the latest first."""
    phase = course.phase(PhaseId.BRIDGEHEAD)
    since_s = course.plan.begins_s if phase is None else phase.ends_s
    found = [Limit("PLAN-PHASES", since_s, False, "the bridgehead stands then", "phases.bridgehead shorter")]
    for name, ends_s in needed_by(course, copy.id):
        found.append(Limit("PLAN-NEEDS", ends_s, False, f"it needs {name}, which is copied then", f"{name} earlier", name))
    return _judged(found, copy.begins_s, copy.begins_s)


def _judged(found: list[Limit], at_s: float, chance_s: float) -> tuple[Limit, ...]:
    """The latest first. ``chance_s``: when it could have begun before, as far as windows and mornings go."""
    held = [
        msgspec.structs.replace(one, binds=one.allows_s > min(chance_s, at_s - _NOW_S)) for one in found if one.allows_s <= at_s + _NOW_S
    ]
    return tuple(sorted(held, key=lambda one: (-one.allows_s, one.code == "PLAN-WINDOW", one.code, one.text)))


def _after_services(course: Course) -> Limit:
    phase = course.phase(PhaseId.SERVICES)
    since_s = course.plan.begins_s if phase is None else phase.ends_s
    return Limit(
        "PLAN-PHASES", since_s, False, "the services are replicated and validated then", "phases.bridgehead or phases.services shorter"
    )


def _lanes(course: Course, swing: Swing) -> Limit:
    others = [one for one in course.plan.swings if one.id != swing.id]
    busy = Steps(0.0, [pair for one in others for pair in ((one.begins_s, 1.0), (one.ends_s, -1.0))])
    most = course.policy.limits.concurrent_moves
    from_s = allowed_from(busy.moments_s, lambda moment: busy.at(moment) < most, until_s=swing.begins_s, since_s=course.plan.begins_s)
    who = next((one.id for one in sorted(others, key=lambda one: one.id) if abs(one.ends_s - from_s) < _NOW_S), WorkloadId(""))
    ended = f", when {who} has gone over" if who else ""
    return Limit(
        "PLAN-LANES", from_s, False, f"fewer than {most} swings go on from then on{ended}", "a higher limits.concurrent_moves", who
    )


def _target_reserve(course: Course, swing: Swing) -> Limit:
    workload = course.workloads[swing.id]
    model, site, kept = course.model_of(workload), course.target.id, 1 + course.policy.reserve
    shrunk = [
        one.gpus
        for one in course.plan.shrinks
        if one.workload == swing.id and one.site == site and one.begins_s <= swing.begins_s < one.ends_s
    ]
    gpus = min([workload.gpus, *shrunk])
    run, stand = course.running_without(swing.id)[site, model], course.standing[site, model]

    def allows(moment: float) -> bool:
        return kept * (run.at(moment) + gpus) <= stand.at(moment) + _ROUNDING

    from_s = allowed_from([*run.moments_s, *stand.moments_s], allows, until_s=swing.begins_s, since_s=course.plan.begins_s)
    short = kept * (run.before(from_s) + gpus) - stand.before(from_s)
    if short <= _ROUNDING or from_s <= course.plan.begins_s:
        text, change = f"{stand.at(from_s):,.0f} {model} stand there, enough for it with its reserve", f"more {model} there"
        return Limit("PLAN-RESERVE-TARGET", from_s, False, text, change, _joined_at(course, from_s))
    text = (
        f"{stand.at(from_s):,.0f} {model} stand at {site} from then on; before, {short:,.0f} were missing for {gpus} with "
        f"{course.policy.reserve:.0%} reserve"
    )
    return Limit(
        "PLAN-RESERVE-TARGET",
        from_s,
        False,
        text,
        f"{short:,.0f} more {model} there earlier, or a smaller reserve",
        _joined_at(course, from_s),
    )


def _source_reserve(course: Course, wave: Wave, model: str) -> Limit:
    site, kept = course.source.id, 1 + course.policy.reserve
    own = sum(course.gpus_of(rack)[model] for rack in wave.racks)
    run, stand = course.running[site, model], course.standing[site, model]

    def free(moment: float) -> float:
        return stand.at(moment) - own - kept * run.at(moment)

    from_s = allowed_from(
        [*run.moments_s, *stand.moments_s], lambda moment: free(moment) >= -_ROUNDING, until_s=wave.out_s, since_s=course.plan.begins_s
    )
    short = kept * run.before(from_s) - (stand.before(from_s) - own)
    who = _swung_at(course, from_s, model)
    if short <= _ROUNDING or from_s <= course.plan.begins_s:
        return Limit("PLAN-RESERVE-SOURCE", from_s, False, f"its {own} {model} were not needed there", "nothing", who)
    text = f"its {own} {model} are free from then on; before, {short:,.0f} of them were needed for what runs there with its reserve"
    return Limit("PLAN-RESERVE-SOURCE", from_s, False, text, f"{short:,.0f} {model} free earlier: a swing or a shrink before", who)


def _crews(course: Course, wave: Wave) -> Iterator[Limit]:
    """A crew that had no teams for it a day earlier."""
    crews = {} if course.policy.logistics is None else {crew.id: crew.teams for crew in course.policy.logistics.crews}
    for task in wave.tasks:
        if not task.crew or task.crew not in crews:
            continue
        busy = teams_busy(course, task.crew, without=wave.id).highest(task.begins_s - DAY_S, task.ends_s - DAY_S)
        if busy + task.teams > crews[task.crew]:
            most = crews[task.crew]
            text = f"a day earlier {busy:.0f} of {most} teams of {task.crew} were on other waves, when {task.id} needs {task.teams}"
            yield Limit("PLAN-CREW", wave.out_s, False, text, f"more teams of {task.crew}")


def _vehicles(course: Course, wave: Wave) -> Iterator[Limit]:
    if course.policy.logistics is None or not wave.vehicles:
        return
    fleet, away = course.policy.logistics.fleet, vehicles_away(course, without=wave.id)
    leaves_s = min(one.leaves_s for one in wave.vehicles)
    from_s = allowed_from(
        away.moments_s,
        lambda moment: away.at(moment) + len(wave.vehicles) <= fleet.vehicles,
        until_s=leaves_s,
        since_s=course.plan.begins_s,
    )
    text = f"{len(wave.vehicles)} of {fleet.vehicles} vehicles are here to leave from then on"
    yield Limit("PLAN-VEHICLE", wave.out_s - (leaves_s - from_s), False, text, f"more vehicles of {fleet.id}, or a shorter transit")


def _dock(course: Course, wave: Wave) -> Iterator[Limit]:
    places = None if course.policy.logistics is None else course.policy.logistics.dock_places
    arrives_s = next((task.ends_s for task in wave.tasks if task.id is TaskKind.TRANSIT), None)
    if places is None or arrives_s is None:
        return
    held, most = racks_at_dock(course, without=wave.id), places
    from_s = allowed_from(
        held.moments_s, lambda moment: held.at(moment) + len(wave.racks) <= most, until_s=arrives_s, since_s=course.plan.begins_s
    )
    text = f"the dock has {len(wave.racks)} of its {places} places free when they would come"
    yield Limit("PLAN-DOCK", wave.out_s - (arrives_s - from_s), False, text, "more places at the dock")


def _apart(course: Course, wave: Wave) -> Iterator[Limit]:
    racks = {rack.id: rack for rack in course.source.racks}
    for rack in wave.racks:
        mates = set(racks[rack].apart_from if rack in racks else ()) | {one.id for one in course.source.racks if rack in one.apart_from}
        for mate in sorted(mates):
            other = course.wave_of.get(mate)
            if other is not None and other.id != wave.id and other.joins_s <= wave.out_s:
                text = f"{rack} is kept apart from {mate}, which has joined then"
                yield Limit("PLAN-APART", other.joins_s, False, text, f"{other.id} earlier", other.id)


def _joined_at(course: Course, moment_s: float) -> str:
    return next((wave.id for wave in course.plan.waves if abs(wave.joins_s - moment_s) < _NOW_S), "")


def _swung_at(course: Course, moment_s: float, model: str) -> str:
    held = [one for one in course.plan.swings if abs(one.ends_s - moment_s) < _NOW_S]
    return next((one.id for one in held if one.id in course.workloads and course.model_of(course.workloads[one.id]) == model), "")


def _ended_at(course: Course, moment_s: float, but: str) -> str:
    return next((one.id for one in course.plan.transfers if one.id != but and abs(one.ends_s - moment_s) < _NOW_S), "")


def slack_words(limits: tuple[Limit, ...], at_s: float) -> str:
    """How much earlier it could be when nothing binds."""
    latest = max((one.allows_s for one in limits), default=at_s)
    return f"nothing: every rule that is looked at here would allow it {format_duration(at_s - latest, digits=3)} earlier"
