"""Halls of example estates: racks with nodes at the source; places, circuits, power tree and cooling at the target, sized for them."""

from __future__ import annotations

import math

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.quantity import EnergyPrice
from bridgehead.model.cooling import Loop, LoopId, LoopKind
from bridgehead.model.equipment import Node, NodeId, Rack, Store, StoreId, StoreKind
from bridgehead.model.estate import Site
from bridgehead.model.fabric import RackId
from bridgehead.model.power import Circuit, CircuitId, PowerSource, SourceId, SourceKind, Wiring

MODEL = "NVIDIA H100 80GB HBM3"
LIQUID_MODEL = "NVIDIA H200 141GB HBM3e"
GPUS = 8
AIR_NODES, LIQUID_NODES = 4, 8
"""Nodes in a rack that is cooled by air, and by liquid."""
AIR_NODE_W, LIQUID_NODE_W, CONTROL_NODE_W = 8_000.0, 7_800.0, 700.0
LIQUID_FROM = 2000
POD = 8
"""Racks that share their leaves."""
_MARGIN = 0.2
_FACTOR = 0.95


class Hall(msgspec.Struct, frozen=True):
    """How many racks of each kind."""

    air: int
    liquid: int
    control: int

    @property
    def racks(self) -> int:
        """All of them."""
        return self.air + self.liquid + self.control


def racks_for(gpus: int) -> Hall:
    """Three fifths of the GPUs in racks cooled by air, the rest in pairs of racks cooled by liquid; and two racks of control nodes.

    Small halls have no liquid: a pair that leaves would take more of its kind away than any reserve holds.
    """
    share = 0.6 if gpus >= LIQUID_FROM else 1.0
    air = max(1, math.ceil(share * gpus / (GPUS * AIR_NODES)))
    liquid = 2 * math.ceil(max(0, gpus - air * GPUS * AIR_NODES) / (2 * GPUS * LIQUID_NODES))
    return Hall(air, liquid, 2)


def gpus_of(hall: Hall, model: str) -> int:
    """GPUs of one model."""
    return hall.air * AIR_NODES * GPUS if model == MODEL else hall.liquid * LIQUID_NODES * GPUS


def source_site(site: SiteId, hall: Hall) -> Site:
    """Everything stands there; its own power and cooling carry it, and are not described."""
    racks, nodes = _contents(hall)
    stores = (
        Store(
            StoreId("scratch"),
            StoreKind.FILESYSTEM,
            10**18,
            used_bytes=_used(hall),
            protocol="lustre",
            servers=32,
            read_bps=4.8e12,
            write_bps=3.2e12,
            change_bps=3e9,
        ),
    )
    return Site(
        site,
        "Old hall",
        pue=1.45,
        energy_price=EnergyPrice("EUR", 0.24),
        racks=racks,
        nodes=nodes,
        stores=stores,
        spare_gpus=math.ceil(0.1 * sum(node.gpus for node in nodes)),
    )


