"""WAN: lines between the sites, their rate, diversity and failover (M7.1, M8.3, M10.2; rules section 6, WN1 to WN3)."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator

from bridgehead.assess.carriage import RATES, link_rate
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import few, shown
from bridgehead.assess.scope import Scope
from bridgehead.assess.wan_math import LINE_EFFICIENCY, in_flight_bytes, loss_limit_bps, window_limit_bps
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import Link
from bridgehead.model.finding import Finding, Origin, Severity

_CONVERGENCE_S = 1.0
"""M10.2: sub-second convergence."""
_HEADERS_BYTES = 40
_PATHS = "ask each carrier for the ducts and buildings of its path"


def _sorted(scope: Scope) -> list[Link]:
    return sorted(scope.links, key=lambda link: link.id)


def _present(scope: Scope) -> Iterator[Finding]:
    if scope.source is None:
        return
    case = Case(DIVERSE, f"{scope.source.id}+{scope.target.id}")
    links = _sorted(scope)
    case.take("links", len(links), "", "links.*", origin=Origin.DERIVED)
    if not links:
        yield case.unknown("no line between the sites is described", measurement="describe the lines between the sites")
        return
    for link in links:
        case.take("carrier", link.carrier or None, "", f"links.{link.id}.carrier")
        case.take("path", None if link.path is None else ", ".join(link.path), "", f"links.{link.id}.path")
    pairs = [(_shared(one, other), one, other) for one, other in itertools.combinations(links, 2)]
    diverse = [(one.id, other.id) for shared, one, other in pairs if shared == ()]
    if diverse:
        proved = Case(DIVERSE, f"{scope.source.id}+{scope.target.id}")
        for name in diverse[0]:
            link = next(one for one in links if one.id == name)
            proved.take("carrier", link.carrier, "", f"links.{name}.carrier")
            proved.take("path", ", ".join(link.path or ()), "", f"links.{name}.path")
        yield proved.holds(True, f"{diverse[0][0]} and {diverse[0][1]} share neither carrier nor path", remedy="")
    elif any(shared is None for shared, _, _ in pairs):
        yield case.unknown("whether two lines share a carrier or a path is not known", measurement=_PATHS)
    else:
        common = sorted({what for shared, _, _ in pairs for what in shared or ()})
        text = f"{links[0].id} is the only line" if len(links) == 1 else f"all lines share {few(common)}"
        yield case.holds(False, text, remedy="order a second line of another carrier through other ducts")


def _shared(one: Link, other: Link) -> tuple[str, ...] | None:
    """What two links share for sure; the empty tuple when they share nothing for sure, None when it is not known."""
    found = {one.carrier} & {other.carrier} - {""}
    found |= set(one.path or ()) & set(other.path or ())
    if found:
        return tuple(sorted(found))
    complete = one.carrier and other.carrier and one.path is not None and other.path is not None
    return () if complete else None


def _survive(scope: Scope) -> Iterator[Finding]:
    links = _sorted(scope)
    if scope.source is None or not links:
        return
    states: defaultdict[str, set[str]] = defaultdict(set)
    for link in links:
        states[f"{link.id} lost"].add(link.id)
        if link.carrier:
            states[f"carrier {link.carrier} lost"].add(link.id)
        for place in link.path or ():
            states[f"{place} lost"].add(link.id)
    case = Case(SURVIVE, f"{scope.source.id}+{scope.target.id}")
    used, rates = 0.0, {}
    for link in links:
        rates[link.id] = link_rate(case, link)
        used += case.take("used", link.used_bps, "bit/s", f"links.{link.id}.used") or 0.0
        case.take("carrier", link.carrier or None, "", f"links.{link.id}.carrier")
        case.take("path", None if link.path is None else ", ".join(link.path), "", f"links.{link.id}.path")
    left = {state: sum(rate for name, rate in rates.items() if name not in lost) for state, lost in states.items()}
    state, least = min(left.items(), key=lambda entry: (entry[1], entry[0]))
    takes = case.at_least_words(shown(used, Dimension.RATE), "used")
    text = f"production takes {takes} at its busiest; with {state} {shown(least, Dimension.RATE)} are left"
    remedy = "add a line that shares neither carrier nor path with the others"
    yield case.at_most(used, least, "bit/s", text, remedy=remedy, measurement=f"{RATES}; {_PATHS}")


def _rate(scope: Scope) -> Iterator[Finding]:
    for link in _sorted(scope):
        case = Case(RATE, f"link:{link.id}")
        path = f"links.{link.id}"
        limit = link.rate_bps * LINE_EFFICIENCY
        case.take("line", link.rate_bps, "bit/s", f"{path}.rate")
        if link.measured_bps is not None:
            case.take("measured", link.measured_bps, "bit/s", f"{path}.measured", origin=Origin.MEASURED)
            text = f"{shown(link.measured_bps, Dimension.RATE)} were received over a line of {shown(link.rate_bps, Dimension.RATE)}"
            yield case.at_least(link.measured_bps, limit, "bit/s", text, remedy="raise windows and number of flows, look for loss")
            continue
        flows = link.flows or 1
        bounds: list[tuple[float, str]] = []
        delay = case.take("delay", link.delay_s, "s", f"{path}.delay")
        window = case.take("window", link.window_bytes, "B", f"{path}.window")
        loss = case.take("loss", link.loss, "", f"{path}.loss")
        if delay is not None and window is not None:
            needs = shown(int(in_flight_bytes(link.rate_bps, round_trip_s=2 * delay)), Dimension.SIZE)
            bounds.append((window_limit_bps(window, round_trip_s=2 * delay) * flows, f"its window (a full line holds {needs})"))
        if delay is not None and loss is not None and link.mtu is not None:
            most = loss_limit_bps(link.mtu - _HEADERS_BYTES, round_trip_s=2 * delay, loss=loss)
            bounds.append((most * flows, "its loss (Mathis, a rough rule)"))
        bound, why = min(bounds, default=(limit, ""))
        if bound < limit:
            text = f"{flows} flows get {shown(bound, Dimension.RATE)} through {why}, of {shown(link.rate_bps, Dimension.RATE)}"
            yield case.at_least(bound, limit, "bit/s", text, remedy="raise windows and number of flows, look for loss")
        else:
            yield case.unknown("what it really carries was not measured", measurement=RATES)


def _failover(scope: Scope) -> Iterator[Finding]:
    for link in _sorted(scope):
        case = Case(FAILOVER, f"link:{link.id}")
        found = case.take("failover", link.failover_s, "s", f"links.{link.id}.failover", origin=Origin.MEASURED)
        if found is None:
            yield case.unknown(
                "how long traffic takes to another line was not measured",
                measurement="pull each line in a test and measure the time until traffic flows again",
            )
            continue
        case.take("limit", _CONVERGENCE_S, "s", "requirement M10.2", origin=Origin.DEFAULT)
        text = f"traffic was on another line after {shown(found, Dimension.DURATION)}"
        yield case.at_most(found, _CONVERGENCE_S, "s", text, remedy="shorten detection and re-routing, and test weekly")


DIVERSE = Check(
    "WAN-DIVERSE",
    "Do two lines share neither carrier nor path?",
    ("M10.2",),
    "one pair of links with different carriers and no common part of the path (rules section 2)",
    _present,
)
SURVIVE = Check(
    "WAN-SURVIVE",
    "Does production survive the loss of any line, carrier or duct?",
    ("M10.2", "M8.4"),
    "sum of used <= sum of what the surviving links carry, in the worst single loss (rules section 2)",
    _survive,
)
RATE = Check(
    "WAN-RATE",
    "Does each line carry what it should?",
    ("M8.3",),
    "received >= 0.8·line; else flows·min(8·window/RTT, 1.22·8·MSS/(RTT·√p)) (rules section 6)",
    _rate,
    Severity.WARNING,
)
FAILOVER = Check(
    "WAN-FAILOVER",
    "Does traffic move to another line within a second?",
    ("M10.2",),
    "measured failover <= 1 s (M10.2)",
    _failover,
)
CHECKS = (DIVERSE, SURVIVE, RATE, FAILOVER)
