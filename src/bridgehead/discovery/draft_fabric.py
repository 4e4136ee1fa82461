"""Fabric of a draft: switches with their places in the tree, and what each adapter hangs on, as scans prove it (M2, M3). Pure.

Attributes that are read, of parsers whatever their tool:

- ``switch:*``: ``name``, ``model``, ``port-count``; ``switch:*/port:*``: ``peer`` (the port at the other end), ``rate`` (bit/s)
- ``adapter:*``: ``role`` (``aggregation-node`` is no host); ``adapter:*/port:*``: ``peer``, ``port-guid``
- ``node:*/nic:*``: ``guid``, ``port-guid``; ``node:*/gpu:*``: ``link-to:nic:*`` (``PIX``, ``PXB`` ...)

A switch that adapters hang on is a leaf, one beside a leaf a spine, any other a core. Where a scan names no end, nothing is guessed.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from bridgehead.discovery.draft_notes import Part, number, whole, word
from bridgehead.discovery.knowledge import BESIDE, Knowledge
from bridgehead.discovery.merge import natural
from bridgehead.kernel.shape import ID_PATTERN
from bridgehead.model.fabric import FabricId, Switch, SwitchId, SwitchRole, Uplink

_ID: Final = re.compile(ID_PATTERN)
_NEAR: Final = ("PIX", "PXB")
"""How an adapter and a GPU that are made for each other are joined, the closest first."""
_AGGREGATION: Final = "aggregation-node"


class Cabling(msgspec.Struct, frozen=True):
    """Switches, sorted; and the switch of each adapter, by the GUID of the adapter or of its port."""

    switches: tuple[Switch, ...]
    leaf_of: Mapping[str, SwitchId]


class _Found:
    """One switch: its facts, how many adapters hang on it, and its cables to other switches with their rates."""

    def __init__(self) -> None:
        self.part: Part = {}
        self.adapters: list[str] = []
        self.cables: defaultdict[str, list[float]] = defaultdict(list)
        self.taken_ports = 0
        self.rates: Counter[float] = Counter()


def cabling(told: Knowledge, fabric: FabricId) -> Cabling:
    """The switches of one place. The order of facts changes nothing."""
    found: defaultdict[str, _Found] = defaultdict(_Found)
    aggregation = {subject for subject, part in told.items() if word(part, "role") == _AGGREGATION}
    ends: dict[str, str] = {}
    for subject, part in told.items():
        outer, _, port = subject.partition("/")
        if outer.startswith("switch:"):
            if not port:
                found[outer].part = part
            elif peer := word(part, "peer"):
                _note_port(found[outer], peer.partition("/")[0], part, aggregation)
        elif outer.startswith("adapter:") and port and outer not in aggregation:
            peer = word(part, "peer").partition("/")[0]
            if peer.startswith("switch:"):
                ends[outer.removeprefix("adapter:")] = peer
                ends[word(part, "port-guid")] = peer
    _mirror(found)
    names = _names(found)
    levels = _levels(found)
    switches = [_switch(key, found, names, levels, fabric) for key in found]
    leaf_of = {guid: names[peer] for guid, peer in ends.items() if guid and peer in names}
    return Cabling(tuple(sorted(switches, key=lambda one: (natural(one.id), one.id))), leaf_of)


def _note_port(switch: _Found, peer: str, part: Part, aggregation: set[str]) -> None:
    rate = float(number(part, "rate") or 0)
    if peer in aggregation:
        switch.taken_ports += 1
    elif peer.startswith("switch:"):
        switch.cables[peer].append(rate)
        switch.rates[rate] += 1
    else:
        switch.adapters.append(peer)
        switch.rates[rate] += 1


def _mirror(found: defaultdict[str, _Found]) -> None:
    """A cable that one end alone describes is there at both; one that both describe is one cable (F04)."""
    for key in list(found):
        for peer, rates in list(found[key].cables.items()):
            back = found[peer].cables[key]
            longer = rates if len(rates) >= len(back) else back
            found[key].cables[peer] = found[peer].cables[key] = sorted(longer)


def _names(found: Mapping[str, _Found]) -> dict[str, SwitchId]:
    """Names that people know where they are unique, else the GUID."""
    said = {key: word(one.part, "name") for key, one in found.items()}
    often = Counter(said.values())
    return {key: SwitchId(name if often[name] == 1 and _ID.fullmatch(name) else key.removeprefix("switch:")) for key, name in said.items()}


def _levels(found: Mapping[str, _Found]) -> dict[str, int]:
    levels = {key: 0 for key, one in found.items() if one.adapters}
    beside = {peer for key in levels for peer in found[key].cables}
    levels |= {key: 1 for key in beside if key not in levels}
    return levels | {key: 2 for key in found if key not in levels}


def _switch(key: str, found: Mapping[str, _Found], names: Mapping[str, SwitchId], levels: Mapping[str, int], fabric: FabricId) -> Switch:
    one = found[key]
    ports = whole(one.part, "port-count")
    up = sorted((names[peer], rates) for peer, rates in one.cables.items() if levels[peer] > levels[key])
    rate = max(one.rates, key=lambda rate: (one.rates[rate], rate), default=0.0)
    return Switch(
        id=names[key],
        fabric=fabric,
        role=(SwitchRole.LEAF, SwitchRole.SPINE, SwitchRole.CORE)[levels[key]],
        model=word(one.part, "model"),
        ports=None if ports is None or ports <= one.taken_ports else ports - one.taken_ports,
        port_rate_bps=rate or None,
        uplinks=tuple(Uplink(id=name, count=len(rates), rate_bps=min(rates)) for name, rates in up if min(rates) > 0),
    )


def rails(cards: Mapping[str, Part]) -> dict[str, int]:
    """The GPU beside each adapter, by the adapter's name. ``cards``: what is told of each GPU, by its index.

    Where several adapters share several GPUs, each has one of them, in order; where their numbers differ, nobody can tell.
    """
    near: defaultdict[str, dict[int, int]] = defaultdict(dict)
    for index, part in cards.items():
        if index.isascii() and index.isdigit():
            for attribute in part:
                if attribute.startswith(BESIDE) and word(part, attribute) in _NEAR:
                    near[attribute.removeprefix(BESIDE)][int(index)] = _NEAR.index(word(part, attribute))
    shared: defaultdict[tuple[int, ...], list[str]] = defaultdict(list)
    for nic, distances in near.items():
        shared[_closest(distances)].append(nic)
    return {
        nic: gpu
        for gpus, nics in shared.items()
        if len(gpus) == len(nics)
        for nic, gpu in zip(sorted(nics, key=lambda nic: (natural(nic), nic)), gpus, strict=True)
    }


def _closest(distances: Mapping[int, int]) -> tuple[int, ...]:
    least = min(distances.values())
    return tuple(sorted(gpu for gpu, distance in distances.items() if distance == least))


def leaf_of(nic: Part, ends: Mapping[str, SwitchId]) -> SwitchId | None:
    """The switch that an adapter hangs on; None where no scan says."""
    guids: Iterable[str] = (word(nic, "port-guid"), word(nic, "guid"))
    return next((ends[guid] for guid in guids if guid in ends), None)
