"""Completeness and order: nothing is forgotten, nothing is foreign, needs come first (PLAN-COMPLETE, PLAN-NEEDS; M7.2 to M7.4). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.estate import Workload, WorkloadKind
from bridgehead.model.finding import Finding
from bridgehead.planning.check_case import TICK_S, Case, lasting, when
from bridgehead.planning.check_ground import Ground


def check_complete(ground: Ground) -> Iterator[Finding]:
    """``PLAN-COMPLETE``: every workload, service and rack that has to go over does so exactly once, and nothing else."""
    yield from _workloads(ground)
    yield from _racks(ground)


def _workloads(ground: Ground) -> Iterator[Finding]:
    swings = Counter(one.id for one in ground.plan.swings)
    copies = Counter(one.id for one in ground.plan.services)
    for name in sorted(ground.moving.keys() | ground.copied.keys() | swings.keys() | copies.keys()):
        case = Case("PLAN-COMPLETE", f"workload:{name}")
        swung, copied = swings[name], copies[name]
        if name in ground.moving:
            _once(case, f"workload {name}", swung, "swings", remedy=f"give {name} one swing")
            if copied:
                case.fault(f"{name} is no service, and is copied as one", remedy=f"take {name} out of the services of the plan")
        elif name in ground.copied:
            _once(case, f"service {name}", copied, "is copied", remedy=f"copy {name} once")
            if swung:
                case.fault(f"{name} is a service, and swings", remedy=f"take {name} out of the swings")
        else:
            case.fault(f"{_foreign(ground, name)}, and the plan moves it", remedy=f"take {name} out of the plan")
        yield case.finding(f"{name} goes over once")


def _foreign(ground: Ground, name: str) -> str:
    known = ground.workloads.get(name)
    return f"the estate has no workload '{name}'" if known is None else f"{name} runs at {known.site} and not at {ground.source.id}"


def _once(case: Case, what: str, count: int, verb: str, *, remedy: str) -> None:
    if count != 1:
        said = f"{what} never {verb}" if not count else f"{what} {verb} {count} times"
        case.fault(said, value=count, limit=1, remedy=remedy)


def _racks(ground: Ground) -> Iterator[Finding]:
    placed = Counter(one.id for one in ground.plan.placements)
    waves = {rack: [wave.id for wave in found] for rack, found in ground.waves_of.items()}
    for name in sorted(ground.carried.keys() | placed.keys() | waves.keys()):
        case = Case("PLAN-COMPLETE", f"rack:{name}")
        taken = waves.get(name, [])
        if name not in ground.carried:
            why = _stays(ground, name)
            if taken:
                case.fault(f"{why}, but {taken[0]} carries it", remedy=f"take {name} out of {taken[0]}")
            if placed[name]:
                case.fault(f"{why}, but it has a place at {ground.target.id}", remedy=f"take {name} out of the placements")
        else:
            if len(taken) != 1:
                said = f"rack {name} is in no wave" if not taken else f"rack {name} is carried {len(taken)} times ({', '.join(taken)})"
                case.fault(said, value=len(taken), limit=1, remedy=f"put {name} into one vehicle of one wave")
            _once(case, f"rack {name}", placed[name], "gets a place", remedy=f"give {name} one place at {ground.target.id}")
        yield case.finding(f"rack {name} is carried once and has a place")


def _stays(ground: Ground, name: str) -> str:
    if not ground.hardware:
        return f"no hardware is carried in this move, and so not {name}"
    rack = next((one for one in ground.source.racks if one.id == name), None)
    if rack is None:
        return f"{ground.source.id} has no rack '{name}'"
    return f"rack {name} stays by the policy" if rack.id in ground.nodes else f"no node stands in rack {name}"


def needed_by(ground: Ground, workload: Workload) -> list[Workload]:
    """What of the source a workload needs, also through what answers requests; itself left out."""
    found: dict[str, Workload] = {}
    seen: set[str] = set()
    ahead = list(workload.needs)
    while ahead:
        name = ahead.pop()
        if name in seen:
            continue
        seen.add(name)
        known = ground.workloads.get(name)
        if known is not None:
            if known.id != workload.id and known.site == ground.policy.source:
                found[known.id] = known
            continue
        service = ground.serving.get(name)
        if service is not None:
            ahead += [*service.needs, *((service.workload,) if service.workload else ())]
    return [found[name] for name in sorted(found)]


def check_needs(ground: Ground) -> Iterator[Finding]:
    """``PLAN-NEEDS``: what a workload or service needs is there before it."""
    for name, workload in sorted({**ground.moving, **ground.copied}.items()):
        case = Case("PLAN-NEEDS", f"workload:{name}")
        begins = _begins_s(ground, name)
        service = workload.kind is WorkloadKind.SERVICE
        if begins is None:
            continue  # PLAN-COMPLETE says so
        verb = "its copy begins" if service else "its swing begins"
        for need in needed_by(ground, workload):
            there = ground.gone_s(need.id)
            if there is None or (service and need.kind is not WorkloadKind.SERVICE):
                continue
            done = "copied" if need.kind is WorkloadKind.SERVICE else "over"
            if there > begins + TICK_S:
                round_trip = any(back.id == name for back in needed_by(ground, need))
                text = (
                    f"{name} needs {need.id}, which is {done} only {when(there)}, {lasting(there - begins)} after {verb} ({when(begins)})"
                )
                text += "; they need each other, which is a fault of the estate" if round_trip else ""
                remedy = "take one of both needs out of the estate" if round_trip else f"move {name} to after {when(there)}"
                case.fault(text, value=there - begins, limit=0.0, unit="s", remedy=remedy)
        yield case.finding(f"all that {name} needs is there before {verb}")


def _begins_s(ground: Ground, name: WorkloadId) -> float | None:
    found = ground.swings.get(name) if name in ground.moving else ground.copies.get(name)
    return None if found is None else found.begins_s
