"""ibnetdiscover -p: one line a port, with the link that it has (M2, M3; cases F03, F04).

For adapters the tool prints the GUID of the port, which is that of the adapter only where it has one port.
"""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.infiniband import (
    DESCRIPTION_YIELDS,
    PORT_YIELDS,
    End,
    Link,
    state_down,
    state_links,
    state_owner,
    state_speed,
)
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(
    rb"^(?:CA|SW|RT)[ \t]+\d{1,5}[ \t]+\d{1,4}[ \t]+0x[0-9a-f]{16}[ \t]+(?:\d+x|\?+)[ \t]+(?:[A-Z\d.]+|\?+)[ \t]", re.MULTILINE
)
_PORT: Final = re.compile(
    r"(CA|SW|RT)\s+(\d{1,5})\s+(\d{1,4})\s+0x([0-9a-fA-F]{16})\s+(\d{1,2}x|\?+)\s+(\S{1,20})"
    r"(?:\s+-\s+(CA|SW|RT)\s+\d{1,5}\s+(\d{1,4})\s+0x([0-9a-fA-F]{16})\s+\( '(.{0,300})' - '(.{0,300})' \)|\s+(\S.{0,300}))",
    re.ASCII,
)
_KINDS: Final = {"CA": "adapter", "SW": "switch", "RT": "router"}


def recognises(head: bytes) -> bool:
    """A line of a port."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All ports and links; both ends of each link."""
    say = Statements("ibnetdiscover-ports", capture)
    devices: dict[str, str] = {}
    links: dict[str, Link] = {}
    for number, line in whole_lines(capture, say):
        found = _PORT.fullmatch(line)
        if found is None or (found[12] or "").startswith("- "):
            if line.startswith(("CA ", "SW ", "RT ")):
                say.skip(number, f"not a whole line of a port: {line[:80]!r}")
            continue
        own = End(_KINDS[found[1]], found[4].lower(), int(found[3]))
        description = found[10] if found[7] else _unquoted(found[12])
        state_owner(say, own, description, lid=found[2], known=devices, line=number)
        if found[7]:
            peer = End(_KINDS[found[7]], found[9].lower(), int(found[8]))
            links[own.path] = Link(own, peer, number, found[11])
            state_speed(say, own.path, found[5] + found[6], line=number)
        else:
            state_down(say, own.path, f"{found[5]} {found[6]}", line=number)
    silent = state_links(say, links, set(devices))
    if silent:
        say.skip(1, f"{silent} links are described by one end only: the output is not the whole subnet")
    return say.done()


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] == "'" else text


PARSER = Parser(
    tool="ibnetdiscover-ports",
    command="ibnetdiscover -p",
    recognises=recognises,
    marks=(
        b" 0x",
        b"\t0x",
    ),
    parse=parse,
    yields=(
        *DESCRIPTION_YIELDS,
        *PORT_YIELDS,
        Yield("switch:*", "lid", "", "address in the subnet"),
        Yield("adapter:*/port:*", "lid", "", "address in the subnet"),
        Yield("adapter:*/port:*", "port-guid", "", "GUID of the port, by which the adapter is named here"),
    ),
)
