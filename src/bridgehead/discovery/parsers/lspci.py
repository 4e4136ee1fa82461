"""lspci, best with ``-nn``: GPUs, NVSwitches, network and storage adapters of a host, by address and numbers of maker and model (M2).

What the bus shows is not what the driver counts (case D09): ``gpu-count-pci`` beside the driver's ``gpu-count``. Virtual functions are
marked: they are no adapters of their own.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from bridgehead.discovery.nvidia import bus_id, unfinished_line
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_ADDRESS: Final = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]"
_NUMBERED: Final = re.compile(
    rf"({_ADDRESS}) ([A-Z0-9][^\[\]\n]{{0,80}}) \[([0-9a-f]{{4}})\]: (.{{0,300}}) \[([0-9a-f]{{4}}):([0-9a-f]{{4}})\]"
    r"(?: \(rev ([0-9a-f]{2})\))?(?: \(prog-if .{0,80}\))?",
    re.ASCII,
)
_NAMED: Final = re.compile(rf"({_ADDRESS}) ([A-Z0-9][^:\[\]\n]{{0,80}}): ([^\n]{{1,300}})", re.ASCII)
_HEAD: Final = re.compile(rf"^{_ADDRESS} [A-Z0-9][^\[\]:\n]{{0,80}}(?: \[[0-9a-f]{{4}}\])?: .".encode(), re.MULTILINE)
_LINK: Final = re.compile(r"Lnk(Cap|Sta):\s.{0,40}?Speed (\d{1,2}(?:\.\d)?)GT/s(?: \(\w+\))?, Width x(\d{1,2})\b", re.ASCII)
_GENERATIONS: Final = {"2.5": 1, "5": 2, "8": 3, "16": 4, "32": 5, "64": 6}
# Classes of what is planned with; a server has some hundreds of bridges and buses besides.
_CLASSES: Final = ("01", "02", "03", "12")
_NVIDIA: Final = "10de"
_GPU_MAKERS: Final = (_NVIDIA, "1002", "8086")
_BRIDGE: Final = "0680"
_TOOL: Final = "lspci"


def recognises(head: bytes) -> bool:
    """Lines that begin with an address and a class."""
    found = _HEAD.findall(head)
    lines = [line for line in head.split(b"\n") if line.strip() and line[:1] not in b" \t"]
    return 2 * len(found) > len(lines)


def parse(capture: Capture) -> Parsed:
    """Devices that are planned with, and how many of a kind there are."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    counts: Counter[str] = Counter()
    firsts: dict[str, int] = {}
    others, nameless, subject, broken = 0, 0, "", 0
    for number, raw in enumerate(capture.lines, 1):
        line = raw.rstrip()
        if raw[:1] in (" ", "\t"):
            if subject and number != cut:
                _detail(say, subject, line.strip(), number)
            continue
        found = _NUMBERED.fullmatch(line)
        subject = ""
        if found is None:
            named = _NAMED.fullmatch(line)
            nameless += named is not None and number != cut
            broken = number if number == cut else broken
            if line and (named is None or number == cut):
                say.skip(number, f"no line of a device, or cut off: {line[:80]!r}")
            continue
        kind, maker, model = found[3], found[5], found[6]
        if kind[:2] not in _CLASSES and (kind, maker) != (_BRIDGE, _NVIDIA):
            others += 1
            continue
        subject = f"{say.node}/pci:{bus_id(found[1])}"
        _device(say, subject, found, number, lost=found[7] == "ff")
        for key in _counted(kind, maker, model, lost=found[7] == "ff"):
            counts[key] += 1
            firsts.setdefault(key, number)
    for key, count in counts.items():
        if broken:
            say.unknown(say.node, key, line=firsts[key], note=f"the output is cut off: at least {count}")
        else:
            say.known(say.node, key, count, line=firsts[key])
    if others:
        say.skip(1, f"{others} devices of other kinds, such as bridges")
    if nameless:
        say.skip(1, f"{nameless} devices without numbers of maker and model: run lspci -nn")
    return say.done()


def _counted(kind: str, maker: str, model: str, *, lost: bool) -> list[str]:
    """The counts that a device is part of; one that fell off the bus is part of none."""
    if lost:
        return []
    keys = [f"pci-count:{maker}:{model}"]
    if kind[:2] in ("03", "12") and maker in _GPU_MAKERS and (maker == _NVIDIA or kind != "0300"):
        keys.append("gpu-count-pci")
    if (kind, maker) == (_BRIDGE, _NVIDIA):
        keys.append("nvswitch-count-pci")
    return keys


def _device(say: Statements, subject: str, found: re.Match[str], line: int, *, lost: bool) -> None:
    say.known(subject, "device-class", found[2], line=line)
    say.known(subject, "pci-id", f"{found[5]}:{found[6]}", line=line)
    say.known(subject, "model", found[4], line=line)
    if "Virtual Function" in found[4]:
        say.known(subject, "virtual-function", True, line=line)
    if lost:
        say.known(subject, "state", "lost", line=line, note="revision ff: the device does not answer on the bus")


def _detail(say: Statements, subject: str, text: str, line: int) -> None:
    """What ``-v``, ``-k`` and ``-vv`` add."""
    key, _, value = text.partition(": ")
    if key == "NUMA node":
        say.number(subject, "numa-node", value, line=line)
    elif key == "Kernel driver in use":
        say.word(subject, "kernel-driver", value, line=line)
    elif link := _LINK.match(text):
        which = "max" if link[1] == "Cap" else "seen"
        generation = _GENERATIONS.get(link[2].removesuffix(".0"))
        if generation is not None:
            say.known(subject, f"pcie-generation-{which}", generation, line=line)
        say.number(subject, f"pcie-width-{which}", link[3], line=line)


PARSER = Parser(
    tool=_TOOL,
    command="lspci -nn",
    recognises=recognises,
    marks=tuple(b".%d " % function for function in range(8)),
    parse=parse,
    yields=(
        Yield("node:*", "gpu-count-pci", "", "GPUs on the bus, whether the driver has them or not"),
        Yield("node:*", "nvswitch-count-pci", "", "NVSwitches on the bus"),
        Yield("node:*", "pci-count:*", "", "devices by numbers of maker and model"),
        Yield("node:*/pci:*", "device-class", "", "kind of device"),
        Yield("node:*/pci:*", "pci-id", "", "numbers of maker and model"),
        Yield("node:*/pci:*", "model", "", "name of the device"),
        Yield("node:*/pci:*", "virtual-function", "", "true for a part of an adapter that a virtual machine was given"),
        Yield("node:*/pci:*", "state", "", "lost where it does not answer"),
        Yield("node:*/pci:*", "numa-node", "", "NUMA node (-v)"),
        Yield("node:*/pci:*", "kernel-driver", "", "driver that has it (-k)"),
        Yield("node:*/pci:*", "pcie-generation-max", "", "highest PCIe generation of the device (-vv)"),
        Yield("node:*/pci:*", "pcie-generation-seen", "", "PCIe generation now (-vv)"),
        Yield("node:*/pci:*", "pcie-width-max", "", "most PCIe lanes of the device (-vv)"),
        Yield("node:*/pci:*", "pcie-width-seen", "", "PCIe lanes now (-vv)"),
    ),
)
