"""Lines of three-phase elements on which single-phase circuits hang: the fullest one counts (rules section 1, PW11 to PW14). Pure."""

from __future__ import annotations

import math

from bridgehead.model.power import Circuit, Lines, SourceId, Wiring
from bridgehead.planning.check_power_states import State, Wires

_BETWEEN = {Lines.L1_L2: (0, 1), Lines.L2_L3: (1, 2), Lines.L3_L1: (2, 0)}
_TO_NEUTRAL = {Lines.L1_N: 0, Lines.L2_N: 1, Lines.L3_N: 2}


def line_amperes(wires: Wires, source: SourceId, state: State) -> float:
    """The current of the fullest line of an element in a state; circuits of which nobody knows the lines are left out.

    Line-line loads a, b, c make the lines √(a² + c² + ac), √(a² + b² + ab), √(b² + c² + bc). Line-neutral and three-phase loads
    add to them.
    """
    between, straight = [0.0, 0.0, 0.0], [0.0, 0.0, 0.0]
    for name in wires.in_lines[source]:
        circuit = wires.circuits[name]
        if name in state.dead or circuit.wiring is Wiring.DC:
            continue
        _, va = state.circuits.get(name, wires.normal.circuits[name])
        _put(circuit, va * circuit.current_a / circuit.rating_va, between, straight)
    a, b, c = between
    pairs = ((a, c), (a, b), (b, c))
    return max(math.sqrt(one * one + two * two + one * two) + straight[line] for line, (one, two) in enumerate(pairs))


def _put(circuit: Circuit, amperes: float, between: list[float], straight: list[float]) -> None:
    if circuit.wiring is not Wiring.SINGLE_PHASE:
        for line in range(3):
            straight[line] += amperes
    elif circuit.lines in _TO_NEUTRAL:
        straight[_TO_NEUTRAL[circuit.lines]] += amperes
    elif circuit.lines is not None:
        between[_BETWEEN[circuit.lines][0]] += amperes
