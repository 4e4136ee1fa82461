"""Alibaba's published traces of GPU clusters as CSV: a list of nodes, and a list of pods (M5.2).

Times are seconds since the trace began. A pod that was given no node has no time of scheduling, which is UNKNOWN and never 0.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in
from bridgehead.discovery.tables import path_part

_TOOL: Final = "gpu-trace"
_NODES: Final = frozenset({"sn", "cpu_milli", "memory_mib", "gpu"})
_PODS: Final = frozenset({"name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "pod_phase"})
_SEPARATORS: Final = ",;\t"
_LOOKED_AT: Final = 4096
_MILLI: Final = 0.001
_MIB: Final = 2**20
_WHOLE_GPU: Final = 1000


class _Column(msgspec.Struct, frozen=True):
    """What a column is: ``scale`` is None for words."""

    attribute: str
    meaning: str
    unit: str = ""
    scale: float | None = None


_NODE: Final = {
    "cpu_milli": _Column("scheduler-cpu-count", "CPUs that the scheduler counts", "", _MILLI),
    "memory_mib": _Column("memory", "main memory that the scheduler counts", "B", _MIB),
    "gpu": _Column("gpu-capacity", "GPUs that the scheduler counts", "", 1),
    "model": _Column("gpu-model", "model of its GPUs; the trace hides some behind letters"),
}
_POD: Final = {
    "cpu_milli": _Column("cpu-count", "CPUs that it asks for", "", _MILLI),
    "memory_mib": _Column("memory-requested", "memory that it asks for", "B", _MIB),
    "num_gpu": _Column("gpu-count", "GPUs that it asks for, each counted whole", "", 1),
    "qos": _Column("qos", "class of service: latency-sensitive (LS), best effort (BE) and so on"),
    "pod_phase": _Column("phase", "Pending, Running, Succeeded or Failed"),
    "creation_time": _Column("created-after", "when it was made, since the trace began", "s", 1),
    "scheduled_time": _Column("scheduled-after", "when it was given a node, since the trace began", "s", 1),
    "deletion_time": _Column("deleted-after", "when it was removed, since the trace began", "s", 1),
}
_ABSENT: Final = {
    "scheduled_time": "the cell is empty: it was given no node",
    "deletion_time": "the cell is empty: it was not removed while the trace ran",
    "model": "the cell is empty",
}
_Row = dict[str, str]


def recognises(head: bytes) -> bool:
    """The columns of one of both lists in the first line, in any order."""
    return _kind(_names(_first_line(head))) is not None


def parse(capture: Capture) -> Parsed:
    """One subject a row; a row that is cut, that has too many or too few cells, or whose name was there before is skipped."""
    say = Statements(_TOOL, capture)
    first = capture.lines[0]
    columns = _names(first)
    kind = _kind(columns)
    if kind is None:
        say.skip(1, "the first line does not name the columns of a trace")
        return say.done()
    key, state = kind
    seen: dict[str, int] = {}
    for line, row in _rows(say, capture, columns):
        name = row[key].strip()
        if not name:
            say.skip(line, f"a row without {key}")
        elif name in seen:
            say.skip(line, f"{name[:80]!r} is there again; its first row is line {seen[name]}")
        else:
            seen[name] = line
            state(say, path_part(name), row, line)
    return say.done()


def _rows(say: Statements, capture: Capture, columns: list[str]) -> Iterator[tuple[int, _Row]]:
    lines = capture.lines
    if lines[-1].strip():
        say.skip(len(lines), "the last line has no end and may be cut off")
    reader = csv.reader((f"{line}\n" for line in lines[1:-1]), delimiter=_separator(lines[0]))
    try:
        for cells in reader:
            line = reader.line_num + 1
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(columns):
                say.skip(line, f"{len(cells)} cells under {len(columns)} columns")
                continue
            yield line, dict(zip(columns, cells, strict=True))
    except csv.Error as error:
        say.skip(reader.line_num + 1, f"the CSV is broken: {error}")


def _state_node(say: Statements, name: str, row: _Row, line: int) -> None:
    subject = f"node:{name}"
    for key, column in _NODE.items():
        if key == "model" and row.get("gpu", "").strip() == "0":
            continue  # without a GPU there is no model to miss
        _state(say, subject, row, key, column, line)


def _state_pod(say: Statements, name: str, row: _Row, line: int) -> None:
    """The trace has no namespaces: its pods stand in that of Kubernetes' default."""
    subject = f"workload:default/{name}"
    say.known(subject, "kind", "Pod", line=line)
    for key, column in _POD.items():
        _state(say, subject, row, key, column, line)
    if types := tuple(one.strip() for one in row.get("gpu_spec", "").split("|") if one.strip()):
        say.known(subject, "gpu-models-allowed", types, line=line)
    _state_share(say, subject, row, line)


