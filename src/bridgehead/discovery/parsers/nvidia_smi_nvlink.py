"""``nvidia-smi nvlink --status``: which NVLinks of each GPU are up, and their rate (M2). Also its other lists by link: counters (``-e``),
what is at the other end (``-p``, ``-R``) and capabilities (``-c``).

How many links a GPU ought to have is not in the output: where all are down the tool does not even number them (D13).
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.nvidia import (
    FAILURE_YIELDS,
    MAX_LINE_CHARS,
    amount,
    bus_id,
    head_lines,
    plain,
    printed_note,
    state_failure,
    state_uuid,
    unfinished_line,
    word,
)
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_TOOL: Final = "nvidia-smi-nvlink"
_GPU: Final = re.compile(r"GPU (\d{1,3}): ?([^()]{0,200}?)(?: ?\(UUID: ?([^()]{0,80})\))?", re.ASCII)
_LINK: Final = re.compile(r"[ \t]{0,40}Link (\d{1,3})[:,][ \t]{1,10}(\S.{0,300})", re.ASCII)
_NONE_ACTIVE: Final = "as all links are inactive"
_RATE: Final = re.compile(r"[\d.]{1,20} [GM]B/s", re.ASCII)
_REMOTE: Final = re.compile(r"(?:Remote Device )?([0-9A-Fa-f]{2,8}:[0-9A-Fa-f:.]{4,12})(?:: ?Link (\d{1,3}))?", re.ASCII)
_SAID: Final = re.compile(r"([A-Za-z][\w /()-]{1,60}?)(?: is)?(?: supported)?: ?(\S.{0,80})", re.ASCII)
_WHOLE_ENDS: Final = ("/s", ">", "true", "false")


class _Gpu(msgspec.Struct):
    """A GPU while its links go by: its name as printed, and whether each link is up."""

    subject: str
    model: str
    line: int
    up: dict[int, bool] = msgspec.field(default_factory=dict)
    whole: bool = True


def recognises(head: bytes) -> bool:
    """A GPU's line, and below it a link's, or the words that none is active."""
    gpu = False
    for line in head_lines(head):
        text = line.rstrip()
        if gpu and (_LINK.fullmatch(text) or (text.startswith("NVML: ") and "NVLink" in text)):
            return True
        gpu = gpu or _GPU.fullmatch(text) is not None
    return False


def parse(capture: Capture) -> Parsed:
    """Each link, and how many of each GPU's are up."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    gpus: list[_Gpu] = []
    strange: list[int] = []
    for number, raw in enumerate(capture.lines, 1):
        text = plain(raw).rstrip() if len(raw) <= MAX_LINE_CHARS else "?"
        if not text.strip() or state_failure(say, text, line=number):
            continue
        gpu = gpus[-1] if gpus else None
        if number == cut and not text.endswith(_WHOLE_ENDS):
            say.skip(number, f"the output may be cut in this line: {text.strip()[:80]!r}")
            if gpu is not None:
                gpu.whole = False
        elif found := _GPU.fullmatch(text):
            gpus.append(_begin(say, found, number))
        elif gpu is not None and text.startswith("NVML: "):
            # The tool numbers no links then, so how many there are is not said.
            if _NONE_ACTIVE in text:
                say.known(gpu.subject, "nvlinks-active", 0, line=number, note=text[:120])
            else:
                say.unknown(gpu.subject, "nvlinks-active", line=number, note=printed_note(text))
            say.unknown(gpu.subject, "nvlinks-total", line=number, note=printed_note(text))
        elif gpu is not None and (link := _LINK.fullmatch(text)):
            _state_link(say, gpu, int(link[1]), link[2], number)
        else:
            strange.append(number)
    _state_counts(say, gpus, cut=bool(cut))
    if strange:
        say.skip(strange[0], f"{len(strange)} lines are about no link")
    return say.done()


