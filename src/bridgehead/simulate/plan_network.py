"""PlanNetwork: the activities of a plan, and what each waits for (M7.1 to M7.5, M13).

The times of a plan hold as long as nothing goes wrong. What must follow what is derived from the rules of ``docs/reference/plan-files.md``:
tasks of a wave follow each other, teams and vehicles finish one thing before the next, a wave leaves when swings have freed its GPUs, a
swing waits for the racks that have to join for it. ``plan compile`` and ``simulate`` share this, so that both wait for the same things.
"""

from __future__ import annotations

import enum
import heapq
import itertools

import msgspec

from bridgehead.kernel.ids import ServiceId, StepId, WorkloadId
from bridgehead.model.estate import Estate
from bridgehead.model.plan import PhaseId, Plan, Swing, TaskKind, Transfer, Wave
from bridgehead.model.policy import Policy
from bridgehead.simulate.plan_resources import gpu_flows, handling_flows, lane_flow, line_flow

_ROUNDING_S = 1e-3

BRIDGEHEAD, SERVICES, SERVICES_DONE = StepId("bridgehead"), StepId("services"), StepId("services-done")
DECOMMISSION = StepId("decommission")


class Kind(enum.StrEnum):
    """What kind of activity it is."""

    PHASE = "phase"
    SERVICE = "service"
    TRANSFER = "transfer"
    SWING = "swing"
    SHRINK = "shrink"
    GROW = "grow"
    HANDLING = "handling"
    RETURN = "return"


class Activity(msgspec.Struct, frozen=True):
    """Something that a plan lets happen.

    Attributes:
        of: the wave, workload or transfer that it belongs to; for a return, the wave whose vehicles drive back.
        needs: what must be over before; each was over by ``begins_s`` in the plan.
        owner: who answers for it: a crew, the line, a courier, a workload; empty for waiting.
        task: which step of a wave.
    """

    id: StepId
    kind: Kind
    of: str
    begins_s: float
    ends_s: float
    needs: tuple[StepId, ...] = ()
    owner: str = ""
    task: TaskKind | None = None

    @property
    def lasts_s(self) -> float:
        """How long it takes in the plan."""
        return self.ends_s - self.begins_s


def handling_id(wave: Wave, task: TaskKind) -> StepId:
    """Name of a step of a wave."""
    return StepId(f"{wave.id}-{task.value}")


def return_id(wave: Wave) -> StepId:
    """Name of the way back of a wave's vehicles."""
    return StepId(f"{wave.id}-return")


def swing_id(swing: Swing) -> StepId:
    """Name of a swing."""
    return StepId(f"swing-{swing.id}")


def transfer_id(transfer: Transfer) -> StepId:
    """Name of a transfer."""
    return StepId(f"copy-{transfer.id}")


def network_of(plan: Plan, *, estate: Estate, policy: Policy) -> tuple[Activity, ...]:
    """All activities, each behind everything that it needs."""
    activities = {one.id: one for one in [*_phases(plan), *_services(plan), *_transfers(plan), *_swings(plan), *_waves(plan, policy)]}
    needs = _order_needs(plan, estate)
    flows = (handling_flows(plan, policy), lane_flow(plan, policy), line_flow(plan, estate, policy), gpu_flows(plan, estate, policy))
    for flow in flows:
        for step, others in flow.items():
            needs.setdefault(step, set()).update(others)
    for step, one in activities.items():
        held = {other for other in needs.get(step, ()) if other in activities and activities[other].ends_s <= one.begins_s + _ROUNDING_S}
        activities[step] = msgspec.structs.replace(one, needs=tuple(sorted(held)))
    return _reduced(activities)


def _phases(plan: Plan) -> list[Activity]:
    phases = {phase.id: phase for phase in plan.phases}
    found: list[Activity] = []
    for phase, step, owner in (
        (PhaseId.BRIDGEHEAD, BRIDGEHEAD, "move-lead"),
        (PhaseId.SERVICES, SERVICES, "move-lead"),
        (PhaseId.DECOMMISSION, DECOMMISSION, "move-lead"),
    ):
        if phase in phases:
            found.append(Activity(step, Kind.PHASE, phase.value, phases[phase].begins_s, phases[phase].ends_s, owner=owner))
    if PhaseId.SERVICES in phases:
        ends_s = phases[PhaseId.SERVICES].ends_s
        found.append(Activity(SERVICES_DONE, Kind.PHASE, PhaseId.SERVICES.value, ends_s, ends_s, owner="move-lead"))
    return found


def _services(plan: Plan) -> list[Activity]:
    return [Activity(StepId(f"service-{one.id}"), Kind.SERVICE, one.id, one.begins_s, one.ends_s, owner=one.id) for one in plan.services]


def _transfers(plan: Plan) -> list[Activity]:
    return [
        Activity(transfer_id(one), Kind.TRANSFER, one.id, one.begins_s, one.ends_s, owner=one.courier or "line") for one in plan.transfers
    ]


