"""The matrices of ``nvidia-smi topo``: headings and rows of devices against devices, read by name and not by width (D02). Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from bridgehead.discovery.nvidia import MAX_LINE_CHARS, plain

TITLES: Final = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")
"""The columns behind the devices, in their order; older tools lack the later ones."""
LINK: Final = re.compile(r"X|NV\d{1,3}|SYS|NODE|PHB|PXB|PIX|SOC|C2C")
"""Relations of ``topo -m``. SOC is the old word for SYS."""
PEER: Final = re.compile(r"X|OK|CNS|GNS|TNS|NS|DR|U")
"""States of ``topo -p2p``."""
MAX_DEVICES: Final = 512
"""More columns than any node has: such a heading is no heading."""

_GPU: Final = re.compile(r"GPU(\d{1,3})")
_HEADING: Final = re.compile(r"CPU Affinity|NUMA Affinity|GPU NUMA ID|\S+")
_DEVICE: Final = re.compile(r"[A-Za-z][\w.-]{0,40}")


class Heading(msgspec.Struct, frozen=True):
    """The first row.

    Attributes:
        line: where it stands.
        devices: names of the columns: GPU0, NIC0, mlx5_0.
        titles: which of TITLES follow, with the place of their first sign.
    """

    line: int
    devices: tuple[str, ...]
    titles: tuple[tuple[str, int], ...]


class Row(msgspec.Struct, frozen=True):
    """A row: its name, and what stands behind it."""

    line: int
    name: str
    text: str


def gpu_index(name: str) -> int | None:
    """3 of ``GPU3``; None of a network device."""
    found = _GPU.fullmatch(name)
    return int(found[1]) if found else None


def heading_of(text: str, *, line: int) -> Heading | None:
    """The heading that the line is, or None: GPU columns with different names first, then devices, then titles."""
    if len(text) > MAX_LINE_CHARS:
        return None
    devices: list[str] = []
    titles: list[tuple[str, int]] = []
    for found in _HEADING.finditer(text):
        if found[0] in TITLES:
            titles.append((found[0], found.start()))
        elif titles or not _DEVICE.fullmatch(found[0]):
            return None
        else:
            devices.append(found[0])
    # A row of the matrix begins with GPU0 as well, but X, NV4 or OK follow.
    if not devices or gpu_index(devices[0]) is None or len(set(devices)) < len(devices) or len(devices) > MAX_DEVICES:
        return None
    if any(LINK.fullmatch(name) or PEER.fullmatch(name) for name in devices):
        return None
    return Heading(line, tuple(devices), tuple(titles)) if len(devices) > 1 or titles else None


def find(lines: Sequence[str]) -> tuple[Heading, list[Row]] | None:
    """The first heading and the rows of its devices; None where there is no heading."""
    heading: Heading | None = None
    rows: list[Row] = []
    names: frozenset[str] = frozenset()
    for number, raw in enumerate(lines, 1):
        if heading is None and "GPU" not in raw:  # as in nearly all lines of whatever is no matrix
            continue
        text = plain(raw).rstrip("\r\n")
        if heading is None:
            heading = heading_of(text, line=number)
            names = frozenset(heading.devices) if heading else names
            continue
        name, _, rest = text.strip(" ").partition("\t") if "\t" in text else _first_word(text)
        name = name.strip()
        if name in names and len(text) <= MAX_LINE_CHARS:
            rows.append(Row(number, name, rest if "\t" in text else text))
    return None if heading is None else (heading, rows)


def _first_word(text: str) -> tuple[str, str, str]:
    word = text.split(None, 1)
    return (word[0] if word else "", "", "")
