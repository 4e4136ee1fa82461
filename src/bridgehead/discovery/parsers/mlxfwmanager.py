"""mlxfwmanager --query (and mlxup): firmware of all network adapters of a host (M2)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.adapter_firmware import CARD_YIELDS, Card, state_card
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(rb"^Querying Mellanox devices firmware|^[ \t]+PCI Device Name:[ \t]+\S", re.MULTILINE)
_DEVICE: Final = re.compile(r"Device #(\d{1,4}):")
_LINE: Final = re.compile(r"\s+([A-Z][\w ]{1,40}?):\s*(\S.{0,2000})?", re.ASCII)
_VERSION: Final = re.compile(r"\s+([A-Z][\w ()]{0,30}?)\s{2,}(\S{1,40})(?:\s+(\S{1,40}))?", re.ASCII)
_WORDS: Final = {
    "Device Type": "product-name",
    "Part Number": "part-number",
    "Description": "product-description",
    "PSID": "psid",
    "PCI Device Name": "pci",
    "Status": "firmware-status-seen",
}
_IDS: Final = {"Base GUID": "guid", "Base MAC": "mac", "Port1 GUID": "guid", "Port1 MAC": "mac"}
_VERSIONS: Final = {"FW": "firmware-version", "FW (Running)": "firmware-version", "PXE": "pxe-version", "UEFI": "uefi-version"}


def recognises(head: bytes) -> bool:
    """Its first words, or a row of a device."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All devices. Of two versions the current one is in the card; the other one is that of a file at hand."""
    say = Statements("mlxfwmanager", capture)
    cards: list[Card] = []
    for number, line in whole_lines(capture, say):
        if _DEVICE.fullmatch(line.strip()):
            cards.append(Card(number))
        elif not cards or line[0] not in " \t":
            continue
        elif found := _LINE.fullmatch(line):
            text = (found[2] or "").strip()
            if name := _WORDS.get(found[1]):
                cards[-1].said[name] = (text, number)
            elif (name := _IDS.get(found[1])) and text:
                cards[-1].said.setdefault(name, (text.split()[0], number))
        elif found := _VERSION.fullmatch(line):
            if name := _VERSIONS.get(found[1]):
                cards[-1].said[name] = (found[2], number)
                if name == "firmware-version" and found[3]:
                    cards[-1].said["firmware-available-seen"] = (found[3], number)
            else:
                cards[-1].rom.append((f"{found[1]} {found[2]}", number))
    if not cards:
        say.skip(1, "no device is in it")
    for card in cards:
        state_card(say, card)
    return say.done()


PARSER = Parser(
    tool="mlxfwmanager",
    command="mlxfwmanager --query",
    recognises=recognises,
    marks=(b"querying mellanox", b"pci device name:"),
    parse=parse,
    yields=CARD_YIELDS,
)