def _swings(plan: Plan) -> list[Activity]:
    found = [Activity(swing_id(one), Kind.SWING, one.id, one.begins_s, one.ends_s, owner=one.id) for one in plan.swings]
    for number, shrink in enumerate(plan.shrinks):
        for kind, at_s in ((Kind.SHRINK, shrink.begins_s), (Kind.GROW, shrink.ends_s)):
            step = StepId(f"{kind.value}-{shrink.workload}-{number}")
            found.append(Activity(step, kind, shrink.workload, at_s, at_s, owner=shrink.workload))
    return found


def _waves(plan: Plan, policy: Policy) -> list[Activity]:
    found: list[Activity] = []
    for wave in plan.waves:
        for task in wave.tasks:
            owner = task.crew or (policy.logistics.fleet.id if policy.logistics is not None and task.id is TaskKind.TRANSIT else "")
            step = handling_id(wave, task.id)
            found.append(Activity(step, Kind.HANDLING, wave.id, task.begins_s, task.ends_s, owner=owner, task=task.id))
            if task.id is TaskKind.TRANSIT and policy.logistics is not None:
                back_s = task.ends_s + policy.logistics.fleet.transit_s
                found.append(Activity(return_id(wave), Kind.RETURN, wave.id, task.ends_s, back_s, owner=policy.logistics.fleet.id))
    return found


def _order_needs(plan: Plan, estate: Estate) -> dict[StepId, set[StepId]]:
    """What follows from the rules on order: phases, needs of workloads, data, steps of a wave, racks that are kept apart."""
    needs: dict[StepId, set[StepId]] = {SERVICES: {BRIDGEHEAD}, SERVICES_DONE: {SERVICES}}
    workloads = {one.id: one for one in estate.workloads}
    behind = {one.id: one.workload for one in estate.services if one.workload is not None}
    copies = {one.id: StepId(f"service-{one.id}") for one in plan.services}
    swings = {one.id: swing_id(one) for one in plan.swings}
    transfers = {one.id: transfer_id(one) for one in plan.transfers}

    def needed(name: WorkloadId) -> set[StepId]:
        asked = workloads.get(name)
        names = {behind.get(ServiceId(need), WorkloadId(need)) for need in (asked.needs if asked is not None else ())}
        return {step for ids in (copies, swings) for one, step in ids.items() if one in names}

    for name, step in copies.items():
        needs[step] = {BRIDGEHEAD, *needed(name)}
        needs[SERVICES_DONE].add(step)
    for name, step in swings.items():
        one = workloads.get(name)
        data = [f"checkpoint.{name}", *(one.datasets if one is not None else ())]
        data += [f"store.{one.store}"] if one is not None and one.store else []
        needs[step] = {SERVICES_DONE, *needed(name), *(transfers[item] for item in data if item in transfers)}
    for transfer in plan.transfers:
        needs[transfers[transfer.id]] = set() if transfer.courier else {BRIDGEHEAD}
    _wave_needs(plan, estate, needs)
    needs[DECOMMISSION] = {SERVICES_DONE, *swings.values(), *(handling_id(wave, wave.tasks[-1].id) for wave in plan.waves if wave.tasks)}
    return needs


def _wave_needs(plan: Plan, estate: Estate, needs: dict[StepId, set[StepId]]) -> None:
    apart = {rack.id: set(rack.apart_from) for site in estate.sites if site.id == plan.source for rack in site.racks if rack.apart_from}
    for wave in plan.waves:
        steps = [handling_id(wave, task.id) for task in wave.tasks]
        for before, after in itertools.pairwise(steps):
            needs.setdefault(after, set()).add(before)
        if not steps:
            continue
        first = needs.setdefault(steps[0], set())
        if wave.bridgehead:
            needs[SERVICES].add(steps[-1])
        else:
            first.add(SERVICES_DONE)
        racks = set(wave.racks)
        for other in plan.waves:
            touches = any(apart.get(rack, set()) & racks for rack in other.racks) or any(
                apart.get(rack, set()) & set(other.racks) for rack in racks
            )
            if other.id != wave.id and other.tasks and touches:
                first.add(handling_id(other, other.tasks[-1].id))
        needs.setdefault(return_id(wave), set()).add(handling_id(wave, TaskKind.TRANSIT))


def _reduced(activities: dict[StepId, Activity]) -> tuple[Activity, ...]:
    """By time, needs first, without needs that follow from others."""
    missing = {step: len(one.needs) for step, one in activities.items()}
    after: dict[StepId, list[StepId]] = {step: [] for step in activities}
    for step, one in activities.items():
        for need in one.needs:
            after[need].append(step)
    ready = [(one.begins_s, one.ends_s, one.id) for one in activities.values() if not missing[one.id]]
    heapq.heapify(ready)
    bit = {step: 1 << number for number, step in enumerate(activities)}
    before: dict[StepId, int] = {}
    found: list[Activity] = []
    while ready:
        step = heapq.heappop(ready)[2]
        one = activities[step]
        behind = 0
        for need in one.needs:
            behind |= before[need]
        before[step] = behind | sum(bit[need] for need in one.needs)
        found.append(msgspec.structs.replace(one, needs=tuple(need for need in one.needs if not behind & bit[need])))
        for other in after[step]:
            missing[other] -= 1
            if not missing[other]:
                heapq.heappush(ready, (activities[other].begins_s, activities[other].ends_s, other))
    return tuple(found)
