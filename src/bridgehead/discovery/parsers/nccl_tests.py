"""nccl-tests: ``all_reduce_perf`` and its siblings: ranks, and the bandwidth of each message size (M2, M5.1)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_HALF = rf"({_NUMBER}|N/A)\s+({_NUMBER}|N/A)\s+({_NUMBER}|N/A)\s+(\d+(?:e[+-]?\d+)?|N/A)"
# Size, count and type stand first; an operation and a root may be there or not; time, both bandwidths and the errors stand twice.
_ROW: Final = re.compile(rf"(\d+)\s+(\d+)\s+([a-z]\w*)(?:\s+[a-z]\w*)?(?:\s+-?\d+)?\s+{_HALF}\s+{_HALF}", re.ASCII)
_RANK: Final = re.compile(r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+ on\s+(\S+) device\s+(\d+) \[\S+\] (\S.*)")
_AVERAGE: Final = re.compile(r"#\s*Avg bus bandwidth\s*:\s*(\S+)")
_BOUNDS: Final = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)\s+(OK|FAILED)")
_TEST: Final = re.compile(r"#\s*Collective test (?:starting|concluded):\s*(\w+)")
_BEGIN: Final = re.compile(r"#\s*(?:Collective test starting:|nThread \d+ nGpus \d+ minBytes)")
_VERSION: Final = re.compile(r"(?:#\s*)?NCCL version (\d\S*)")
# What mpirun --tag-output and srun --label put in front of each line.
_LABEL: Final = re.compile(r"(?:\[\d+,\d+\]<std(?:out|err)>:|\d{1,6}:(?=\s*(?:#|\d+\s|NCCL)))\s?")
_HEAD: Final = re.compile(rb"nThread \d+ nGpus \d+ minBytes|Avg bus bandwidth\s*:|algbw\s+busbw|# Collective test (?:starting|concluded):")
_ROW_HEAD: Final = re.compile(
    rb"^[ \t]*\d+[ \t]+\d+[ \t]+[a-z]\w*(?:[ \t]+[a-z]\w*)?[ \t]+-?\d+(?:[ \t]+[\d.e+]+){3}[ \t]+(?:\d+|N/A)(?:[ \t]+[\d.e+]+){3}"
    rb"[ \t]+(?:\d+|N/A)[ \t]*\r?$",
    re.MULTILINE,
)


class _Row(msgspec.Struct):
    """One line of the table; bandwidths in B/s, None where the tool printed N/A."""

    line: int
    size: str
    bandwidth: tuple[float | None, float | None]
    algorithm: tuple[float | None, float | None]
    wrong: tuple[str, str]


class _Run(msgspec.Struct):
    """One test of the output."""

    test: str = ""
    ranks: dict[int, tuple[str, str, str, int]] = msgspec.field(default_factory=dict)
    rows: list[_Row] = msgspec.field(default_factory=list)
    version: tuple[str, int] | None = None
    average: tuple[str, int] | None = None
    bounds: tuple[str, str, int] | None = None


def recognises(head: bytes) -> bool:
    """Words of the frame, or a row of the table."""
    return _HEAD.search(head) is not None or _ROW_HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All runs in the output; several runs of one test on the same hosts are numbered."""
    say = Statements("nccl-tests", capture)
    seen: dict[str, int] = {}
    for run in _runs(capture, say):
        subject = _subject(run, say)
        seen[subject] = seen.get(subject, 0) + 1
        _state(run, subject if seen[subject] == 1 else f"{subject}#{seen[subject]}", say)
    return say.done()


def _runs(capture: Capture, say: Statements) -> list[_Run]:
    lines = capture.lines
    runs = [_Run()]
    for number, raw in enumerate(lines, 1):
        line = _LABEL.sub("", raw, count=1).strip() if raw[:1] in "[0123456789" else raw.strip()
        if not line:
            continue
        if runs[-1].rows and _BEGIN.match(line):
            runs.append(_Run())
        if number == len(lines):  # without an end of line it may be cut, even inside a number
            if line.strip("#"):
                say.skip(number, f"the last line has no end and may be cut off: {line[:80]!r}")
        elif line[0].isdigit():
            _take_row(line, number, runs[-1], say)
        elif line[0] in "#N":
            _take_comment(line, number, runs[-1])
    return [run for run in runs if run.rows or run.ranks or run.average]


def _take_row(line: str, number: int, run: _Run, say: Statements) -> None:
    row = _ROW.fullmatch(line)
    if row is None:
        if len(line.split()) > 3:
            say.skip(number, f"not a whole row of the table: {line[:80]!r}")
        return
    out, inside = row.groups()[3:7], row.groups()[7:11]
    run.rows.append(
        _Row(
            line=number,
            size=row[1],
            algorithm=(number_in(out[1], scale=1e9), number_in(inside[1], scale=1e9)),
            bandwidth=(number_in(out[2], scale=1e9), number_in(inside[2], scale=1e9)),
            wrong=(out[3], inside[3]),
        )
    )


