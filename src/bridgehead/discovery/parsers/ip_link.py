"""``ip -d -j link`` (and ``ip -j addr``): interfaces of a host, with MTU, link layer and VXLAN (M2, M8.1).

Hardware is ``node:HOST/nic:NAME``; bonds, bridges, VLANs and VXLANs are ``node:HOST/interface:NAME``.
"""

from __future__ import annotations

import re
from typing import Any, Final

from bridgehead.discovery.jsontext import Unreadable, decode, lines_of
from bridgehead.discovery.nvidia import bus_id
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.tables import path_part

_HEAD: Final = re.compile(rb'"ifindex"\s*:\s*\d+\s*,(?:[^{}\[\]]{0,200}?)"ifname"\s*:')
_LAYERS: Final = {"ether": "ethernet", "infiniband": "infiniband"}
_MANY: Final = frozenset({"veth", "dummy", "tun", "ifb"})
"""Kinds that containers make by the hundred and that carry nothing between hosts."""


def recognises(head: bytes) -> bool:
    """How each interface begins."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All interfaces but the loopback and those of containers."""
    say = Statements("ip-link", capture)
    document = decode(capture)
    if isinstance(document, Unreadable):
        say.skip(document.line, document.reason)
        return say.done()
    passed = 0
    places = lines_of(capture, "ifindex", "ifindex")
    for entry in document if isinstance(document, list) else [document]:
        if not isinstance(entry, dict) or "ifindex" not in entry:
            continue
        line = next(places, 1)
        info = entry.get("linkinfo")
        kind = info.get("info_kind") if isinstance(info, dict) else None
        name = entry.get("ifname")
        if not isinstance(name, str) or entry.get("link_type") == "loopback" or kind in _MANY:
            passed += kind in _MANY
            continue
        part = path_part(name)
        subject = f"{say.node}/{'nic' if kind is None else 'interface'}:{part}"
        _state(say, subject, entry, line)
        if isinstance(kind, str):
            say.known(subject, "link-kind", kind, line=line)
            data: Any = info.get("info_data") if isinstance(info, dict) else None
            if kind == "vxlan":
                _state_vxlan(say, subject, data if isinstance(data, dict) else {}, line)
    if passed:
        say.skip(1, f"{passed} interfaces of containers are left out")
    return say.done()


def _state(say: Statements, subject: str, entry: dict[str, Any], line: int) -> None:
    mtu = entry.get("mtu")
    if isinstance(mtu, int) and not isinstance(mtu, bool) and mtu > 0:
        say.known(subject, "mtu", mtu, line=line, unit="B")
    else:
        say.unknown(subject, "mtu", line=line, unit="B", note=f"the tool printed {str(mtu)[:40]!r}")
    state = entry.get("operstate")
    if state in ("UP", "DOWN", "LOWERLAYERDOWN"):
        say.known(subject, "state", "up" if state == "UP" else "down", line=line)
    else:
        say.unknown(subject, "state", line=line, note=f"the tool printed {str(state)[:40]!r}")
    if (layer := _LAYERS.get(str(entry.get("link_type")))) is not None:
        say.known(subject, "link-layer", layer, line=line)
    for key, attribute in (("address", "mac-address"), ("master", "master")):
        if isinstance(text := entry.get(key), str) and text:
            say.known(subject, attribute, text, line=line)
    addresses = entry.get("addr_info")
    found = (
        [one.get("local") for one in addresses if isinstance(one, dict) and one.get("scope") == "global"]
        if isinstance(addresses, list)
        else []
    )
    if texts := tuple(sorted(one for one in found if isinstance(one, str) and one)):
        say.known(subject, "ip-addresses", texts, line=line)
    if entry.get("parentbus") == "pci" and isinstance(text := entry.get("parentdev"), str) and (address := bus_id(text)):
        say.known(subject, "pci-bus-id", address, line=line)


def _state_vxlan(say: Statements, subject: str, data: dict[str, Any], line: int) -> None:
    number = data.get("id")
    if isinstance(number, int) and not isinstance(number, bool):
        say.known(subject, "vni", number, line=line)
    elif data.get("external") is not True:
        say.unknown(subject, "vni", line=line, note="the tool prints no details without -d")
    for key, attribute in (("local", "vxlan-source"), ("group", "vxlan-group")):
        if isinstance(text := data.get(key), str):
            say.known(subject, attribute, text, line=line)
    if isinstance(learning := data.get("learning"), bool):
        say.known(subject, "vxlan-learning", learning, line=line)


_BOTH = (
    ("mtu", "B", "largest packet"),
    ("state", "", "up or down"),
    ("link-layer", "", "ethernet or infiniband"),
    ("mac-address", "", "hardware address"),
    ("master", "", "bond or bridge that it is a part of"),
    ("pci-bus-id", "", "PCI address as domain:bus:device.function"),
    ("ip-addresses", "", "addresses that are known beyond the link"),
)
PARSER = Parser(
    tool="ip-link",
    command="ip -d -j addr",
    recognises=recognises,
    marks=(b'"ifindex"',),
    parse=parse,
    yields=(
        *(Yield(f"node:*/{part}:*", *what) for part in ("nic", "interface") for what in _BOTH),
        Yield("node:*/interface:*", "link-kind", "", "bond, bridge, vlan, vxlan ..."),
        Yield("node:*/interface:*", "vni", "", "VXLAN network identifier"),
        Yield("node:*/interface:*", "vxlan-source", "", "address of this end of the tunnels"),
        Yield("node:*/interface:*", "vxlan-group", "", "multicast group, where there is one"),
        Yield("node:*/interface:*", "vxlan-learning", "", "whether addresses are learned from traffic; false where EVPN does it"),
    ),
)
