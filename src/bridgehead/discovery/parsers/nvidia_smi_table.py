"""``nvidia-smi`` without arguments: the table for people, of any generation (M2).

It is made for the eye: names end in ``...``, watts are whole, and a sample can be ``ERR!`` where the next one is well (D06). Where
``nvidia-smi -q`` is at hand it says more. Looped output (``-l``, ``watch``) gives the last table.
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
    state_bus_id,
    state_failure,
    unfinished_line,
    word,
)
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_TOOL: Final = "nvidia-smi-table"
_BANNER: Final = re.compile(r"\| NVIDIA-SMI \S{1,20}\s{1,40}(?:Driver|KMD) Version:")
_DRIVER: Final = re.compile(r"(?:Driver|KMD) Version: {0,5}(\S{1,30})")
_CUDA: Final = re.compile(r"CUDA (?:UMD )?Version: {0,5}(\S{1,30})")
_TIME: Final = re.compile(r"[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}", re.ASCII)
_NAME: Final = re.compile(r"\s{0,8}(\d{1,3})\s{1,8}(\S.{0,120}?)\s{1,80}(On|Off|N/A|ERR!|WDDM|TCC|MCDM)\s{0,20}", re.ASCII)
_BUS: Final = re.compile(r"\s{0,20}([0-9A-Fa-f:.]{7,16})\s{1,20}(?:On|Off|N/A|ERR!)\s{0,20}", re.ASCII)
_SENSORS: Final = re.compile(r"\s{0,8}(\S{1,8})\s{1,12}(\S{1,8})\s{1,12}(\S{1,8})\s{1,40}(\S{1,12}) {0,8}/ {0,8}(\S{1,12})\s{0,20}")
_MEMORY: Final = re.compile(r"\s{0,40}(\S{1,20}) {0,8}/ {0,8}(\S{1,20})\s{0,40}")
_USE: Final = re.compile(r"\s{0,40}(\S{1,12})\s{1,40}(\S.{0,30}?)\s{0,40}")
_SLICE: Final = re.compile(r"\s{0,8}(\d{1,3})\s{1,8}(\d{1,3})\s{1,8}(\d{1,3})\s{1,8}(\d{1,3})\s{0,8}", re.ASCII)
_HEADINGS: Final = ("GPU  ", "Fan  ", "MIG M.", "ID  ID", "BAR1-Usage", "ECC|", "MIG devices:", "No MIG devices", "NVIDIA-SMI ")
_PERSISTENCE: Final = {"On": "Enabled", "Off": "Disabled"}
_COMPUTE: Final = {"E. Process": "Exclusive_Process", "E. Thread": "Exclusive_Thread"}


class _Row(msgspec.Struct, frozen=True):
    """The cells of one line."""

    line: int
    cells: tuple[str, ...]


class _Table(msgspec.Struct):
    """What the last table holds: the lines of each GPU, and those of the MIG devices, by GPU and number."""

    gpus: dict[int, list[_Row]] = msgspec.field(default_factory=dict)
    slices: dict[tuple[int, int], _Row] = msgspec.field(default_factory=dict)
    slices_ended: bool = False


def recognises(head: bytes) -> bool:
    """The banner, or the first line of a GPU."""
    return any(_BANNER.match(line) or _is_gpu(_cells(line)) for line in head_lines(head) if line.startswith("|"))


def parse(capture: Capture) -> Parsed:
    """Facts of the node and of each GPU."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    table = _Table()
    rows: list[_Row] = []
    place = "gpus"
    node: dict[str, tuple[str, int]] = {}
    strange: list[int] = []
    for number, raw in enumerate(capture.lines, 1):
        text = plain(raw).strip() if len(raw) <= MAX_LINE_CHARS else ""
        if not text or state_failure(say, text, line=number):
            continue
        if _BANNER.match(text):
            table, rows, place = _Table(), [], "gpus"
            _take_versions(node, text, number)
        elif number == cut and not text.endswith("|"):
            if not text.startswith("+"):
                say.skip(number, f"the output may be cut in this line: {text[:80]!r}")
        elif _TIME.fullmatch(text):
            node["captured-local-time-seen"] = (text, number)
        elif text.startswith("|") and "Processes:" in text:
            place, table.slices_ended = "processes", place == "slices" or table.slices_ended
        elif text.startswith("|") and "MIG devices:" in text:
            place = "slices"
        elif place == "processes" or not text.startswith("|") or text.startswith(("|--", "|==")):
            rows = []  # a border, what stands around the table, or what runs at this moment
        elif place == "slices" and (found := _SLICE.fullmatch(_cells(text)[0])):
            table.slices.setdefault((int(found[1]), int(found[4])), _Row(number, _cells(text)))
        elif place == "slices":
            pass  # headings, and the second line of each: its BAR1
        elif _is_gpu(cells := _cells(text)):
            rows = table.gpus[int(cells[0].split()[0])] = [_Row(number, cells)]
        elif rows and len(cells) == 3 and len(rows) < 4:
            rows.append(_Row(number, cells))
        elif not any(words in text for words in _HEADINGS):
            strange.append(number)
    _state(say, table, node)
    if strange:
        say.skip(strange[0], f"{len(strange)} lines are no row of a GPU")
    return say.done()


