"""What the outputs of InfiniBand tools have in common: GUIDs, lane rates, names in node descriptions, ends of links (M2, M3). Pure.

Cases F03 and F04: things are keyed by GUID and never by name; a link that one end describes says so.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.parsing import Statements, Yield

_GUID: Final = re.compile(r"(?:0[xX])?([0-9A-Fa-f]{16})")
_SPEED: Final = re.compile(r"(\d{1,2}) ?[xX] ?(\S{1,20})", re.ASCII)
_CHASSIS: Final = re.compile(r"MF0;([^:;]{1,200}):([^/:;]{1,60})/(\S{1,40})")
_ADAPTER: Final = re.compile(r"(\S{1,255}) ((?:HCA-|mlx[45]_|hfi1_|qib|bnxt_re|irdma)\w{1,40})", re.ASCII)
_NAMELESS: Final = frozenset(
    {"localhost", "localhost.localdomain", "ubuntu", "debian", "centos", "rocky", "redhat", "linux", "(none)", "none"}
)
"""Names that a host has before anybody gives it one: several hosts have them at once."""
_AGGREGATION: Final = "aggregation node"
AGGREGATION_DEVICE: Final = "0xcf09"
"""Device number of the SHARP aggregation nodes inside switches."""
# Bits a second of data on one lane, as the subnet's tools and ibstat count them: 4x FDR is 56, 4x EDR 100 Gb/s.
_LANE_BPS: Final = {
    "SDR": 2_500_000_000,
    "DDR": 5_000_000_000,
    "QDR": 10_000_000_000,
    "FDR10": 10_000_000_000,
    "FDR": 14_000_000_000,
    "EDR": 25_000_000_000,
    "HDR": 50_000_000_000,
    "NDR": 100_000_000_000,
    "XDR": 200_000_000_000,
}
# iblinkinfo and older tools print the signalling rate of a lane instead of its name.
_SIGNALLING: Final = {
    "2.5": "SDR",
    "5.0": "DDR",
    "10.0": "QDR",
    "10.3125": "FDR10",
    "14.0625": "FDR",
    "25.78125": "EDR",
    "53.125": "HDR",
    "106.25": "NDR",
    "212.5": "XDR",
}


class End(msgspec.Struct, frozen=True):
    """One end of a link.

    Attributes:
        kind: ``switch``, ``adapter`` or ``router``.
        guid: of the switch or adapter, 16 hexadecimal digits.
        port: its number.
    """

    kind: str
    guid: str
    port: int

    @property
    def device(self) -> str:
        """Subject of the switch or adapter."""
        return f"{self.kind}:{self.guid}"

    @property
    def path(self) -> str:
        """Subject of the port."""
        return f"{self.kind}:{self.guid}/port:{self.port}"


def guid(text: str) -> str | None:
    """The 16 hexadecimal digits, in lower case; also of ``0015:5dff:fe34:0033`` and of ``0x...``. None for what is none, and for zero,
    which several devices have at once."""
    found = _GUID.fullmatch(text.strip().replace(":", ""))
    if found is None or not found[1].strip("0"):
        return None
    return found[1].lower()


def lanes(text: str) -> tuple[int, str] | None:
    """Width and generation of ``4xNDR``, ``4X EDR`` or ``4X 25.78125``; None for ``4x ???`` and whatever else is no speed."""
    found = _SPEED.fullmatch(text.strip())
    if found is None:
        return None
    name = _SIGNALLING.get(found[2], found[2].upper())
    return (int(found[1]), name) if name in _LANE_BPS and int(found[1]) > 0 else None


def state_speed(say: Statements, subject: str, text: str, *, line: int) -> None:
    """State ``rate``, ``width`` and ``speed`` of a port with a link."""
    found = lanes(text)
    if found is None:
        note = f"the tool printed {text.strip()[:40]!r}"
        say.unknown(subject, "rate", line=line, note=note, unit="bit/s")
        return
    width, name = found
    say.known(subject, "rate", width * _LANE_BPS[name], line=line, unit="bit/s")
    say.known(subject, "width", width, line=line)
    say.known(subject, "speed", name, line=line)


def state_down(say: Statements, subject: str, text: str, *, line: int) -> None:
    """State that a port has no link. The speed that tools show for it (``4x SDR``, ``4x ???``) is no speed of a link."""
    say.known(subject, "state", "down", line=line)
    say.unknown(subject, "rate", line=line, unit="bit/s", note=f"there is no link; the tool printed {text.strip()[:40]!r}")


def is_aggregation(description: str) -> bool:
    """Whether the description is that of a SHARP aggregation node, which is a part of a switch and no host (F03)."""
    return _AGGREGATION in description.lower()


def state_description(say: Statements, device: str, description: str, *, line: int, note: str = "", aggregation: bool = False) -> None:
    """State the description of a switch or adapter, and what it says: name and model, or host and device, or that it is a SHARP node."""
    text = description.strip()
    if not text:
        say.unknown(device, "description", line=line, note="the tool printed nothing")
    else:
        say.known(device, "description", text, line=line, note=note)
    if device.startswith("switch:"):
        if chassis := _CHASSIS.fullmatch(text):
            say.known(device, "name", chassis[1], line=line, note=note)
            say.known(device, "model", chassis[2], line=line, note=note)
    elif aggregation or is_aggregation(text):
        say.known(device, "role", "aggregation-node", line=line, note=note)
    elif device.startswith("adapter:"):
        _state_host(say, device, text, line=line, note=note)


def state_owner(say: Statements, own: End, description: str, *, lid: str, known: dict[str, str], line: int) -> None:
    """State whose port it is, from a line that describes a port: the description and LID of a device, once, and the LID and GUID of an
    adapter's port. Tools that write a line a port name an adapter by the GUID of that port.

    Args:
        known: descriptions by device, of what was stated before, to which it is added; another description of one device is a conflict.
    """
    if own.device not in known:
        known[own.device] = description
        state_description(say, own.device, description, line=line)
        if own.kind == "switch":
            say.number(own.device, "lid", lid, line=line)
    elif known[own.device] != description:
        say.conflict(own.device, "description", description, line=line, note=f"another line says {known[own.device]!r}")
    if own.kind == "adapter":
        say.known(own.path, "port-guid", own.guid, line=line)
        say.number(own.path, "lid", lid, line=line)


def _state_host(say: Statements, device: str, description: str, *, line: int, note: str) -> None:
    found = _ADAPTER.fullmatch(description)
    if found is None:
        say.unknown(device, "host", line=line, note=f"the description {description[:80]!r} names no host")
        return
    say.known(device, "device-name", found[2], line=line, note=note)
    if found[1].lower() in _NAMELESS:
        say.unknown(device, "host", line=line, note=f"{found[1]!r} is what hosts without a name call themselves")
    else:
        say.known(device, "host", found[1], line=line, note=note)


DESCRIPTION_YIELDS: Final = (
    *(Yield(f"{kind}:*", "description", "", "node description, as its host or switch sets it") for kind in ("switch", "adapter", "router")),
    Yield("switch:*", "name", "", "name of the switch, from its description"),
    Yield("switch:*", "model", "", "model of the switch, from its description"),
    Yield("adapter:*", "role", "", "aggregation-node: a SHARP node inside a switch, no host"),
    Yield("adapter:*", "host", "", "host, from the description; unknown where that is a default text"),
    Yield("adapter:*", "device-name", "", "device of the host, from the description"),
)
"""What ``state_description`` may say."""
PORT_YIELDS: Final = tuple(
    Yield(f"{kind}:*/port:*", *what)
    for kind in ("switch", "adapter", "router")
    for what in (
        ("peer", "", "subject of the port at the other end; a conflict where the other end names another one"),
        ("state", "", "up where there is a link, else down"),
        ("rate", "bit/s", "of the link, all lanes together"),
        ("width", "", "lanes of the link"),
        ("speed", "", "generation of its lanes: EDR, HDR, NDR ..."),
        ("one-sided-seen", "", "true where only one end describes the link; absent otherwise"),
    )
)
"""What is said of ports and links."""


class Link(msgspec.Struct, frozen=True):
    """What one end says of a link.

    Attributes:
        own: the end that speaks.
        peer: the end that it names.
        line: where.
        description: what it calls the other device.
    """

    own: End
    peer: End
    line: int
    description: str


def state_links(say: Statements, links: dict[str, Link], devices: set[str]) -> int:
    """State ``peer`` and ``state`` at both ports of each link; a link that one end describes is stated at the other one too and says so.

    Args:
        links: by path of the port that describes it.
        devices: subjects that the output describes itself; of others the description is stated as their peers give it.

    Returns how many links are described by one end only.
    """
    silent, named = 0, set[str]()
    for own, link in links.items():
        other, line = link.peer.path, link.line
        back = links.get(other)
        if back is not None and back.peer.path != own:
            note = f"{other} says that it is linked to {back.peer.path} (line {back.line})"
            say.conflict(own, "peer", other, line=line, note=note)
        else:
            say.known(own, "peer", other, line=line)
        say.known(own, "state", "up", line=line)
        if link.peer.device not in devices and link.peer.device not in named:
            named.add(link.peer.device)
            state_description(say, link.peer.device, link.description, line=line, note=f"as {own} calls it")
        if back is None:
            silent += 1
            note = f"only {own} describes this link"
            say.known(own, "one-sided-seen", True, line=line, note=note)
            say.known(other, "one-sided-seen", True, line=line, note=note)
            say.known(other, "peer", own, line=line, note=note)
            say.known(other, "state", "up", line=line, note=note)
    return silent
