"""sinfo, squeue and sacct as text: with delimiters (``-P``, ``-p``, ``-o``) or in columns; node and GRES without a heading (D16, D17)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.columns import Cell, Heading, by_dashes, cells, headings
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Yield
from bridgehead.discovery.slurm import parts
from bridgehead.discovery.slurm_columns import JOB_NAMES, NODE_NAMES, state_job_row, state_node_row
from bridgehead.discovery.slurm_facts import BRIEF, JOB_YIELDS, NODE_YIELDS, PARTITION_YIELDS, STEP_YIELDS, SlurmFacts

_TOOL: Final = "slurm-tables"
_SIGNS: Final = "|,;\t"
_JOB_COLUMNS: Final = frozenset(
    {
        *("jobname", "name", "partition", "account", "alloccpus", "ncpus", "cpus", "state", "st", "exitcode", "user", "time", "timelimit"),
        *("nodes", "nnodes", "nodelist", "nodelistreason", "elapsed", "reqtres", "alloctres", "tresalloc", "trespernode"),
    }
)
_NODE_COLUMNS: Final = frozenset(
    {"gres", "gresused", "partition", "state", "statelong", "cpus", "memory", "avail", "timelimit", "nodes", "features", "reason"}
)
_BARE: Final = re.compile(r"\s*([A-Za-z0-9](?:[\w.-]|\[[\d,-]{1,200}\]){0,200})[,|;\s]+((?:gpu:|gres/gpu:)\S+|\(null\))\s*")
_NAMED: Final = re.compile("|".join(sorted({*JOB_NAMES, *NODE_NAMES})))
_OTHER_SIGNS: Final = re.compile(r"[^a-z0-9]+")
_MAX_LINE: Final = 200_000
_MOST_SKIPPED: Final = 20


def recognises(head: bytes) -> bool:
    """A heading with names of columns of nodes or jobs; or lines of a node and its GRES alone."""
    lines = [line for line in head.decode("utf-8-sig", "replace").splitlines()[:40] if line.strip()]
    if any(_columns(line) for line in lines):
        return True
    bare = [line for line in lines if ("gpu:" in line or "(null)" in line) and _BARE.fullmatch(line)]
    return len(bare) * 2 > len(lines) and any("gpu:" in line for line in bare)


def parse(capture: Capture) -> Parsed:
    """All rows below each heading. Rows that cannot be told apart into columns are skipped."""
    say = SlurmFacts(_TOOL, capture)
    table: _Table | None = None
    skipped = 0
    lines = capture.lines
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if number == len(lines) or len(line) > _MAX_LINE:
            say.skip(number, "the last line has no end and may be cut off" if number == len(lines) else "the line is too long")
            continue
        heading = _columns(line) if len(line) < 2000 else None
        if heading is not None:
            table = heading
            continue
        if table is not None and re.fullmatch(r"[-\s|+]+", line) and "--" in line:
            table.widths = by_dashes(line) if not table.sign else ()
            continue
        bare = _BARE.fullmatch(line) if table is None and len(line) < 1000 else None
        row = {"nodelist": Cell(bare[1]), "gres": Cell(bare[2])} if bare else table.row(line) if table else None
        if row is None:
            if (skipped := skipped + 1) <= _MOST_SKIPPED:
                say.skip(number, f"the columns of this line cannot be told apart: {line.strip()[:80]!r}")
        elif table is None or not table.jobs:
            state_node_row(say, row, line=number)
        else:
            state_job_row(say, row, line=number)
    if skipped > _MOST_SKIPPED:
        say.skip(len(lines), f"{skipped - _MOST_SKIPPED} more lines whose columns cannot be told apart")
    return say.done()


class _Table:
    """A heading: how its rows are divided."""

    def __init__(self, names: list[str], sign: str, places: tuple[Heading, ...], *, jobs: bool) -> None:
        self.names, self.sign, self.places, self.jobs = names, sign, places, jobs
        self.widths: tuple[tuple[int, int], ...] = ()

    def row(self, line: str) -> dict[str, Cell] | None:
        """The cells of a line by column; None where there are more or fewer than columns."""
        if self.sign:
            found_parts = line.split(self.sign) if self.sign != "," else parts(line)
            if len(found_parts) == len(self.names) + 1 and not found_parts[-1].strip():
                found_parts.pop()
            found = [Cell(part.strip()) for part in found_parts]
        elif len(self.widths) == len(self.names):
            found = [self._slice(line, start, end) for start, end in self.widths]
            if any(line[end : end + 1].strip() for _, end in self.widths[:-1]):
                return None
        else:
            found = list(cells(line, self.places) or ())
        return dict(zip(self.names, found, strict=True)) if len(found) == len(self.names) else None

    @staticmethod
    def _slice(line: str, start: int, end: int) -> Cell:
        """A cell under its dashes; sacct ends one that is cut with a plus."""
        text = line[start:end].strip()
        return Cell(text, full=text.endswith("+") and len(text) >= end - start)


def _columns(line: str) -> _Table | None:
    """The table that a line is the heading of."""
    if _NAMED.search(_plain(line)) is None:  # as in nearly all lines of whatever is no table of Slurm
        return None
    text = line.strip()
    for sign in _SIGNS:
        if sign in text:
            names = [_plain(word) for word in text.strip(sign if sign != "," else "").split(sign)]
            if _kind(names):
                return _Table(names, sign, (), jobs=_kind(names) == "job")
    places = headings(line)
    names = [_plain(place.name) for place in places]
    kind = _kind(names)
    return _Table(names, "", places, jobs=kind == "job") if kind else None


def _kind(names: list[str]) -> str:
    if len(set(names)) != len(names) or len(names) < 2:
        return ""
    if any(name in names for name in JOB_NAMES) and len(_JOB_COLUMNS.intersection(names)) >= 1:
        return "job"
    return "node" if any(name in names for name in NODE_NAMES) and len(_NODE_COLUMNS.intersection(names)) >= 1 else ""


def _plain(word: str) -> str:
    return _OTHER_SIGNS.sub("", word.lower())


PARSER = Parser(
    tool=_TOOL,
    command="sinfo -N -o '%N|%G|%t'; squeue; sacct -P; sacct -l",
    recognises=recognises,
    marks=(
        b"job",
        b"host",
        b"nodelist",
        b"node list",
        b"node_list",
        b"nodeaddr",
        b"partition",
        b"gpu:",
        b"(null)",
    ),
    parse=parse,
    yields=(
        *NODE_YIELDS,
        *JOB_YIELDS,
        *STEP_YIELDS,
        *PARTITION_YIELDS,
        BRIEF,
        Yield("node:*", "in-partition:*", "", "that it is in this partition; others may not have been listed"),
    ),
)
