"""Rebuilding: nodes of which nothing can be trusted are built anew from their specification, many at once (R15)."""

from __future__ import annotations

import math

import msgspec

from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import SiteId
from bridgehead.model.equipment import NodeId
from bridgehead.ports.machines import MachineState
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending

POLL_S = 2.0
REFUSED_PAUSE_S = 60.0


class Expected(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A node, and what it must say when it is back.

    Attributes:
        build: hash of what it is built from.
        driver: of its GPUs; "" where it has none.
    """

    node: NodeId
    build: str
    gpus: int = 0
    driver: str = ""
    gpu_model: str = ""


class RebuildParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``nodes.rebuild``: which, and how many must be back.

    Attributes:
        at_once: how many are under way at the same time.
        node_s: how long one may take before it is begun again, or given up.
        tries: how often one is begun.
        needed: how many must be back.
    """

    site: SiteId
    nodes: tuple[Expected, ...]
    needed: int
    at_once: int = 20
    node_s: float = 1800.0
    tries: int = 2


class RebuildNodes:
    """Every node is told to install itself, and counts when it has reported what it was to become. Those that do not come back are named.

    Everything is judged by what nodes and their controllers say, so that a driver that takes over goes on where the last one was.
    It has no undo: what stood on the disks is gone.
    """

    name = "nodes.rebuild"
    params_type = RebuildParams
    undoable = False

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports
        self._refused_s: dict[tuple[str, NodeId], float] = {}
        """When a controller refused last: those that do not answer must not keep the others waiting."""

    def precheck(self, params: RebuildParams, call: Call) -> Outcome:
        """All of them are known there."""
        machines = self._ports.machines(params.site)
        for one in params.nodes:
            machines.observe(one.node)
        return Done({"nodes": len(params.nodes)})

    def apply(self, params: RebuildParams, call: Call) -> Outcome:
        """Begin as many as may be under way; done when each is back or given up, failed as soon as too few can come back."""
        machines = self._ports.machines(params.site)
        back, lost, under_way, waiting = 0, dict[str, str](), 0, list[tuple[Expected, int]]()
        unseen: list[str] = []
        for one in params.nodes:
            try:
                state = machines.observe(one.node)
            except PortError as error:
                unseen.append(f"{one.node}: {error.happened}")
                continue
            mine = state.ordered == call.stamp.key
            wrong = wrong_with(one, state) if mine else "not begun"
            if not wrong:
                back += 1
            elif not mine:
                waiting.append((one, 1))
            elif state.report is None and call.now_s - state.ordered_s < params.node_s:
                if state.told:
                    under_way += 1
                else:
                    waiting.append((one, state.orders))
            elif state.orders < params.tries or state.ordered_s < call.since_s:  # a run that was resumed begins each once more
                waiting.append((one, state.orders + 1))
            else:
                lost[one.node] = wrong
        if len(params.nodes) - len(lost) < params.needed:
            named = "; ".join(f"{node}: {why}" for node, why in list(lost.items())[:5])
            more = f"; and {len(lost) - 5} more" if len(lost) > 5 else ""
            return Failed(
                f"{len(lost)} of {len(params.nodes)} nodes did not come back, {params.needed} must: {named}{more}",
                "Look at their consoles, mend or replace them; then `bridgehead run resume` begins those again that are not back.",
            )
        room = params.at_once - under_way - len(unseen)
        refused: list[str] = []
        first = sorted((one for one in waiting if self._may_ask(one[0], call)), key=lambda one: self._refused_s.get(_at(call, one[0]), 0.0))
        for one, attempt in first[: max(0, room)]:
            try:
                machines.rebuild(one.node, build=one.build, attempt=attempt, stamp=call.stamp)
            except PortError as error:
                self._refused_s[_at(call, one)] = call.now_s
                refused.append(f"{one.node}: {error.happened}")
        if back + len(lost) == len(params.nodes):
            return Done({"back": back, "lost": lost})
        shown = {
            "back": back,
            "under_way": under_way,
            "waiting": len(waiting),
            "lost": sorted(lost),
            "unseen": unseen[:5],
            "refused": refused[:5],
        }
        return Pending(POLL_S, shown)

    def _may_ask(self, one: Expected, call: Call) -> bool:
        return call.now_s - self._refused_s.get(_at(call, one), -REFUSED_PAUSE_S) >= REFUSED_PAUSE_S

    def verify(self, params: RebuildParams, call: Call) -> Outcome:
        """Enough of them say that they are what they were to become."""
        machines = self._ports.machines(params.site)
        states = {one.node: machines.observe(one.node) for one in params.nodes}
        lost = {one.node: wrong for one in params.nodes if (wrong := _not_mine(one, states[one.node], call.stamp.key))}
        back = len(params.nodes) - len(lost)
        if back < params.needed:
            return Failed(f"{back} of {len(params.nodes)} nodes are back, {params.needed} must be", "They are begun again.")
        took = sorted((states[one.node].reported_s or 0.0) - states[one.node].ordered_s for one in params.nodes if one.node not in lost)
        slowest, middle = took[-1] if took else 0.0, took[len(took) // 2] if took else 0.0
        return Done({"back": back, "lost": lost, "median_node_s": middle, "slowest_node_s": slowest})

    def undo(self, params: RebuildParams, call: Call) -> Outcome:
        """Nothing can be taken back."""
        return Done()


def needed_of(share: float, nodes: int) -> int:
    """Whole nodes, rounded up: 99 % of 100 is 99, of 50 it is 50."""
    return math.ceil(share * nodes - 1e-9)


def _at(call: Call, one: Expected) -> tuple[str, NodeId]:
    return call.stamp.key, one.node


def _not_mine(one: Expected, state: MachineState, key: str) -> str:
    return wrong_with(one, state) if state.ordered == key else "it was not begun by this step"


def wrong_with(one: Expected, state: MachineState) -> str:
    """What keeps a node from being what it was to become; empty when nothing does."""
    report = state.report
    if report is None:
        return "it is installed and has not reported" if state.installed_s is not None else "its installation has not ended"
    if report.build != one.build:
        return f"it reports build {report.build[:12] or 'none'}, not {one.build[:12]}"
    if report.gpus != one.gpus:
        return f"it shows {report.gpus} GPUs, not {one.gpus}"
    if one.gpus and report.driver != one.driver:
        return f"its driver is {report.driver or 'none'}, not {one.driver}"
    if one.gpus and report.gpu_model != one.gpu_model:
        return f"its GPUs are {report.gpu_model or 'unknown'}, not {one.gpu_model}"
    return ""
