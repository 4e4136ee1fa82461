"""Firmware of network adapters: what flint and mlxfwmanager both say, in one form (M2). Pure."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.infiniband import guid
from bridgehead.discovery.nvidia import bus_id
from bridgehead.discovery.parsing import Statements, Yield

_MAC: Final = re.compile(r"[0-9a-fA-F]{12}")
_VERSION: Final = re.compile(r"\d{1,9}(?:\.\d{1,9}){1,4}", re.ASCII)
_BOOT: Final = ("pxe-version", "uefi-version")
WORDS: Final = {
    "firmware-version": "version of the firmware",
    "firmware-date": "when the firmware was released, as the tool writes it",
    "firmware-available-seen": "newest firmware that the tool has at hand",
    "firmware-status-seen": "whether the tool would update it",
    "product-version": "version of the product",
    "part-number": "part number of the board",
    "product-name": "kind of device",
    "product-description": "what the maker calls it",
    "psid": "number of the board's configuration",
    "image-type": "format of the firmware's image",
    "security-attributes": "how the firmware is secured",
    "life-cycle": "whether the device is secured for good",
    "secure-boot": "whether the device can check its firmware as it starts",
    "update-method": "how the firmware is written",
    "pxe-version": "version of the PXE boot code",
    "uefi-version": "version of the UEFI boot code",
    "device-file": "how the tool reaches the device",
}
"""Attribute: meaning. All are texts."""


class Card(msgspec.Struct):
    """One device.

    Attributes:
        line: where it begins.
        said: value and line by attribute (``WORDS``), and ``guid``, ``mac``, ``pci``.
        rom: boot codes, each with its version.
    """

    line: int
    said: dict[str, tuple[str, int]] = msgspec.field(default_factory=dict)
    rom: list[tuple[str, int]] = msgspec.field(default_factory=list)


def state_card(say: Statements, card: Card) -> None:
    """State a device, by its GUID; by its MAC address where the tool prints no GUID."""
    printed, at = card.said.get("guid", ("", card.line))
    mac, mac_line = card.said.get("mac", ("", card.line))
    named, is_mac = guid(printed), _MAC.fullmatch(mac) is not None and mac.strip("0") != ""
    name = named or (mac.lower() if is_mac else None)
    if name is None:
        say.skip(card.line, "the output names neither GUID nor MAC address: which device it is cannot be told")
    subject = f"adapter:{name or '?'}"
    if named:
        say.known(subject, "guid", named, line=at)
    if is_mac:
        say.known(subject, "mac-address", mac.lower(), line=mac_line)
    if say.node != "node:?":
        say.known(subject, "found-on", say.node, line=card.line)
    if "pci" in card.said:
        text, line = card.said["pci"]
        address = bus_id(text)
        if address is None:
            say.word(subject, "device-file", text, line=line)
        else:
            say.known(subject, "pci-bus-id", address, line=line)
    for attribute in WORDS:
        if attribute in card.said:
            text, line = card.said[attribute]
            text = _short(text) if attribute in _BOOT else "" if text == "--" else text
            say.word(subject, attribute, text, line=line)
    if card.rom:
        say.known(subject, "boot-codes", tuple(text for text, _ in card.rom), line=card.rom[0][1])


def _short(version: str) -> str:
    """The one tool writes 3.7.0500 where the other writes 3.7.500."""
    return ".".join(part.lstrip("0") or "0" for part in version.split(".")) if _VERSION.fullmatch(version) else version


CARD_YIELDS: Final = (
    Yield("adapter:*", "guid", "", "GUID of the device"),
    Yield("adapter:*", "mac-address", "", "first MAC address of the device"),
    Yield("adapter:*", "found-on", "", "subject of the host where the tool ran"),
    Yield("adapter:*", "pci-bus-id", "", "PCI address as domain:bus:device.function"),
    Yield("adapter:*", "boot-codes", "", "boot codes on the card, with their versions"),
    *(Yield("adapter:*", attribute, "", meaning) for attribute, meaning in WORDS.items()),
)
"""What ``state_card`` may say."""
