"""``df``: size and use of file systems, by the place where they are mounted (M4, P23).

Sizes with letters (``df -h``) are not read: they are rounded, and ``-h`` and ``-H`` print the same letters for different numbers.
"""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.textlines import whole_lines

_TOOL: Final = "df"
_TITLE: Final = re.compile(
    r"Filesystem\s+(?:(Type)\s+)?(?:(\d{1,7})([KMGT]?)(B?)-blocks|Size)\s+Used\s+Avail(?:able)?\s+(?:Use%|Capacity)\s+Mounted on", re.ASCII
)
_HEAD: Final = re.compile(
    rb"^Filesystem[ \t]+(?:Type[ \t]+)?(?:\d{1,7}[KMGT]?B?-blocks|Size)[ \t]+Used[ \t]+Avail(?:able)?[ \t]+(?:Use%|Capacity)"
    rb"[ \t]+Mounted on[ \t]*\r?$",
    re.MULTILINE,
)
_AMOUNT: Final = r"(-|\d{1,20}(?:\.\d{1,3})?[KMGTPE]?)"
_ROW: Final = re.compile(rf"(\S.{{0,1000}}?)\s+{_AMOUNT}\s+{_AMOUNT}\s+(?:-?{_AMOUNT})\s+(?:-|\d{{1,3}}%)\s+(/.{{0,1000}})", re.ASCII)
_POWERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}
_NO_DISK: Final = frozenset(
    {"tmpfs", "devtmpfs", "udev", "overlay", "shm", "none", "efivarfs", "squashfs", "ramfs", "rootfs", "cgroup", "run", "dev"}
)


def recognises(head: bytes) -> bool:
    """The heads of its columns."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """Sizes in bytes. A name that is too long for its column stands in a line of its own."""
    say = Statements(_TOOL, capture)
    scale: int | None = None
    typed, inside, name, memory = False, False, "", 0
    for number, line in whole_lines(capture, say):
        if title := _TITLE.fullmatch(line.strip()):
            typed, inside, name = title[1] is not None, True, ""
            scale = int(title[2]) * (1000 if title[3] and title[4] else 1024) ** _POWERS[title[3]] if title[2] else None
            if scale is None:
                say.skip(number, "sizes with letters are rounded, and mean two things: `df -P -T -B 1` prints bytes")
            continue
        if not inside:
            continue
        row = _ROW.fullmatch((name + " " + line.strip()).strip())
        if row is None:
            name = line.strip() if not name and " " not in line.strip() else ""
            if not name:
                say.skip(number, f"not a whole row of the table: {line.strip()[:80]!r}")
            continue
        source = row[1].rsplit(None, 1)[0] if typed and " " in row[1] else row[1]
        name = ""
        if source.lower() in _NO_DISK or source.startswith("/dev/loop"):
            memory += 1
        else:
            _state(say, row[5], source, (row[2], row[3]), scale, number)
    if memory:
        say.skip(1, f"{memory} file systems in memory and of images")
    return say.done()


def _state(say: Statements, target: str, source: str, amounts: tuple[str, str], scale: int | None, line: int) -> None:
    say.known(say.node, f"filesystem-source:{target}", source, line=line)
    for attribute, text in zip(("size", "used"), amounts, strict=True):
        if text.isdigit() and scale is not None:
            say.known(say.node, f"filesystem-{attribute}:{target}", int(text) * scale, line=line, unit="B")
        else:
            say.unknown(say.node, f"filesystem-{attribute}:{target}", line=line, unit="B", note=f"the tool printed {text!r}")


PARSER = Parser(
    tool=_TOOL,
    command="df -P -T -B 1",
    recognises=recognises,
    marks=(b"mounted on",),
    parse=parse,
    yields=(
        Yield("node:*", "filesystem-source:*", "", "device, or server and path, that is mounted there"),
        Yield("node:*", "filesystem-size:*", "B", "size of the file system at a place"),
        Yield("node:*", "filesystem-used:*", "B", "bytes of it that are used"),
    ),
)
