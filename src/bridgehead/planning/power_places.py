"""Power of places: what racks draw from circuits and all above them, normally and after every single loss (M5.3; rules 1 to 3).

Loads are added up rack by rack, so that a place is tried in time that does not grow with the site.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

import msgspec

from bridgehead.model.equipment import Node, Rack
from bridgehead.model.estate import HeadroomRule, Site
from bridgehead.model.power import Circuit, PowerSource

NORMAL = ""
_SLACK = 1 + 1e-9


class Draw(msgspec.Struct, frozen=True):
    """What one rack draws in a place: VA and W of each element in each state in which it matters.

    Attributes:
        alive: whether every node keeps the supplies that it needs after every single loss.
    """

    va: Mapping[tuple[str, str], float]
    w: Mapping[tuple[str, str], float]
    alive: bool


class PowerLedger:
    """Loads of a site, and whether one rack more is within all limits."""

    def __init__(self, site: Site, *, margin: float) -> None:
        self._circuits: dict[str, Circuit] = {one.id: one for one in site.circuits}
        self._sources: dict[str, PowerSource] = {one.id: one for one in site.sources}
        self._limits: dict[str, float] = {one.id: _limit(one.rating_va, one.continuous, margin, site.headroom) for one in site.circuits}
        self._active: dict[str, float] = {}
        for source in site.sources:
            if source.limit_va is not None:
                self._limits[source.id] = _limit(source.limit_va, source.continuous, margin, site.headroom)
            if source.active_limit_w is not None:
                self._active[source.id] = _limit(source.active_limit_w, source.continuous, margin, site.headroom)
        self._va: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._w: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        self._draws: dict[tuple[object, ...], Draw] = {}
        for circuit in site.circuits:
            if circuit.other_load_w:
                self.add(self._draw_of({circuit.id: circuit.other_load_w}, 1.0))

    def draw(self, nodes: Iterable[Node], place: Rack) -> Draw:
        """What the nodes of a rack draw in a place. Supplies are dealt over its circuits in turn, each node for itself."""
        nodes = tuple(nodes)
        key = (place.id, *sorted((n.power_w, n.power_factor, n.supplies, n.supplies_needed) for n in nodes))
        found = self._draws.get(key)
        if found is None:
            found = self._draws[key] = self._draw(nodes, place)
        return found

    def _draw(self, nodes: tuple[Node, ...], place: Rack) -> Draw:
        va: defaultdict[tuple[str, str], float] = defaultdict(float)
        w: defaultdict[tuple[str, str], float] = defaultdict(float)
        alive = True
        for node in nodes:
            supplies, needed = node.supplies or 1, node.supplies_needed or 1
            if not place.circuits:
                return Draw({}, {}, False)
            dealt = Counter(place.circuits[number % len(place.circuits)] for number in range(supplies))
            states = {NORMAL, *(element for circuit in dealt for element in self._above(circuit))}
            for state in states:
                live = {circuit: count for circuit, count in dealt.items() if self._path(circuit, state) is not None}
                total = sum(live.values())
                if total < needed:
                    alive = False
                    continue
                for circuit, count in live.items():
                    load = (node.power_w or 0.0) * count / total
                    for element in self._path(circuit, state) or ():
                        va[element, state] += load / (node.power_factor or 1.0)
                        w[element, state] += load
        return Draw(_changes(va), _changes(w), alive)

    def _draw_of(self, loads_w: Mapping[str, float], factor: float) -> Draw:
        va: defaultdict[tuple[str, str], float] = defaultdict(float)
        for circuit, load in loads_w.items():
            for state in {NORMAL, *self._above(circuit)}:
                for element in self._path(circuit, state) or ():
                    va[element, state] += load / factor
        return Draw(_changes(va), _changes(va), True)

    def _above(self, circuit: str) -> set[str]:
        """The circuit and all elements that may feed it."""
        found, waiting = {circuit}, [self._circuits[circuit].fed_by]
        while waiting:
            one = waiting.pop()
            if one is not None and one in self._sources and one not in found:
                found.add(one)
                waiting += self._sources[one].fed_by
        return found

    def _path(self, circuit: str, lost: str) -> tuple[str, ...] | None:
        """From the circuit up to where the power comes from, when ``lost`` is lost; None when nothing comes."""
        if circuit == lost:
            return None
        above = self._circuits[circuit].fed_by
        if above is None or above not in self._sources:
            return (circuit,)
        rest = self._up(above, lost)
        return None if rest is None else (circuit, *rest)

    def _up(self, element: str, lost: str) -> tuple[str, ...] | None:
        if element == lost:
            return None
        feeders = self._sources[element].fed_by
        if not feeders:
            return (element,)
        for feeder in feeders:
            rest = self._up(feeder, lost) if feeder in self._sources else ()
            if rest is not None:
                return (element, *rest)
        return None

    def fits(self, draws: Iterable[Draw]) -> bool:
        """Whether racks more, together, stay within all limits in every state."""
        more_va: defaultdict[tuple[str, str], float] = defaultdict(float)
        more_w: defaultdict[tuple[str, str], float] = defaultdict(float)
        for draw in draws:
            if not draw.alive:
                return False
            for key, load in draw.va.items():
                more_va[key] += load
            for key, load in draw.w.items():
                more_w[key] += load
        return self._within(self._va, more_va, self._limits) and self._within(self._w, more_w, self._active)

    def _within(self, loads: Mapping[str, Mapping[str, float]], more: Mapping[tuple[str, str], float], limits: Mapping[str, float]) -> bool:
        extra: defaultdict[str, dict[str, float]] = defaultdict(dict)
        for (element, state), load in more.items():
            extra[element][state] = load
        for element, changes in extra.items():
            if element not in limits:
                continue
            now = loads.get(element, {})
            normal = now.get(NORMAL, 0.0) + changes.get(NORMAL, 0.0)
            worst = max((now.get(state, 0.0) + changes.get(state, 0.0) for state in {*now, *changes} - {NORMAL}), default=0.0)
            if normal + max(0.0, worst) > limits[element] * _SLACK:
                return False
        return True

    def add(self, draw: Draw) -> None:
        """A rack stands there."""
        for (element, state), load in draw.va.items():
            self._va[element][state] += load
        for (element, state), load in draw.w.items():
            self._w[element][state] += load


def _changes(loads: Mapping[tuple[str, str], float]) -> dict[tuple[str, str], float]:
    """In the normal state the load, in others what is more than that."""
    elements = {element for element, _ in loads}
    states = {state for _, state in loads} | {NORMAL}
    found = {}
    for element in elements:
        normal = loads.get((element, NORMAL), 0.0)
        found[element, NORMAL] = normal
        for state in states - {NORMAL}:
            change = loads.get((element, state), 0.0) - normal
            if change:
                found[element, state] = change
    return found


def _limit(rating: float, continuous: float | None, margin: float, rule: HeadroomRule) -> float:
    """Rules section 3. Without the share that may flow for hours nothing may: unknown is no yes."""
    if continuous is None:
        return 0.0
    match rule:
        case HeadroomRule.CONTINUOUS:
            return (1 - margin) * continuous * rating
        case HeadroomRule.RATING:
            return min(continuous * rating, (1 - margin) * rating)
        case HeadroomRule.NEED:
            return continuous * rating / (1 + margin)
