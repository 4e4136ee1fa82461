"""Power: circuits, and what feeds them up to the utility (M5.1, M5.3, M10.3; rules sections 1 and 2). A value that nobody gave is None."""

from __future__ import annotations

import enum
import math
from typing import Annotated, NewType

import msgspec

from bridgehead.kernel.quantity import Amperes, Share, VoltAmperes, Volts, Watts
from bridgehead.kernel.shape import Ref

CircuitId = NewType("CircuitId", str)
SourceId = NewType("SourceId", str)

Fraction = Annotated[Share, msgspec.Meta(gt=0, le=1)]
CircuitRef = Annotated[CircuitId, Ref(("circuit",))]
SourceRef = Annotated[SourceId, Ref(("source",))]


class Wiring(enum.StrEnum):
    """How the voltage of a circuit is measured; without it, its power cannot be known (E03)."""

    SINGLE_PHASE = "single-phase"
    THREE_PHASE_LINE_TO_LINE = "three-phase-line-to-line"
    THREE_PHASE_LINE_TO_NEUTRAL = "three-phase-line-to-neutral"
    DC = "dc"


class Lines(enum.StrEnum):
    """Between which lines of a three-phase source a single-phase circuit hangs (rules section 1, vectors PW11 to PW14)."""

    L1_L2 = "L1-L2"
    L2_L3 = "L2-L3"
    L3_L1 = "L3-L1"
    L1_N = "L1-N"
    L2_N = "L2-N"
    L3_N = "L3-N"


def rating_va(voltage_v: float, current_a: float, wiring: Wiring) -> float:
    """Apparent power of a rating (rules section 1: S = V·I, √3·V_LL·I, 3·V_LN·I; for dc the power in watts)."""
    match wiring:
        case Wiring.THREE_PHASE_LINE_TO_LINE:
            return math.sqrt(3) * voltage_v * current_a
        case Wiring.THREE_PHASE_LINE_TO_NEUTRAL:
            return 3 * voltage_v * current_a
        case Wiring.SINGLE_PHASE | Wiring.DC:
            return voltage_v * current_a


class SourceKind(enum.StrEnum):
    """What stands above circuits in the power tree."""

    BREAKER = "breaker"
    PDU = "pdu"
    BUSWAY = "busway"
    PANEL = "panel"
    TRANSFER_SWITCH = "transfer-switch"
    TRANSFORMER = "transformer"
    UPS = "ups"
    GENERATOR = "generator"
    UTILITY = "utility"


class PowerSource(msgspec.Struct, frozen=True):
    """An element of the power tree above the circuits: everything that hangs on it is lost with it.

    Give its limit as ``rating``, or as voltage, current and wiring, and ``active_limit`` where it has a limit in watts as well.

    Attributes:
        kind: what it is.
        fed_by: the elements above it. Of several, any one carries all of it (a transfer switch).
        rating_va: apparent power that it may deliver.
        active_limit_w: active power that it may deliver; UPS and generators have both limits.
        voltage_v: nominal voltage, measured as ``wiring`` says.
        current_a: rating of its breaker.
        wiring: single phase, three phases, or dc.
        continuous: share of the rating that may flow for hours; unknown when not given.
        battery_s: how long its battery carries the full load (M10.3).
        start_s: of a generator: time from the loss of the utility until it carries the load (M10.3).
    """

    id: SourceId
    kind: SourceKind
    fed_by: tuple[SourceRef, ...] = ()
    rating_va: VoltAmperes | None = None
    active_limit_w: Watts | None = None
    voltage_v: Annotated[Volts, msgspec.Meta(gt=0)] | None = None
    current_a: Annotated[Amperes, msgspec.Meta(gt=0)] | None = None
    wiring: Wiring | None = None
    continuous: Fraction | None = None
    battery_s: float | None = None
    start_s: float | None = None

    @property
    def limit_va(self) -> float | None:
        """Apparent power of its rating; None while unknown. For dc it is the power in watts."""
        if self.rating_va is not None:
            return self.rating_va
        if self.voltage_v is None or self.current_a is None or self.wiring is None:
            return None
        return rating_va(self.voltage_v, self.current_a, self.wiring)


class Circuit(msgspec.Struct, frozen=True):
    """One electrical feed behind one breaker, which ends in a rack.

    Attributes:
        voltage_v: nominal voltage, measured as ``wiring`` says.
        current_a: rating of the breaker.
        wiring: single phase, three phases (line to line or line to neutral), or dc.
        continuous: share of the rating that may flow for hours (80 % for ordinary breakers under NEC); unknown when not given.
        feed: the name of the feed that it hangs on; two circuits of one feed do not back each other up.
        fed_by: the element of the power tree that it hangs on.
        lines: between which lines of a three-phase element it hangs.
        other_load_w: load that is on it already and is no node of this estate.
    """

    id: CircuitId
    voltage_v: Annotated[Volts, msgspec.Meta(gt=0)]
    current_a: Annotated[Amperes, msgspec.Meta(gt=0)]
    wiring: Wiring
    continuous: Fraction | None = None
    feed: str = ""
    fed_by: SourceRef | None = None
    lines: Lines | None = None
    other_load_w: Watts | None = None

    @property
    def rating_va(self) -> float:
        """Apparent power of the breaker's rating (rules section 1); for dc the power in watts."""
        return rating_va(self.voltage_v, self.current_a, self.wiring)

    @property
    def continuous_va(self) -> float | None:
        """What may flow for hours; None while the share is unknown."""
        return None if self.continuous is None else self.continuous * self.rating_va