def _cells(text: str) -> tuple[str, ...]:
    return tuple(text.strip().removeprefix("|").removesuffix("|").split("|"))


def _is_gpu(cells: tuple[str, ...]) -> bool:
    return len(cells) == 3 and _NAME.fullmatch(cells[0]) is not None and _BUS.fullmatch(cells[1]) is not None


def _take_versions(node: dict[str, tuple[str, int]], text: str, line: int) -> None:
    for attribute, pattern in (("driver-version", _DRIVER), ("cuda-version", _CUDA)):
        found = pattern.search(text)
        # A version is whole only where something follows it: blanks, and the border.
        if found and found.end() < len(text):
            node[attribute] = (found[1], line)


def _state(say: Statements, table: _Table, node: dict[str, tuple[str, int]]) -> None:
    for attribute, (text, line) in node.items():
        word(say, say.node, attribute, text, line=line)
    for index, rows in table.gpus.items():
        subject = f"{say.node}/gpu:{index}"
        _state_name(say, subject, rows[0])
        if len(rows) > 1:
            _state_sensors(say, subject, rows[1])
        else:
            say.skip(rows[0].line, f"only the first line of GPU {index} is there")
        if len(rows) > 2:
            _state_mig(say, subject, rows[2])
    _state_slices(say, table)


def _state_name(say: Statements, subject: str, row: _Row) -> None:
    name, bus = _NAME.fullmatch(row.cells[0]), _BUS.fullmatch(row.cells[1])
    assert name is not None
    assert bus is not None
    if name[2].endswith("..."):
        say.unknown(subject, "model", line=row.line, note=f"{printed_note(name[2])}: the table leaves out the end")
    else:
        word(say, subject, "model", name[2], line=row.line)
    if bus_id(bus[1]) is not None:
        state_bus_id(say, subject, bus[1], line=row.line)
    if name[3] in ("WDDM", "TCC", "MCDM"):
        say.known(subject, "driver-model", name[3], line=row.line)
    else:
        word(say, subject, "persistence-mode", _PERSISTENCE.get(name[3], name[3]), line=row.line)
    errors = row.cells[2].strip()
    if errors == "Off":
        say.known(subject, "ecc-mode", "Disabled", line=row.line)
    else:
        say.number(subject, "ecc-uncorrectable-volatile-seen", errors, line=row.line)


def _state_sensors(say: Statements, subject: str, row: _Row) -> None:
    line = row.line
    if sensors := _SENSORS.fullmatch(row.cells[0]):
        fan, temperature, state, draw, limit = sensors.groups()
        if temperature == state == "ERR!":
            say.known(subject, "state", "unreachable", line=line, note="its temperature and its state are ERR!")
        amount(say, subject, "fan-speed", fan, line=line, unit="%")
        amount(say, subject, "temperature", temperature, line=line, unit="degC")
        word(say, subject, "performance-state-seen", state, line=line)
        amount(say, subject, "power-draw", draw, line=line, unit="W")
        amount(say, subject, "power-limit", limit, line=line, unit="W")
    else:
        say.skip(line, f"no temperature and power: {row.cells[0].strip()[:80]!r}")
    if memory := _MEMORY.fullmatch(row.cells[1]):
        amount(say, subject, "memory-used", memory[1], line=line, unit="B")
        amount(say, subject, "memory-total", memory[2], line=line, unit="B")
    else:
        for attribute in ("memory-used", "memory-total"):
            say.unknown(subject, attribute, line=line, unit="B", note=printed_note(row.cells[1]))
    if use := _USE.fullmatch(row.cells[2]):
        amount(say, subject, "utilization", use[1], line=line, unit="%")
        word(say, subject, "compute-mode", _COMPUTE.get(use[2], use[2]), line=line)


