"""Cords: which circuit each power supply of a node hangs on, and how well that is known (rules section 2). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from bridgehead.assess import asking
from bridgehead.model.equipment import Node, Rack
from bridgehead.model.fabric import RackId
from bridgehead.model.power import Circuit, CircuitId


class Cords(msgspec.Struct, frozen=True):
    """The supplies of one node on its circuits.

    Attributes:
        count: supplies on each circuit that it may use, sorted by id. Of a node whose number of supplies is unknown: 1 for each of these.
        supplies: how many there are; None while unknown.
        lacks: what to ask before this can be relied on; empty when it was traced.
    """

    count: dict[CircuitId, int]
    supplies: int | None
    lacks: str = ""


def cords_of(node: Node, *, racks: Mapping[RackId, Rack], circuits: Mapping[CircuitId, Circuit]) -> Cords:
    """The circuits of a node's supplies.

    Without ``circuits`` of the node, or with another number of them than it has supplies, they are dealt over what there is in turn. That
    is a guess, and says so. A node that hangs on nothing at all has an empty count.
    """
    named = [circuit for circuit in node.circuits if circuit in circuits]
    rack = racks.get(node.rack) if node.rack is not None else None
    over = named or ([circuit for circuit in rack.circuits if circuit in circuits] if rack is not None else [])
    if not over:
        return Cords({}, node.supplies, asking.CORDS)
    if node.supplies is None:
        return Cords(dict.fromkeys(sorted(over), 1), None, asking.SUPPLIES)
    if named and len(named) == len(node.circuits) == node.supplies:
        return Cords(_counted(named), node.supplies)
    # Where they are dealt by a guess, a circuit that gets none may still carry the node: it stands there with 0.
    dealt = dict.fromkeys(over, 0) | _counted([over[number % len(over)] for number in range(node.supplies)])
    return Cords(dict(sorted(dealt.items())), node.supplies, asking.CORDS)


def _counted(circuits: list[CircuitId]) -> dict[CircuitId, int]:
    return dict(sorted(Counter(circuits).items()))