def _begin(say: Statements, found: re.Match[str], line: int) -> _Gpu:
    gpu = _Gpu(f"{say.node}/gpu:{int(found[1])}", found[2].strip(), line)
    word(say, gpu.subject, "model", found[2], line=line)
    if found[3] is not None:
        state_uuid(say, gpu.subject, found[3], line=line)
    return gpu


def _state_link(say: Statements, gpu: _Gpu, link: int, text: str, line: int) -> None:
    subject = f"{gpu.subject}/nvlink:{link}"
    if text.lower() in ("<inactive>", "inactive"):
        gpu.up[link] = False
        say.known(subject, "active", False, line=line)
    elif _RATE.fullmatch(text):
        gpu.up[link] = True
        say.known(subject, "active", True, line=line)
        amount(say, subject, "bandwidth", text, line=line, unit="B/s")
    elif (remote := _REMOTE.fullmatch(text)) and (address := bus_id(remote[1])):
        say.known(subject, "peer-pci-bus-id", address, line=line)
        if remote[2]:
            say.known(subject, "peer-link", int(remote[2]), line=line)
    elif said := _SAID.fullmatch(text):
        name = re.sub(r"[^a-z0-9]+", "-", said[1].lower()).strip("-")
        if said[2].lower() in ("true", "false"):
            say.known(subject, f"capability:{name}", said[2].lower() == "true", line=line)
        else:
            say.number(subject, f"counter-seen:{name}", said[2], line=line)
    else:
        say.unknown(subject, "active", line=line, note=printed_note(text))
        gpu.whole = False


def _state_counts(say: Statements, gpus: list[_Gpu], *, cut: bool) -> None:
    """How many links each GPU has and how many are up. The last GPU's list may be cut: then it is whole only where another GPU of the same
    model has as many links."""
    most: dict[str, int] = {}
    for gpu in gpus[:-1]:
        most[gpu.model] = max(most.get(gpu.model, 0), len(gpu.up))
    for gpu in gpus:
        links = most.get(gpu.model, len(gpu.up) + 1 if cut else 0)
        if not gpu.up:
            continue
        if not gpu.whole or (gpu is gpus[-1] and len(gpu.up) < links):
            note = f"{len(gpu.up)} links are listed, and the list may be cut or cannot be read"
            say.unknown(gpu.subject, "nvlinks-active", line=gpu.line, note=note)
            say.unknown(gpu.subject, "nvlinks-total", line=gpu.line, note=note)
        else:
            say.known(gpu.subject, "nvlinks-active", sum(gpu.up.values()), line=gpu.line)
            say.known(gpu.subject, "nvlinks-total", len(gpu.up), line=gpu.line)


PARSER = Parser(
    tool=_TOOL,
    command="nvidia-smi nvlink --status",
    recognises=recognises,
    marks=(b"link",),
    parse=parse,
    yields=(
        Yield("node:*/gpu:*", "model", "", "name of the product"),
        Yield("node:*/gpu:*", "uuid", "", "the one name that no other GPU has"),
        Yield("node:*/gpu:*", "nvlinks-total", "", "NVLinks that the tool lists; unknown where all are down, since it lists none then"),
        Yield("node:*/gpu:*", "nvlinks-active", "", "NVLinks that are up"),
        Yield("node:*/gpu:*/nvlink:*", "active", "", "whether the link is up"),
        Yield("node:*/gpu:*/nvlink:*", "bandwidth", "B/s", "rate of the link in one direction"),
        Yield("node:*/gpu:*/nvlink:*", "peer-pci-bus-id", "", "PCI address of what is at the other end"),
        Yield("node:*/gpu:*/nvlink:*", "peer-link", "", "number of the link there"),
        Yield("node:*/gpu:*/nvlink:*", "capability:*", "", "whether the link can do it"),
        Yield("node:*/gpu:*/nvlink:*", "counter-seen:*", "", "counter of errors or traffic, by the tool's name of it"),
        *FAILURE_YIELDS,
    ),
)
