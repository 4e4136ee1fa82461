"""Power checks: every circuit and every element above it in every single-failure state, and every node (M5.3; rules sections 1 to 3)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import lru_cache

from bridgehead.assess import asking
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import waiting_words
from bridgehead.assess.loads import Reading
from bridgehead.assess.power_flow import SOMETHING, Flow, Meter
from bridgehead.assess.power_math import GUESSED_POWER_FACTOR, Headroom, headroom
from bridgehead.assess.power_tree import kind_words
from bridgehead.assess.scope import Scope
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Node
from bridgehead.model.estate import HeadroomRule, Site
from bridgehead.model.finding import Finding, FindingStatus, Origin
from bridgehead.model.power import Circuit, CircuitId, PowerSource, SourceKind, Wiring

_READINGS = {
    HeadroomRule.CONTINUOUS: "what may flow for hours, less the margin",
    HeadroomRule.RATING: "what may flow for hours, and the rating less the margin",
    HeadroomRule.NEED: "what may flow for hours, divided by one and the margin",
}


@lru_cache(maxsize=4)
def flows(scope: Scope) -> tuple[Flow, ...]:
    """The power flow of each site that is judged, as it stands."""
    return tuple(Flow(site) for site in scope.sites)


def power(value: float, *, dc: bool = False) -> str:
    """A load for people."""
    return format_quantity(value, Dimension.POWER if dc else Dimension.APPARENT_POWER, digits=4)


def _circuits(scope: Scope) -> Iterator[Finding]:
    for flow in flows(scope):
        on: dict[CircuitId, list[Node]] = {circuit.id: [] for circuit in flow.site.circuits}
        for node in flow.nodes:
            for name in flow.cords[node.id].count:
                on[name].append(node)
        for circuit in flow.site.circuits:
            yield _circuit(scope, flow, circuit, on[circuit.id])


def _circuit(scope: Scope, flow: Flow, circuit: Circuit, nodes: list[Node]) -> Finding:
    meter, dc, place = flow.circuits[circuit.id], circuit.wiring is Wiring.DC, f"sites.{flow.site.id}.circuits.{circuit.id}"
    worst = Worst(meter, dc=dc)
    case = Case(CIRCUIT, f"{flow.site.id}/circuit:{circuit.id}", state=worst.state)
    case.take("V", circuit.voltage_v, "V", f"{place}.voltage")
    case.take("I", circuit.current_a, "A", f"{place}.current")
    case.take("wiring", circuit.wiring.value, "", f"{place}.wiring")
    case.take("other load", circuit.other_load_w, "W", f"{place}.other_load")
    for node in nodes:
        _take_load(case, flow, node, dc=dc)
    lasting = case.take("f", circuit.continuous, "1", f"{place}.continuous")
    if worst.nothing:
        return case.holds(True, f"circuit {circuit.id} carries nothing", remedy="")
    if lasting is None:
        return case.unknown(
            f"circuit {circuit.id} carries {worst.at_worst}, and nobody said how much of its "
            f"{power(circuit.rating_va, dc=dc)} may flow for hours",
            measurement=asking.CONTINUOUS,
        )
    room = _room(case, flow.site, scope, circuit.rating_va, lasting, unit="W" if dc else "VA")
    limit = room.chosen(flow.site.headroom)
    for name, load in (("I at worst, in each line", worst.high), ("I limit", limit)):
        case.take(name, load * circuit.current_a / circuit.rating_va, "A", "rules section 1", origin=Origin.DERIVED)
    text = f"circuit {circuit.id} carries {worst.at_worst} and may carry {power(limit, dc=dc)} ({_READINGS[flow.site.headroom]})"
    return worst.judge(case, limit, text, remedy="move load to another circuit, or have a larger circuit installed")


def _take_load(case: Case, flow: Flow, node: Node, *, dc: bool) -> None:
    load, place = flow.loads[node.id], f"sites.{flow.site.id}.nodes.{node.id}"
    measured = load.reading in (Reading.MEASURED, Reading.ABOVE)
    origin = Origin.MEASURED if measured else Origin.DECLARED
    source = "nameplate" if load.reading is Reading.NAMEPLATE else "measured" if load.reading is Reading.ABOVE else "power"
    case.take(f"P {node.id} ({load.reading.value})", load.high_w, "W", f"{place}.{source}", origin=origin)
    if not dc:
        case.guess(
            f"PF {node.id}", node.power_factor, "1", f"{place}.power_factor", otherwise=GUESSED_POWER_FACTOR, because="rules section 1"
        )


def _room(case: Case, site: Site, scope: Scope, rating: float, lasting: float, *, unit: str) -> Headroom:
    """The three readings, all noted; the site's rule chooses (rules section 3)."""
    margin = scope.policy.margin
    case.take("margin", margin, "1", "policy.margin")
    case.take("S", rating, unit, "rules section 1", origin=Origin.DERIVED)
    room = headroom(rating, continuous=lasting, margin=margin)
    for rule in HeadroomRule:
        case.take(f"limit ({rule.value})", room.chosen(rule), unit, "rules section 3", origin=Origin.DERIVED)
    case.take("headroom", site.headroom.value, "", f"sites.{site.id}.headroom")
    return room


