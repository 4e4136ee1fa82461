"""Names of a draft: which host of which site an address or a name means, as captures prove it. Pure.

Attributes that are read: of ``node:*`` ``internal-address`` and ``scheduler-address``; of ``node:*/nic:*`` and ``node:*/interface:*``
``ip-addresses``; of ``node:*/path-to:*`` and ``node:*/path-from:*`` ``local-address``, and ``remote-address`` where the other end has a
name.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from bridgehead.discovery.captures import same_host
from bridgehead.discovery.draft_notes import Part, known, word
from bridgehead.discovery.knowledge import Knowledge
from bridgehead.kernel.ids import SiteId
from bridgehead.model.equipment import NodeId

_ADDRESS: Final = re.compile(r"[\d.]{7,15}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.%\w]*", re.ASCII)


class Place(msgspec.Struct, frozen=True, order=True):
    """A node of a site."""

    site: SiteId
    node: NodeId


def is_address(name: str) -> bool:
    """Whether it is a number of a network, and no name of a host."""
    return _ADDRESS.fullmatch(name) is not None


def path_of(subject: str) -> tuple[str, str, str] | None:
    """Host, ``to`` or ``from``, and other end of a path that was tested; None for what is none."""
    outer, _, inner = subject.partition("/")
    kind, _, other = inner.partition(":")
    return (outer.removeprefix("node:"), kind.removeprefix("path-"), other) if kind in ("path-to", "path-from") and other else None


class Names:
    """All hosts of all sites."""

    def __init__(self, nodes: Iterable[Place], told: Mapping[SiteId, Knowledge]) -> None:
        self._by_label: defaultdict[str, set[Place]] = defaultdict(set)
        for place in nodes:
            self._by_label[_label(place.node)].add(place)
        self._by_address: defaultdict[str, set[Place]] = defaultdict(set)
        for site in sorted(told):
            for subject, part in told[site].items():
                if subject.startswith("node:"):
                    self._learn(site, subject, part)

    def _learn(self, site: SiteId, subject: str, part: Part) -> None:
        host = subject.partition("/")[0].removeprefix("node:")
        texts = [word(part, name) for name in ("internal-address", "scheduler-address", "local-address")]
        listed = known(part, "ip-addresses")
        texts += listed if isinstance(listed, tuple) else []
        for address in texts:
            if is_address(address) and (place := self.place(host, at=site)) is not None:
                self._by_address[address].add(place)
        path = path_of(subject)
        address = word(part, "remote-address")
        if path is not None and is_address(address) and not is_address(path[2]) and len(found := self._called(path[2])) == 1:
            self._by_address[address] |= found

    def place(self, name: str, *, at: SiteId) -> Place | None:
        """The one host that a name or an address means; a host of the same site comes before others of its name. None where several are."""
        found = self._by_address.get(name, set()) if is_address(name) else self._called(name)
        near = {place for place in found if place.site == at}
        chosen = near or found
        return next(iter(chosen)) if len(chosen) == 1 else None

    def hosts_of(self, site: SiteId) -> set[NodeId]:
        """All hosts of a site, those too that are no nodes since too little is known of them."""
        return {place.node for places in self._by_label.values() for place in places if place.site == site}

    def _called(self, name: str) -> set[Place]:
        return {place for place in self._by_label.get(_label(name), ()) if same_host(place.node, name)}


def _label(name: str) -> str:
    return name.lower().partition(".")[0]
