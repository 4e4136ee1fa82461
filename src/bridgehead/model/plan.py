"""Plan: what moves when, in full (M7.1 to M7.5). Immutable; made by the planner or by hand, judged by a checker without its code.

Moments are seconds since the Unix epoch; periods hold from ``begins_s`` up to, and without, ``ends_s``. The rules that every plan must
keep are in ``docs/reference/plan-files.md``; each has a code there, and the checker names the codes.
"""

from __future__ import annotations

import enum
from typing import Annotated, Any, NewType

import msgspec

from bridgehead.kernel.document import dump, read_document, to_file
from bridgehead.kernel.hashing import document_hash
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.kernel.moment import Moment
from bridgehead.kernel.quantity import BitsPerSecond, Bytes, Seconds, Share
from bridgehead.kernel.schema import json_schema
from bridgehead.kernel.shape import Keyed, shape_of
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import estate_data
from bridgehead.model.fabric import Count, RackId
from bridgehead.model.logistics import CrewId, Money
from bridgehead.model.policy import Policy, policy_data

WaveId = NewType("WaveId", str)
VehicleId = NewType("VehicleId", str)


class PhaseId(enum.StrEnum):
    """The five phases (M7.1 to M7.5), what comes before the first, and the line that is kept after the last."""

    PREPARE = "prepare"
    BRIDGEHEAD = "bridgehead"
    SERVICES = "services"
    SWING = "swing"
    HARDWARE = "hardware"
    DECOMMISSION = "decommission"
    LINK_KEPT = "link-kept"


class PlannedPhase(msgspec.Struct, frozen=True):
    """One phase. Swing and hardware overlap where workloads need the capacity that waves bring."""

    id: PhaseId
    begins_s: Moment
    ends_s: Moment


class ServiceMode(enum.StrEnum):
    """How a critical service is replicated (M7.2)."""

    ACTIVE_ACTIVE = "active-active"
    ACTIVE_PASSIVE = "active-passive"


class ServiceCopy(msgspec.Struct, frozen=True):
    """A critical service becomes available at the target; what it needs is there before.

    Attributes:
        id: a workload of kind ``service``.
        begins_s, ends_s: from the beginning of its replication until it is validated from both sites.
    """

    id: WorkloadId
    mode: ServiceMode
    begins_s: Moment
    ends_s: Moment


class Transfer(msgspec.Struct, frozen=True):
    """Data goes to the target (M8.4, M9.1 to M9.3).

    Attributes:
        id: a data set of the estate; ``store.ID`` for what a store holds beside them, ``checkpoint.ID`` for a workload's state.
        courier: the courier that carries it; empty when it goes by line.
        size_bytes: all of it.
        rate_bps: of the line, while it is sent; 0 by courier.
        sync_bps: reserved afterwards for what changes, until it is used at the target only.
        begins_s, ends_s: the whole copy; by courier until it is verified there.
        sync_ends_s: when its last user has gone over.
    """

    id: str
    size_bytes: Bytes
    begins_s: Moment
    ends_s: Moment
    courier: str = ""
    rate_bps: BitsPerSecond = 0.0
    sync_bps: BitsPerSecond = 0.0
    sync_ends_s: Moment | None = None


class SwingMode(enum.StrEnum):
    """How a workload goes over (design section 6)."""

    CANARY = "canary"
    """Inference: 5, 25, 50, 100 % of the traffic; nothing is lost."""
    PRECOPY = "pre-copy"
    """Training: copied while it runs; it stands still for the last difference."""
    RESTART = "checkpoint-restart"
    """Training and batch: saved, copied, restored."""
    REQUEUE = "requeue"
    """Batch without checkpoints: stopped and begun anew."""


class Swing(msgspec.Struct, frozen=True):
    """One workload goes over. It takes its GPUs at the target from ``begins_s`` on, and those at the source until ``ends_s``.

    Attributes:
        id: the workload.
        lost_s: how long none of its GPUs works for it.
        lost_gpu_hours: ``lost_s`` times the GPUs that it runs on then.
    """

    id: WorkloadId
    mode: SwingMode
    begins_s: Moment
    ends_s: Moment
    lost_s: Seconds
    lost_gpu_hours: Annotated[float, msgspec.Meta(ge=0)]


class Shrink(msgspec.Struct, frozen=True):
    """For a while a workload runs on fewer GPUs than it has (M13); 0 when it pauses.

    Attributes:
        gpus: on how many it runs meanwhile.
    """

    workload: WorkloadId
    site: SiteId
    gpus: Count
    begins_s: Moment
    ends_s: Moment


class TaskKind(enum.StrEnum):
    """The steps of a wave, in their order (M7.4, M12)."""

    DRAIN = "drain"
    PACK = "pack"
    DRAIN_COOLANT = "drain-coolant"
    LOAD = "load"
    TRANSIT = "transit"
    UNLOAD = "unload"
    ACCLIMATISE = "acclimatise"
    INSPECT = "inspect"
    INSTALL = "install"
    LEAK_TEST = "leak-test"
    BURN_IN = "burn-in"
    JOIN = "join"


class Task(msgspec.Struct, frozen=True):
    """One step of a wave, of all its racks.

    Attributes:
        id: which step.
        crew: who does it; empty for waiting and driving.
        teams: teams of the crew that are on it; each does one rack after the other.
        prepared_from_s: when its preparation begins: three hours for each hour of execution (M6); None for waiting.
    """

    id: TaskKind
    begins_s: Moment
    ends_s: Moment
    crew: CrewId = CrewId("")
    teams: Count = 0
    prepared_from_s: Moment | None = None


