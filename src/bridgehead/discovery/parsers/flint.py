"""flint query (``flint -d DEVICE q full``): firmware of one network adapter (M2)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.adapter_firmware import CARD_YIELDS, Card, state_card
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(rb"^Image [tT]ype:[ \t]+\w", re.MULTILINE)
_LINE: Final = re.compile(r"([A-Z][\w .()]{1,40}?):\s*(.{0,2000})", re.ASCII)
_ROM: Final = re.compile(r"\s*(type=\S.{0,200})", re.ASCII)
_TYPE: Final = re.compile(r"type=(\S.{0,60}?) version=(\S{1,40})", re.ASCII)
_WORDS: Final = {
    "image type": "image-type",
    "fw version": "firmware-version",
    "fw release date": "firmware-date",
    "product version": "product-version",
    "part number": "part-number",
    "psid": "psid",
    "security attributes": "security-attributes",
    "life cycle": "life-cycle",
    "secure boot capable": "secure-boot",
    "default update method": "update-method",
}
_IDS: Final = {"base guid": "guid", "base mac": "mac"}
_BOOT: Final = {"PXE": "pxe-version", "UEFI": "uefi-version"}
# The head of a table of GUIDs stands in a row called Description too.
_TABLE_HEAD: Final = re.compile(r"UID\s+GuidsNumber.*")


def recognises(head: bytes) -> bool:
    """Its first row."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All devices, where several outputs stand in one file."""
    say = Statements("flint", capture)
    cards: list[Card] = []
    in_rom = False
    for number, line in whole_lines(capture, say):
        found = _LINE.fullmatch(line)
        key, text = (found[1].lower(), found[2].strip()) if found else ("", "")
        if key == "image type" or (not cards and found):
            cards.append(Card(number))
        if not cards:
            continue
        in_rom = key == "rom info" or (in_rom and found is None)
        if in_rom:
            _take_rom(cards[-1], text if found else line, number)
        elif found:
            _take(say, cards[-1], key, text, number)
    for card in cards:
        state_card(say, card)
    return say.done()


def _take(say: Statements, card: Card, key: str, text: str, number: int) -> None:
    if name := _WORDS.get(key):
        card.said[name] = (text, number)
    elif name := _IDS.get(key):
        card.said[name] = (text.split()[0] if text else "", number)
    elif key == "description" and not _TABLE_HEAD.fullmatch(text):
        card.said["product-description"] = (text, number)
    elif key != "description":
        say.skip(number, f"the row {key!r} is not used")


def _take_rom(card: Card, text: str, number: int) -> None:
    if (found := _ROM.fullmatch(text)) is None or len(card.rom) >= 32:
        return
    card.rom.append((found[1].strip(), number))
    if (kind := _TYPE.match(found[1])) and (name := _BOOT.get(kind[1])):
        card.said[name] = (kind[2], number)


PARSER = Parser(
    tool="flint", command="flint -d DEVICE query full", recognises=recognises, marks=(b"image type:",), parse=parse, yields=CARD_YIELDS
)