class Worst:
    """The worst state of a meter.

    Attributes:
        state: its name.
        low, high: what is there for certain, and at most.
        lacks: what is not known; what is not in ``high`` at all comes first.
        nothing: whether nothing flows here, and that is known.
    """

    def __init__(self, meter: Meter, *, dc: bool = False) -> None:
        part = 0 if dc else 1
        self.dc = dc
        states = list(meter.states())
        low_state, low, _ = max(states, key=lambda one: one[1][part])
        high_state, _, high = max(states, key=lambda one: one[2][part])
        self.low, self.high = low[part], high[part]
        self._states = (low_state, high_state)
        self._hard = sorted(meter.hard - ({asking.POWER_FACTOR} if dc else set()))
        self.lacks = (*self._hard, *sorted(meter.soft | meter.loose))
        self.nothing = self.high <= 0 and not self._hard
        self.state = low_state if self.low > 0 and self.low * (1 + 1e-9) >= self.high else high_state

    @property
    def words(self) -> str:
        """What flows, for people."""
        if self._hard and self.low <= 0:
            return "a load that nobody knows"
        if self._hard:
            return f"at least {power(self.low, dc=self.dc)}"
        if self.low * (1 + 1e-9) < self.high:
            return f"between {power(self.low, dc=self.dc)} and {power(self.high, dc=self.dc)}"
        return power(self.high, dc=self.dc)

    @property
    def at_worst(self) -> str:
        """What flows, and in which state, for people."""
        return self.words if self.state == SOMETHING or self.low <= 0 < len(self._hard) else f"{self.words} at worst ({self.state})"

    def judge(self, case: Case, limit: float, text: str, *, remedy: str) -> Finding:
        """FAIL by what is there for certain, PASS by the most that it can be, else UNKNOWN."""
        unit = "W" if self.dc else "VA"
        lacks = self.lacks if self.high > limit else self._hard
        if self.low <= limit and lacks:
            return case.unknown(f"{text}; more must be known to tell", measurement=lacks[0])
        return case.at_most(self.high, limit, unit, text, remedy=remedy, measurement=lacks[0] if lacks else "")


def _sources(scope: Scope) -> Iterator[Finding]:
    for flow in flows(scope):
        for source in flow.site.sources:
            yield _source(scope, flow, source)


def _source(scope: Scope, flow: Flow, source: PowerSource) -> Finding:
    dc, place = source.wiring is Wiring.DC, f"sites.{flow.site.id}.sources.{source.id}"
    worst = Worst(flow.sources[source.id], dc=dc)
    case = Case(SOURCE, f"{flow.site.id}/source:{source.id}", state=worst.state)
    case.take("load", worst.high, "W" if dc else "VA", f"sites.{flow.site.id}.nodes", origin=Origin.DERIVED)
    if source.id in flow.tree.cyclic:
        return case.unknown(f"{kind_words(source.kind)} {source.id} feeds itself, as the estate says", measurement=asking.TREE)
    if worst.nothing:
        return case.holds(True, f"{kind_words(source.kind)} {source.id} carries nothing", remedy="")
    rating = case.take("rating", source.limit_va, "W" if dc else "VA", f"{place}.rating")
    lasting = case.take("f", source.continuous, "1", f"{place}.continuous")
    if rating is None or lasting is None:
        asked = asking.SOURCE_RATING if rating is None else asking.CONTINUOUS
        return case.unknown(f"{kind_words(source.kind)} {source.id} carries {worst.words}, and its limit is not known", measurement=asked)
    limit = _room(case, flow.site, scope, rating, lasting, unit="W" if dc else "VA").chosen(flow.site.headroom)
    text = f"{kind_words(source.kind)} {source.id} carries {worst.at_worst} and may carry {power(limit, dc=dc)}"
    return worst.judge(case, limit, text, remedy="move load to another part of the power tree, or have this element replaced")


def _active(scope: Scope) -> Iterator[Finding]:
    for flow in flows(scope):
        for source in flow.site.sources:
            both = source.kind in (SourceKind.UPS, SourceKind.GENERATOR) and source.wiring is not Wiring.DC
            if not both and source.active_limit_w is None:
                continue
            worst = Worst(flow.sources[source.id], dc=True)
            case = Case(ACTIVE, f"{flow.site.id}/source:{source.id}", state=worst.state)
            case.take("load", worst.high, "W", f"sites.{flow.site.id}.nodes", origin=Origin.DERIVED)
            if worst.nothing:
                yield case.holds(True, f"{kind_words(source.kind)} {source.id} carries nothing", remedy="")
                continue
            rated = case.take("limit", source.active_limit_w, "W", f"sites.{flow.site.id}.sources.{source.id}.active_limit")
            margin = case.take("margin", scope.policy.margin, "1", "policy.margin") or 0.0
            if rated is None:
                yield case.unknown(
                    f"{kind_words(source.kind)} {source.id} carries {worst.words}, and its limit in watts is not known",
                    measurement=asking.SOURCE_RATING,
                )
                continue
            limit = rated / (1 + margin) if flow.site.headroom is HeadroomRule.NEED else (1 - margin) * rated
            named = f"{kind_words(source.kind)} {source.id}"
            text = f"{named} carries {worst.at_worst} and may carry {power(limit, dc=True)}"
            yield worst.judge(case, limit, text, remedy="move load to another part of the power tree, or have this element replaced")


