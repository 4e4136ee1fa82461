"""Power flow: the load of every circuit and every element above it, normally and after every single loss (rules section 2). Pure.

A loss changes only the nodes that hang on what is lost, so the cost grows with the number of cords and not with its square. Survivors carry
the whole load of a node. Each load counts once at an element, however many paths lead through it (E01), and ratings are never added (E02).

Two numbers are kept: ``low`` is what is there for certain (or by a guess of the rules), ``high`` the most that it can be with all that is
known. A limit fails by ``low`` and passes by ``high``; what ``high`` does not cover stands in ``lacks``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import msgspec

from bridgehead.assess import asking
from bridgehead.assess.cords import Cords, cords_of
from bridgehead.assess.loads import Load, load_of
from bridgehead.assess.power_math import GUESSED_POWER_FACTOR
from bridgehead.assess.power_tree import PowerTree
from bridgehead.model.equipment import Node, NodeId
from bridgehead.model.estate import Site
from bridgehead.model.power import Circuit, CircuitId, SourceId, SourceKind, Wiring

NORMAL = "normal"
BALANCED = "balanced"
UNTRACED = "untraced"
SOMETHING = "something lost, with what is not known of the wiring at its worst"
THROUGH = frozenset({SourceKind.BREAKER, SourceKind.PDU, SourceKind.BUSWAY, SourceKind.PANEL})
"""Elements through which the lines of what is above go unchanged; a transformer or UPS makes new ones."""


class Meter:
    """What flows at one place: watts and volt-amperes (or amperes), low and high, in each state.

    Attributes:
        low, high: (active, apparent) in the normal state.
        anything: (active, apparent) that it can never exceed, whatever single thing is lost.
        hard: what is not in ``high`` at all.
        soft: what is not known of the wiring, so that ``high`` is more than ``low``.
        loose: what is known as an upper bound only.
    """

    def __init__(self) -> None:
        self.low = (0.0, 0.0)
        self.high = (0.0, 0.0)
        self.anything = (0.0, 0.0)
        self.hard: set[str] = set()
        self.soft: set[str] = set()
        self.loose: set[str] = set()
        self._low: dict[str, tuple[float, float]] = {}
        self._high: dict[str, tuple[float, float]] = {}
        self._supply = ("", (0.0, 0.0), (0.0, 0.0))

    def add(self, low: tuple[float, float], high: tuple[float, float]) -> None:
        """A load that is there in every state."""
        self.low, self.high = _plus(self.low, low), _plus(self.high, high)

    def shift(self, state: str, low: tuple[float, float], high: tuple[float, float]) -> None:
        """What a loss adds (or takes away)."""
        self._low[state] = _plus(self._low.get(state, (0.0, 0.0)), low)
        self._high[state] = _plus(self._high.get(state, (0.0, 0.0)), high)

    def shift_supply(self, state: str, low: tuple[float, float], high: tuple[float, float]) -> None:
        """What the loss of one supply adds; only the worst one is kept, since supplies are lost one at a time."""
        if high > self._supply[2] or (high == self._supply[2] and (not self._supply[0] or state < self._supply[0])):
            self._supply = (state, low, high)

    def states(self) -> Iterable[tuple[str, tuple[float, float], tuple[float, float]]]:
        """Each state with its low and high values; the normal one first."""
        yield NORMAL, self.low, self.high
        for state in sorted(self._high):
            yield state, _plus(self.low, self._low[state]), _plus(self.high, self._high[state])
        if self._supply[0]:
            yield self._supply[0], _plus(self.low, self._supply[1]), _plus(self.high, self._supply[2])
        if self.soft:
            yield SOMETHING, (0.0, 0.0), self.anything


class Survival(msgspec.Struct, frozen=True):
    """How a node fares.

    Attributes:
        live: supplies that live in its worst known single-failure state; None while their number is unknown.
        state: that state.
        lacks: what may make it worse and is not known.
    """

    live: int | None
    state: str
    lacks: tuple[str, ...]


class Flow:
    """All loads of one site.

    Attributes:
        circuits: a meter for each circuit.
        sources: a meter for each element of the tree.
        lines: meters in amperes of each three-phase element: by the lines between which circuits hang, BALANCED for three-phase circuits,
            UNTRACED for single-phase ones of which nobody knows.
        survival: of each node.
        loads: of each node.
        cords: of each node.
        losses: of each circuit, the states in which it is dead.
        floating: nodes that hang on nothing that is known.
    """

    def __init__(self, site: Site, *, nodes: Iterable[Node] | None = None) -> None:
        self.site = site
        self.nodes = tuple(site.nodes if nodes is None else nodes)
        self.tree = PowerTree(site)
        self.circuits = {circuit.id: Meter() for circuit in site.circuits}
        self.sources = {source.id: Meter() for source in site.sources}
        self.lines: defaultdict[SourceId, dict[str, Meter]] = defaultdict(lambda: defaultdict(Meter))
        self.survival: dict[NodeId, Survival] = {}
        self.loads: dict[NodeId, Load] = {}
        self.cords: dict[NodeId, Cords] = {}
        self.floating: list[NodeId] = []
        self._places: dict[CircuitId, list[tuple[Meter, float]]] = {one.id: self._meters(one) for one in site.circuits}
        self.losses: dict[CircuitId, tuple[str, ...]] = {one.id: self._losses_of(one) for one in site.circuits}
        self._racks = {rack.id: rack for rack in site.racks}
        for circuit in site.circuits:
            self._other_load(circuit)
        for node in sorted(self.nodes, key=lambda node: node.id):
            self._node(node)
        self._not_placed()

    def _meters(self, circuit: Circuit) -> list[tuple[Meter, float]]:
        """Where the load of a circuit is measured, and the factor from (volt-)ampere."""
        found = [(self.circuits[circuit.id], 1.0)]
        found += [(self.sources[source], 1.0) for source in sorted(self.tree.above(circuit))]
        for source in self._line_sources(circuit):
            lines = (circuit.lines or UNTRACED) if circuit.wiring is Wiring.SINGLE_PHASE else BALANCED
            found.append((self.lines[source][lines], circuit.current_a / circuit.rating_va))
        return found

    def _line_sources(self, circuit: Circuit) -> list[SourceId]:
        """Three-phase elements whose lines the circuit loads directly: up to the first element that makes new ones."""
        found: set[SourceId] = set()
        ahead = [] if circuit.fed_by is None or circuit.wiring is Wiring.DC else [circuit.fed_by]
        while ahead:
            source = self.tree.sources.get(ahead.pop())
            if source is None or source.id in found or source.id in self.tree.cyclic:
                continue
            found.add(source.id)
            if source.kind in THROUGH:
                ahead += source.fed_by
        three = (Wiring.THREE_PHASE_LINE_TO_LINE, Wiring.THREE_PHASE_LINE_TO_NEUTRAL, None)
        return sorted(name for name in found if self.tree.sources[name].wiring in three)

    def _losses_of(self, circuit: Circuit) -> tuple[str, ...]:
        """The states in which a circuit is dead."""
        feed = (f"feed {circuit.feed} lost",) if circuit.feed else ()
        return (f"circuit {circuit.id} lost", *feed, *(f"{source} lost" for source in sorted(self.tree.critical(circuit))))

    def _other_load(self, circuit: Circuit) -> None:
        watts = circuit.other_load_w or 0.0
        pair = (watts, watts / GUESSED_POWER_FACTOR)
        for meter, factor in self._places[circuit.id]:
            meter.add(_times(pair, factor), _times(pair, factor))
            meter.anything = _plus(meter.anything, _times(pair, factor))
            if circuit.other_load_w is None:
                meter.hard.add(asking.OTHER_LOAD)

    def _node(self, node: Node) -> None:
        load = self.loads[node.id] = load_of(node)
        cords = self.cords[node.id] = cords_of(node, racks=self._racks, circuits=self.tree.circuits)
        lacks = self._lacks(cords)
        self.survival[node.id] = self._survival(cords, lacks)
        if not cords.count:
            self.floating.append(node.id)
            return
        places = self._places_of(cords)
        for meter, _ in places:
            meter.hard |= {asking.LOAD} if load.high_w is None else set()
            meter.hard |= {asking.POWER_FACTOR} if load.guessed else set()
            meter.soft |= set(lacks)
            meter.loose |= {asking.LOAD} if load.loose else set()
        self._flow(node, load, cords, places, certain=not lacks)

    def _flow(self, node: Node, load: Load, cords: Cords, places: list[tuple[Meter, dict[CircuitId, float]]], *, certain: bool) -> None:
        supplies = cords.supplies
        low, high = (load.low_w, load.low_w / load.power_factor), (load.known_w, load.high_va)
        lost = self._lost(cords)
        for meter, factors in places:
            if supplies is None:
                whole = min(factors.values()) if len(factors) == len(cords.count) else 0.0
                meter.add(_times(low, whole), _times(high, whole))
                meter.anything = _plus(meter.anything, _times(high, max(factors.values())))
                continue
            base = sum(factor * cords.count[name] for name, factor in factors.items()) / supplies
            meter.add(_times(low, base), _times(high, base))
            worst = base
            for state, dead in lost.items():
                live = supplies - sum(cords.count[name] for name in dead)
                there = sum(factor * cords.count[name] for name, factor in factors.items() if name not in dead)
                after = there / live if live else 0.0
                worst = max(worst, after)
                meter.shift(state, _times(low, after - base), _times(high, after - base))
            after = self._one_supply_less(cords, factors)
            if after > base:
                meter.shift_supply(f"a supply of {node.id} lost", _times(low, after - base), _times(high, after - base))
            worst = max(worst, after) if certain else max(factors.values())
            meter.anything = _plus(meter.anything, _times(high, worst))

    def _one_supply_less(self, cords: Cords, factors: dict[CircuitId, float]) -> float:
        """The largest share here after one supply of the node is lost."""
        supplies = cords.supplies
        if supplies is None or supplies == 1:
            return 0.0
        whole = sum(factor * cords.count[name] for name, factor in factors.items())
        least = min(factors.get(name, 0.0) for name, count in cords.count.items() if count)
        return (whole - least) / (supplies - 1)

    def _places_of(self, cords: Cords) -> list[tuple[Meter, dict[CircuitId, float]]]:
        """Each meter of a node, with the circuits through which it is reached and their factors."""
        found: dict[int, tuple[Meter, dict[CircuitId, float]]] = {}
        for name in cords.count:
            for meter, factor in self._places[name]:
                found.setdefault(id(meter), (meter, {}))[1][name] = factor
        return list(found.values())

    def _lost(self, cords: Cords) -> dict[str, set[CircuitId]]:
        """Each loss that touches a node, with its circuits that are dead then."""
        found: dict[str, set[CircuitId]] = {}
        for name in cords.count:
            for state in self.losses[name]:
                found.setdefault(state, set()).add(name)
        return found

    def _lacks(self, cords: Cords) -> tuple[str, ...]:
        wanted = {cords.lacks} if cords.lacks else set()
        for name in cords.count:
            circuit = self.tree.circuits[name]
            wanted |= set() if circuit.feed else {asking.FEED}
            wanted |= set() if self.tree.complete(circuit) else {asking.TREE}
        return tuple(sorted(wanted))

    def _survival(self, cords: Cords, lacks: tuple[str, ...]) -> Survival:
        if cords.supplies is None or not cords.count:
            return Survival(None, NORMAL, lacks)
        states = {state: cords.supplies - sum(cords.count[name] for name in dead) for state, dead in self._lost(cords).items()}
        states["one of its supplies lost"] = cords.supplies - 1
        # Of equal losses the widest explains most: an element of the tree or a feed before a circuit, a circuit before a supply.
        worst = min(states, key=lambda state: (states[state], _width(state), state))
        return Survival(states[worst], worst, lacks)

    def _not_placed(self) -> None:
        """Loads whose place nobody knows could be anywhere, and so could circuits of which nobody knows what is above them."""
        if self.floating:
            for meter in self._all():
                meter.hard.add(asking.CORDS)
        if not all(self.tree.complete(circuit) for circuit in self.site.circuits):
            for meter in (*self.sources.values(), *(meter for group in self.lines.values() for meter in group.values())):
                meter.hard.add(asking.TREE)

    def _all(self) -> Iterable[Meter]:
        yield from self.circuits.values()
        yield from self.sources.values()
        for group in self.lines.values():
            yield from group.values()


def _width(state: str) -> int:
    if state.startswith("one of its supplies"):
        return 3
    if state.startswith("circuit "):
        return 2
    return 1 if state.startswith("feed ") else 0


def _plus(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    return one[0] + other[0], one[1] + other[1]


def _times(pair: tuple[float, float], factor: float) -> tuple[float, float]:
    return pair[0] * factor, pair[1] * factor
