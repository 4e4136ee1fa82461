"""Machines of a simulated world: nodes that install themselves over one line that they share, and come back, or do not (R15)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.model.equipment import NodeId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.machines import MachineState, NodeReport
from bridgehead.simulate.timeline import Timeline


class MachinePlan(msgspec.Struct, frozen=True):
    """A node.

    Attributes:
        image_bytes: what it takes from the server of images.
        firmware_s: from the order to its first request.
        install_s: from its image to its report, without waiting for the line.
        dead_attempts: of its first so many attempts nothing is heard again.
        report: what it says of its GPUs; the build is the one that was ordered.
    """

    node: NodeId
    image_bytes: int = 4_000_000_000
    firmware_s: float = 240.0
    install_s: float = 420.0
    dead_attempts: int = 0
    report: NodeReport = NodeReport("", 8, "550.54.15", "NVIDIA H100 80GB HBM3")


class _Machine(msgspec.Struct):
    plan: MachinePlan
    state: MachineState = MachineState()
    begun: int = 0
    """How often it began to install, over its whole life."""


class MachineRoom:
    """All nodes of a site.

    Args:
        line_bps: bytes a second that the server of images gives; one node after the other is served.
    """

    def __init__(self, timeline: Timeline, plans: tuple[MachinePlan, ...], *, line_bps: float) -> None:
        self._timeline, self._line_bps = timeline, line_bps
        self.machines = {plan.node: _Machine(plan) for plan in plans}
        self._line_free_s = 0.0
        self.most_at_once = 0

    def rebuild(self, node: NodeId, *, build: str, attempt: int, stamp: Stamp) -> None:
        """See ``ports.machines``."""
        machine = self._machine(node)
        before = machine.state
        if before.ordered == stamp.key and before.orders >= attempt:
            return
        machine.state = MachineState(ordered=stamp.key, ordered_s=self._timeline.now_s, orders=attempt)
        machine.begun += 1
        under_way = [one for one in self.machines.values() if one.state.ordered and one.state.report is None]
        self.most_at_once = max(self.most_at_once, len(under_way))
        if attempt > machine.plan.dead_attempts:
            begun = machine.begun
            self._timeline.after(machine.plan.firmware_s, lambda: self._fetch(machine, build, begun))

    def observe(self, node: NodeId) -> MachineState:
        """See ``ports.machines``."""
        return self._machine(node).state

    def _fetch(self, machine: _Machine, build: str, begun: int) -> None:
        now_s, took_s = self._timeline.now_s, machine.plan.image_bytes / self._line_bps
        self._line_free_s = max(now_s, self._line_free_s) + took_s
        self._timeline.after(self._line_free_s - now_s + machine.plan.install_s, lambda: self._report(machine, build, begun))

    def _report(self, machine: _Machine, build: str, begun: int) -> None:
        if machine.begun == begun:  # else it was begun again meanwhile
            now_s, report = self._timeline.now_s, msgspec.structs.replace(machine.plan.report, build=build)
            machine.state = msgspec.structs.replace(machine.state, installed_s=now_s, report=report, reported_s=now_s)

    def _machine(self, node: NodeId) -> _Machine:
        if node not in self.machines:
            raise NotFound("there is no such node", tried="find a node", subject=node)
        return self.machines[node]