def _redundant(scope: Scope) -> Iterator[Finding]:
    for flow in flows(scope):
        for node in flow.nodes:
            yield _survives(flow, node)


def _survives(flow: Flow, node: Node) -> Finding:
    survival, place = flow.survival[node.id], f"sites.{flow.site.id}.nodes.{node.id}"
    case = Case(REDUNDANT, f"{flow.site.id}/node:{node.id}", state=survival.state)
    total = case.take("n", node.supplies, "1", f"{place}.supplies")
    needed = case.take("m", node.supplies_needed, "1", f"{place}.supplies_needed")
    for name, count in flow.cords[node.id].count.items():
        case.take(f"supplies on {name}", count, "1", f"{place}.circuits", origin=Origin.DERIVED)
    if survival.live is None or total is None or needed is None:
        asked = survival.lacks[0] if survival.live is None and total is not None and survival.lacks else asking.SUPPLIES
        return case.unknown(f"nobody knows whether {node.id} survives the loss of a supply, circuit or feed", measurement=asked)
    text = f"{node.id} has {survival.live} of its {total} supplies left after {survival.state}, and needs {needed}"
    if survival.live >= needed and survival.lacks:
        return case.unknown(f"{text}; what else its circuits share is not known", measurement=survival.lacks[0])
    return case.at_least(
        survival.live, needed, "", text, remedy="hang its supplies on circuits that share nothing, so that enough of them live"
    )


def _inputs(scope: Scope) -> Iterator[Finding]:
    """All that the unknown findings of this family wait for, since each of them names one thing only."""
    for flow in flows(scope):
        waiting: Counter[str] = Counter()
        for finding, lacks in _with_lacks(scope, flow):
            if finding.status is FindingStatus.UNKNOWN:
                waiting.update({finding.measurement, *lacks})
        for what, count in sorted(waiting.items()):
            yield Case(INPUTS, flow.site.id, state=what).unknown(waiting_words(count, flow.site.id), measurement=what)


def _with_lacks(scope: Scope, flow: Flow) -> Iterator[tuple[Finding, tuple[str, ...]]]:
    for circuit in flow.site.circuits:
        yield _circuit(scope, flow, circuit, []), Worst(flow.circuits[circuit.id], dc=circuit.wiring is Wiring.DC).lacks
    for source in flow.site.sources:
        yield _source(scope, flow, source), Worst(flow.sources[source.id], dc=source.wiring is Wiring.DC).lacks
    for node in flow.nodes:
        yield _survives(flow, node), flow.survival[node.id].lacks


CIRCUIT = Check(
    "PWR-CIRCUIT",
    "Does every circuit carry its load, with the margin, in the normal state and after every single loss?",
    ("M5.3",),
    "S = V·I, √3·V_LL·I or 3·V_LN·I; load = Σ P/PF · supplies here / supplies that live; load <= limit (rules sections 1 to 3)",
    _circuits,
)
SOURCE = Check(
    "PWR-SOURCE",
    "Does every element of the power tree carry what hangs on it (VA), in the normal state and after every single loss?",
    ("M5.3", "M10.3"),
    "Σ of the loads below, each counted once; load <= limit (rules sections 1 to 3)",
    _sources,
)
ACTIVE = Check(
    "PWR-SOURCE-W",
    "Does every UPS and generator carry what hangs on it (W)?",
    ("M5.3", "M10.3"),
    "Σ P of the nodes below <= (1 - margin)·limit in W (rules section 1: check both limits)",
    _active,
)
REDUNDANT = Check(
    "PWR-REDUNDANT",
    "Does every node keep enough supplies after every single loss, up to the utility?",
    ("M5.3", "M10.3"),
    "live supplies >= m after the loss of any supply, circuit, feed or element of the tree (rules section 2)",
    _redundant,
)
INPUTS = Check(
    "PWR-INPUTS",
    "Is everything known that the verdict on power needs?",
    ("M5.1", "M5.3"),
    "what the unknown findings on circuits, elements and nodes wait for (rules sections 1 to 3)",
    _inputs,
)
CHECKS: tuple[Check, ...] = (CIRCUIT, SOURCE, ACTIVE, REDUNDANT, INPUTS)