def _state_share(say: Statements, subject: str, row: _Row, line: int) -> None:
    """Below 1000 thousandths a pod asks for a part of one GPU, and others may use the rest."""
    count, milli = number_in(row["num_gpu"]), number_in(row["gpu_milli"])
    if count == 0:
        return
    if count is None or milli is None:
        note = f"the file says num_gpu {row['num_gpu'][:40]!r} and gpu_milli {row['gpu_milli'][:40]!r}"
        say.unknown(subject, "gpu-share", line=line, unit="1", note=note)
    elif not 0 < milli <= _WHOLE_GPU or (count > 1 and milli != _WHOLE_GPU):
        note = f"{milli} thousandths of each of {count} GPUs"
        say.conflict(subject, "gpu-share", milli / _WHOLE_GPU, line=line, unit="1", note=note)
    else:
        say.number(subject, "gpu-share", row["gpu_milli"], line=line, unit="1", scale=_MILLI)


def _state(say: Statements, subject: str, row: _Row, key: str, column: _Column, line: int) -> None:
    """One cell. A column that the file does not have says nothing."""
    if key not in row:
        return
    text = row[key].strip()
    if not text and key in _ABSENT:
        say.unknown(subject, column.attribute, line=line, unit=column.unit, note=_ABSENT[key])
    elif column.scale is None:
        say.word(subject, column.attribute, text, line=line, unit=column.unit)
    elif text.startswith("-"):
        say.unknown(subject, column.attribute, line=line, unit=column.unit, note=f"the file says {text[:40]!r}, which nothing can be")
    else:
        say.number(subject, column.attribute, text, line=line, unit=column.unit, scale=column.scale)


def _kind(columns: list[str]) -> tuple[str, Callable[[Statements, str, _Row, int], None]] | None:
    """Which column names the things of the list, and what states them."""
    found = set(columns)
    if len(found) != len(columns):
        return None
    if found >= _NODES:
        return "sn", _state_node
    return ("name", _state_pod) if found >= _PODS else None


def _names(line: str) -> list[str]:
    return [cell.strip().strip('"').lower() for cell in line.split(_separator(line))]


def _separator(line: str) -> str:
    return max(_SEPARATORS, key=line.count)


def _first_line(data: bytes) -> str:
    return Capture("", data[:_LOOKED_AT]).lines[0]


PARSER = Parser(
    tool=_TOOL,
    command="cat openb_node_list_gpu_node.csv; cat openb_pod_list_default.csv",
    recognises=recognises,
    marks=(b"cpu_milli",),
    parse=parse,
    yields=(
        *(Yield("node:*", one.attribute, one.unit, one.meaning) for one in _NODE.values()),
        Yield("workload:*/*", "kind", "", "Pod"),
        *(Yield("workload:*/*", one.attribute, one.unit, one.meaning) for one in _POD.values()),
        Yield("workload:*/*", "gpu-models-allowed", "", "models of GPUs that it can run on"),
        Yield("workload:*/*", "gpu-share", "1", "part of each GPU that it asks for; a conflict where it is none, or a part of several"),
    ),
)