def _used(hall: Hall) -> int:
    gpus = gpus_of(hall, MODEL) + gpus_of(hall, LIQUID_MODEL)
    return max(1, gpus // 100) * 49 * 10**12


def target_site(site: SiteId, hall: Hall, *, equipped: bool) -> Site:
    """Places for all racks of the source and a pod more of each kind, on two feeds; ``equipped`` with nodes of its own."""
    sources = [
        element
        for feed in "ab"
        for element in (
            PowerSource(SourceId(f"grid-{feed}"), SourceKind.UTILITY, rating_va=1e9, active_limit_w=1e9, continuous=1.0),
            PowerSource(SourceId(f"gen-{feed}"), SourceKind.GENERATOR, rating_va=1e9, active_limit_w=1e9, continuous=1.0, start_s=15.0),
        )
    ]
    parts: list[_Pod] = []
    for wet, count in ((False, hall.air + hall.control), (True, hall.liquid)):
        pods = math.ceil(count / POD) + 1 if count else 0
        parts += [_Pod(wet, number) for number in range(pods)]
    racks = [rack for part in parts for rack in part.places()]
    nodes: tuple[Node, ...] = ()
    if equipped:
        nodes = _equipment(racks, hall)
    store = Store(
        StoreId("scratch"),
        StoreKind.FILESYSTEM,
        10**18,
        used_bytes=0,
        protocol="lustre",
        servers=32,
        read_bps=6.4e12,
        write_bps=4e12,
        change_bps=0.0,
    )
    return Site(
        site,
        "New hall",
        pue=1.12,
        altitude_m=40.0,
        energy_price=EnergyPrice("EUR", 0.09),
        floor_kg_per_m2=2500.0,
        electrical_rules="IEC 60364",
        sources=tuple(sources) + tuple(one for part in parts for one in part.sources()),
        circuits=tuple(one for part in parts for one in part.circuits()),
        loops=tuple(one for part in parts for one in part.loops()),
        racks=tuple(racks),
        nodes=nodes,
        stores=(store,),
        spare_gpus=math.ceil(0.1 * (gpus_of(hall, MODEL) + gpus_of(hall, LIQUID_MODEL))),
    )


class _Pod(msgspec.Struct, frozen=True):
    """Eight places of one kind with their panels, UPS and cooling."""

    wet: bool
    number: int

    @property
    def name(self) -> str:
        return f"{'l' if self.wet else 'a'}{self.number + 1:03d}"

    @property
    def rack_w(self) -> float:
        return LIQUID_NODES * LIQUID_NODE_W if self.wet else AIR_NODES * AIR_NODE_W

    def places(self) -> list[Rack]:
        loops = [LoopId(f"air-{self.name}")] + ([LoopId(f"liquid-{self.name}")] if self.wet else [])
        return [
            Rack(
                RackId(f"{self.name}-{at + 1}"),
                position=f"row {self.name}, {at + 1}",
                row=self.name,
                column=at + 1,
                units=48,
                weight_kg=0.0,
                max_weight_kg=1_900.0,
                footprint_m2=0.96,
                circuits=tuple(self._circuit_ids(at)),
                loops=tuple(loops),
                pod=f"pod-{self.name}",
            )
            for at in range(POD)
        ]

    def _circuit_ids(self, at: int) -> list[CircuitId]:
        return [CircuitId(f"{self.name}-{at + 1}-{feed}{pair + 1}") for pair in range(2 if self.wet else 1) for feed in "ab"]

    def circuits(self) -> list[Circuit]:
        return [
            Circuit(
                name,
                230.0,
                63.0,
                Wiring.THREE_PHASE_LINE_TO_NEUTRAL,
                continuous=1.0,
                feed=name[-2].upper(),
                fed_by=SourceId(f"panel-{name[-2]}-{self.name}"),
                other_load_w=0.0,
            )
            for at in range(POD)
            for name in self._circuit_ids(at)
        ]

    def sources(self) -> list[PowerSource]:
        """A pair of panels, each behind its own UPS; each carries all of the pod when the other is lost."""
        need_va = POD * self.rack_w / _FACTOR / (1 - _MARGIN)
        rating = math.ceil(need_va / 10_000) * 10_000.0
        found = []
        for feed in "ab":
            ups = SourceId(f"ups-{feed}-{self.name}")
            found.append(
                PowerSource(
                    ups,
                    SourceKind.UPS,
                    (SourceId(f"grid-{feed}"),),
                    rating_va=rating,
                    active_limit_w=rating,
                    continuous=1.0,
                    battery_s=300.0,
                )
            )
            found.append(PowerSource(SourceId(f"panel-{feed}-{self.name}"), SourceKind.PANEL, (ups,), rating_va=rating, continuous=1.0))
        return found

    def loops(self) -> list[Loop]:
        """Four units of which three carry everything."""
        air_w = POD * self.rack_w * (0.15 if self.wet else 1.0)
        found = [
            Loop(
                LoopId(f"air-{self.name}"),
                LoopKind.AIR,
                math.ceil(air_w / 3 / (1 - _MARGIN) / 1000) * 1000.0,
                4,
                3,
                flow_m3ps=air_w / 12_000,
                rise_k=12.0,
                supply_k=295.15,
                dew_point_k=286.15,
                other_load_w=0.0,
            )
        ]
        if self.wet:
            wet_w = POD * self.rack_w * 0.85
            found.append(
                Loop(
                    LoopId(f"liquid-{self.name}"),
                    LoopKind.LIQUID,
                    math.ceil(wet_w / 3 / (1 - _MARGIN) / 1000) * 1000.0,
                    4,
                    3,
                    flow_m3ps=wet_w / (998.0 * 4182.0 * 10.0),
                    rise_k=10.0,
                    supply_k=305.15,
                    dew_point_k=286.15,
                    other_load_w=0.0,
                )
            )
        return found


def _equipment(places: list[Rack], hall: Hall) -> tuple[Node, ...]:
    """New nodes in the first places of each kind."""
    air = [rack for rack in places if rack.id.startswith("a")][: hall.air]
    wet = [rack for rack in places if rack.id.startswith("l")][: hall.liquid]
    found = [_node(rack.id, "a", at) for rack in air for at in range(AIR_NODES)]
    return tuple(found + [_node(rack.id, "l", at) for rack in wet for at in range(LIQUID_NODES)])


def _contents(hall: Hall) -> tuple[tuple[Rack, ...], tuple[Node, ...]]:
    racks: list[Rack] = []
    nodes: list[Node] = []
    for number in range(hall.racks):
        kind = "a" if number < hall.air else "l" if number < hall.air + hall.liquid else "c"
        place = number if kind == "a" else number - hall.air if kind == "l" else number - hall.air - hall.liquid
        name = RackId(f"{kind}{place + 1:04d}")
        other = (RackId(f"c{2 - place:04d}"),) if kind == "c" else ()
        racks.append(
            Rack(
                name,
                row=f"{kind}{place // 16 + 1}",
                column=place % 16 + 1,
                units=48,
                weight_kg=220.0 if kind != "l" else 380.0,
                pod="" if kind == "c" else f"pod-{kind}{place // POD + 1}",
                nvlink_domain=f"nvl-{place // 2 + 1}" if kind == "l" else "",
                apart_from=other,
            )
        )
        nodes += [_node(name, kind, at) for at in range({"a": AIR_NODES, "l": LIQUID_NODES, "c": 4}[kind])]
    return tuple(racks), tuple(nodes)


def _node(rack: RackId, kind: str, at: int) -> Node:
    name = NodeId(f"{rack}-n{at + 1}")
    if kind == "c":
        return Node(
            name,
            "CTL-1U",
            rack,
            at * 2 + 1,
            power_w=CONTROL_NODE_W,
            power_factor=_FACTOR,
            supplies=2,
            supplies_needed=1,
            liquid_share=0.0,
            weight_kg=22.0,
            units=1,
        )
    wet = kind == "l"
    return Node(
        name,
        "EXA-8L" if wet else "EXA-8H",
        rack,
        at * (5 if wet else 8) + 1,
        GPUS,
        GPUS,
        LIQUID_MODEL if wet else MODEL,
        power_w=LIQUID_NODE_W if wet else AIR_NODE_W,
        power_factor=_FACTOR,
        supplies=4,
        supplies_needed=2,
        liquid_share=0.85 if wet else 0.0,
        weight_kg=95.0 if wet else 130.0,
        units=5 if wet else 8,
    )
