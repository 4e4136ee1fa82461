"""The frame of a plan: what it was made for, its phases, and the time to prepare (PLAN-FOR, PLAN-PHASES, PLAN-PREPARED; M6, M7.1). Pure."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.model.finding import Finding
from bridgehead.model.plan import PhaseId, PlannedPhase, Wave, digest_of
from bridgehead.planning.check_case import TICK_S, Case, lasting, when
from bridgehead.planning.check_ground import Ground

_TIMES = 3
"""Hours of preparation for each hour of execution (M6)."""
_NEEDED = (PhaseId.PREPARE, PhaseId.BRIDGEHEAD, PhaseId.SERVICES, PhaseId.DECOMMISSION, PhaseId.LINK_KEPT)


def check_for(ground: Ground) -> Iterator[Finding]:
    """``PLAN-FOR``: the plan is for these files."""
    plan, policy, estate = ground.plan, ground.policy, ground.estate
    case = Case("PLAN-FOR", "plan")
    sites = {site.id for site in estate.sites}
    for end, named, asked in (("source", plan.source, policy.source), ("target", plan.target, policy.target)):
        if named != asked:
            case.fault(f"the plan's {end} is '{named}', the policy's is '{asked}'", remedy="make the plan anew for this policy")
        if asked not in sites:
            case.fault(f"the estate has no site '{asked}', the {end} of the policy", remedy="name a site of the estate in the policy")
    for what, said, found in (("estate", plan.estate, digest_of(estate)), ("policy", plan.policy, digest_of(policy))):
        if said != found:
            case.fault(
                f"the plan was made for another {what} ({said[:12] or 'none'}… and not {found[:12]}…)",
                remedy=f"check it with the {what} that it was made for; for the changed one make it anew, "
                f"or set '{what}: {found}' once you have checked that it still holds",
            )
    yield case.finding(f"made for this estate and this policy, from {policy.source} to {policy.target}")


def check_phases(ground: Ground) -> Iterator[Finding]:
    """``PLAN-PHASES``: each phase once, in order, as long as the policy says, and around what belongs to it."""
    for kind in PhaseId:
        yield _phase(ground, kind)
    yield _moments(ground)


def _phase(ground: Ground, kind: PhaseId) -> Finding:
    case = Case("PLAN-PHASES", f"phase:{kind}")
    found = ground.phases.get(kind, [])
    needed = kind in _NEEDED or (kind is PhaseId.SWING and ground.plan.swings) or (kind is PhaseId.HARDWARE and _later_waves(ground))
    if not found and needed:
        case.fault(f"the plan has no phase {kind}", remedy=f"add the phase {kind}")
    if len(found) > 1:
        case.fault(f"the plan has the phase {kind} {len(found)} times", remedy="leave one of them")
    for phase in found[:1]:
        _judge(ground, case, phase)
    shown = f"{when(found[0].begins_s)} to {when(found[0].ends_s)}" if found else "nothing belongs to it, and it is left out"
    return case.finding(f"phase {kind}: {shown}")


def _judge(ground: Ground, case: Case, phase: PlannedPhase) -> None:
    if phase.ends_s < phase.begins_s:
        case.fault(f"phase {phase.id} ends {lasting(phase.begins_s - phase.ends_s)} before it begins", remedy="put its end after its begin")
    match phase.id:
        case PhaseId.PREPARE:
            _before_bridgehead(ground, case, phase)
        case PhaseId.BRIDGEHEAD:
            begins = ground.policy.begins_s
            if begins is None:
                case.lack("the policy does not say when the move begins", measurement="give policy.begins")
            elif abs(phase.begins_s - begins) > TICK_S:
                text = f"phase bridgehead begins {when(phase.begins_s)}, the policy says {when(begins)}"
                case.fault(text, value=phase.begins_s - begins, limit=0.0, unit="s", remedy="begin it when the policy says")
            _lasts(case, phase, ground.policy.phases.bridgehead_s)
        case PhaseId.SERVICES:
            _lasts(case, phase, ground.policy.phases.services_s)
            _after(case, phase, ground.phase(PhaseId.BRIDGEHEAD))
        case PhaseId.SWING:
            spans = [(one.begins_s, one.ends_s) for one in ground.plan.swings]
            _spans(case, phase, spans, "swing")
        case PhaseId.HARDWARE:
            _spans(case, phase, [(one.out_s, one.joins_s) for one in _later_waves(ground)], "wave that is not of the bridgehead")
        case PhaseId.DECOMMISSION:
            _lasts(case, phase, ground.policy.phases.decommission_s)
            _after(case, phase, ground.phase(PhaseId.SWING))
            _after(case, phase, ground.phase(PhaseId.HARDWARE))
        case PhaseId.LINK_KEPT:
            _kept(ground, case, phase)


def _before_bridgehead(ground: Ground, case: Case, phase: PlannedPhase) -> None:
    bridgehead = ground.phase(PhaseId.BRIDGEHEAD)
    if bridgehead is not None and phase.ends_s > bridgehead.begins_s + TICK_S:
        text = f"phase prepare ends {when(phase.ends_s)}, after the bridgehead has begun {when(bridgehead.begins_s)}"
        case.fault(text, value=phase.ends_s - bridgehead.begins_s, limit=0.0, unit="s", remedy="end it when the bridgehead begins")


def _lasts(case: Case, phase: PlannedPhase, least_s: float) -> None:
    length = phase.ends_s - phase.begins_s
    text = f"phase {phase.id} lasts {lasting(length)}, {lasting(least_s - length)} less than the {lasting(least_s)} of the policy"
    case.at_least(length, least_s, text, unit="s", remedy="end it later, and move what comes after it")


def _after(case: Case, phase: PlannedPhase, before: PlannedPhase | None) -> None:
    if before is not None and phase.begins_s < before.ends_s - TICK_S:
        early = before.ends_s - phase.begins_s
        text = f"phase {phase.id} begins {when(phase.begins_s)}, {lasting(early)} before phase {before.id} has ended"
        case.fault(text, value=early, limit=0.0, unit="s", remedy=f"begin it at {when(before.ends_s)} or later")


def _spans(case: Case, phase: PlannedPhase, spans: list[tuple[float, float]], what: str) -> None:
    if not spans:
        if phase.ends_s > phase.begins_s + TICK_S:
            text = f"phase {phase.id} lasts {lasting(phase.ends_s - phase.begins_s)}, and the plan has no {what}"
            case.fault(text, remedy="take the phase out, or let it take no time")
        return
    first, last = min(begins for begins, _ in spans), max(ends for _, ends in spans)
    for side, said, asked in (("begins", phase.begins_s, first), ("ends", phase.ends_s, last)):
        if abs(said - asked) > TICK_S:
            edge = "first" if side == "begins" else "last"
            text = f"phase {phase.id} {side} {when(said)}, but its {edge} {what} {side} {when(asked)}"
            case.fault(text, value=said - asked, limit=0.0, unit="s", remedy=f"let the phase {side[:-1]} with its {edge} {what}")


def _kept(ground: Ground, case: Case, phase: PlannedPhase) -> None:
    before = ground.phase(PhaseId.DECOMMISSION)
    if before is None:
        return
    if phase.begins_s > before.ends_s + TICK_S:
        case.fault(
            f"the lines are not kept from {when(before.ends_s)}, when decommissioning ends, until {when(phase.begins_s)}",
            value=phase.begins_s - before.ends_s,
            limit=0.0,
            unit="s",
            remedy="begin the phase when decommissioning ends",
        )
    kept, least = phase.ends_s - before.ends_s, ground.policy.phases.keep_link_s
    text = f"the lines are kept {lasting(kept)} after decommissioning, {lasting(least - kept)} less than the policy asks for"
    case.at_least(kept, least, text, unit="s", remedy=f"keep them until {when(before.ends_s + least)}")


def _moments(ground: Ground) -> Finding:
    """What begins before its phase may, and the plan's own first and last moment."""
    case = Case("PLAN-PHASES", "plan")
    plan, begins = ground.plan, ground.policy.begins_s
    services, last = ground.phase(PhaseId.SERVICES), ground.phase(PhaseId.DECOMMISSION)
    if services is not None:
        for swing in plan.swings:
            _not_before(case, f"swing of {swing.id} begins", swing.begins_s, services.ends_s, "phase services ends")
        for wave in _later_waves(ground):
            _not_before(case, f"{wave.id} leaves", wave.out_s, services.ends_s, "phase services ends")
        for copy in plan.services:
            _not_before(case, f"the copy of {copy.id} begins", copy.begins_s, services.begins_s, "phase services begins")
            _not_before(case, "phase services ends", services.ends_s, copy.ends_s, f"{copy.id} is copied")
    if begins is None:
        case.lack("the policy does not say when the move begins", measurement="give policy.begins")
    else:
        for wave in plan.waves:
            if wave.bridgehead:
                _not_before(case, f"{wave.id} leaves", wave.out_s, begins, "the move begins")
        _equal(case, "begins", plan.begins_s, begins, "the move does")
    if last is not None:
        _equal(case, "ends", plan.ends_s, last.ends_s, "decommissioning does")
    passes = f"the plan runs from {when(plan.begins_s)} to {when(plan.ends_s)}, and nothing begins before its phase"
    return case.finding(passes)


