"""Messages of ``nvidia-smi`` that stand alone: a GPU is lost or cannot be reached, the driver cannot be spoken with (D08).

Where such lines stand before or in other output, the parser of that output states the same.
"""

from __future__ import annotations

from typing import Final

from bridgehead.discovery.nvidia import FAILURE_YIELDS, MAX_LINE_CHARS, head_lines, is_failure, plain, state_failure
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements

_TOOL: Final = "nvidia-smi-error"
_MOST_LINES: Final = 64
# What the tool adds to a message, in lower case: advice, and the version of its library.
_ADDITIONS: Final = (
    "make sure that the latest nvidia driver",
    "nvml library version:",
    "please ",
    "reboot the system",
    "$ ",
    "# ",
    "also ",
)


def recognises(head: bytes) -> bool:
    """Nothing but such messages, prompts and the advice that goes with them."""
    lines = [line.strip() for line in head_lines(head) if line.strip()]
    found = [is_failure(line) for line in lines[:_MOST_LINES]]
    return any(found) and len(lines) <= _MOST_LINES and all(one or _is_addition(line) for one, line in zip(found, lines, strict=True))


def parse(capture: Capture) -> Parsed:
    """What each message says. GPUs that no message names are not known to be well."""
    say = Statements(_TOOL, capture)
    for number, raw in enumerate(capture.lines, 1):
        text = plain(raw[:MAX_LINE_CHARS]).strip()
        if text and not state_failure(say, text, line=number) and not _is_addition(text):
            say.skip(number, f"no message that is known: {text[:80]!r}")
    return say.done()


def _is_addition(line: str) -> bool:
    return line.lower().startswith(_ADDITIONS)


PARSER = Parser(
    tool=_TOOL,
    command="nvidia-smi",
    recognises=recognises,
    marks=(
        b"unable to determine the device handle",
        b"inforom is corrupted at gpu",
        b"no devices were found",
        b"communicate with the nvidia driver",
        b"driver/library version mismatch",
        b"failed to initialize nvml",
        b"libnvidia-ml",
    ),
    parse=parse,
    yields=FAILURE_YIELDS,
)
