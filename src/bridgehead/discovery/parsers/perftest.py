"""perftest: ``ib_write_bw``, ``ib_read_bw``, ``ib_send_lat`` and the like: rates and delays between two adapters (M2, M5.3)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in
from bridgehead.discovery.tables import path_part
from bridgehead.discovery.textlines import whole_lines

_TITLE_TEXT = r"(RDMA_Write|RDMA_Read|RDMA_Write_With_Imm|Send|Atomic\w*)( Bidirectional)? (BW|Latency)(?: Post List)? Test"
_HEAD: Final = re.compile(rb"^[ \t]*#bytes[ \t]+#iterations[ \t]+\S|^[ \t]*" + _TITLE_TEXT.encode() + rb"[ \t]*\r?$", re.MULTILINE)
_TITLE: Final = re.compile(rf"\s*{_TITLE_TEXT}")
_COLUMNS: Final = re.compile(r"\s*#bytes\s+#iterations\s+(\S.{1,300})")
_COLUMN: Final = re.compile(r"\s*([\w.%][\w.% ]{0,40}?)\s*\[([\w%/]{1,12})\]", re.ASCII)
_PAIR: Final = re.compile(r"([A-Za-z][\w.* -]{0,30}?)\s*: ?\s*(\S{1,60})", re.ASCII)
_ROW: Final = re.compile(r"\s*\d{1,12}(?:\s+[\d.]{1,30}){2,20}", re.ASCII)
# perftest counts a MB as 2**20 bytes.
_RATES: Final = {"Gb/sec": 1e9, "MB/sec": 8 * 2**20, "MiB/sec": 8 * 2**20}
_NAMES: Final = {
    "BW peak": "measured-rate-peak",
    "BW average": "measured-rate-average",
    "MsgRate": "measured-message-rate",
    "t_min": "measured-delay-min",
    "t_max": "measured-delay-max",
    "t_typical": "measured-delay-typical",
    "t_avg": "measured-delay-average",
    "99% percentile": "measured-delay-p99",
    "99.9% percentile": "measured-delay-p999",
}
_SETTINGS: Final = {"Device": "device", "Number of qps": "queue-pairs", "Connection type": "connection-type"}
_LAYERS: Final = {"IB": "infiniband", "Ethernet": "ethernet"}


class _Run(msgspec.Struct):
    """One test of the output."""

    line: int
    title: str = "?"
    said: dict[str, tuple[str, int]] = msgspec.field(default_factory=dict)
    columns: list[tuple[str, str]] = msgspec.field(default_factory=list)
    rows: list[tuple[list[str], int]] = msgspec.field(default_factory=list)


def recognises(head: bytes) -> bool:
    """The title or the head of the table."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All runs in the output; several of one test and device are numbered."""
    say = Statements("perftest", capture)
    runs = [_Run(1)]
    for number, line in whole_lines(capture, say):
        if title := _TITLE.fullmatch(line):
            if runs[-1].rows or runs[-1].columns:
                runs.append(_Run(number))
            runs[-1].title = "-".join(part.strip() for part in title.groups() if part).lower().replace("_", "-")
        elif head := _COLUMNS.fullmatch(line):
            if runs[-1].rows:
                runs.append(_Run(number, runs[-1].title, runs[-1].said))
            runs[-1].columns = [(one[1], one[2]) for one in _COLUMN.finditer(head[1])]
        elif runs[-1].columns:
            if _ROW.fullmatch(line) and len(line.split()) == 2 + len(runs[-1].columns):
                runs[-1].rows.append((line.split(), number))
            elif line.strip("- ") and not line.lstrip().startswith(("local ", "remote ", "GID:")):
                say.skip(number, f"not a whole row of the table: {line.strip()[:80]!r}")
        else:
            runs[-1].said.update({pair[1].strip(): (pair[2], number) for pair in _PAIR.finditer(line)})
    seen: dict[str, int] = {}
    for run in runs:
        if run.rows or run.columns:
            device = path_part(run.said.get("Device", ("?", 0))[0])
            subject = f"{say.node}/perftest:{run.title}@{device}"
            seen[subject] = seen.get(subject, 0) + 1
            _state(say, subject if seen[subject] == 1 else f"{subject}#{seen[subject]}", run)
    return say.done()


def _state(say: Statements, subject: str, run: _Run) -> None:
    for key, attribute in _SETTINGS.items():
        if key in run.said:
            text, line = run.said[key]
            if attribute == "queue-pairs":
                say.number(subject, attribute, text, line=line)
            else:
                say.word(subject, attribute, text, line=line)
    if "Link type" in run.said:
        text, line = run.said["Link type"]
        say.word(subject, "link-layer", _LAYERS.get(text, ""), line=line)
    if "Mtu" in run.said:
        text, line = run.said["Mtu"]
        say.number(subject, "rdma-mtu", text.removesuffix("[B]"), line=line, unit="B")
    if not run.rows:
        say.unknown(subject, "measured-rate-average", line=run.line, unit="bit/s", note="the table has no row: the run was broken off")
    for words, line in run.rows:
        for (name, unit), text in zip(run.columns, words[2:], strict=True):
            _state_cell(say, subject, name, unit, words[0], text, line)


def _state_cell(say: Statements, subject: str, name: str, unit: str, size: str, text: str, line: int) -> None:
    attribute = _NAMES.get(name)
    if attribute is None:
        return
    if attribute.startswith("measured-rate"):
        scale, base = _RATES.get(unit), "bit/s"
    elif attribute == "measured-message-rate":
        scale, base = (1e6 if unit == "Mpps" else None), "1/s"
    else:
        scale, base = (1e-6 if unit == "usec" else None), "s"
    size = str(int(size))
    if scale is None:
        say.unknown(subject, f"{attribute}:{size}", line=line, unit=base, note=f"its unit is {unit!r}, which is not known here")
    elif not number_in(text):
        note = f"the tool printed {text}, which it does where it did not measure"
        say.unknown(subject, f"{attribute}:{size}", line=line, unit=base, note=note)
    else:
        say.number(subject, f"{attribute}:{size}", text, line=line, unit=base, scale=scale)


PARSER = Parser(
    tool="perftest",
    command="ib_write_bw --report_gbits -d DEVICE HOST",
    recognises=recognises,
    marks=(
        b"#bytes",
        b" test",
    ),
    parse=parse,
    yields=(
        Yield("node:*/perftest:*", "device", "", "RDMA device of this host"),
        Yield("node:*/perftest:*", "queue-pairs", "", "queue pairs in parallel"),
        Yield("node:*/perftest:*", "link-layer", "", "infiniband or ethernet"),
        Yield("node:*/perftest:*", "connection-type", "", "RC, UC, UD ..."),
        Yield("node:*/perftest:*", "rdma-mtu", "B", "largest RDMA packet"),
        Yield("node:*/perftest:*", "measured-rate-average", "bit/s", "unknown: of a run that was broken off"),
        *(
            Yield("node:*/perftest:*", f"{name}:*", unit, f"column {column!r} at a message size in bytes")
            for column, name in _NAMES.items()
            for unit in ("bit/s" if "rate-" in name and "message" not in name else "1/s" if "message" in name else "s",)
        ),
    ),
)
