"""Placement search: a rack, and a circuit for each supply, for nodes that come (M5.3). Pure, the same answer every time.

First greedily: each supply goes to the fullest circuit of the rack that still carries it after every single loss. Where that finds no
place, every way is tried, up to a number. What comes out is only a proposal: the checks judge the site with it like any other.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from bridgehead.assess.loads import load_of
from bridgehead.assess.placement_room import Room
from bridgehead.model.equipment import Node, NodeId, Rack
from bridgehead.model.fabric import RackId
from bridgehead.model.power import Circuit, CircuitId

_STEPS: Final = 30_000
_LEAVES: Final = 60
_NODES: Final = 32
_CIRCUITS: Final = 256
"""How much is tried: sets of circuits for one node, whole proposals that the checks judge; and in which halls at all."""


def alike(node: Node) -> bytes:
    """Nodes with the same of this can stand in for each other."""
    return msgspec.json.encode(msgspec.structs.replace(node, id=NodeId(""), rack=None, position=None, circuits=(), firmware={}, nics=()))


def _ordered(nodes: Sequence[Node]) -> list[Node]:
    """Largest first, nodes that are alike together."""
    return sorted(nodes, key=lambda node: (-load_of(node).known_w, -(node.units or 0), alike(node), node.id))


def _placed(node: Node, rack: Rack, counts: Counter[CircuitId]) -> Node:
    return msgspec.structs.replace(node, rack=rack.id, position=None, circuits=tuple(sorted(counts.elements())))


class Greedy:
    """Places nodes one after the other, and never moves one again."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._racks = sorted(room.flow.site.racks, key=lambda rack: rack.id)
        self._failed: set[tuple[bytes, RackId]] = set()

    def place(self, nodes: Sequence[Node]) -> list[Node] | None:
        """All of them with rack and circuits; None when one finds no place."""
        found = []
        for node in _ordered(nodes):
            placed = self._somewhere(node)
            if placed is None:
                return None
            found.append(placed)
        return found

    def _somewhere(self, node: Node) -> Node | None:
        kind = alike(node)
        for rack in self._racks:
            # What did not fit will not fit later either, since a rack only fills up.
            if (kind, rack.id) in self._failed:
                continue
            counts = self._cords(node, rack) if self._room.holds(node, rack) else None
            if counts is not None:
                self._room.take(node, rack, counts)
                return _placed(node, rack, counts)
            self._failed.add((kind, rack.id))
        return None

    def _cords(self, node: Node, rack: Rack) -> Counter[CircuitId] | None:
        """Supplies on each circuit; None when there is no circuit that works."""
        room = self._room
        circuits = sorted(name for name in set(rack.circuits) if room.limits.get(name, 0.0) > 0)
        cords: list[CircuitId] = []
        for _ in range(node.supplies or 0):
            works = [name for name in circuits if room.works(node, Counter([*cords, name]))]
            if not works:
                return None
            cords.append(min(works, key=lambda name: (room.spare(name) - cords.count(name) * 1e-9, name)))
        counts = Counter(cords)
        return counts if cords and room.carries(node, counts) else None


class Exhausted(Exception):
    """It was tried as much as may be; nothing is proved."""


class EveryWay:
    """Tries every way to place nodes, but for what is the same under another name.

    Args:
        room: the room at the beginning.
        accepts: whether the checks accept a proposal; None when they cannot tell.
    """

    def __init__(self, room: Room, accepts: Callable[[Sequence[Node]], bool | None]) -> None:
        self._begin = room
        self._accepts = accepts
        self._racks = sorted(room.flow.site.racks, key=lambda rack: rack.id)
        reach: defaultdict[CircuitId, int] = defaultdict(int)
        for rack in self._racks:
            for name in set(rack.circuits):
                reach[name] += 1
        self._own = {name for name, count in reach.items() if count == 1}
        self._steps = 0
        self._leaves = 0

    def place(self, nodes: Sequence[Node]) -> list[Node] | None:
        """All of them with rack and circuits; None when there is no way. Raises Exhausted when there are too many to try."""
        if len(nodes) > _NODES or len(self._begin.limits) > _CIRCUITS:
            raise Exhausted
        return self._rest(_ordered(nodes), self._begin, [], 0)

    def _rest(self, nodes: list[Node], room: Room, done: list[Node], first: int) -> list[Node] | None:
        if not nodes:
            return self._leaf(done)
        node, *rest = nodes
        seen: set[object] = set()
        for number in range(first, len(self._racks)):
            rack = self._racks[number]
            same = self._same(room, rack)
            if (same is not None and same in seen) or not room.holds(node, rack):
                continue
            seen.add(same)
            # Of nodes that are alike, a later one never stands before an earlier one.
            after = number if rest and alike(rest[0]) == alike(node) else 0
            for counts in self._cords(room, node, rack):
                then = room.copy()
                then.take(node, rack, counts)
                found = self._rest(rest, then, [*done, _placed(node, rack, counts)], after)
                if found is not None:
                    return found
        return None

    def _leaf(self, done: list[Node]) -> list[Node] | None:
        self._leaves += 1
        accepted = self._accepts(done) if self._leaves <= _LEAVES else None
        if accepted is None:
            raise Exhausted
        return done if accepted else None

    def _same(self, room: Room, rack: Rack) -> object:
        """Empty racks with the same of this can stand in for each other; None for one that is like no other."""
        if any(name not in self._own or not room.untouched(name) for name in rack.circuits):
            return None
        circuits = sorted(repr(_same_circuit(room, name)) for name in set(rack.circuits))
        return (room.left_in(rack), tuple(sorted(set(rack.loops))), tuple(circuits))

    def _cords(self, room: Room, node: Node, rack: Rack) -> Iterator[Counter[CircuitId]]:
        """Every way to spread the supplies of a node over the circuits of a rack."""
        circuits = sorted(name for name in set(rack.circuits) if room.limits.get(name, 0.0) > 0)
        same = {name: repr(_same_circuit(room, name)) for name in circuits if name in self._own and room.untouched(name)}
        yield from self._spread(room, node, circuits, {}, same)

    def _spread(
        self, room: Room, node: Node, circuits: list[CircuitId], taken: dict[CircuitId, int], same: Mapping[CircuitId, str]
    ) -> Iterator[Counter[CircuitId]]:
        left = (node.supplies or 0) - sum(taken.values())
        if not left:
            yield Counter({name: count for name, count in taken.items() if count})
            return
        if not circuits:
            return
        name, *others = circuits
        # Of circuits that are alike, a later one never gets more than an earlier one.
        most = min([left, *(count for earlier, count in taken.items() if name in same and same.get(earlier) == same[name])])
        for count in range(most, -1, -1):
            self._steps += 1
            if self._steps > _STEPS:
                raise Exhausted
            then = {**taken, name: count}
            if not count or room.works(node, {one: supplies for one, supplies in then.items() if supplies}):
                yield from self._spread(room, node, others, then, same)


def _same_circuit(room: Room, name: CircuitId) -> Circuit:
    return msgspec.structs.replace(room.flow.tree.circuits[name], id=CircuitId(""))
