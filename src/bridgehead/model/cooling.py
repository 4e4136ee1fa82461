"""Cooling: loops of air and liquid, with their redundancy and the records of their commissioning (M5.1, M12; rules section 4)."""

from __future__ import annotations

import enum
from typing import Annotated, NewType

import msgspec

from bridgehead.kernel.ids import Person
from bridgehead.kernel.moment import Moment
from bridgehead.kernel.quantity import CubicMetresPerSecond, Kelvin, KelvinApart, Watts
from bridgehead.kernel.shape import Keyed, Ref

LoopId = NewType("LoopId", str)
LoopRef = Annotated[LoopId, Ref(("loop",))]


class LoopKind(enum.StrEnum):
    """What carries the heat."""

    AIR = "air"
    LIQUID = "liquid"


class Gate(enum.StrEnum):
    """What must be proved before a liquid loop is energised (M12; rules section 4)."""

    DEW_POINT = "dew-point"
    FILTER = "filter"
    PRESSURE_DROP = "pressure-drop"
    PRESSURE_HOLD = "pressure-hold"
    FLUSH = "flush"
    LOAD_BANK = "load-bank"


class Record(msgspec.Struct, frozen=True):
    """One commissioning step of a loop.

    Attributes:
        id: which step.
        passed: whether it was passed.
        signed_by: who answers for it; without a name it does not count.
        at_s: when.
        evidence: where the protocol lies.
    """

    id: Gate
    passed: bool
    signed_by: Person = Person("")
    at_s: Moment | None = None
    evidence: str = ""


class Loop(msgspec.Struct, frozen=True):
    """One cooling loop: a row of fan walls or in-row coolers, or the technology loop of a CDU.

    Attributes:
        kind: air or liquid.
        unit_capacity_w: heat that one of its units (pump, CDU, fan wall) carries away.
        units: how many units there are.
        units_needed: how many must run to carry the load; the rest are spare. Without it every unit is needed.
        flow_m3ps: design flow of all needed units together.
        rise_k: design difference between return and supply; a difference, so 10 K; 10 °C is refused.
        supply_k: temperature of the supply.
        dew_point_k: highest dew point in the hall.
        density_kg_per_m3: of the coolant (water by default).
        heat_j_per_kg_k: specific heat of the coolant (water by default).
        other_load_w: heat that it carries already and that is of no node of this estate.
        records: commissioning steps.
    """

    id: LoopId
    kind: LoopKind
    unit_capacity_w: Watts | None = None
    units: Annotated[int, msgspec.Meta(ge=1)] | None = None
    units_needed: Annotated[int, msgspec.Meta(ge=1)] | None = None
    flow_m3ps: CubicMetresPerSecond | None = None
    rise_k: KelvinApart | None = None
    supply_k: Kelvin | None = None
    dew_point_k: Kelvin | None = None
    density_kg_per_m3: Annotated[float, msgspec.Meta(gt=0)] = 998.0
    heat_j_per_kg_k: Annotated[float, msgspec.Meta(gt=0)] = 4182.0
    other_load_w: Watts | None = None
    records: Annotated[tuple[Record, ...], Keyed("gate-record")] = ()
