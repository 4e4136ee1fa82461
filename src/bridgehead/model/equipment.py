"""Equipment: racks, nodes and stores of a site. Quantities in SI; a value that nobody gave is None and never 0 (M2, M5.1)."""

from __future__ import annotations

import enum
from typing import Annotated, NewType

import msgspec

from bridgehead.kernel.quantity import BitsPerSecond, Bytes, Kilograms, Share, Watts
from bridgehead.kernel.shape import Keyed
from bridgehead.model.cooling import LoopRef
from bridgehead.model.fabric import AtLeastOne, Count, Nic, RackId, RackRef
from bridgehead.model.power import CircuitRef, Fraction

NodeId = NewType("NodeId", str)
StoreId = NewType("StoreId", str)
LiquidShare = Annotated[Share, msgspec.Meta(ge=0, le=1)]


class Rack(msgspec.Struct, frozen=True):
    """A place for equipment.

    Attributes:
        position: where it stands, in the words of the site ("hall 2, row C, 14").
        row: its row, for drawings.
        column: its place in the row, counted from 1, for drawings.
        units: height in rack units.
        used_units: rack units taken by what is no node of this estate.
        weight_kg: of the empty rack with its PDUs, cables and coolant.
        max_weight_kg: what rack and floor carry, the rack itself included.
        footprint_m2: area that its weight rests on, for the limit of the floor.
        circuits: the circuits that end in it.
        loops: the cooling loops that take its heat, air and liquid.
        pod: racks of one pod share their leaves; what comes from one pod is placed in one pod (M3).
        nvlink_domain: racks of one NVLink domain are carried in one wave and placed in one pod (M2).
        apart_from: racks that hold the other half of a redundant pair, or the other copy of data: never under way at the same time.
    """

    id: RackId
    position: str = ""
    row: str = ""
    column: AtLeastOne | None = None
    units: AtLeastOne | None = None
    used_units: Count = 0
    weight_kg: Kilograms | None = None
    max_weight_kg: Kilograms | None = None
    footprint_m2: Annotated[float, msgspec.Meta(gt=0)] | None = None
    circuits: tuple[CircuitRef, ...] = ()
    loops: tuple[LoopRef, ...] = ()
    pod: str = ""
    nvlink_domain: str = ""
    apart_from: tuple[RackRef, ...] = ()


class Node(msgspec.Struct, frozen=True):
    """One computer.

    Attributes:
        model: maker and model of the chassis; nodes of one model are siblings and compared with each other.
        position: lowest rack unit that it takes, counted from 1.
        gpus: number of GPUs as the driver counts them.
        gpus_expected: number of GPUs that it was built with.
        gpu_model: their model; all GPUs of a node are alike (P1).
        gpu_addresses: PCI addresses of its GPUs, in the order of their slots.
        gpu_links: active NVLinks of each GPU, in the order of the GPUs.
        gpu_links_expected: NVLinks that each of its GPUs was built with; without it, what is known of the GPU's model.
        memory_bytes: main memory.
        power_w: the largest power under load, as its maker or owner declares it or as it was measured under full load; not the nameplate.
        measured_w: a power that was read; it takes at least that, since the node may have been idle.
        nameplate_w: what the plates of its supplies add up to: an upper bound, never the load.
        power_factor: active by apparent power.
        supplies: number of power supplies.
        supplies_needed: how many of them must live.
        circuits: the circuit of each supply, in order; without it the supplies are dealt over the circuits of the rack in turn.
        liquid_share: part of its heat that goes into liquid.
        weight_kg: with rails.
        units: height in rack units.
        firmware: version by component (``driver``, ``bios``, ``bmc``, ``vbios``, ``nic``, ``ofed``, ``nccl``, ``cuda``).
    """

    id: NodeId
    model: str = ""
    rack: RackRef | None = None
    position: AtLeastOne | None = None
    gpus: Count = 0
    gpus_expected: Count | None = None
    gpu_model: str = ""
    gpu_addresses: tuple[str, ...] = ()
    gpu_links: tuple[Count, ...] = ()
    gpu_links_expected: Count | None = None
    memory_bytes: Bytes | None = None
    power_w: Watts | None = None
    measured_w: Watts | None = None
    nameplate_w: Watts | None = None
    power_factor: Fraction | None = None
    supplies: AtLeastOne | None = None
    supplies_needed: AtLeastOne | None = None
    circuits: tuple[CircuitRef, ...] = ()
    liquid_share: LiquidShare | None = None
    weight_kg: Kilograms | None = None
    units: AtLeastOne | None = None
    firmware: dict[str, str] = {}
    nics: Annotated[tuple[Nic, ...], Keyed("nic")] = ()


class StoreKind(enum.StrEnum):
    """What a store is."""

    FILESYSTEM = "filesystem"
    OBJECT = "object"


class Store(msgspec.Struct, frozen=True):
    """A place that keeps bytes (M4).

    Attributes:
        protocol: how it is mounted (``nfs``, ``lustre``, ``s3`` ...).
        servers: machines that serve it; one is a bottleneck and a single point of failure (P23).
        read_bps: measured rate of reading.
        write_bps: measured rate of writing.
        change_bps: unique bytes that change, as a rate; a block that is written twice counts once (M9.1).
    """

    id: StoreId
    kind: StoreKind
    size_bytes: Bytes
    used_bytes: Bytes | None = None
    protocol: str = ""
    servers: AtLeastOne | None = None
    read_bps: BitsPerSecond | None = None
    write_bps: BitsPerSecond | None = None
    change_bps: BitsPerSecond | None = None
