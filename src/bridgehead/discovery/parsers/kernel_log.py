"""Kernel and system logs (``dmesg``, syslog, journal): GPU faults (Xid, SXid) and network ports that lost their carrier (M2, M5.1)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.captures import same_host
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
_CLOCK = r"\d\d:\d\d:\d\d"
_TAG = r"[\w.()/@-]{1,80}(?:\[\d{1,10}\])?:"
# How lines begin: `dmesg`, `dmesg -T`, syslog with its two kinds of time; each with the level that `dmesg -x` and rsyslog put before it.
_LINE: Final = re.compile(
    rf"(?:<\d{{1,3}}>|[a-z]{{2,8}} *:[a-z]{{2,8}} *: ?)?(?:"
    rf"\[ *(?P<since>\d{{1,10}}\.\d{{6}})\]"
    rf"|\[(?P<date>[A-Z][a-z]{{2}} {_MONTH} +\d{{1,2}} {_CLOCK} \d{{4}})\]"
    rf"|(?P<syslog>{_MONTH} +\d{{1,2}} {_CLOCK}) (?P<host1>[\w.:-]{{1,255}}) {_TAG}"
    rf"|(?P<iso>\d{{4}}-\d\d-\d\dT{_CLOCK}(?:[.,]\d{{1,9}})?(?:Z|[+-]\d\d:?\d\d)) (?P<host2>[\w.:-]{{1,255}}) {_TAG}"
    rf")(?: (?P<text>.*))?",
    re.ASCII,
)
# The number is believed only with the comma behind it: a line that is cut inside the number says none.
_XID: Final = re.compile(r"NVRM: Xid \((?:PCI:)?([0-9A-Fa-f:.]{7,16})\): (\d{1,5}), ?(.*)", re.ASCII)
_SXID: Final = re.compile(r"SXid \((?:PCI:)?([0-9A-Fa-f:.]{7,16})\): (\d{1,5}), ?(.*)", re.ASCII)
_UUID: Final = re.compile(r"NVRM: GPU at (?:PCI:)?([0-9A-Fa-f:.]{7,16}): (GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})", re.ASCII)
_SERIAL: Final = re.compile(r"NVRM: GPU Board Serial Number: (\w{6,32})", re.ASCII)
_INDEX: Final = re.compile(r"\bfrom GPU(\d{1,4}) GSP\b", re.ASCII)
_RATE_LIMIT: Final = re.compile(r"NVRM: Rate limiting .{0,80}GPU at (?:PCI:)?([0-9A-Fa-f:.]{7,16}) \((printing 1 of every \d+)\)", re.ASCII)
_CARRIER: Final = re.compile(
    r"(?:.{0,120}\s)?(\w[\w.@-]{0,30}): (lost carrier|gained carrier|link (?:is )?(?:down|up)|nic link is (?:down|up))\b.{0,80}",
    re.IGNORECASE,
)
_LOOKED_AT: Final = 40
_SHOWN: Final = 200


class _Seen(msgspec.Struct):
    """Lines of one kind about one thing: how many, and the first and the last."""

    line: int
    first: str
    message: str
    count: int = 0
    last: str = ""
    last_line: int = 0


def recognises(head: bytes) -> bool:
    """Nearly every line begins as the kernel or syslog write it."""
    lines = [line for line in head.decode("utf-8-sig", "replace").splitlines() if line.strip()]
    lines = (lines if len(head) < 64 << 10 else lines[:-1])[:_LOOKED_AT]
    known = sum(_LINE.match(line) is not None for line in lines)
    return known > 0 and known >= 0.8 * len(lines)


def parse(capture: Capture) -> Parsed:
    """Counts of what happened. No line about a thing is no fact about it: a log covers only its time."""
    log = _Log(capture)
    for number, line in enumerate(capture.lines, 1):
        log.take(line, number)
    return log.done()


class _Log:
    """What is gathered while the lines go by."""

    def __init__(self, capture: Capture) -> None:
        self._say = Statements("kernel-log", capture)
        self._host = capture.host
        self._seen: dict[tuple[str, str, str], _Seen] = {}
        self._limited: dict[str, str] = {}
        self._cards: dict[tuple[str, str, str], int] = {}
        self._board = ""
        self._strange: list[int] = []

    def take(self, line: str, number: int) -> None:
        """One line."""
        if not line.strip():
            return
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            self._strange.append(number)
            return
        host = self._name(found["host1"] or found["host2"] or "")
        at, text = found["since"] or found["date"] or found["syslog"] or found["iso"], found["text"] or ""
        board, self._board = self._board, ""
        if event := _XID.search(text):
            self._count(f"{host}/pci:{event[1].lower()}", "xid", event[2], number, at, event[3])
            if index := _INDEX.search(event[3]):
                self._cards.setdefault((f"{host}/pci:{event[1].lower()}", "driver-index", index[1]), number)
        elif event := _SXID.search(text):
            self._count(f"{host}/pci:{event[1].lower()}", "sxid", event[2], number, at, event[3])
        elif card := _UUID.search(text):
            self._board = f"{host}/pci:{card[1].lower()}"
            self._cards.setdefault((self._board, "uuid", card[2]), number)
        elif board and (serial := _SERIAL.fullmatch(text)):
            self._cards.setdefault((board, "board-serial", serial[1]), number)
        elif limit := _RATE_LIMIT.search(text):
            self._limited[f"{host}/pci:{limit[1].lower()}"] = limit[2]
        elif "NVRM:" in text and "Xid" in text:
            self._say.skip(number, f"an Xid line that cannot be read or is cut off: {text[:80]!r}")
        elif port := _CARRIER.fullmatch(text):
            way = "gained" if port[2].lower().split()[-1] == "up" or port[2][0] in "Gg" else "lost"
            self._count(f"{host}/nic:{port[1]}", f"carrier-{way}", "", number, at, text)

    def done(self) -> Parsed:
        """All facts."""
        for (subject, kind, code), seen in self._seen.items():
            self._state(subject, kind, f":{code}" if code else "", seen)
        for (subject, attribute, value), line in self._cards.items():
            if attribute == "driver-index":
                self._say.number(subject, attribute, value, line=line)
            else:
                self._say.word(subject, attribute, value, line=line)
        if self._strange:
            lines = f"{len(self._strange)} lines do" if len(self._strange) > 1 else "a line does"
            self._say.skip(self._strange[0], f"{lines} not begin like a line of a log")
        return self._say.done()

    def _name(self, printed: str) -> str:
        """The printed host, in the words of the folder where both mean the same one."""
        if not printed or (self._host and same_host(printed, self._host)):
            return self._say.node
        return f"node:{printed}"

    def _count(self, subject: str, kind: str, code: str, line: int, at: str, message: str) -> None:
        seen = self._seen.setdefault((subject, kind, code), _Seen(line, at, message.strip()[:_SHOWN]))
        seen.count += 1
        seen.last, seen.last_line = at, line

    def _state(self, subject: str, kind: str, code: str, seen: _Seen) -> None:
        limit = self._limited.get(subject, "") if kind == "xid" else ""
        if limit:
            # The driver says itself that it left lines out, so their number is a lower bound and no count.
            note = f"at least {seen.count}: the driver stopped writing every one ({limit})"
            self._say.unknown(subject, f"{kind}-seen{code}", line=seen.line, note=note)
            self._say.known(subject, f"{kind}-seen-at-least{code}", seen.count, line=seen.line)
        else:
            self._say.known(subject, f"{kind}-seen{code}", seen.count, line=seen.line)
        self._say.known(subject, f"{kind}-seen-first{code}", seen.first, line=seen.line)
        self._say.known(subject, f"{kind}-seen-last{code}", seen.last, line=seen.last_line)
        if seen.message and code:
            self._say.known(subject, f"{kind}-seen-message{code}", seen.message, line=seen.line)


_EVENTS = (
    ("-seen", "", "how many lines say it"),
    ("-seen-first", "", "time of the first, as the log writes it"),
    ("-seen-last", "", "time of the last"),
)
PARSER = Parser(
    tool="kernel-log",
    command="dmesg -T",
    recognises=recognises,
    parse=parse,
    yields=(
        *(Yield("node:*/pci:*", f"{kind}{name}:*", unit, text) for kind in ("xid", "sxid") for name, unit, text in _EVENTS),
        *(Yield("node:*/pci:*", f"{kind}-seen-message:*", "", "what the first says") for kind in ("xid", "sxid")),
        Yield("node:*/pci:*", "xid-seen-at-least:*", "", "how many lines there are where the driver left some out"),
        Yield("node:*/pci:*", "driver-index", "", "the driver's number of this GPU"),
        Yield("node:*/pci:*", "uuid", "", "UUID of the GPU"),
        Yield("node:*/pci:*", "board-serial", "", "serial number of its board"),
        *(Yield("node:*/nic:*", f"carrier-{way}{name}", unit, text) for way in ("lost", "gained") for name, unit, text in _EVENTS),
    ),
)
