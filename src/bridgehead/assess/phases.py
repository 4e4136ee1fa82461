"""Phases: single-phase circuits on a three-phase element load its lines unequally; the largest line is the limit (rules section 1)."""

from __future__ import annotations

import math
from collections.abc import Iterator

from bridgehead.assess import asking
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.power import flows
from bridgehead.assess.power_flow import BALANCED, SOMETHING, UNTRACED, Flow, Meter
from bridgehead.assess.power_math import headroom, line_currents
from bridgehead.assess.power_tree import kind_words
from bridgehead.assess.scope import Scope
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.finding import Finding, Origin
from bridgehead.model.power import Lines, PowerSource, Wiring

_NAMES = ("L1", "L2", "L3")
Currents = tuple[float, float, float]


def _lines(scope: Scope) -> Iterator[Finding]:
    for flow in flows(scope):
        for source in flow.site.sources:
            if set(flow.lines.get(source.id, {})) - {BALANCED}:
                yield _source(scope, flow, source)


def line_states(meters: dict[str, Meter]) -> dict[str, tuple[Currents, Currents]]:
    """The currents of L1, L2, L3 in each state, low and high. What hangs between unknown lines counts fully on each line in ``high``."""
    by_state = {key: {state: (low[1], high[1]) for state, low, high in meter.states()} for key, meter in meters.items()}
    found = {}
    for state in sorted({state for states in by_state.values() for state in states}):
        values = {key: states.get(state) or _elsewhere(meters[key], state) for key, states in by_state.items()}
        low = line_currents(_single(values, 0), balanced_a=values.get(BALANCED, (0.0, 0.0))[0])
        untraced = values.get(UNTRACED, (0.0, 0.0))[1]
        high = line_currents(_single(values, 1), balanced_a=values.get(BALANCED, (0.0, 0.0))[1])
        found[state] = (low, (high[0] + untraced, high[1] + untraced, high[2] + untraced))
    return found


def _single(values: dict[str, tuple[float, float]], part: int) -> dict[Lines, float]:
    return {Lines(key): value[part] for key, value in values.items() if key not in (BALANCED, UNTRACED)}


def _elsewhere(meter: Meter, state: str) -> tuple[float, float]:
    """A state that changes nothing here; of the loss of something unknown, the worst that there can be."""
    return (0.0, meter.anything[1]) if state == SOMETHING else (meter.low[1], meter.high[1])


def _source(scope: Scope, flow: Flow, source: PowerSource) -> Finding:
    meters, place = flow.lines[source.id], f"sites.{flow.site.id}.sources.{source.id}"
    states = line_states(meters)
    low_state = max(states, key=lambda state: max(states[state][0]))
    high_state = max(states, key=lambda state: max(states[state][1]))
    low, high = max(states[low_state][0]), max(states[high_state][1])
    case = Case(LINES, f"{flow.site.id}/source:{source.id}", state=high_state)
    for name, current_a in zip(_NAMES, states[high_state][1], strict=True):
        case.take(f"I_{name}", current_a, "A", f"sites.{flow.site.id}.circuits", origin=Origin.DERIVED)
    rated = case.take("rating", _rated_a(source), "A", f"{place}.current")
    lasting = case.take("f", source.continuous, "1", f"{place}.continuous")
    line = _NAMES[states[high_state][1].index(high)]
    carried = format_quantity(high, Dimension.CURRENT, digits=4)
    flowing = f"{line} of {kind_words(source.kind)} {source.id} carries {carried} at worst ({high_state})"
    if source.wiring is None or rated is None or lasting is None:
        asked = asking.CONTINUOUS if lasting is None and rated is not None and source.wiring is not None else asking.SOURCE_RATING
        return case.unknown(f"{flowing}, and its limit is not known", measurement=asked)
    room = headroom(rated, continuous=lasting, margin=scope.policy.margin)
    limit = room.chosen(flow.site.headroom)
    text = f"{flowing} and may carry {format_quantity(limit, Dimension.CURRENT, digits=4)}"
    lacks = sorted({what for meter in meters.values() for what in meter.hard})
    if high > limit:
        lacks += [asking.LINES] if UNTRACED in meters else []
        lacks += sorted({what for meter in meters.values() for what in meter.soft | meter.loose})
    if low <= limit and lacks:
        return case.unknown(f"{text}; more must be known to tell", measurement=lacks[0])
    return case.at_most(high, limit, "A", text, remedy="spread the single-phase circuits over the three lines")


def _rated_a(source: PowerSource) -> float | None:
    """The rating of one line: of its breaker, or what its rating in VA gives at its voltage."""
    if source.current_a is not None:
        return source.current_a
    if source.rating_va is None or source.voltage_v is None:
        return None
    return source.rating_va / ((3 if source.wiring is Wiring.THREE_PHASE_LINE_TO_NEUTRAL else math.sqrt(3)) * source.voltage_v)


LINES = Check(
    "PWR-LINES",
    "Is no line of a three-phase element overloaded by single-phase circuits that hang on it unequally?",
    ("M5.3",),
    "I_L1 = √(a² + c² + ac), I_L2 = √(a² + b² + ab), I_L3 = √(b² + c² + bc), balanced and line-to-neutral loads added as phasors "
    "(rules section 1)",
    _lines,
)
CHECKS: tuple[Check, ...] = (LINES,)
