"""Link events of UFM: which links of an InfiniBand subnet went down or came up, and their cables (M2, M3)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.textlines import MAX_LINE_CHARS

_END = r"\((\w{1,20}):\s?([^()]{1,200})\)([0-9a-fA-F]{16}):(\d{1,4})"
_EVENT: Final = re.compile(rf"Link went (down|up): {_END} - {_END}(?:, cable S/N: ([\w./-]{{1,40}}))?(?!\w)", re.ASCII)
_HEAD: Final = re.compile(rb"Link went (?:down|up): \(\w{1,20}:[^()\r\n]{1,200}\)[0-9a-fA-F]{16}:\d")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)?", re.ASCII)
_LABEL: Final = re.compile(r"(.{1,190}):((?:\d{1,3}/){1,3}\d{1,3})", re.ASCII)


class _Seen(msgspec.Struct):
    """Events of one kind of one port."""

    line: int
    first: str
    count: int = 0
    last: str = ""
    last_line: int = 0


def recognises(head: bytes) -> bool:
    """Words of a link's event with both ends."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """How often each port's link went down and came up; the peer, the cable and the names as of the last event."""
    say = Statements("ufm-events", capture)
    seen: dict[tuple[str, str], _Seen] = {}
    latest: dict[tuple[str, str], tuple[str, int]] = {}
    lines = capture.lines
    for number, line in enumerate(lines, 1):
        if "Link went " not in line:
            continue
        found = _EVENT.search(line) if len(line) <= MAX_LINE_CHARS else None
        whole = number < len(lines)
        if found is None or (not whole and found[10] is None):
            say.skip(number, f"a link's event that cannot be read or is cut off: {line.strip()[:80]!r}")
            continue
        at = _TIME.search(line, 0, found.start())
        ends = [_device(*found.groups()[1:5]), _device(*found.groups()[5:9])]
        for (port, name, label), (peer, _, _) in (ends, reversed(ends)):
            one = seen.setdefault((port, found[1]), _Seen(number, at[0] if at else ""))
            one.count += 1
            one.last, one.last_line = at[0] if at else "", number
            device = port.partition("/")[0]
            facts = {
                (device, "name" if device.startswith("switch") else "description"): name,
                (port, "label"): label,
                (port, "peer-seen"): peer,
            }
            if whole and found[10]:
                facts[port, "cable-serial-seen"] = found[10]
            latest.update({key: (value, number) for key, value in facts.items() if value})
    for (port, way), one in seen.items():
        say.known(port, f"link-{way}-seen", one.count, line=one.line)
        if one.first:
            say.known(port, f"link-{way}-seen-first", one.first, line=one.line)
        if one.last:
            say.known(port, f"link-{way}-seen-last", one.last, line=one.last_line)
    for (subject, attribute), (text, at_line) in latest.items():
        say.known(subject, attribute, text, line=at_line)
    return say.done()


def _device(kind: str, text: str, guid: str, port: str) -> tuple[str, str, str]:
    """Subject of the port, name of the device, and the label of the port."""
    switch = kind.lower() == "switch"
    found = _LABEL.fullmatch(text)
    name, label = (found[1], found[2]) if found else (text, "")
    return f"{'switch' if switch else 'adapter'}:{guid.lower()}/port:{int(port)}", name.strip(), label


PARSER = Parser(
    tool="ufm-events",
    command="UFM event log, /opt/ufm/files/log/event.log",
    recognises=recognises,
    marks=(b"link went ",),
    parse=parse,
    yields=(
        Yield("switch:*", "name", "", "name of the switch"),
        Yield("adapter:*", "description", "", "what UFM calls the adapter"),
        *(
            Yield(f"{kind}:*/port:*", *what)
            for kind in ("switch", "adapter")
            for what in (
                ("label", "", "number of the port on the box"),
                ("peer-seen", "", "subject of the port at the other end, in the last event"),
                ("cable-serial-seen", "", "serial number of the cable, in the last event"),
                *(
                    (f"link-{way}-seen{suffix}", "", f"{told} the link {went}")
                    for way, went in (("down", "went down"), ("up", "came up"))
                    for suffix, told in (("", "how often"), ("-first", "when, first,"), ("-last", "when, last,"))
                ),
            )
        ),
    ),
)
