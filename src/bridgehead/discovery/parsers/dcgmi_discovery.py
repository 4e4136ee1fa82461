"""``dcgmi discovery -l``: the GPUs, NVSwitches and CPUs that DCGM knows (M2).

What it finds is what was there when it was started: a GPU that is lost since then is still listed, and switches that it may not see are
not, so that its counts are its own and not those of the driver (D07).
"""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.nvidia import MAX_LINE_CHARS, head_lines, plain, state_bus_id, state_uuid, unfinished_line, word
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_TOOL: Final = "dcgmi-discovery"
_FOUND: Final = re.compile(r"(\d{1,4}) (GPU|NvSwitch|ConnectX|CPU)(?:es|s)? found(?: \((\w{1,20})\))?\.", re.ASCII)
_HEADING: Final = re.compile(r"\| (GPU|Switch|CPU) ID\s{0,20}\|.{0,100}")
_ROW: Final = re.compile(r"\|\s{0,4}(\d{0,6})\s{0,20}\|\s{0,4}([^|]{0,200}?)\s{0,100}\|", re.ASCII)
_SWITCH: Final = re.compile(r"\|\s{0,4}(\d{1,6})\s{0,20}\|", re.ASCII)
_COUNTS: Final = {"GPU": "gpu-count-dcgm", "NvSwitch": "nvswitch-count-dcgm", "ConnectX": "connectx-count-dcgm", "CPU": "cpu-count-dcgm"}


def recognises(head: bytes) -> bool:
    """The heading of the table of GPUs, or how many were found."""
    lines = [line.strip() for line in head_lines(head)]
    return any(_FOUND.fullmatch(line) or (_HEADING.fullmatch(line) and "Device Information" in line) for line in lines)


def parse(capture: Capture) -> Parsed:
    """Name, address and UUID of each GPU; counts."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    kind, subject = "", ""
    listed: dict[str, int] = {}
    found: dict[str, tuple[int, int]] = {}
    for number, raw in enumerate(capture.lines, 1):
        text = plain(raw).strip() if len(raw) <= MAX_LINE_CHARS else ""
        if number == cut and not text.endswith(("|", ".", "+")):
            say.skip(number, f"the output may be cut in this line: {text[:80]!r}")
        elif count := _FOUND.fullmatch(text):
            found[count[2]] = (int(count[1]), number)
            kind, subject = "", ""
        elif heading := _HEADING.fullmatch(text):
            kind, subject = heading[1], ""
        elif kind == "Switch" and (switch := _SWITCH.fullmatch(text)):
            listed["NvSwitch"] = listed.get("NvSwitch", 0) + 1
            say.known(f"{say.node}/nvswitch:{int(switch[1])}", "present-dcgm", True, line=number)
        elif kind in ("GPU", "CPU") and (row := _ROW.fullmatch(text)):
            if row[1]:
                subject = f"{say.node}/{kind.lower()}:{int(row[1])}"
                listed[kind] = listed.get(kind, 0) + 1
            if subject and kind == "GPU":
                _state_gpu(say, subject, row[2], number)
    for name, (count_found, line) in found.items():
        if name in ("GPU", "NvSwitch") and listed.get(name, 0) != count_found:
            note = f"{count_found} are said to be found, {listed.get(name, 0)} are listed"
            say.conflict(say.node, _COUNTS[name], count_found, line=line, note=note)
            say.skip(line, f"{note}: a part of the output is missing")
        else:
            say.known(say.node, _COUNTS[name], count_found, line=line)
    return say.done()


def _state_gpu(say: Statements, subject: str, text: str, line: int) -> None:
    name, _, value = text.partition(":")
    match name.strip():
        case "Name":
            word(say, subject, "model", value, line=line)
        case "PCI Bus ID":
            state_bus_id(say, subject, value, line=line)
        case "Device UUID":
            state_uuid(say, subject, value, line=line)
        case _:
            say.skip(line, f"nothing is made of {text[:80]!r}")


PARSER = Parser(
    tool=_TOOL,
    command="dcgmi discovery -l",
    recognises=recognises,
    marks=(
        b" found",
        b"device information",
    ),
    parse=parse,
    yields=(
        *(Yield("node:*", attribute, "", f"{name}s that DCGM found") for name, attribute in _COUNTS.items()),
        Yield("node:*/gpu:*", "model", "", "name of the product"),
        Yield("node:*/gpu:*", "pci-bus-id", "", "PCI address as domain:bus:device.function"),
        Yield("node:*/gpu:*", "uuid", "", "the one name that no other GPU has"),
        Yield("node:*/nvswitch:*", "present-dcgm", "", "true: DCGM lists the switch"),
    ),
)
