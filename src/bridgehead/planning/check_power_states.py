"""Power states: which circuits and elements carry what in the normal state and after each single loss, by brute force (rules 1, 2). Pure.

Each loss is played through: the element and all that has no other feed is dead, each node that loses a supply shares its whole load over
those that live, and what changed is added up anew at every circuit and every element above it. Nothing is derived from ratings.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

import msgspec

from bridgehead.model.equipment import Node, Rack
from bridgehead.model.estate import Site
from bridgehead.model.fabric import RackId
from bridgehead.model.power import Circuit, CircuitId, SourceId, SourceKind, Wiring

NORMAL = "in the normal state"
GUESSED_FACTOR = 0.95
"""Power factor where nobody gave one (rules section 1): what passes by it alone is unknown."""
_THROUGH = frozenset({SourceKind.BREAKER, SourceKind.PDU, SourceKind.BUSWAY, SourceKind.PANEL})
Load = tuple[float, float]
"""W and VA; of a dc circuit both are W."""


class Draw(msgspec.Struct, frozen=True):
    """One node in the rack in which it will stand.

    Attributes:
        rack: of the target.
        cords: supplies by circuit.
        active_w: None while nobody knows.
        doubts: what its load rests on that nobody gave, as paths.
    """

    node: Node
    rack: RackId | None
    cords: dict[CircuitId, int]
    active_w: float | None
    factor: float
    doubts: tuple[str, ...]
    bound: bool


def draws(site: Site, placed: Iterable[tuple[Node, Rack]], *, path: str) -> list[Draw]:
    """The nodes of the site, and those that are carried in their places."""
    racks = {rack.id: rack for rack in site.racks}
    circuits = {circuit.id for circuit in site.circuits}
    found = [_draw(node, racks.get(node.rack) if node.rack else None, circuits, f"sites.{site.id}", stays=True) for node in site.nodes]
    return found + [_draw(node, place, circuits, path, stays=False) for node, place in placed]


def _draw(node: Node, rack: Rack | None, circuits: set[CircuitId], path: str, *, stays: bool) -> Draw:
    own = [name for name in node.circuits if name in circuits] if stays else []
    over = own or [name for name in (rack.circuits if rack is not None else ()) if name in circuits]
    cords: Counter[CircuitId] = Counter()
    if over and node.supplies:
        rounds, rest = divmod(node.supplies, len(over))
        for at, name in enumerate(over):
            cords[name] += rounds + (at < rest)
        cords = +cords  # a circuit that gets none is no cord
    watts, bound = node.power_w, False
    if watts is not None:
        watts = max(watts, node.measured_w or 0.0)
    elif node.nameplate_w is not None:
        watts, bound = max(node.nameplate_w, node.measured_w or 0.0), True
    where = f"{path}.nodes.{node.id}"
    doubts = [f"{where}.power"] if watts is None else []
    doubts += [f"{where}.power_factor"] if node.power_factor is None else []
    doubts += [f"{where}.supplies"] if node.supplies is None else []
    doubts += [f"{where}.supplies_needed"] if node.supplies_needed is None else []
    doubts += [f"circuits of {rack.id if rack is not None else node.id}"] if not over else []
    factor = GUESSED_FACTOR if node.power_factor is None else node.power_factor
    return Draw(node, None if rack is None else rack.id, dict(cords), watts, factor, tuple(doubts), bound)


class State(msgspec.Struct, frozen=True):
    """One state.

    Attributes:
        name: in words.
        dead: circuits without power.
        off: what is lost, and what is lost with it.
        circuits, sources: loads that differ from the normal state; in the normal state all.
        starved: nodes that have fewer supplies than they need, with those that live.
    """

    name: str
    dead: frozenset[CircuitId]
    off: frozenset[SourceId]
    circuits: dict[CircuitId, Load]
    sources: dict[SourceId, Load]
    starved: tuple[tuple[Draw, int], ...]


class Wires:
    """The power tree of a site with everything that hangs on it."""

    def __init__(self, site: Site, found: list[Draw]) -> None:
        self.site, self.draws = site, found
        self.racks: dict[RackId, Rack] = {one.id: one for one in site.racks}
        self.circuits: dict[CircuitId, Circuit] = {one.id: one for one in site.circuits}
        self.parents: dict[SourceId, list[SourceId]] = {}
        known = {one.id for one in site.sources}
        for one in site.sources:
            self.parents[one.id] = [name for name in one.fed_by if name in known]
        self.above: dict[CircuitId, tuple[SourceId, ...]] = {one.id: self._above(one) for one in site.circuits}
        self.on: defaultdict[CircuitId, list[Draw]] = defaultdict(list)
        for draw in found:
            for name in draw.cords:
                self.on[name].append(draw)
        self.below: defaultdict[SourceId, list[CircuitId]] = defaultdict(list)
        for name, above in self.above.items():
            for source in above:
                self.below[source].append(name)
        self.in_lines = self._in_lines()
        self.normal = self._normal()

    def _in_lines(self) -> dict[SourceId, list[CircuitId]]:
        """Circuits whose lines an element sees: those below it with nothing between that makes new lines."""
        kinds = {one.id: one.kind for one in self.site.sources}
        found: defaultdict[SourceId, list[CircuitId]] = defaultdict(list)
        for circuit in self.site.circuits:
            seen: set[SourceId] = set()
            ahead = [circuit.fed_by] if circuit.fed_by is not None and circuit.fed_by in kinds else []
            while ahead:
                name = ahead.pop()
                if name not in seen:
                    seen.add(name)
                    found[name].append(circuit.id)
                    ahead += self.parents[name] if kinds[name] in _THROUGH else []
        return found

    def _above(self, circuit: Circuit) -> tuple[SourceId, ...]:
        """Every element that may carry a circuit; of several feeds any one carries all of it."""
        seen: dict[SourceId, None] = {}
        ahead = [circuit.fed_by] if circuit.fed_by is not None and circuit.fed_by in self.parents else []
        while ahead:
            name = ahead.pop()
            if name not in seen:
                seen[name] = None
                ahead += self.parents[name]
        return tuple(seen)

    def _normal(self) -> State:
        circuits: dict[CircuitId, Load] = {}
        for name, circuit in self.circuits.items():
            watts = circuit.other_load_w or 0.0
            circuits[name] = _as_load(circuit, watts, GUESSED_FACTOR)
        sources: dict[SourceId, Load] = {one.id: (0.0, 0.0) for one in self.site.sources}
        for draw in self.draws:
            for name, load in self._shared(draw, frozenset()).items():
                circuits[name] = _plus(circuits[name], load)
        for name, load in circuits.items():
            for source in self.above[name]:
                sources[source] = _plus(sources[source], load)
        return State(NORMAL, frozenset(), frozenset(), circuits, sources, tuple(self._starved(self.draws, frozenset())))

    def _shared(self, draw: Draw, dead: frozenset[CircuitId]) -> dict[CircuitId, Load]:
        """What a node draws from each circuit: its load, shared equally over the supplies that live."""
        live = {name: count for name, count in draw.cords.items() if name not in dead}
        total = sum(live.values())
        watts = draw.active_w or 0.0
        return {name: _as_load(self.circuits[name], watts * count / total, draw.factor) for name, count in live.items()}

    def _starved(self, some: Iterable[Draw], dead: frozenset[CircuitId]) -> Iterator[tuple[Draw, int]]:
        for draw in some:
            need = draw.node.supplies_needed
            live = sum(count for name, count in draw.cords.items() if name not in dead)
            if draw.cords and need is not None and live < need:
                yield draw, live

    def lost(self) -> Iterator[State]:
        """Every circuit lost, then every element of the tree."""
        for name in self.circuits:
            yield self._after(f"with circuit {name} lost", frozenset({name}), frozenset())
        for one in self.site.sources:
            off = self._off(one.id)
            dead = frozenset(name for name, circuit in self.circuits.items() if circuit.fed_by in off) if off else frozenset()
            yield self._after(f"with {one.kind} {one.id} lost", dead, off)

    def _off(self, lost: SourceId) -> frozenset[SourceId]:
        """It, and all that has no other feed."""
        off = {lost}
        grew = True
        while grew:
            more = {name for name, parents in self.parents.items() if name not in off and parents and all(one in off for one in parents)}
            off |= more
            grew = bool(more)
        return frozenset(off)

    def _after(self, name: str, dead: frozenset[CircuitId], off: frozenset[SourceId]) -> State:
        touched = {id(draw): draw for circuit in dead for draw in self.on[circuit]}
        circuits: dict[CircuitId, Load] = {}
        for draw in touched.values():
            before, after = self._shared(draw, frozenset()), self._shared(draw, dead)
            for circuit, load in after.items():
                now = circuits.get(circuit, self.normal.circuits[circuit])
                circuits[circuit] = _plus(now, _minus(load, before[circuit]))
        sources: dict[SourceId, Load] = {}
        for circuit in dead:
            gone = self.normal.circuits[circuit]
            self._change(sources, circuit, _minus((0.0, 0.0), gone))
        for circuit, load in circuits.items():
            self._change(sources, circuit, _minus(load, self.normal.circuits[circuit]))
        for source in off:
            sources.pop(source, None)
        return State(name, dead, off, circuits, sources, tuple(self._starved(touched.values(), dead)))

    def _change(self, sources: dict[SourceId, Load], circuit: CircuitId, load: Load) -> None:
        for source in self.above[circuit]:
            sources[source] = _plus(sources.get(source, self.normal.sources[source]), load)


def _as_load(circuit: Circuit, watts: float, factor: float) -> Load:
    return (watts, watts if circuit.wiring is Wiring.DC else watts / factor)


def _plus(one: Load, other: Load) -> Load:
    return (one[0] + other[0], one[1] + other[1])


def _minus(one: Load, other: Load) -> Load:
    return (one[0] - other[0], one[1] - other[1])
