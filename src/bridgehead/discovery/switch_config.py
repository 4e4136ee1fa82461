"""Configurations of switches and routers: what SONiC, FRR and NVUE say of overlay and traffic classes, in one form (M8.1, M8.2). Pure.

Both sites are compared by these facts, so the three say the same with the same words, whatever their syntax.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from bridgehead.discovery.parsing import Statements, Yield, number_in

_RANGE: Final = re.compile(r"(.*?)(\d{1,6})-(\d{1,6})", re.ASCII)
_DSCP: Final = {
    **{f"cs{number}": 8 * number for number in range(8)},
    **{f"af{group}{drop}": 8 * group + 2 * drop for group in range(1, 5) for drop in range(1, 4)},
    "ef": 46,
}
MOST_NAMES: Final = 4096


def in_order(numbers: Iterable[str]) -> tuple[str, ...]:
    """Numbers as texts, each once, in the order of their values."""
    return tuple(sorted(set(numbers), key=lambda text: (int(text) if text.isdigit() and len(text) < 18 else -1, text)))


def names_in(text: str) -> Iterator[str]:
    """The names of ``swp1-4,swp7`` one by one; at most ``MOST_NAMES``."""
    left, prefix = MOST_NAMES, ""
    for part in text.split(","):
        part = part.strip()
        found = _RANGE.fullmatch(part)
        if found is None or int(found[3]) < int(found[2]):
            names = [f"{prefix}{part}" if part.isdigit() else part]
            prefix = part.rstrip("0123456789") if not part.isdigit() else prefix
        else:
            prefix = found[1] or prefix
            names = [f"{prefix}{number}" for number in range(int(found[2]), min(int(found[3]), int(found[2]) + left) + 1)]
        yield from names[:left]
        left -= len(names)
        if left <= 0:
            return


def numbers_in(text: str) -> tuple[str, ...] | None:
    """Those of ``3,4`` or ``3-5 7``; None where something else stands there. An empty list, or the word ``none``, is none of them."""
    words = text.replace(" ", ",").split(",")
    found: list[str] = []
    for word in (one for one in words if one and one != "none"):
        bounds = re.fullmatch(r"(\d{1,3})(?:-(\d{1,3}))?", word, re.ASCII)
        if bounds is None:
            return None
        found.extend(str(number) for number in range(int(bounds[1]), int(bounds[2] or bounds[1]) + 1))
    return in_order(found)


def dscp_of(text: str) -> int | None:
    """The code point of ``26`` or ``af31``; None for what is none."""
    word = text.strip().lower()
    number = _DSCP.get(word, number_in(word))
    return number if isinstance(number, int) and 0 <= number < 64 else None


def state_classes(say: Statements, subject: str, attribute: str, text: str, *, line: int) -> None:
    """State a list of priorities or classes."""
    found = numbers_in(text)
    if found is None:
        say.unknown(subject, attribute, line=line, note=f"it says {text[:60]!r}")
    else:
        say.known(subject, attribute, found, line=line)


def state_common(say: Statements, switch: str, attribute: str, each: dict[str, tuple[tuple[str, ...], int]]) -> None:
    """State for the switch what all its ports say; a conflict where they differ.

    Args:
        each: by port, what it says and the line.
    """
    by_value: dict[tuple[str, ...], list[str]] = {}
    for port, (value, _) in each.items():
        by_value.setdefault(value, []).append(port)
    for value, ports in by_value.items():
        line = each[ports[0]][1]
        if len(by_value) == 1:
            say.known(switch, attribute, value, line=line)
        else:
            told = f"{', '.join(value) or 'none'} on {len(ports)} ports, such as {ports[0]}; other ports differ"
            say.conflict(switch, attribute, value, line=line, note=told)


def state_milliseconds(say: Statements, subject: str, attribute: str, text: str, *, line: int) -> None:
    """State a time that is written as a number of milliseconds."""
    say.number(subject, attribute, text, line=line, unit="s", scale=1e-3)


SWITCH_YIELDS: Final = (
    *(
        Yield("switch:*", *what)
        for what in (
            ("system-version", "", "kind and version of the configuration's system"),
            ("vnis", "", "VXLAN network identifiers"),
            ("vnis-configured", "", "those that FRR names: layer-3 ones, and those with settings of their own"),
            ("vni-vlan:*", "", "VLAN of a VXLAN network identifier"),
            ("vxlan-source", "", "address of this end of the tunnels"),
            ("evpn", "", "whether addresses are learned by EVPN"),
            ("duplicate-address-detection", "", "whether addresses that move to and fro are stopped"),
            ("ecmp-paths", "", "equal paths that are used, at most"),
            ("bgp-asn", "", "number of the autonomous system"),
            ("pfc-priorities", "", "priorities that are lossless; a conflict where ports differ"),
            ("ecn-classes", "", "queues or traffic classes that mark congestion; a conflict where ports differ"),
            ("roce-mode", "", "lossless or lossy, where RoCE is one switch of the system"),
        )
    ),
    Yield("switch:*/neighbor:*", "remote-as", "", "autonomous system of a BGP neighbour, or internal or external"),
    Yield("switch:*/neighbor:*", "bfd", "", "on, off, or the profile: whether BFD watches the neighbour"),
    Yield("switch:*/neighbor:*", "evpn", "", "whether EVPN is spoken with the neighbour"),
    Yield("switch:*/bfd:*", "transmit-interval", "s", "time between two BFD packets; of a profile or a peer"),
    Yield("switch:*/bfd:*", "receive-interval", "s", "shortest time between two that it takes"),
    Yield("switch:*/bfd:*", "multiplier", "", "missed packets that make a failure"),
    Yield("switch:*/ecn:*", "ecn", "", "what is marked; of a profile or a traffic class"),
    Yield("switch:*/ecn:*", "threshold-min", "B", "queue length from which packets are marked"),
    Yield("switch:*/ecn:*", "threshold-max", "B", "queue length from which all are marked"),
    Yield("switch:*/ecn:*", "mark-probability", "%", "at the upper threshold"),
    Yield("switch:*/dscp-map:*", "traffic-class:*", "", "traffic class or switch priority of a DSCP code point"),
    Yield("switch:*/class-map:*", "queue:*", "", "queue of a traffic class"),
    Yield("switch:*/class-map:*", "priority-group:*", "", "priority group of a traffic class"),
    *(
        Yield("switch:*/port:*", *what)
        for what in (
            ("mtu", "B", "largest packet"),
            ("rate-configured", "bit/s", "rate that is set"),
            ("admin-state", "", "up or down, as it is set"),
            ("port-description", "", "what people wrote"),
            ("fec", "", "forward error correction that is set"),
            ("pfc-priorities", "", "priorities that are lossless"),
            ("dscp-map", "", "name of the map of its code points"),
            ("ecn-profile:*", "", "name of the profile of a queue"),
            ("peer-configured", "", "subject of the port at the other end, as people wrote it"),
        )
    ),
)
"""What parsers of configurations may say."""
