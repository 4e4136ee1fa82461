"""ethtool INTERFACE: rate and medium of Ethernet interfaces (M2)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in
from bridgehead.discovery.tables import path_part
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(rb"^Settings for \S{1,60}:[ \t]*\r?$", re.MULTILINE)
_BEGIN: Final = re.compile(r"Settings for (\S{1,60}):")
_LINE: Final = re.compile(r"\s+([A-Z][\w -]{1,40}): (.{0,200})", re.ASCII)
_SPEED: Final = re.compile(r"(\d{1,9})Mb/s", re.ASCII)
_WORDS: Final = {"Duplex": "duplex", "Auto-negotiation": "autonegotiation", "Port": "port-type"}
_STATES: Final = {"yes": "up", "no": "down"}


def recognises(head: bytes) -> bool:
    """The line that each interface begins with."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All interfaces in the output. Without a link there is no rate."""
    say = Statements("ethtool", capture)
    subject, said = "", dict[str, tuple[str, int]]()
    for number, line in whole_lines(capture, say):
        if begin := _BEGIN.fullmatch(line.strip()):
            _state(say, subject, said)
            subject, said = f"{say.node}/nic:{path_part(begin[1])}", {}
        elif found := _LINE.fullmatch(line):
            said[found[1]] = (found[2].strip(), number)
    _state(say, subject, said)
    return say.done()


def _state(say: Statements, subject: str, said: dict[str, tuple[str, int]]) -> None:
    if not subject:
        return
    link, line = said.get("Link detected", ("", 0))
    link = link.partition(" (")[0]  # newer versions say why there is none
    if line:
        if link in _STATES:
            say.known(subject, "state", _STATES[link], line=line)
        else:
            say.unknown(subject, "state", line=line, note=f"the tool printed {link[:40]!r}")
    text, line = said.get("Speed", ("", 0))
    speed = _SPEED.fullmatch(text)
    value = number_in(speed[1], scale=1e6) if speed else None
    if line and (not value or link == "no" or not link):
        why = "there is no link" if link == "no" else "whether there is a link is not said" if not link else "no rate is known"
        say.unknown(subject, "rate", line=line, unit="bit/s", note=f"{why}; the tool printed {text[:40]!r}")
    elif line and value:
        say.known(subject, "rate", value, line=line, unit="bit/s")
    for key, attribute in _WORDS.items():
        if key in said:
            text, line = said[key]
            if text.startswith("Unknown"):
                say.unknown(subject, attribute, line=line, note=f"the tool printed {text[:40]!r}")
            else:
                say.word(subject, attribute, text, line=line)


PARSER = Parser(
    tool="ethtool",
    command="ethtool INTERFACE",
    recognises=recognises,
    marks=(b"settings for ",),
    parse=parse,
    yields=(
        Yield("node:*/nic:*", "rate", "bit/s", "of the link; unknown where there is none"),
        Yield("node:*/nic:*", "state", "", "up or down"),
        Yield("node:*/nic:*", "duplex", "", "Full or Half"),
        Yield("node:*/nic:*", "autonegotiation", "", "on or off"),
        Yield("node:*/nic:*", "port-type", "", "what the port is made for: FIBRE, Direct Attach Copper ..."),
    ),
)
