"""ibnetdiscover, full output: switches, adapters and links of an InfiniBand subnet (M2, M3; cases F03, F04)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.infiniband import (
    AGGREGATION_DEVICE,
    DESCRIPTION_YIELDS,
    PORT_YIELDS,
    End,
    Link,
    guid,
    is_aggregation,
    state_description,
    state_links,
    state_speed,
)
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(
    rb"^# Topology file: generated on |^(?:Switch|Ca|Rt)[ \t]+\d+[ \t]+\"[SHR]-[0-9a-fA-F]{16}\""
    rb"|^(?:ca|switch|rt)guid=0x[0-9a-fA-F]{1,16}[(\r\n]",
    re.MULTILINE,
)
_FROM: Final = re.compile(r"# Initiated from node ([0-9a-fA-F]{16}) port [0-9a-fA-F]{16}")
_FIELD: Final = re.compile(r"(vendid|devid|sysimgguid|caguid|switchguid|rtguid)=(0x[0-9a-fA-F]{1,16})(?:\([0-9a-fA-F]{1,16}\))?")
_DEVICE: Final = re.compile(
    r'(Switch|Ca|Rt)\s+(\d{1,4})\s+"([SHR])-([0-9a-fA-F]{16})"\s*#\s*"(.{0,300}?)"(?:\s+(?:enhanced|base) port 0 lid (\d{1,5}) lmc \d+)?',
    re.ASCII,
)
_LINK: Final = re.compile(
    r"\[(\d{1,4})\](?:\[ext \d+\])?(?:\(([0-9a-fA-F]{1,16})\))?(?:\[ext \d+\])?\s+"
    r'"([SHR])-([0-9a-fA-F]{16})"\[(\d{1,4})\](?:\[ext \d+\])?(?:\([0-9a-fA-F]{1,16}\))?(?:\[ext \d+\])?\s*'
    r'#\s*(?:lid (\d{1,5}) lmc \d+ )?"(.{0,300})" lid \d{1,5} (\S{1,20})',
    re.ASCII,
)
_KINDS: Final = {"S": "switch", "H": "adapter", "R": "router"}
_IDS: Final = (("vendid", "vendor-id"), ("devid", "device-id"))


def recognises(head: bytes) -> bool:
    """Its heading, a device or a line of a device's block."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All devices and links; both ends of each link."""
    scan = _Scan(capture)
    for number, line in whole_lines(capture, scan.say):
        scan.take(line, number)
    return scan.done()


