"""``nvidia-smi -q``: all that the driver says of each GPU, as text, whole or with ``-d`` or ``-i`` (M2)."""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import pairwise
from typing import Final

from bridgehead.discovery.gpu_description import Described, Description, state_description
from bridgehead.discovery.nvidia import FAILURE_YIELDS, MAX_LINE_CHARS, head_lines, plain, state_failure, unfinished_line
from bridgehead.discovery.nvidia_readings import READING_YIELDS
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements

_TOOL: Final = "nvidia-smi-q"
_BANNER: Final = re.compile(r"=+\s?NVSMI LOG\s?=+")
_GPU: Final = re.compile(r"GPU ((?:[0-9A-Fa-f]{4,8}:)?[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_SPLIT: Final = re.compile(r"[ \t]:(?:[ \t]|$)")
_INSTANCES: Final = ("mig_device", "mig_devices")
_PROCESSES: Final = ("processes", "accounted_processes")
_MAX_DEPTH: Final = 12


def recognises(head: bytes) -> bool:
    """The banner, or without it a GPU's address or the section Fabric with indented readings below."""
    lines = [line for line in head_lines(head) if line.strip()]
    if any(_BANNER.fullmatch(line.strip()) for line in lines[:20]):
        return True
    return any(
        (_GPU.fullmatch(line.rstrip()) or line.rstrip() == "Fabric")
        and below[:1] in (" ", "\t")
        and (":" not in below or _SPLIT.search(below))
        for line, below in pairwise(lines)
    )


def parse(capture: Capture) -> Parsed:
    """Facts of the node and of each GPU."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    found = Description()
    gpu: Described | None = None
    open_sections: list[tuple[int, str]] = []
    strange: list[int] = []
    for number, raw in enumerate(capture.lines, 1):
        text = plain(raw).expandtabs(8).rstrip() if len(raw) <= MAX_LINE_CHARS else ""
        if not text.strip() or _BANNER.fullmatch(text) or text.lstrip().startswith("$"):
            continue
        if address := _GPU.fullmatch(text):
            gpu = Described(address[1], number)
            found.gpus.append(gpu)
            open_sections = []
            continue
        if number == cut:
            say.skip(number, "the output may be cut in this line")
            continue
        if state_failure(say, text, line=number):
            continue
        depth = len(text) - len(text.lstrip())
        while open_sections and open_sections[-1][0] >= depth:
            open_sections.pop()
        parts = _SPLIT.split(text, maxsplit=1)
        name = _path_name(parts[0].strip()[:80])
        if len(parts) == 1:
            strange += [number] if ":" in text else []
            open_sections.append((depth, name))
            if len(open_sections) > _MAX_DEPTH:
                strange.append(number)
                open_sections = []
            continue
        if open_sections and open_sections[0][1] in _PROCESSES:
            continue  # what runs at this moment is no part of an estate
        if gpu is None and (depth > 0 or open_sections) and name not in found.node:
            gpu = Described("", number)  # a part of the output that someone cut out, of a GPU that it does not name
            found.gpus.append(gpu)
        path = "/".join([*(section for _, section in open_sections), name])
        if gpu is not None and path.partition("/")[0] in _INSTANCES:
            if path.endswith("/index") or not gpu.instances:
                gpu.instances.append({})
            gpu.instances[-1].setdefault(path.partition("/")[2], (parts[1].strip()[:400], number))
            continue
        (found.node if gpu is None else gpu.leaves).setdefault(path, (parts[1].strip()[:400], number))
    if strange:
        say.skip(strange[0], f"{len(strange)} lines are neither sections nor readings")
    state_description(say, found)
    return say.done()


@lru_cache(maxsize=2048)
def _path_name(label: str) -> str:
    """``FB Memory Usage`` as in the XML: ``fb_memory_usage``."""
    return re.sub(r"[^a-z0-9]+", "_", label.lower()).strip("_")


PARSER = Parser(
    tool=_TOOL,
    command="nvidia-smi -q",
    recognises=recognises,
    marks=(
        b"nvsmi log",
        b"gpu ",
        b"fabric",
    ),
    parse=parse,
    yields=(*READING_YIELDS, *(item for item in FAILURE_YIELDS if item.attribute.endswith("state"))),
)