def _state_mig(say: Statements, subject: str, row: _Row) -> None:
    mode = row.cells[2].strip()
    word(say, subject, "mig-mode", mode.removesuffix("*"), line=row.line)
    if mode in ("Enabled*", "Disabled*"):
        pending = "Disabled" if mode == "Enabled*" else "Enabled"
        say.known(subject, "mig-mode-pending", pending, line=row.line, note=f"{printed_note(mode)}: it changes with the next reset")


def _state_slices(say: Statements, table: _Table) -> None:
    """Instances belong to their GPU and are no GPUs (D10)."""
    counts: dict[int, int] = {}
    for (gpu, number), row in table.slices.items():
        counts[gpu] = counts.get(gpu, 0) + 1
        subject, found = f"{say.node}/gpu:{gpu}/mig:{number}", _SLICE.fullmatch(row.cells[0])
        assert found is not None
        say.known(subject, "gpu-instance-id", int(found[2]), line=row.line)
        say.known(subject, "compute-instance-id", int(found[3]), line=row.line)
        if len(row.cells) > 2 and (memory := _MEMORY.fullmatch(row.cells[1])):
            amount(say, subject, "memory-used", memory[1], line=row.line, unit="B")
            amount(say, subject, "memory-total", memory[2], line=row.line, unit="B")
        if len(row.cells) > 2 and (use := row.cells[2].split()):
            say.number(subject, "multiprocessor-count", use[0], line=row.line)
    for gpu, count in counts.items():
        line = table.slices[next(key for key in table.slices if key[0] == gpu)].line
        if table.slices_ended:
            say.known(f"{say.node}/gpu:{gpu}", "mig-instances", count, line=line)
        else:
            say.unknown(f"{say.node}/gpu:{gpu}", "mig-instances", line=line, note=f"at least {count}: the output ends within their list")


_GPU: Final = (
    ("model", "", "name of the product; unknown where the table leaves out its end"),
    ("driver-model", "", "WDDM, TCC or MCDM, on Windows"),
    ("persistence-mode", "", "whether the driver stays loaded"),
    ("ecc-mode", "", "Disabled where the table says Off"),
    ("ecc-uncorrectable-volatile-seen", "", "uncorrectable errors since the driver was loaded, of all memory"),
    ("fan-speed", "%", "of the card's own fan"),
    ("temperature", "degC", "of the chip"),
    ("performance-state-seen", "", "P0 fastest to P15"),
    ("power-draw", "W", "draw now, in whole watts"),
    ("power-limit", "W", "limit in force, in whole watts"),
    ("memory-used", "B", "memory in use"),
    ("memory-total", "B", "memory of the GPU"),
    ("utilization", "%", "share of time with work"),
    ("compute-mode", "", "who may use the GPU at once"),
    ("mig-mode", "", "whether the GPU is divided into instances"),
    ("mig-mode-pending", "", "the same, after the next reset, where it changes"),
    ("mig-instances", "", "instances of a divided GPU"),
)
PARSER = Parser(
    tool=_TOOL,
    command="nvidia-smi",
    recognises=recognises,
    marks=(
        b"nvidia-smi",
        b"|",
    ),
    parse=parse,
    yields=(
        Yield("node:*", "driver-version", "", "version of the driver"),
        Yield("node:*", "cuda-version", "", "newest CUDA that the driver can run"),
        Yield("node:*", "captured-local-time-seen", "", "when, in the host's own unknown time zone"),
        *(Yield("node:*/gpu:*", name, unit, meaning) for name, unit, meaning in _GPU),
        *(Yield("node:*/gpu:*/mig:*", name, "", "of an instance") for name in ("gpu-instance-id", "compute-instance-id")),
        *(Yield("node:*/gpu:*/mig:*", name, "B", "of an instance") for name in ("memory-used", "memory-total")),
        Yield("node:*/gpu:*/mig:*", "multiprocessor-count", "", "of an instance"),
        *FAILURE_YIELDS,
    ),
)
