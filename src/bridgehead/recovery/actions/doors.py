"""Doors of a site: nodes are emptied before a move, opened again after it, and kept for what comes (M7.2, R11)."""

from __future__ import annotations

import enum
from collections.abc import Sequence

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.model.equipment import NodeId
from bridgehead.ports.admission import NodeView, Reservation
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending

POLL_S = 1.0


class Until(enum.StrEnum):
    """What a drain waits for."""

    CLOSED = "closed"
    """No new job begins."""
    EMPTY = "empty"
    """And those that ran have ended, by themselves or by other steps; the step's deadline is how long that may take."""


class DrainNodesParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``nodes.drain``: which nodes of a site take no new jobs, and why, for those who find them so."""

    site: SiteId
    nodes: tuple[NodeId, ...]
    reason: str
    until: Until = Until.EMPTY


class DrainNodes:
    """Close nodes to new jobs. Undo opens those that this step closed; what somebody else closed is left alone."""

    name = "nodes.drain"
    params_type = DrainNodesParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: DrainNodesParams, call: Call) -> Outcome:
        """Record which of them an earlier run closed."""
        views = self._ports.admission(params.site).nodes(params.nodes)
        return Done({"drained_before": [view.name for view in views if view.drained_here]})

    def apply(self, params: DrainNodesParams, call: Call) -> Outcome:
        """Close them."""
        self._ports.admission(params.site).drain(params.nodes, reason=params.reason, stamp=call.stamp)
        return Done()

    def verify(self, params: DrainNodesParams, call: Call) -> Outcome:
        """Closed, and empty where that is asked for."""
        views = self._ports.admission(params.site).nodes(params.nodes)
        still_open = [view.name for view in views if view.open]
        if still_open:
            return Failed(f"{', '.join(still_open)} at {params.site} took jobs again", "See who opens nodes there.")
        full = [view.name for view in views if not view.empty]
        if full and params.until is Until.EMPTY:
            return Pending(POLL_S, {"waiting_for": f"{', '.join(full)} to be seen empty"})
        return Done({"closed": len(views), "not_empty": full})

    def undo(self, params: DrainNodesParams, call: Call) -> Outcome:
        """None of those that this step closed is closed by it any more."""
        mine = [node for node in params.nodes if node not in call.recorded["drained_before"]]
        return opened(self._ports, params.site, mine, call)


class ResumeNodesParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``nodes.resume``: nodes that a drain closed, in this run or an earlier one; ``reason`` is for an undo, which closes them again."""

    site: SiteId
    nodes: tuple[NodeId, ...]
    reason: str


class ResumeNodes:
    """Open nodes that a drain closed, and see that they take jobs. What somebody else closed stays closed, and fails the step."""

    name = "nodes.resume"
    params_type = ResumeNodesParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: ResumeNodesParams, call: Call) -> Outcome:
        """Nobody else closed one; record those that a drain did."""
        views = self._ports.admission(params.site).nodes(params.nodes)
        return _closed_by_others(params.site, views) or Done({"drained_before": [view.name for view in views if view.drained_here]})

    def apply(self, params: ResumeNodesParams, call: Call) -> Outcome:
        """Open them."""
        self._ports.admission(params.site).resume(params.nodes, stamp=call.stamp)
        return Done()

    def verify(self, params: ResumeNodesParams, call: Call) -> Outcome:
        """They take jobs: a scheduler may have to hear of a node first."""
        views = self._ports.admission(params.site).nodes(params.nodes)
        shut = [view for view in views if not view.open]
        if not shut:
            return Done({"open": len(views)})
        if any(view.drained_here for view in shut):
            return Failed("a drain closes them still", "They are opened again.")
        waiting = Pending(POLL_S, {"waiting_for": f"{', '.join(view.name for view in shut)} to take jobs"})
        return _closed_by_others(params.site, shut) or waiting

    def undo(self, params: ResumeNodesParams, call: Call) -> Outcome:
        """Those that a drain had closed are closed again."""
        admission = self._ports.admission(params.site)
        before = [NodeId(node) for node in call.recorded["drained_before"]]
        if before:
            admission.drain(before, reason=params.reason, stamp=call.stamp)
        left = [view.name for view in admission.nodes(before) if view.open] if before else []
        return Pending(POLL_S, {"waiting_for": f"{', '.join(left)} to be closed"}) if left else Done({"closed": before})


class ReserveNodesParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``nodes.reserve`` and ``nodes.unreserve``: what is kept, at which site. Jobs ask for it by its name, in the scheduler's options."""

    site: SiteId
    reservation: Reservation


class ReserveNodes:
    """Keep nodes for the jobs that will be moved or recovered there, so that nobody else's begin meanwhile. Undo removes it."""

    name = "nodes.reserve"
    params_type = ReserveNodesParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: ReserveNodesParams, call: Call) -> Outcome:
        """Record whether it is there already."""
        return Done({"there_before": self._ports.admission(params.site).reservation(params.reservation.name) is not None})

    def apply(self, params: ReserveNodesParams, call: Call) -> Outcome:
        """Make it."""
        self._ports.admission(params.site).reserve(params.reservation, stamp=call.stamp)
        return Done()

    def verify(self, params: ReserveNodesParams, call: Call) -> Outcome:
        """It is there, of these nodes."""
        return reserved(self._ports, params)

    def undo(self, params: ReserveNodesParams, call: Call) -> Outcome:
        """What this step made is gone; while a job runs in it, that is tried again."""
        if call.recorded["there_before"]:
            return Done({"removed": False})
        return unreserved(self._ports, params, call)


class UnreserveNodes:
    """Give reserved nodes back. Undo reserves them again."""

    name = "nodes.unreserve"
    params_type = ReserveNodesParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: ReserveNodesParams, call: Call) -> Outcome:
        """Record whether it is there."""
        return Done({"there_before": self._ports.admission(params.site).reservation(params.reservation.name) is not None})

    def apply(self, params: ReserveNodesParams, call: Call) -> Outcome:
        """Remove it, once no job runs in it."""
        self._ports.admission(params.site).unreserve(params.reservation.name, stamp=call.stamp)
        return Done()

    def verify(self, params: ReserveNodesParams, call: Call) -> Outcome:
        """It is gone."""
        if self._ports.admission(params.site).reservation(params.reservation.name) is not None:
            return Failed(f"reservation {params.reservation.name} at {params.site} is there again", "See who makes it.")
        return Done()

    def undo(self, params: ReserveNodesParams, call: Call) -> Outcome:
        """It is there again, if it was."""
        if not call.recorded["there_before"]:
            return Done({"reserved": False})
        self._ports.admission(params.site).reserve(params.reservation, stamp=call.stamp)
        return reserved(self._ports, params)


def opened(ports: Switchboard, site: SiteId, nodes: Sequence[NodeId], call: Call) -> Outcome:
    """Take back what a drain closed, and see that none of it is left."""
    if not nodes:
        return Done({"opened": []})
    admission = ports.admission(site)
    admission.resume(nodes, stamp=call.stamp)
    left = [view.name for view in admission.nodes(nodes) if view.drained_here]
    return Pending(POLL_S, {"waiting_for": f"{', '.join(left)} to be opened"}) if left else Done({"opened": list(nodes)})


def reserved(ports: Switchboard, params: ReserveNodesParams) -> Outcome:
    """Done when the reservation is seen to hold these nodes."""
    wanted, found = params.reservation, ports.admission(params.site).reservation(params.reservation.name)
    if found is None or set(found.nodes) != set(wanted.nodes):
        return Failed(f"reservation {wanted.name} at {params.site} does not hold its nodes", "See who changes reservations there.")
    return Done({"nodes": list(found.nodes), "users": list(found.users)})


def unreserved(ports: Switchboard, params: ReserveNodesParams, call: Call) -> Outcome:
    """Remove the reservation and see it gone."""
    admission = ports.admission(params.site)
    admission.unreserve(params.reservation.name, stamp=call.stamp)
    if admission.reservation(params.reservation.name) is not None:
        return Pending(POLL_S, {"waiting_for": f"reservation {params.reservation.name} to go"})
    return Done({"removed": True})


def _closed_by_others(site: SiteId, views: Sequence[NodeView]) -> Failed | None:
    others = [f"{view.name}: {view.reason}" for view in views if not view.open and not view.drained_here and view.reason]
    if not others:
        return None
    return Failed(f"somebody closed nodes at {site} ({'; '.join(others)})", "Have them looked at and opened by hand, or leave them out.")
