"""What the outputs of NVIDIA's tools have in common: amounts with units, words for "no value", addresses, and lines that say a GPU is gone.

Pure. Case D05: ``[N/A]``, ``ERR!``, ``[Unknown Error]`` and a cut-off amount never become a number. Case D08: a lost GPU keeps its address.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

from bridgehead.discovery.parsing import UNKNOWN_WORDS, Capture, Statements, Yield, number_in

MAX_LINE_CHARS: Final = 20_000
"""Longer lines are no line of a table that these tools print."""

_ESCAPES: Final = re.compile(r"\x1b\[[0-9;]{0,20}[A-Za-z]")
_AMOUNT: Final = re.compile(r"([+-]?[0-9.]{1,40}(?:[eE][+-]?[0-9]{1,3})?) ?([A-Za-z%/]{0,12})")
_BUS: Final = re.compile(r"(?:([0-9A-Fa-f]{4,8}):)?([0-9A-Fa-f]{2}):([0-9A-Fa-f]{2})\.([0-7])")
_UUID: Final = re.compile(r"(?:GPU|MIG)-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}")

# The unit as printed: the unit of the fact, and the factor. KB/s and the like are left out: the tools do not say which kilo they mean.
_UNITS: Final[dict[str, tuple[str, float]]] = {
    "B": ("B", 1),
    "KiB": ("B", 2**10),
    "MiB": ("B", 2**20),
    "GiB": ("B", 2**30),
    "W": ("W", 1),
    "mW": ("W", 1e-3),
    "C": ("degC", 1),
    "MHz": ("Hz", 1e6),
    "%": ("%", 1),
    "GB/s": ("B/s", 1e9),
    "MB/s": ("B/s", 1e6),
    "x": ("", 1),
    "": ("", 1),
}
_NO_VALUE: Final = UNKNOWN_WORDS | {
    "err!",
    "unknown error",
    "not supported",
    "gpu is lost",
    "[gpu is lost]",
    "gpu requires reset",
    "[gpu requires reset]",
    "[insufficient permissions]",
    "insufficient permissions",
    "function not found",
    "[function not found]",
    "not found",
    "requested functionality has been deprecated",
    "[requested functionality has been deprecated]",
    "redacted",
    "...",
}

_DEVICE: Final = re.compile(
    r"unable to determine the device handle for gpu ?(\d{1,3}(?=:))?:? ?((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]):(.{0,200})",
    re.IGNORECASE | re.ASCII,
)
_LOST: Final = "is lost"
# What the whole tool says when it cannot speak with the driver, in lower case, and what that means for the node.
_DRIVER: Final = (
    ("couldn't communicate with the nvidia driver", "not-reachable"),
    ("driver/library version mismatch", "version-mismatch"),
    ("failed to initialize nvml", "not-initialised"),
    ("couldn't find libnvidia-ml", "library-missing"),
)
_NO_DEVICES: Final = "no devices were found"
_INFOROM: Final = re.compile(r"inforom is corrupted at gpu ((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7])", re.IGNORECASE | re.ASCII)
_SIGNS: Final = ("device handle", _NO_DEVICES, "inforom is corrupted", *(words for words, _ in _DRIVER))
"""One of these stands in each of those messages, in lower case: looking for them is quick, and nearly all lines are none."""
FAILURE_YIELDS: Final = (
    Yield("node:*/gpu:*", "state", "", "lost, unreachable or requires-reset; absent where the tool complains of nothing"),
    Yield("node:*/gpu:*", "pci-bus-id", "", "PCI address as domain:bus:device.function"),
    Yield("node:*/gpu:*", "inforom-state", "", "corrupted; absent where the tool complains of nothing"),
    Yield("node:*", "driver-state", "", "why the tool cannot speak with the driver"),
    Yield("node:*", "gpu-count", "", "unknown where the tool finds no device: lost ones are not counted"),
)
"""What ``state_failure`` may say."""


def plain(line: str) -> str:
    """The line without the escapes that underline headings on a terminal."""
    return _ESCAPES.sub("", line) if "\x1b" in line else line


@lru_cache(maxsize=4)
def head_lines(head: bytes) -> tuple[str, ...]:
    """Lines of the beginning of a capture, for recognising; one parser after the other asks for the same."""
    return tuple(plain(line) for line in head.decode("utf-8-sig", "replace").splitlines() if len(line) <= MAX_LINE_CHARS)


def unfinished_line(capture: Capture) -> int:
    """Number of the last line when nothing ends it, so that it may be cut; 0 when the capture ends with a line end or blanks."""
    if not capture.data or capture.data[-1:] in b"\r\n" or not capture.data.rstrip():
        return 0
    return len(capture.lines)


def has_no_value(text: str) -> bool:
    """Whether the words mean that there is no value."""
    return text.strip().lower() in _NO_VALUE


def amount(say: Statements, subject: str, attribute: str, text: str, *, line: int, unit: str = "") -> None:
    """State an amount such as ``81920 MiB`` in ``unit`` (``B``). UNKNOWN where the unit printed is missing or another one: a line that is
    cut inside a number has none."""
    value = _amount_in(text, unit)
    if value is not None:
        say.known(subject, attribute, value, line=line, unit=unit)
        return
    say.unknown(subject, attribute, line=line, unit=unit, note=printed_note(text))


@lru_cache(maxsize=1 << 12)  # the same few amounts stand in the output of every host
def _amount_in(text: str, unit: str) -> int | float | None:
    found = _AMOUNT.fullmatch(text.strip())
    if found is None or found[2] not in _UNITS:
        return None
    printed, scale = _UNITS[found[2]]
    return number_in(found[1], scale=scale) if printed == unit else None


def word(say: Statements, subject: str, attribute: str, text: str, *, line: int) -> None:
    """State a word; UNKNOWN for what NVIDIA's tools print where there is none."""
    if has_no_value(text):
        say.unknown(subject, attribute, line=line, note=printed_note(text))
    else:
        say.known(subject, attribute, text.strip(), line=line)