class _Scan:
    """What is gathered while the lines go by."""

    def __init__(self, capture: Capture) -> None:
        self.say = Statements("ibnetdiscover", capture)
        self._from, self._from_line = "?", 1
        self._fields: dict[str, tuple[str, int]] = {}
        self._device: End | None = None
        self._lines: dict[str, int] = {}
        self._switches = self._aggregators = 0
        self._links: dict[str, Link] = {}

    def take(self, line: str, number: int) -> None:
        """One line."""
        if line[0] == "[":
            self._take_link(line, number)
        elif line[0] == "#":
            if begin := _FROM.fullmatch(line):
                self._from, self._from_line = begin[1].lower(), number
        elif field := _FIELD.fullmatch(line):
            if field[1] == "vendid":
                self._fields.clear()
            self._fields[field[1]] = (field[2], number)
        elif device := _DEVICE.fullmatch(line):
            self._take_device(device, number)
        elif line.startswith(("Switch", "Ca", "Rt")):
            self._device = None
            self.say.skip(number, f"not a whole line of a device: {line[:80]!r}")

    def _take_device(self, found: re.Match[str], number: int) -> None:
        say, fields = self.say, self._fields
        self._device = End(_KINDS[found[3]], found[4].lower(), 0)
        subject = self._device.device
        self._lines[subject] = number
        aggregation = fields.get("devid", ("", 0))[0] == AGGREGATION_DEVICE or is_aggregation(found[5])
        self._switches += found[3] == "S"
        self._aggregators += found[3] == "H" and aggregation
        state_description(say, subject, found[5], line=number, aggregation=aggregation)
        say.number(subject, "port-count", found[2], line=number)
        if found[6]:
            say.number(subject, "lid", found[6], line=number)
        for key, attribute in _IDS:
            if key in fields:
                say.word(subject, attribute, fields[key][0], line=fields[key][1])
        if image := fields.get("sysimgguid"):
            value = guid(image[0])
            if value is None:
                note = f"the tool printed {image[0]!r}, which names no one device"
                say.unknown(subject, "system-image-guid", line=image[1], note=note)
            else:
                say.known(subject, "system-image-guid", value, line=image[1])
        self._fields = {}

    def _take_link(self, line: str, number: int) -> None:
        found = _LINK.fullmatch(line)
        if found is None or self._device is None:
            why = "not a whole line of a link" if found is None else "a link of no device"
            self.say.skip(number, f"{why}: {line[:80]!r}")
            return
        own = End(self._device.kind, self._device.guid, int(found[1]))
        peer = End(_KINDS[found[3]], found[4].lower(), int(found[5]))
        self._links[own.path] = Link(own, peer, number, found[7])
        state_speed(self.say, own.path, found[8], line=number)
        if found[2] and (port := guid(found[2])):
            self.say.known(own.path, "port-guid", port, line=number)
        if found[6]:
            self.say.number(own.path, "lid", found[6], line=number)

    def done(self) -> Parsed:
        """All facts, and whether the scan is a whole one."""
        say, line = self.say, self._from_line
        silent = state_links(say, self._links, set(self._lines))
        linked = {link.own.device for link in self._links.values()} | {link.peer.device for link in self._links.values()}
        alone = {subject: at for subject, at in self._lines.items() if subject not in linked}
        for subject, at in alone.items():
            say.unknown(f"{subject}/port:?", "peer", line=at, note="the scan lists no link of this device; it may be cut off")
        scan = f"scan:{self._from}"
        two_sided = (len(self._links) - silent) // 2
        for attribute, count in (
            ("switches-seen", self._switches),
            ("adapters-seen", len(self._lines) - self._switches),
            ("aggregation-nodes-seen", self._aggregators),
            ("links-seen", two_sided + silent),
            ("one-sided-links-seen", silent),
        ):
            say.known(scan, attribute, count, line=line)
        whole = self._switches > 0 and not silent and not alone
        say.known(scan, "scan-seen", "complete" if whole else "incomplete", line=line)
        if not whole:
            told = f"{self._switches} switches, {silent} links described by one end only, {len(alone)} devices without a link"
            say.skip(line, f"the scan is incomplete: {told}")
        return say.done()


PARSER = Parser(
    tool="ibnetdiscover",
    command="ibnetdiscover",
    recognises=recognises,
    marks=(
        b"# topology file",
        b'"s-',
        b'"h-',
        b'"r-',
        b"guid=0x",
    ),
    parse=parse,
    yields=(
        *DESCRIPTION_YIELDS,
        *PORT_YIELDS,
        *(
            Yield(f"{kind}:*", *what)
            for kind in ("switch", "adapter", "router")
            for what in (
                ("port-count", "", "how many ports it has"),
                ("system-image-guid", "", "the same for all parts of one card or box; unknown where it is zero"),
                ("vendor-id", "", "number of the maker"),
                ("device-id", "", "number of the kind of device"),
                ("lid", "", "address in the subnet, of a switch"),
            )
        ),
        *(
            Yield(f"{kind}:*/port:*", *what)
            for kind in ("switch", "adapter", "router")
            for what in (("port-guid", "", "GUID of the port"), ("lid", "", "address in the subnet, of an adapter's port"))
        ),
        *(
            Yield("scan:*", name, "", meaning)
            for name, meaning in (
                ("switches-seen", "switches in this output; the scan is named by the adapter that made it"),
                ("adapters-seen", "adapters, with aggregation nodes"),
                ("aggregation-nodes-seen", "SHARP nodes among them"),
                ("links-seen", "links; one that both ends describe counts once"),
                ("one-sided-links-seen", "links that one end describes only"),
                ("scan-seen", "complete, or incomplete: no switch, or devices or ends of links are missing"),
            )
        ),
    ),
)