class Vehicle(msgspec.Struct, frozen=True):
    """One trip of one vehicle.

    Attributes:
        id: the vehicle, ``FLEET-NUMBER``.
        racks: what it carries.
        value: what its load is insured for; None while unknown.
    """

    id: VehicleId
    racks: tuple[RackId, ...]
    leaves_s: Moment
    arrives_s: Moment
    value: Money | None = None


class Wave(msgspec.Struct, frozen=True):
    """Racks that leave together.

    Attributes:
        out_s: from then on the source does not have them.
        joins_s: from then on the target has them.
        bridgehead: whether it belongs to the first capacity at the target.
    """

    id: WaveId
    out_s: Moment
    joins_s: Moment
    vehicles: Annotated[tuple[Vehicle, ...], Keyed("vehicle")]
    tasks: Annotated[tuple[Task, ...], Keyed("task")]
    bridgehead: bool = False

    @property
    def racks(self) -> tuple[RackId, ...]:
        """All that it carries."""
        return tuple(rack for vehicle in self.vehicles for rack in vehicle.racks)


class Placement(msgspec.Struct, frozen=True):
    """Where a rack of the source will stand.

    Attributes:
        id: the rack at the source.
        place: the rack position at the target, an empty rack of its estate.
    """

    id: RackId
    place: RackId


class RollbackPoint(msgspec.Struct, frozen=True):
    """Until when, and how, a phase can be taken back (M10.4).

    Attributes:
        until_s: afterwards it is no longer cheap to go back.
        back: what going back means then.
        trigger: what makes people go back.
    """

    id: str
    until_s: Moment
    back: str
    trigger: str


class SparePart(msgspec.Struct, frozen=True):
    """Spare units that stand ready at both sites (M10.1).

    Attributes:
        model: of GPU.
        count: how many, the larger of the floor and what Poisson asks for.
        because: which of both, with its numbers.
    """

    model: str
    count: Count
    because: str


class Assumption(msgspec.Struct, frozen=True):
    """A value that nobody gave, and what it is taken for.

    Attributes:
        field: path in estate or policy (``policy.precopy.delta_share``, ``workloads.lm.warm_up``).
        taken: the value, as people write it.
        because: why this one.
    """

    field: str
    taken: str
    because: str


class Level(msgspec.Struct, frozen=True):
    """One level of the objective: what was reached, and what can be proved to be the least possible.

    Attributes:
        id: ``lost-gpu-hours`` (weighted by priority), ``days``, ``cost``.
        value: of this plan.
        bound: no plan that keeps all rules (and is as good in the levels before) has less.
    """

    id: str
    value: Annotated[float, msgspec.Meta(ge=0)]
    bound: Annotated[float, msgspec.Meta(ge=0)]


class Score(msgspec.Struct, frozen=True):
    """How good the plan is; ``Weights`` of the policy join the levels into one number.

    Attributes:
        gap: (value - bound) / value of the weighted sum; 0 when the plan is proved to be the best.
        lost_gpu_hours: of all workloads, not weighted.
        binding: codes of the rules that stop a better plan, the tightest first.
    """

    levels: Annotated[tuple[Level, ...], Keyed("level")]
    gap: Annotated[Share, msgspec.Meta(ge=0)]
    lost_gpu_hours: Annotated[float, msgspec.Meta(ge=0)]
    binding: tuple[str, ...] = ()


class Plan(msgspec.Struct, frozen=True):
    """A move, from its first to its last day.

    Attributes:
        estate, policy: digests of what it was made for.
        parent: digest of the plan that it replaces; empty for the first.
        generation: 1 for the first, one more for each that replaces another.
        seed: of the search; with it and one time limit the same plan comes out as long as the search ends by itself.
        begins_s, ends_s: from the first day of the bridgehead to the end of decommissioning.
    """

    name: str = msgspec.field(name="plan")
    source: SiteId
    target: SiteId
    estate: str
    policy: str
    begins_s: Moment
    ends_s: Moment
    score: Score
    seed: int = 0
    parent: str = ""
    generation: Annotated[int, msgspec.Meta(ge=1)] = 1
    phases: Annotated[tuple[PlannedPhase, ...], Keyed("phase")] = ()
    services: Annotated[tuple[ServiceCopy, ...], Keyed("service-copy")] = ()
    transfers: Annotated[tuple[Transfer, ...], Keyed("transfer")] = ()
    swings: Annotated[tuple[Swing, ...], Keyed("swing")] = ()
    shrinks: tuple[Shrink, ...] = ()
    waves: Annotated[tuple[Wave, ...], Keyed("wave")] = ()
    placements: Annotated[tuple[Placement, ...], Keyed("placement")] = ()
    rollback: Annotated[tuple[RollbackPoint, ...], Keyed("rollback-point")] = ()
    spares: tuple[SparePart, ...] = ()
    assumptions: tuple[Assumption, ...] = ()


def digest_of(value: Estate | Policy | Plan) -> str:
    """SHA-256 of an estate, a policy or a plan as its file would be written: the order of what has ids changes nothing."""
    match value:
        case Estate():
            return document_hash(estate_data(value))
        case Policy():
            return document_hash(policy_data(value))
        case Plan():
            return document_hash(plan_data(value))


def read_plan(text: str, *, file: str) -> Plan:
    """Read a plan file. Raises BadFile (BAD_INPUT) with every fault of form; whether it keeps the rules is the checker's to say."""
    return read_document(text, Plan, file=file, what="plan")[0]


def write_plan(plan: Plan) -> str:
    """YAML that ``read_plan`` reads as an equal plan."""
    return dump(plan_data(plan))


def plan_data(plan: Plan) -> dict[str, Any]:
    """The plan as files write it."""
    data: dict[str, Any] = to_file(plan, shape_of(Plan))
    return data


def plan_schema() -> dict[str, Any]:
    """JSON Schema of plan files, for editors."""
    return json_schema(Plan, title="Bridgehead move plan")
