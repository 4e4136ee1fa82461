"""iblinkinfo: every port of an InfiniBand subnet with its link (M2, M3; case F04).

The tool prints no GUID of the other end, so that is found by its address (LID) among the devices of the same output. For adapters it
prints the GUID of the port, which is that of the adapter only where it has one port.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

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

_HEAD: Final = re.compile(rb"^[^\r\n]{0,200}\d{1,4}\[[ \d]{0,4}\] ==\([^()\r\n]{4,60}\)==>", re.MULTILINE)
_SWITCH: Final = re.compile(r"(Switch|Router):? 0x([0-9a-fA-F]{16}) (.{0,300}):")
_CA: Final = re.compile(r"CA: (.{1,300}):")
_ROW: Final = re.compile(
    r'\s*(?:0x([0-9a-fA-F]{16})\s+)?(".{0,300}?"\s+)?(\d{1,5})\s+(\d{1,4})\[[ \d]{0,4}\] ==\(\s*([^()]{1,60}?)\s*\)==>'
    r'\s*(?:0x[0-9a-fA-F]{16}\s+)?(?:(\d{1,5})\s+(\d{1,4}))?\s*\[[ \d]{0,4}\] "(.{0,300})" \((.{0,100})\)',
    re.ASCII,
)
_LINK: Final = re.compile(r"(?:(\d{1,2}X)\s+(\S{1,12})(?: Gbps)?\s+)?(\w{1,20})/\s*(\w{1,20})", re.ASCII)
_STATES: Final = {"active": "up", "armed": "up", "initialize": "up", "initialized": "up", "down": "down"}


class _Row(msgspec.Struct, frozen=True):
    """One port that has a link."""

    own: End
    line: int
    lid: str
    port: str
    description: str


def recognises(head: bytes) -> bool:
    """The arrow between two ports."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All ports and links."""
    table = _Table(capture)
    for number, line in whole_lines(capture, table.say):
        table.take(line, number)
    return table.done()


class _Table:
    """What is gathered while the lines go by."""

    def __init__(self, capture: Capture) -> None:
        self.say = Statements("iblinkinfo", capture)
        self._kind = self._guid = self._name = ""
        self._devices: dict[str, str] = {}
        self._by_lid: dict[str, tuple[str, str]] = {}
        self._rows: list[_Row] = []

    def take(self, line: str, number: int) -> None:
        """One line."""
        if switch := _SWITCH.fullmatch(line.strip()):
            self._kind, self._guid, self._name = switch[1].lower(), switch[2].lower(), switch[3]
        elif adapter := _CA.fullmatch(line.strip()):
            self._kind, self._guid, self._name = "adapter", "", adapter[1]
        elif "==(" in line:
            self._take_row(line, number)

    def _take_row(self, line: str, number: int) -> None:
        found = _ROW.fullmatch(line)
        link = _LINK.fullmatch(found[5]) if found else None
        if found is None or link is None:
            self.say.skip(number, f"not a whole line of a port: {line.strip()[:80]!r}")
            return
        guid = self._guid or (found[1] or "").lower()
        if found[2] or not self._kind or not guid:
            self.say.skip(number, "the line does not say whether it is of a switch or an adapter: iblinkinfo without -l tells it")
            return
        own = End(self._kind, guid, int(found[4]))
        self._by_lid.setdefault(found[3], (own.kind, own.guid))
        state_owner(self.say, own, self._name, lid=found[3], known=self._devices, line=number)
        self.say.known(own.path, "physical-state", link[4].lower(), line=number)
        if _STATES.get(link[3].lower()) != "up":
            state_down(self.say, own.path, found[5], line=number)
            return
        state_speed(self.say, own.path, f"{link[1]} {link[2]}", line=number)
        if hint := found[9].strip():
            self.say.known(own.path, "degraded-seen", hint, line=number)
        if found[6] is not None:
            self._rows.append(_Row(own, number, found[6], found[7], found[8]))
        else:
            self.say.unknown(own.path, "peer", line=number, note="there is a link, but the tool names no other end")

    def done(self) -> Parsed:
        """All facts."""
        links: dict[str, Link] = {}
        for row in self._rows:
            device = self._by_lid.get(row.lid)
            if device is None:
                note = f"the other end is port {row.port} of LID {row.lid}, {row.description[:80]!r}, which this output does not describe"
                self.say.unknown(row.own.path, "peer", line=row.line, note=note)
                self.say.known(row.own.path, "state", "up", line=row.line)
            else:
                links[row.own.path] = Link(row.own, End(device[0], device[1], int(row.port)), row.line, row.description)
        state_links(self.say, links, set(self._devices))
        return self.say.done()


PARSER = Parser(
    tool="iblinkinfo",
    command="iblinkinfo",
    recognises=recognises,
    marks=(b"==(",),
    parse=parse,
    yields=(
        *DESCRIPTION_YIELDS,
        *PORT_YIELDS,
        Yield("switch:*", "lid", "", "address in the subnet"),
        Yield("adapter:*/port:*", "lid", "", "address in the subnet"),
        Yield("router:*/port:*", "lid", "", "address in the subnet"),
        Yield("adapter:*/port:*", "port-guid", "", "GUID of the port, by which the adapter is named here"),
        *(
            Yield(f"{kind}:*/port:*", *what)
            for kind in ("switch", "adapter", "router")
            for what in (
                ("physical-state", "", "linkup, polling, disabled ..."),
                ("degraded-seen", "", "what the tool says that the link could be; absent where it is at its best"),
            )
        ),
    ),
)
