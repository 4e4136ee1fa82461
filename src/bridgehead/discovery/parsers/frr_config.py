"""FRR ``show running-config``: BGP with EVPN, BFD timers, equal paths, VXLANs of VRFs (M8.1).

The configuration shows only what differs from the defaults: what is not in it is not stated.
"""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements
from bridgehead.discovery.switch_config import SWITCH_YIELDS, in_order, state_milliseconds
from bridgehead.discovery.tables import path_part
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(rb"^frr (?:version \d|defaults \w)", re.MULTILINE)
_ROUTER: Final = re.compile(r"router bgp (\d{1,10})(?: vrf (\S{1,60}))?", re.ASCII)
_PROFILE: Final = re.compile(r"(profile|peer) (\S{1,80})(?: .{0,200})?", re.ASCII)
_NEIGHBOR: Final = re.compile(r"neighbor (\S{1,80}) (\S.{0,200})", re.ASCII)
_OLD_BFD: Final = re.compile(r"bfd (\d{1,3}) (\d{1,6}) (\d{1,6})", re.ASCII)
_TIMERS: Final = {"receive-interval": "receive-interval", "transmit-interval": "transmit-interval"}
_NESTED: Final = ("address-family ", "profile ", "peer ")


def recognises(head: bytes) -> bool:
    """How it begins."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """One configuration. Its name is its ``hostname``, else that of the capture."""
    say = Statements("frr-config", capture)
    lines = list(whole_lines(capture, say))
    named = next((line.split()[1] for _, line in lines if line.startswith("hostname ") and len(line.split()) > 1), "")
    config = _Config(say, f"switch:{path_part(named or capture.host)}")
    for number, line in lines:
        config.take(line, number)
    config.done()
    return say.done()


class _Config:
    """What is gathered while the lines go by."""

    def __init__(self, say: Statements, switch: str) -> None:
        self._say, self._switch = say, switch
        self._top = self._inner = self._vrf = ""
        self._vnis: dict[str, int] = {}
        self._evpn = self._detection = 0
        self._detects = True

    def take(self, line: str, number: int) -> None:
        """One line."""
        depth, text = len(line) - len(line.lstrip()), line.strip()
        if text.startswith("!"):
            return
        if depth == 0:
            self._top, self._inner = text, ""
            self._take_top(text, number)
        elif depth == 1:
            self._inner = text if text.startswith(_NESTED) else ""
            self._take_inner(text, number)
        else:
            self._take_nested(text, number)

    def _take_top(self, text: str, number: int) -> None:
        if text.startswith("frr version "):
            self._say.known(self._switch, "system-version", f"FRR {text.split()[2]}", line=number)
        elif router := _ROUTER.fullmatch(text):
            self._vrf = router[2] or ""
            if not self._vrf:
                self._say.number(self._switch, "bgp-asn", router[1], line=number)

    def _take_inner(self, text: str, number: int) -> None:
        words = text.split()
        if self._top.startswith("router bgp") and (found := _NEIGHBOR.fullmatch(text)):
            self._neighbor(found[1], found[2].split(), number)
        elif self._top.startswith("vrf ") and words[0] == "vni" and len(words) > 1 and words[1].isdigit():
            self._vnis.setdefault(words[1], number)

    def _neighbor(self, name: str, words: list[str], number: int) -> None:
        subject = f"{self._switch}/neighbor:{path_part(f'{self._vrf}.{name}' if self._vrf else name)}"
        match words:
            case ["remote-as", asn]:
                self._say.word(subject, "remote-as", asn, line=number)
            case ["interface", "remote-as", asn]:
                self._say.word(subject, "remote-as", asn, line=number)
            case ["bfd"]:
                self._say.known(subject, "bfd", "on", line=number)
            case ["bfd", "profile", profile]:
                self._say.known(subject, "bfd", f"profile {profile}", line=number)
            case ["bfd", *_] if timers := _OLD_BFD.fullmatch(" ".join(words)):
                self._say.known(subject, "bfd", "on", line=number)
                watch = f"{self._switch}/bfd:{path_part(name)}"
                self._say.number(watch, "multiplier", timers[1], line=number)
                state_milliseconds(self._say, watch, "receive-interval", timers[2], line=number)
                state_milliseconds(self._say, watch, "transmit-interval", timers[3], line=number)

    def _take_nested(self, text: str, number: int) -> None:
        words = text.split()
        if self._top == "bfd" and (watch := _PROFILE.fullmatch(self._inner)):
            subject = f"{self._switch}/bfd:{path_part(watch[2])}"
            if words[0] == "detect-multiplier" and len(words) == 2:
                self._say.number(subject, "multiplier", words[1], line=number)
            elif words[0] in _TIMERS and len(words) == 2:
                state_milliseconds(self._say, subject, _TIMERS[words[0]], words[1], line=number)
        elif self._inner == "address-family ipv4 unicast" and words[0] == "maximum-paths" and len(words) == 2 and not self._vrf:
            self._say.number(self._switch, "ecmp-paths", words[1], line=number)
        elif self._inner == "address-family l2vpn evpn":
            self._take_evpn(text, words, number)

    def _take_evpn(self, text: str, words: list[str], number: int) -> None:
        if text == "advertise-all-vni":
            self._evpn = self._evpn or number
        elif text == "no dup-addr-detection" or text.startswith("dup-addr-detection"):
            self._detection, self._detects = number, not text.startswith("no ")
        elif words[0] == "vni" and len(words) == 2 and words[1].isdigit():
            self._vnis.setdefault(words[1], number)
        elif words[0] == "neighbor" and words[2:] == ["activate"]:
            self._evpn = self._evpn or number
            self._say.known(f"{self._switch}/neighbor:{path_part(words[1])}", "evpn", True, line=number)

    def done(self) -> None:
        """What the lines say together."""
        if self._evpn:
            self._say.known(self._switch, "evpn", True, line=self._evpn)
        if self._detection:
            self._say.known(self._switch, "duplicate-address-detection", self._detects, line=self._detection)
        if self._vnis:
            note = "those that are written down; others are learned from the system's interfaces"
            self._say.known(self._switch, "vnis-configured", in_order(self._vnis), line=min(self._vnis.values()), note=note)


PARSER = Parser(
    tool="frr-config",
    command="vtysh -c 'show running-config'",
    recognises=recognises,
    marks=(b"frr version", b"frr defaults"),
    parse=parse,
    yields=SWITCH_YIELDS,
)
