"""NetQ topology graph: switches by tier, hosts, and the links between their interfaces (M3)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from bridgehead.discovery.jsontext import Unreadable, decode, lines_of
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.tables import path_part

_HEAD: Final = re.compile(rb'"(?:compounded_links|compounded_nodes)"\s*:\s*\[')
_SWITCHES: Final = frozenset({"switch", "leaf", "spine", "exit", "superspine", "tor"})


def recognises(head: bytes) -> bool:
    """Names that no other tool uses."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All devices and links; each link stands at both of its ports."""
    say = Statements("netq-topology", capture)
    document = decode(capture)
    if isinstance(document, Unreadable):
        say.skip(document.line, document.reason)
        return say.done()
    graphs = [one for one in _list(document) if isinstance(one, dict)]
    devices = _Devices(say)
    places = lines_of(capture, "nodes", "device_type")
    for graph in graphs:
        for tier in _list(graph.get("nodes")):
            for node in _list(tier.get("compounded_nodes")) if isinstance(tier, dict) else []:
                if isinstance(node, dict):
                    devices.add(node, next(places, 1) if "device_type" in node else 1)
    places = lines_of(capture, "compounded_links", "interface")
    for graph in graphs:
        for bundle in _list(graph.get("links")):
            if isinstance(bundle, dict) and "compounded_links" in bundle:
                _state_bundle(say, devices, bundle, places)
    return say.done()


class _Devices:
    """Subjects of devices by NetQ's ids: names can repeat, and links use the ids."""

    def __init__(self, say: Statements) -> None:
        self._say = say
        self._subjects: dict[str, str] = {}
        self._owners: dict[str, str] = {}

    def add(self, node: dict[str, Any], line: int) -> None:
        """State a device."""
        own, name, kind = node.get("id"), node.get("name"), node.get("device_type")
        if not isinstance(own, str) or not isinstance(name, str) or not name.strip():
            self._say.skip(line, "a device without an id or a name")
            return
        switch = isinstance(kind, str) and kind.lower() in _SWITCHES
        subject = f"{'switch' if switch else 'node'}:{path_part(name)}"
        if self._owners.setdefault(subject, own) != own:
            self._say.skip(line, f"two devices are called {name[:80]!r}: the second one is named by its id, {own[:80]!r}")
            subject = f"{subject}#{path_part(own)}"
        self._subjects[own] = subject
        if isinstance(kind, str) and kind:
            self._say.known(subject, "netq-device-type", kind, line=line)
        tier = node.get("tier")
        if isinstance(tier, int) and not isinstance(tier, bool) and switch:
            if tier > 0:
                self._say.known(subject, "tier", tier, line=line)
            else:
                self._say.unknown(subject, "tier", line=line, note=f"NetQ prints {tier}: it did not find one")

    def port(self, end: object) -> str | None:
        """Subject of a port; None for what does not say which."""
        device = end.get("node") if isinstance(end, dict) else None
        name = end.get("interface") if isinstance(end, dict) else None
        if not isinstance(device, str) or not isinstance(name, str) or not name.strip():
            return None
        subject = self._subjects.get(device, f"node:{path_part(device)}")
        return f"{subject}/{'port' if subject.startswith('switch') else 'nic'}:{path_part(name)}"


def _state_bundle(say: Statements, devices: _Devices, bundle: dict[str, Any], places: Iterator[int]) -> None:
    links = [one for one in _list(bundle.get("compounded_links")) if isinstance(one, dict)]
    told = bundle.get("size")
    if isinstance(told, int) and told != len(links):
        say.skip(1, f"the bundle {str(bundle.get('id'))[:80]!r} says that it has {told} links and lists {len(links)}")
    line = 1
    for link in links:
        ends: list[tuple[str, int]] = []
        for end in _list(link.get("interfaces")):
            if isinstance(end, dict) and "interface" in end:
                line = next(places, line)
            if (port := devices.port(end)) is not None:
                ends.append((port, line))
        if len(ends) != 2:
            say.skip(line, f"a link that does not name two ports: {str(link.get('id'))[:80]!r}")
            continue
        (one, one_line), (other, other_line) = ends
        say.known(one, "peer", other, line=one_line)
        say.known(other, "peer", one, line=other_line)


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


PARSER = Parser(
    tool="netq-topology",
    command="NetQ API: topology graph",
    recognises=recognises,
    marks=(b'"compounded_links"', b'"compounded_nodes"'),
    parse=parse,
    yields=(
        *(
            Yield(f"{kind}:*", "netq-device-type", "", "switch, host, or discovered_via_lldp: seen by a neighbour only")
            for kind in ("switch", "node")
        ),
        Yield("switch:*", "tier", "", "1 for leaves, 2 for spines"),
        Yield("switch:*/port:*", "peer", "", "subject of the port at the other end"),
        Yield("node:*/nic:*", "peer", "", "subject of the port at the other end"),
    ),
)
