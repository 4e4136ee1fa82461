"""Explain: why something is where and when the plan has it, what binds then, and what would have to change first. Pure.

Everything is counted from plan, estate and policy by code of its own; the planner is not asked, so that a plan written by hand can be
explained as well. It says what binds locally, with everything else as it is; what a relaxed limit buys in all is for a new plan to say.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.moment import format_moment
from bridgehead.kernel.phrase import nearest
from bridgehead.kernel.quantity import format_duration
from bridgehead.model.fabric import RackId
from bridgehead.model.plan import Plan, ServiceCopy, Swing, Transfer, Wave
from bridgehead.planning.course import Course
from bridgehead.planning.explain_limits import Limit, copy_limits, slack_words, swing_limits, transfer_limits, wave_limits
from bridgehead.planning.explain_modes import Way, ways_of
from bridgehead.planning.explain_places import place_facts
from bridgehead.planning.level_words import level_words
from bridgehead.planning.resources import Load, loads_before

FULL = 0.9
"""From this share on, something is shown as nearly full."""
_MOST_LINKS = 20


class Explanation(msgspec.Struct, frozen=True):
    """Why one thing is as it is.

    Attributes:
        what: its id; the plan's name for the plan as a whole.
        kind: ``workload``, ``rack``, ``wave``, ``transfer``, ``service`` or ``plan``.
        facts: what the plan says of it, in sentences.
        limits: what would have allowed it since when, the latest first.
        first: what would have to change first for it to be earlier.
        ways: for a workload, every mode with its loss.
        full: what is at, or near, its limit just before it begins.
        chain: for the plan, what each of its last things waited for, back to what waited for nothing in the plan.
    """

    what: str
    kind: str
    begins_s: float
    ends_s: float
    facts: tuple[str, ...]
    limits: tuple[Limit, ...]
    first: str
    ways: tuple[Way, ...] = ()
    full: tuple[Load, ...] = ()
    chain: tuple[str, ...] = ()


def explain(course: Course, what: str = "") -> Explanation:
    """Explain one thing, or without ``what`` why the plan takes as long as it does.

    Raises BAD_USAGE when the plan has nothing of that id.
    """
    if not what:
        return _whole(course)
    thing = _thing(course.plan, what)
    match thing:
        case Swing():
            return _swing(course, thing)
        case Wave():
            return _wave(course, thing)
        case Transfer():
            return _transfer(course, thing)
        case ServiceCopy():
            return _copy(course, thing)
        case None if RackId(what) in course.wave_of:
            return _rack(course, RackId(what))
    raise _unknown(course, what)


def _thing(plan: Plan, name: str) -> Swing | Wave | Transfer | ServiceCopy | None:
    things: tuple[Swing | Wave | Transfer | ServiceCopy, ...] = (*plan.swings, *plan.waves, *plan.services, *plan.transfers)
    return next((one for one in things if one.id == name), None)


def _unknown(course: Course, what: str) -> BridgeheadError:
    plan = course.plan
    staying = {rack.id for rack in course.source.racks} - set(course.wave_of)
    names = [one.id for held in (plan.swings, plan.waves, plan.services, plan.transfers) for one in held] + list(course.wave_of)
    happened = f"rack '{what}' is not carried" if what in staying else f"the plan has nothing called '{what}'"
    return BridgeheadError(
        ErrorCode.BAD_USAGE, tried="explain", subject=f"plan '{plan.name}'", happened=happened, remedy=f"{nearest(what, names)}"
    )


def _swing(course: Course, swing: Swing) -> Explanation:
    limits = swing_limits(course, swing)
    workload = course.workloads.get(swing.id)
    ways = () if workload is None else ways_of(course, workload)
    facts = [
        f"it goes over from {_at(swing.begins_s)} to {_at(swing.ends_s)} by {swing.mode.value}",
        f"it stands still for {format_duration(swing.lost_s, digits=3)}, {swing.lost_gpu_hours:,.4g} GPU-hours",
    ]
    if workload is not None:
        model = course.model_of(workload)
        facts.append(f"it runs on {workload.gpus} {model} and has priority {workload.priority}")
        facts += [
            f"from {_at(one.begins_s)} to {_at(one.ends_s)} it runs on {one.gpus} GPUs at {one.site}, to free {workload.gpus - one.gpus}"
            for one in course.plan.shrinks
            if one.workload == swing.id
        ]
        chosen = next((way for way in ways if way.mode == swing.mode), None)
        better = [way for way in ways if way.fits and way.lost_s is not None and way.lost_s < swing.lost_s - 1e-3]
        if chosen is not None and chosen.fits and not better:
            facts.append(f"no mode that fits loses less than {swing.mode.value}")
        facts += [f"{way.mode.value} would lose less: {format_duration(way.lost_s or 0.0, digits=3)}" for way in better]
    return _made(course, swing.id, "workload", (swing.begins_s, swing.ends_s), facts, limits, ways)


def _wave(course: Course, wave: Wave) -> Explanation:
    limits = wave_limits(course, wave)
    return _made(course, wave.id, "wave", (wave.out_s, wave.joins_s), list(_wave_facts(course, wave)), limits)


def _wave_facts(course: Course, wave: Wave) -> Iterator[str]:
    gpus = sum(course.gpus_of(rack).total() for rack in wave.racks)
    yield f"{len(wave.racks)} racks with {gpus} GPUs leave the source at {_at(wave.out_s)} and work at the target from {_at(wave.joins_s)}"
    if wave.bridgehead:
        yield "it is the first capacity at the target: nothing goes over before it has joined"
    longest = max(wave.tasks, key=lambda task: task.ends_s - task.begins_s, default=None)
    if longest is not None:
        lasts = format_duration(longest.ends_s - longest.begins_s, digits=3)
        yield f"the longest of its {len(wave.tasks)} steps is {longest.id.value}: {lasts}"
    waiting = [after.begins_s - before.ends_s for before, after in zip(wave.tasks, wave.tasks[1:], strict=False)]
    if sum(waiting) > 0:
        yield f"{format_duration(sum(waiting), digits=3)} of its time it waits for the next shift of a crew"
    used = [one.id for one in course.plan.swings if one.begins_s >= wave.joins_s]
    if used:
        yield f"the next to go over after it has joined is {used[0]}"


def _rack(course: Course, rack: RackId) -> Explanation:
    wave = course.wave_of[rack]
    vehicle = next(one for one in wave.vehicles if rack in one.racks)
    gpus = ", ".join(f"{count} {model}" for model, count in sorted(course.gpus_of(rack).items())) or "no GPUs"
    facts = [f"it is carried in {wave.id} by {vehicle.id}, which leaves at {_at(vehicle.leaves_s)}", f"it holds {gpus}"]
    one = next((held for held in course.source.racks if held.id == rack), None)
    if one is not None and one.nvlink_domain:
        mates = sorted(held.id for held in course.source.racks if held.nvlink_domain == one.nvlink_domain and held.id != rack)
        facts.append(f"its NVLink domain {one.nvlink_domain} is carried in one wave: {', '.join(mates) or 'it is alone in it'}")
    if one is not None and one.apart_from:
        facts.append(f"it is never under way together with {', '.join(one.apart_from)}")
    facts += place_facts(course, rack)
    facts += _wave_facts(course, wave)
    return _made(course, rack, "rack", (wave.out_s, wave.joins_s), facts, wave_limits(course, wave))


def _transfer(course: Course, transfer: Transfer) -> Explanation:
    way = f"by courier {transfer.courier}" if transfer.courier else f"by line at {transfer.rate_bps / 1e9:.3g} Gb/s"
    facts = [f"{transfer.size_bytes / 1e12:,.4g} TB go {way} from {_at(transfer.begins_s)} to {_at(transfer.ends_s)}"]
    if transfer.sync_bps and transfer.sync_ends_s is not None:
        facts.append(f"{transfer.sync_bps / 1e9:.3g} Gb/s stay reserved for its changes until {_at(transfer.sync_ends_s)}")
    users = [one.id for one in course.estate.workloads if transfer.id in (*one.datasets, f"checkpoint.{one.id}", f"store.{one.store}")]
    if users:
        facts.append(f"it is for {', '.join(sorted(users))}")
    return _made(course, transfer.id, "transfer", (transfer.begins_s, transfer.ends_s), facts, transfer_limits(course, transfer))


def _copy(course: Course, copy: ServiceCopy) -> Explanation:
    facts = [f"it is replicated from {_at(copy.begins_s)} to {_at(copy.ends_s)}, {copy.mode.value}"]
    later = sorted(one.id for one in course.estate.workloads if copy.id in one.needs)
    if later:
        facts.append(f"{len(later)} need it before they go over: {', '.join(later[:5])}{' ...' if len(later) > 5 else ''}")
    return _made(course, copy.id, "service", (copy.begins_s, copy.ends_s), facts, copy_limits(course, copy))


def _made(
    course: Course, what: str, kind: str, span: tuple[float, float], facts: list[str], limits: tuple[Limit, ...], ways: tuple[Way, ...] = ()
) -> Explanation:
    full = tuple(load for load in loads_before(course, span[0]) if load.share >= FULL)
    return Explanation(what, kind, *span, tuple(facts), limits, first_of(limits, span[0]), ways, full)


def first_of(limits: tuple[Limit, ...], at_s: float) -> str:
    """What would have to change first; a window counts only when nothing else made it miss the one before."""
    binding = _binding(limits)
    return slack_words(limits, at_s) if binding is None else f"{binding.change} ({binding.code})"


def _binding(limits: tuple[Limit, ...]) -> Limit | None:
    bound = [one for one in limits if one.binds]
    return next((one for one in bound if one.code != "PLAN-WINDOW"), bound[0] if bound else None)


def _whole(course: Course) -> Explanation:
    plan, score = course.plan, course.plan.score
    facts = [f"it runs from {_at(plan.begins_s)} to {_at(plan.ends_s)}; everything has gone over at {_at(course.done_s)}"]
    facts += [level_words(one) for one in score.levels]
    facts.append("it is proved to be the best" if score.gap == 0 else f"it is at most {score.gap:.1%} worse than the best plan")
    if score.binding:
        facts.append(f"rules that stop a better one, the tightest first: {', '.join(score.binding)}")
    chain, limits, first = _chain(course)
    return Explanation(plan.name, "plan", plan.begins_s, plan.ends_s, tuple(facts), limits, first, chain=chain)


def _chain(course: Course) -> tuple[tuple[str, ...], tuple[Limit, ...], str]:
    """From the last thing that goes over back along what each waited for; with the limits of that last thing, which the end hangs on."""
    ends: list[tuple[float, str]] = [(one.ends_s, one.id) for one in course.plan.swings] + [
        (one.joins_s, one.id) for one in course.plan.waves
    ]
    name = max(ends, default=(0.0, ""))[1]
    lines: list[str] = []
    seen: set[str] = set()
    last: tuple[tuple[Limit, ...], str] = ((), "nothing goes over")
    while name and name not in seen and len(lines) < _MOST_LINKS:
        seen.add(name)
        found = explain(course, name)
        bound = _binding(found.limits)
        latest = bound or next((one for one in found.limits if one.code != "PLAN-WINDOW"), None)
        words = "nothing limits it"
        if latest is not None:
            late = "" if bound is not None else f"{format_duration(found.begins_s - latest.allows_s, digits=3)} later than it could: "
            words = f"{late}{latest.code}, {latest.text}"
        lines.append(f"{_at(found.begins_s)}  {found.kind} {name}: {words}")
        last = last if len(lines) > 1 else (found.limits, found.first)
        name = "" if latest is None else latest.who
    return tuple(lines), *last


def _at(moment_s: float) -> str:
    return format_moment(float(int(moment_s)))[:16] + "Z"
