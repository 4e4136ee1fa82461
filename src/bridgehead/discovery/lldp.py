"""Neighbours that LLDP tells of: what lldpctl says in JSON and in XML, in one form (M2, M3; case D18). Pure.

A neighbour is known by its name. Its chassis address is no key: one chassis can show another address on each port.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from bridgehead.discovery.parsing import Statements, Yield
from bridgehead.discovery.tables import path_part

_SWITCH: Final = frozenset({"bridge", "router", "repeater"})
_NAMES: Final = frozenset({"ifname", "ifalias", "local", "component"})
"""Kinds of port ids that are names for people; the others are addresses."""


class Neighbor(msgspec.Struct):
    """What one neighbour says through one interface.

    Attributes:
        interface: of this host.
        line: where the interface begins.
        name: of the neighbour's system; empty where it gives none.
        chassis: kind and value of its chassis id.
        description: of its system.
        addresses: for its management.
        capabilities: those that are switched on, in lower case.
        port: kind and value of its port's id.
        port_description: of its port.
        frame: largest frame of its port, as printed.
        via: protocol.
    """

    interface: str
    line: int
    name: str = ""
    chassis: tuple[str, str] = ("", "")
    description: str = ""
    addresses: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    port: tuple[str, str] = ("", "")
    port_description: str = ""
    frame: str = ""
    via: str = ""

    @property
    def port_name(self) -> str:
        """The port as people call it."""
        kind, value = self.port
        return value if kind in _NAMES or not self.port_description else self.port_description

    @property
    def subject(self) -> str:
        """Subject of the neighbour's port."""
        who, port = (path_part(self.name or self.chassis[1]), path_part(self.port_name))
        switch = not self.capabilities or not _SWITCH.isdisjoint(self.capabilities)
        return f"switch:{who}/port:{port}" if switch else f"node:{who}/nic:{port}"


def state_neighbors(say: Statements, neighbors: Iterable[Neighbor]) -> None:
    """State each neighbour once; several different ones on an interface are a conflict."""
    by_interface: defaultdict[str, dict[tuple[str, str, str], Neighbor]] = defaultdict(dict)
    for one in neighbors:
        if not one.name and not one.chassis[1]:
            say.skip(one.line, f"a neighbour of {one.interface} without a name or an id")
            continue
        by_interface[one.interface].setdefault((one.name, one.chassis[1], one.port[1]), one)
    sharing = Counter(one.subject for found in by_interface.values() for one in found.values())
    for interface, found in by_interface.items():
        subject = f"{say.node}/nic:{path_part(interface)}"
        several = f"{interface} has {len(found)} neighbours" if len(found) > 1 else ""
        for one in found.values():
            shared = f"{sharing[one.subject]} interfaces of this host name this one port" if sharing[one.subject] > 1 else ""
            _state(say, subject, one, several, shared)


def _state(say: Statements, subject: str, one: Neighbor, several: str, shared: str) -> None:
    texts = (
        ("neighbor", one.name),
        ("neighbor-port", one.port_name),
        ("neighbor-port-description", one.port_description),
        ("neighbor-chassis-id", one.chassis[1]),
        ("neighbor-description", " ".join(one.description.split())),
        ("peer", one.subject if one.port[1] else ""),
    )
    for attribute, text in texts:
        if text and several:
            say.conflict(subject, attribute, text, line=one.line, note=several)
        elif text:
            say.known(subject, attribute, text, line=one.line, note=shared if attribute == "peer" else "")
        elif attribute in ("neighbor", "neighbor-port"):
            say.unknown(subject, attribute, line=one.line, note="the neighbour does not say it")
    if several:
        return
    for attribute, words in (("neighbor-addresses", one.addresses), ("neighbor-capabilities", one.capabilities)):
        if words:
            say.known(subject, attribute, words, line=one.line)
    if one.frame:
        say.number(subject, "neighbor-frame-size", one.frame, line=one.line, unit="B")


NEIGHBOR_YIELDS: Final = tuple(
    Yield("node:*/nic:*", *what)
    for what in (
        ("neighbor", "", "name of the switch or host at the other end; a conflict where there are several"),
        ("neighbor-port", "", "name of its port"),
        ("neighbor-port-description", "", "what it says of its port"),
        ("neighbor-chassis-id", "", "id of its chassis, which can be another one on each port"),
        ("neighbor-description", "", "what it says of itself: maker, system, version"),
        ("neighbor-addresses", "", "addresses for its management"),
        ("neighbor-capabilities", "", "what it is: bridge, router, station ..."),
        ("neighbor-frame-size", "B", "largest frame of its port"),
        ("peer", "", "subject of the port at the other end, as this end says"),
    )
)
"""What ``state_neighbors`` may say."""
