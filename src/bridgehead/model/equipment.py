"""Equipment: what stands in a site. Quantities in SI; a value that nobody gave is None and never 0 (M2, M5.1)."""

from __future__ import annotations

import enum
import math
from typing import Annotated, NewType

import msgspec

from bridgehead.kernel.quantity import Amperes, BitsPerSecond, Bytes, Kilograms, Share, Volts, Watts
from bridgehead.kernel.shape import Keyed, Ref

CircuitId = NewType("CircuitId", str)
RackId = NewType("RackId", str)
NodeId = NewType("NodeId", str)
NicId = NewType("NicId", str)
FabricId = NewType("FabricId", str)
StoreId = NewType("StoreId", str)

Count = Annotated[int, msgspec.Meta(ge=0)]
AtLeastOne = Annotated[int, msgspec.Meta(ge=1)]
Fraction = Annotated[Share, msgspec.Meta(gt=0, le=1)]
FabricRef = Annotated[FabricId, Ref(("fabric",))]
RackRef = Annotated[RackId, Ref(("rack",))]
CircuitRef = Annotated[CircuitId, Ref(("circuit",))]


class Wiring(enum.StrEnum):
    """How the voltage of a circuit is measured; without it, its power cannot be known (E03)."""

    SINGLE_PHASE = "single-phase"
    THREE_PHASE_LINE_TO_LINE = "three-phase-line-to-line"
    THREE_PHASE_LINE_TO_NEUTRAL = "three-phase-line-to-neutral"
    DC = "dc"


class Circuit(msgspec.Struct, frozen=True):
    """One electrical feed behind one breaker.

    Attributes:
        voltage_v: nominal voltage, measured as ``wiring`` says.
        current_a: rating of the breaker.
        wiring: single phase, three phases (line to line or line to neutral), or dc.
        continuous: share of the rating that may flow for hours (80 % for ordinary breakers under NEC); unknown when not given.
        feed: the name of the feed that it hangs on; two circuits of one feed do not back each other up.
    """

    id: CircuitId
    voltage_v: Annotated[Volts, msgspec.Meta(gt=0)]
    current_a: Annotated[Amperes, msgspec.Meta(gt=0)]
    wiring: Wiring
    continuous: Fraction | None = None
    feed: str = ""

    @property
    def rating_va(self) -> float:
        """Apparent power of the breaker's rating (rules section 1: S = V·I, √3·V_LL·I, 3·V_LN·I; for dc the power in watts)."""
        match self.wiring:
            case Wiring.THREE_PHASE_LINE_TO_LINE:
                return math.sqrt(3) * self.voltage_v * self.current_a
            case Wiring.THREE_PHASE_LINE_TO_NEUTRAL:
                return 3 * self.voltage_v * self.current_a
            case Wiring.SINGLE_PHASE | Wiring.DC:
                return self.voltage_v * self.current_a

    @property
    def continuous_va(self) -> float | None:
        """What may flow for hours; None while the share is unknown."""
        return None if self.continuous is None else self.continuous * self.rating_va


class Rack(msgspec.Struct, frozen=True):
    """A place for equipment.

    Attributes:
        position: where it stands, in the words of the site ("hall 2, row C, 14").
        units: height in rack units.
        max_weight_kg: what rack and floor carry.
        circuits: the circuits that end in it.
    """

    id: RackId
    position: str = ""
    units: AtLeastOne | None = None
    max_weight_kg: Kilograms | None = None
    circuits: tuple[CircuitRef, ...] = ()


class FabricKind(enum.StrEnum):
    """What a fabric speaks."""

    INFINIBAND = "infiniband"
    ROCE = "roce"
    ETHERNET = "ethernet"


class FabricPurpose(enum.StrEnum):
    """What a fabric is for; the three are kept apart. UNKNOWN is what discovery writes until somebody says: it is for nothing yet."""

    COMPUTE = "compute"
    STORAGE = "storage"
    MANAGEMENT = "management"
    UNKNOWN = "unknown"


class Fabric(msgspec.Struct, frozen=True):
    """One network within a site."""

    id: FabricId
    kind: FabricKind
    purpose: FabricPurpose


class Nic(msgspec.Struct, frozen=True):
    """One network adapter of a node."""

    id: NicId
    rate_bps: BitsPerSecond
    fabric: FabricRef


class Node(msgspec.Struct, frozen=True):
    """One computer.

    Attributes:
        gpus: number of GPUs as the driver counts them.
        gpu_model: their model; all GPUs of a node are alike (P1).
        memory_bytes: main memory.
        power_w: the largest power that was measured or declared; not the nameplate.
        weight_kg: with rails.
        units: height in rack units.
    """

    id: NodeId
    rack: RackRef | None = None
    gpus: Count = 0
    gpu_model: str = ""
    memory_bytes: Bytes | None = None
    power_w: Watts | None = None
    weight_kg: Kilograms | None = None
    units: AtLeastOne | None = None
    nics: Annotated[tuple[Nic, ...], Keyed("nic")] = ()


class StoreKind(enum.StrEnum):
    """What a store is."""

    FILESYSTEM = "filesystem"
    OBJECT = "object"


class Store(msgspec.Struct, frozen=True):
    """A place that keeps bytes (M4).

    Attributes:
        read_bps: measured rate of reading.
        write_bps: measured rate of writing.
    """

    id: StoreId
    kind: StoreKind
    size_bytes: Bytes
    used_bytes: Bytes | None = None
    read_bps: BitsPerSecond | None = None
    write_bps: BitsPerSecond | None = None