def scaled(text: str, *, unit: str) -> float | None:
    """Factor from the unit printed in a heading, such as ``MiB``, to ``unit``; None where it is another kind."""
    printed, scale = _UNITS.get(text, ("?", 1))
    return scale if printed == unit else None


def printed_note(text: str) -> str:
    """Why there is no value."""
    shown = text.strip()
    return f"the tool printed {shown[:80]!r}" if shown else "the tool printed nothing"


def bus_id(text: str) -> str | None:
    """A PCI address as Linux writes it: ``00000000:C1:00.0`` is ``0000:c1:00.0``. None for what is none.

    The tools print the domain with four or eight digits, or leave it out; without one form a card would have two names.
    """
    found = _BUS.fullmatch(text.strip())
    if found is None:
        return None
    domain = (found[1] or "0").lstrip("0").lower().rjust(4, "0")
    return f"{domain}:{found[2]}:{found[3]}.{found[4]}".lower()


def state_bus_id(say: Statements, subject: str, text: str, *, line: int) -> None:
    """State ``pci-bus-id``."""
    address = bus_id(text)
    if address is None:
        say.unknown(subject, "pci-bus-id", line=line, note=printed_note(text))
    else:
        say.known(subject, "pci-bus-id", address, line=line)


def state_uuid(say: Statements, subject: str, text: str, *, line: int) -> None:
    """State ``uuid``; UNKNOWN where it is no whole one."""
    if _UUID.fullmatch(text.strip()):
        say.known(subject, "uuid", text.strip(), line=line)
    else:
        say.unknown(subject, "uuid", line=line, note=printed_note(text))


def state_serial(say: Statements, subject: str, text: str, *, line: int) -> None:
    """State ``serial``; UNKNOWN for a placeholder of zeros, which many cards share (virtual machines, consumer cards)."""
    shown = text.strip()
    if shown and not shown.strip("0"):
        say.unknown(subject, "serial", line=line, note=f"{printed_note(shown)}: a placeholder that other cards have too")
    else:
        word(say, subject, "serial", shown, line=line)


def is_failure(text: str) -> bool:
    """Whether the line is a message that a GPU or the driver cannot be reached."""
    low = text[:MAX_LINE_CHARS].lower()
    return _has_sign(low) and (
        any(one.search(low) for one in (_DEVICE, _INFOROM)) or _NO_DEVICES in low or any(words in low for words, _ in _DRIVER)
    )


def _has_sign(low: str) -> bool:
    for sign in _SIGNS:  # noqa: SIM110 - no generator, since this is asked of every line
        if sign in low:
            return True
    return False


def state_failure(say: Statements, text: str, *, line: int) -> bool:
    """State what such a line says (D08). False when the line is none, and nothing was said."""
    short = text[:MAX_LINE_CHARS]
    low = short.lower()
    if not _has_sign(low):
        return False
    if found := _DEVICE.search(short):
        address = bus_id(found[2]) or found[2]
        subject = f"{say.node}/gpu:{int(found[1]) if found[1] else address}"
        say.known(subject, "state", "lost" if _LOST in found[3].lower() else "unreachable", line=line, note=found[3].strip()[:120])
        say.known(subject, "pci-bus-id", address, line=line)
        return True
    if found := _INFOROM.search(short):
        address = bus_id(found[1]) or found[1]
        say.known(f"{say.node}/gpu:{address}", "inforom-state", "corrupted", line=line, note=short.strip()[:120])
        say.known(f"{say.node}/gpu:{address}", "pci-bus-id", address, line=line)
        return True
    for words, meaning in _DRIVER:
        if words in low:
            say.known(say.node, "driver-state", meaning, line=line, note=short.strip()[:120])
            return True
    if _NO_DEVICES in low:
        say.unknown(say.node, "gpu-count", line=line, note=f"{printed_note(text)}, which it also does when all GPUs are lost")
        return True
    return False
