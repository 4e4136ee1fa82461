"""Fabric load: what hangs on which leaf, and what leaves its racks; computed once for all fabrics of one purpose at a site (M3). Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bridgehead.model.equipment import Node
from bridgehead.model.estate import Site
from bridgehead.model.fabric import Fabric, FabricPurpose, Nic, Switch, SwitchRole


class Leaf(msgspec.Struct, frozen=True):
    """Speeds of one leaf; ``down_bps`` is None when it cannot be known."""

    switch: Switch
    down_bps: float | None
    up_bps: float


class FabricLoad:
    """All fabrics of one purpose at a site.

    Attributes:
        site: the site.
        fabrics: of one purpose.
        design: nodes are still to come, so each free port may be taken (M5.3).
    """

    def __init__(self, site: Site, fabrics: Iterable[Fabric], *, design: bool) -> None:
        self.site = site
        self.fabrics = tuple(fabrics)
        self.design = design
        ids = {fabric.id for fabric in self.fabrics}
        self.switches: dict[str, Switch] = {switch.id: switch for switch in site.switches if switch.fabric in ids}
        self._ids = ids

    @cached_property
    def cabled(self) -> tuple[tuple[Node, tuple[Nic, ...]], ...]:
        """Nodes with an adapter in these fabrics, and these adapters; for compute also nodes with GPUs and no such adapter (F02)."""
        compute = any(fabric.purpose is FabricPurpose.COMPUTE for fabric in self.fabrics)
        found = ((node, tuple(nic for nic in node.nics if nic.fabric in self._ids)) for node in self.site.nodes)
        return tuple((node, nics) for node, nics in found if nics or (compute and node.gpus))

    @cached_property
    def without_topology(self) -> tuple[str, ...]:
        """Names of nodes that no leaf is known for; they never pass a check of the fabric (F02)."""
        known = {name for name, switch in self.switches.items() if switch.role is SwitchRole.LEAF}
        return tuple(sorted(node.id for node, nics in self.cabled if not nics or any(nic.switch not in known for nic in nics)))

    @cached_property
    def without_uplinks(self) -> tuple[str, ...]:
        """Names of leaves whose cables upwards nobody gave; the only leaf of a plane needs none."""
        alone = Counter((leaf.switch.fabric, leaf.switch.plane) for leaf in self.leaves)
        return tuple(
            leaf.switch.id
            for leaf in self.leaves
            if not leaf.switch.uplinks
            and len(self.leaves) > 1
            and (leaf.switch.plane is None or alone[leaf.switch.fabric, leaf.switch.plane] > 1)
        )

    @cached_property
    def leaves(self) -> tuple[Leaf, ...]:
        """All leaves, by name. Aggregation nodes are no adapters of nodes, so their ports do not count (F03)."""
        down: defaultdict[str, float] = defaultdict(float)
        for _, nics in self.cabled:
            for nic in nics:
                if nic.switch is not None:
                    down[nic.switch] += nic.rate_bps
        leaves = sorted((one for one in self.switches.values() if one.role is SwitchRole.LEAF), key=lambda one: one.id)
        return tuple(Leaf(leaf, self._down(leaf, down[leaf.id]), self._up(leaf)) for leaf in leaves)

    def _up(self, leaf: Switch) -> float:
        return sum(uplink.count * uplink.rate_bps for uplink in leaf.uplinks)

    def _down(self, leaf: Switch, cabled_bps: float) -> float | None:
        if not self.design:
            return cabled_bps
        if leaf.ports is None or leaf.port_rate_bps is None:
            return None
        free = leaf.ports - sum(uplink.count for uplink in leaf.uplinks)
        return max(cabled_bps, free * leaf.port_rate_bps)

    @cached_property
    def part_of(self) -> dict[str, str]:
        """The connected part of each switch, named by its first switch; without cables between them two parts cannot talk."""
        parent = {name: name for name in self.switches}

        def root(name: str) -> str:
            while parent[name] != name:
                parent[name] = parent[parent[name]]
                name = parent[name]
            return name

        for switch in self.switches.values():
            for uplink in switch.uplinks:
                if uplink.id in parent:
                    low, high = sorted((root(switch.id), root(uplink.id)))
                    parent[high] = low
        return {name: root(name) for name in self.switches}

    def rack_to_rack_bps_per_gpu(self) -> float | None:
        """Least bandwidth between any two racks, per GPU of the smaller one; None with fewer than two racks that hold GPUs.

        The cut of a rack is, leaf by leaf, the smaller of its adapters and of what the leaf carries upwards; the cut of a pair is, part by
        part, the smaller of both. Racks on the same leaves talk through them directly. A lower bound where racks share some leaves only.
        """
        racks = self._racks()
        if len(racks) < 2:
            return None
        up: dict[str, float] = {leaf.switch.id: leaf.up_bps for leaf in self.leaves}
        parts = sorted(set(self.part_of.values()))
        groups: defaultdict[frozenset[str], list[tuple[int, dict[str, float]]]] = defaultdict(list)
        for gpus, rates in racks:
            groups[frozenset(rates)].append((gpus, rates))
        least = np.inf
        rows: set[tuple[int, int, tuple[float, ...]]] = set()
        for number, members in enumerate(sorted(groups.values(), key=lambda group: sorted(group[0][1]))):
            if len(members) > 1:
                least = min(least, *(sum(rates.values()) / gpus for gpus, rates in members))
            for gpus, rates in members:
                cut = dict.fromkeys(parts, 0.0)
                for leaf, rate in rates.items():
                    cut[self.part_of[leaf]] += min(rate, up.get(leaf, 0.0))
                rows.add((number, gpus, tuple(cut[part] for part in parts)))
        return float(min(least, _least_pair(sorted(rows))))

    def _racks(self) -> list[tuple[int, dict[str, float]]]:
        """Of each rack with GPUs: how many, and the rate of its adapters by leaf."""
        gpus: defaultdict[str, int] = defaultdict(int)
        rates: defaultdict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
        for node, nics in self.cabled:
            if node.rack is None or not node.gpus:
                continue
            gpus[node.rack] += node.gpus
            for nic in nics:
                if nic.switch in self.switches:
                    rates[node.rack][str(nic.switch)] += nic.rate_bps
        return [(gpus[rack], dict(rates[rack])) for rack in sorted(gpus)]


def _least_pair(rows: list[tuple[int, int, tuple[float, ...]]]) -> float:
    """The least over pairs of different groups of: sum of the smaller cuts by part, per GPU of the smaller rack."""
    group = np.array([row[0] for row in rows])
    gpus: NDArray[Any] = np.array([row[1] for row in rows], dtype=float)
    cuts = np.array([row[2] for row in rows], dtype=float)
    least = np.inf
    for number in range(len(rows)):
        other = group != group[number]
        if other.any():
            both = np.minimum(cuts[other], cuts[number]).sum(axis=1) / np.minimum(gpus[other], gpus[number])
            least = min(least, float(both.min()))
    return least
