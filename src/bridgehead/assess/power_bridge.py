"""Power bridge: whether batteries carry the load until generators do (M10.3)."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.assess import asking
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.power import flows
from bridgehead.assess.power_flow import Flow
from bridgehead.assess.scope import Scope
from bridgehead.kernel.quantity import format_duration
from bridgehead.model.finding import Finding, Severity
from bridgehead.model.power import Circuit, CircuitId, PowerSource, SourceKind


def _bridges(scope: Scope) -> Iterator[Finding]:
    for flow in flows(scope):
        loaded = {name for cords in flow.cords.values() for name in cords.count}
        for circuit in flow.site.circuits:
            yield _bridge(flow, circuit, loaded)


def _bridge(flow: Flow, circuit: Circuit, loaded: set[CircuitId]) -> Finding:
    case = Case(BRIDGE, f"{flow.site.id}/circuit:{circuit.id}")
    if circuit.fed_by is None or not flow.tree.complete(circuit):
        return case.unknown(f"nobody knows what feeds circuit {circuit.id} when the utility fails", measurement=asking.TREE)
    batteries = flow.tree.of_kind(circuit.fed_by, SourceKind.UPS)
    generators = flow.tree.of_kind(circuit.fed_by, SourceKind.GENERATOR)
    if not batteries or not generators:
        lacking = " and ".join(word for word, there in (("battery", batteries), ("generator", generators)) if not there)
        use = "" if circuit.id in loaded else " (nothing hangs on it yet)"
        return case.holds(
            False, f"circuit {circuit.id} has no {lacking} above it{use}",
            remedy="place a temporary generator and a transfer switch with a battery bridge for the time of the move (M10.3)",
        )  # fmt: skip
    return _holds_out(case, flow, circuit, batteries, generators)


def _holds_out(
    case: Case, flow: Flow, circuit: Circuit, batteries: tuple[PowerSource, ...], generators: tuple[PowerSource, ...]
) -> Finding:
    place = f"sites.{flow.site.id}.sources"
    carries = [case.take(f"battery {one.id}", one.battery_s, "s", f"{place}.{one.id}.battery") for one in batteries]
    starts = [case.take(f"start {one.id}", one.start_s, "s", f"{place}.{one.id}.start") for one in generators]
    known, begun = [one for one in carries if one is not None], [one for one in starts if one is not None]
    if len(known) < len(carries) or len(begun) < len(starts):
        return case.unknown(
            f"nobody knows whether the battery of circuit {circuit.id} lasts until a generator runs", measurement=asking.BATTERY
        )
    # Of several batteries in a row, or of several generators, the worst one must do: one of them may be what is lost.
    battery, start = min(known), max(begun)
    text = (
        f"above circuit {circuit.id} a battery lasts {format_duration(battery)}, and the slowest generator takes {format_duration(start)}"
    )
    return case.at_least(battery, start, "s", text, remedy="use a larger battery, or a generator that starts sooner")


BRIDGE = Check(
    "PWR-BRIDGE",
    "Do batteries carry every circuit until generators do?",
    ("M10.3",),
    "least battery time above >= longest start of a generator above (M10.3)",
    _bridges,
    Severity.WARNING,
)
CHECKS: tuple[Check, ...] = (BRIDGE,)