def _not_before(case: Case, what: str, moment_s: float, earliest_s: float, because: str) -> None:
    if moment_s < earliest_s - TICK_S:
        early = earliest_s - moment_s
        text = f"{what} {when(moment_s)}, {lasting(early)} before {because} ({when(earliest_s)})"
        case.fault(text, value=early, limit=0.0, unit="s", remedy="move it to a later time")


def _equal(case: Case, side: str, said_s: float, asked_s: float, because: str) -> None:
    if abs(said_s - asked_s) > TICK_S:
        text = f"the plan {side} {when(said_s)}, and {because} {when(asked_s)}"
        case.fault(text, value=said_s - asked_s, limit=0.0, unit="s", remedy=f"set '{side}' of the plan to {when(asked_s)}")


def _later_waves(ground: Ground) -> list[Wave]:
    return [wave for wave in ground.plan.waves if not wave.bridgehead]


def check_prepared(ground: Ground) -> Iterator[Finding]:
    """``PLAN-PREPARED``: three hours of preparation before each hour of work (M6)."""
    for wave in ground.plan.waves:
        case = Case("PLAN-PREPARED", f"wave:{wave.id}")
        for task in wave.tasks:
            if not task.crew:
                continue
            length = max(0.0, task.ends_s - task.begins_s)
            remedy = f"begin to prepare {task.id} of {wave.id} at {when(task.begins_s - _TIMES * length)} or earlier"
            if task.prepared_from_s is None:
                case.fault(f"{task.id} of {wave.id} takes {lasting(length)} of {task.crew}'s work and is not prepared", remedy=remedy)
                continue
            given = task.begins_s - task.prepared_from_s
            text = f"{task.id} of {wave.id} takes {lasting(length)} and is prepared for {lasting(given)}"
            text += f"; {lasting(_TIMES * length)} are asked for"
            case.at_least(given, _TIMES * length, text, unit="s", remedy=remedy)
        yield case.finding(f"all work on {wave.id} is prepared for three times as long as it takes")