def _take_comment(line: str, number: int, run: _Run) -> None:
    if rank := _RANK.fullmatch(line):
        run.ranks[int(rank[1][:9])] = (rank[2], rank[3], rank[4].strip(), number)
    elif test := _TEST.match(line):
        run.test = test[1]
    elif version := _VERSION.fullmatch(line):
        run.version = (version[1], number)
    elif average := _AVERAGE.match(line):
        run.average = (average[1], number)
    elif bounds := _BOUNDS.match(line):
        run.bounds = (bounds[1], bounds[2], number)


def _subject(run: _Run, say: Statements) -> str:
    """The host on which all ranks are, else the hosts together, by the first one; with the number of ranks, since that is another test."""
    hosts = sorted({host for host, *_ in run.ranks.values()})
    test = (run.test or "?") + (f"@{len(run.ranks)}" if run.ranks else "")
    match hosts:
        case []:
            return f"{say.node}/nccl:{test}"
        case [host]:
            return f"node:{host}/nccl:{test}"
        case [first, *others]:
            return f"cluster:?/nccl:{test}:{first}+{len(others)}"
    raise AssertionError("a list is empty or not")


def _state(run: _Run, subject: str, say: Statements) -> None:
    for host, device, model, line in run.ranks.values():
        say.word(f"node:{host}/gpu:{device}", "model", model, line=line)
    if run.ranks:
        first = min(line for *_, line in run.ranks.values())
        say.known(subject, "ranks", len(run.ranks), line=first)
        say.known(subject, "hosts", tuple(sorted({host for host, *_ in run.ranks.values()})), line=first)
        if sorted(run.ranks) != list(range(len(run.ranks))):
            say.skip(first, f"{max(run.ranks) + 1} ranks are counted and {len(run.ranks)} are listed: the list is incomplete")
    if run.version is not None:
        say.known(subject, "nccl-version", run.version[0], line=run.version[1])
    for row in run.rows:
        _state_row(row, subject, say)
    _state_peak(run, subject, say)
    if run.average is not None:
        say.number(subject, "measured-bus-bandwidth-average", run.average[0], line=run.average[1], unit="B/s", scale=1e9)
    elif run.rows:
        note = "the output ends before the line that says it"
        say.unknown(subject, "measured-bus-bandwidth-average", line=run.rows[-1].line, unit="B/s", note=note)
    if run.bounds is not None:
        count, verdict, line = run.bounds
        say.number(subject, "measured-out-of-bounds", count, line=line)
        say.known(subject, "measured-verdict", verdict.lower(), line=line)


def _state_row(row: _Row, subject: str, say: Statements) -> None:
    for place, half in enumerate(("out-of-place", "in-place")):
        for name, value in (("bus", row.bandwidth[place]), ("algorithm", row.algorithm[place])):
            attribute = f"measured-{name}-bandwidth-{half}:{row.size}"
            if value is None:
                say.unknown(subject, attribute, line=row.line, unit="B/s", note="the tool printed 'N/A'")
            else:
                say.known(subject, attribute, value, line=row.line, unit="B/s")
        say.number(subject, f"measured-wrong-{half}:{row.size}", row.wrong[place], line=row.line)


def _state_peak(run: _Run, subject: str, say: Statements) -> None:
    """The highest bus bandwidth of each half; bus and not algorithm bandwidth compares with what links can carry."""
    for place, half in enumerate(("out-of-place", "in-place")):
        known = [(value, -row.line) for row in run.rows if (value := row.bandwidth[place]) is not None]
        if known:
            value, line = max(known)
            say.known(subject, f"measured-bus-bandwidth-peak-{half}", value, line=-line, unit="B/s")


_RUN = ("node:*/nccl:*", "cluster:?/nccl:*")
PARSER = Parser(
    tool="nccl-tests",
    command="all_reduce_perf -b 8 -e 8G -f 2",
    recognises=recognises,
    parse=parse,
    yields=(
        Yield("node:*/gpu:*", "model", "", "model of the device that a rank used"),
        *(
            Yield(subject, *what)
            for subject in _RUN
            for what in (
                ("ranks", "", "number of ranks"),
                ("hosts", "", "hosts of the ranks"),
                ("nccl-version", "", "version of NCCL"),
                ("measured-bus-bandwidth-*:*", "B/s", "bus bandwidth out of place and in place at a message size in bytes"),
                ("measured-algorithm-bandwidth-*:*", "B/s", "algorithm bandwidth, the same way"),
                ("measured-wrong-*:*", "", "wrong values at a message size"),
                ("measured-bus-bandwidth-peak-*", "B/s", "the highest bus bandwidth of all sizes"),
                ("measured-bus-bandwidth-average", "B/s", "what the tool says as average of all sizes, small ones too"),
                ("measured-out-of-bounds", "", "values outside their bounds"),
                ("measured-verdict", "", "ok or failed, of the values"),
            )
        ),
    ),
)
