"""``fabricmanager.log`` of NVIDIA's Fabric Manager: errors of NVSwitches by port, and the multicast groups that jobs hold (M2).

A log covers only its time: what it does not say has not been shown. Times are the host's own, of an unknown time zone.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.nvidia import MAX_LINE_CHARS, bus_id, head_lines, unfinished_line
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield

_TOOL: Final = "fabric-manager-log"
_LINE: Final = re.compile(
    r"\[((?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d\d \d{4} \d\d:\d\d:\d\d)\] \[([A-Z]{3,12})\] \[tid \d{1,10}\] ?(.*)",
    re.ASCII,
)
_FAULT: Final = re.compile(
    r"detected NVSwitch (non-fatal|fatal) error (\d{1,6}) on (?:fid|NodeId) \d{1,5} on NVSwitch pci bus id ([0-9A-Fa-f:.]{7,16})"
    r"(?: physical id (\d{1,5}))?(?: port (\d{1,5}))?",
    re.ASCII,
)
_GROUP: Final = re.compile(r"multicast group (\d{1,6}) is (allocated|freed)\.", re.ASCII)
_TEAM: Final = re.compile(r"Team setup request: .{0,80}Number of GPUs:(\d{1,4}) ", re.ASCII)
_VERSION: Final = re.compile(r"Fabric Manager version(?: is)?[: ]{1,3}(\d{3}(?:\.\d{1,4}){1,3})(?!\S)", re.IGNORECASE | re.ASCII)
_CONFIGURED: Final = "Successfully configured all the available"
_LOOKED_AT: Final = 200
_SHOWN: Final = 200


class _Fault(msgspec.Struct):
    """Errors of one number at one port."""

    line: int
    severity: str
    first: str
    message: str
    count: int = 0
    last: str = ""
    last_line: int = 0


class _Log(msgspec.Struct):
    """What is gathered while the lines go by."""

    first: tuple[str, int] | None = None
    last: tuple[str, int] = ("", 1)
    levels: dict[str, list[int]] = msgspec.field(default_factory=dict)
    error: tuple[str, int] = ("", 1)
    faults: dict[tuple[str, str], _Fault] = msgspec.field(default_factory=dict)
    physical: dict[str, tuple[str, int]] = msgspec.field(default_factory=dict)
    groups: dict[str, int] = msgspec.field(default_factory=dict)
    group_line: int = 0
    team: tuple[str, int] = ("", 1)
    version: tuple[str, int] = ("", 1)
    configured: int = 0


def recognises(head: bytes) -> bool:
    """A line with the log's time, level and thread among the first."""
    return any(_LINE.fullmatch(line.strip()) for line in head_lines(head)[:_LOOKED_AT])


def parse(capture: Capture) -> Parsed:
    """Counts of what happened, and the state at the end of the log."""
    say = Statements(_TOOL, capture)
    cut = unfinished_line(capture)
    log = _Log()
    loose: list[int] = []
    for number, raw in enumerate(capture.lines, 1):
        text = raw.strip() if len(raw) <= MAX_LINE_CHARS else ""
        if number == cut:
            say.skip(number, f"the log may be cut in this line: {text[:80]!r}")
        elif found := _LINE.fullmatch(text):
            _take(say, log, found, number)
        elif team := _TEAM.search(text):  # what a message carries stands in a line of its own
            log.team = (team[1], number)
        elif text and not text.startswith("Message payload details:"):
            loose.append(number)
    _state(say, log)
    if loose:
        say.skip(loose[0], f"{len(loose)} lines do not begin like a line of the log")
    return say.done()


def _take(say: Statements, log: _Log, found: re.Match[str], line: int) -> None:
    at, level, text = found.groups()
    log.first = log.first or (at, line)
    log.last = (at, line)
    log.levels.setdefault(level, []).append(line)
    if level in ("ERROR", "CRITICAL", "FATAL"):
        log.error = (text[:_SHOWN], line)
    if fault := _FAULT.search(text):
        switch = f"{say.node}/nvswitch:{bus_id(fault[3]) or fault[3].lower()}"
        subject = f"{switch}/port:{int(fault[5])}" if fault[5] else switch
        if fault[4]:
            log.physical[switch] = (fault[4], line)
        one = log.faults.setdefault((subject, fault[2]), _Fault(line, fault[1], at, text[:_SHOWN]))
        one.count += 1
        one.last, one.last_line = at, line
        one.severity = "fatal" if fault[1] == "fatal" else one.severity
    elif group := _GROUP.search(text):
        log.group_line = line
        if group[2] == "allocated":
            log.groups[group[1]] = line
        else:
            log.groups.pop(group[1], None)
    elif team := _TEAM.search(text):
        log.team = (team[1], line)
    elif version := _VERSION.search(text):
        log.version, log.configured = (version[1], line), 0  # it was started here
    elif _CONFIGURED in text:
        log.configured = line


def _state(say: Statements, log: _Log) -> None:
    if log.first is None:
        say.skip(1, "no line of the log is whole")
        return
    say.known(say.node, "fabric-manager-seen-first", log.first[0], line=log.first[1])
    say.known(say.node, "fabric-manager-seen-last", log.last[0], line=log.last[1])
    errors = [line for level in ("ERROR", "CRITICAL", "FATAL") for line in log.levels.get(level, [])]
    say.known(say.node, "fabric-manager-errors-seen", len(errors), line=max(errors, default=log.last[1]))
    if log.error[0]:
        say.known(say.node, "fabric-manager-errors-seen-last", log.error[0], line=log.error[1])
    if log.version[0]:
        say.known(say.node, "fabric-manager-version", log.version[0], line=log.version[1])
    if log.configured:
        say.known(say.node, "fabric-configured-seen", True, line=log.configured)
    if log.group_line:
        say.known(say.node, "multicast-groups-seen", len(log.groups), line=log.group_line)
    if log.team[0]:
        say.known(say.node, "multicast-gpus-seen", int(log.team[0]), line=log.team[1])
    for switch, (number, line) in log.physical.items():
        say.known(switch, "physical-id", int(number), line=line)
    for (subject, code), fault in log.faults.items():
        say.known(subject, f"nvswitch-error-seen:{code}", fault.count, line=fault.line)
        say.known(subject, f"nvswitch-error-seen-severity:{code}", fault.severity, line=fault.line)
        say.known(subject, f"nvswitch-error-seen-first:{code}", fault.first, line=fault.line)
        say.known(subject, f"nvswitch-error-seen-last:{code}", fault.last, line=fault.last_line)
        say.known(subject, f"nvswitch-error-seen-message:{code}", fault.message, line=fault.line)


_FAULTS: Final = (
    ("", "how many lines say it, by the number of the error (SXid)"),
    ("-severity", "fatal or non-fatal"),
    ("-first", "time of the first"),
    ("-last", "time of the last"),
    ("-message", "what the first says"),
)
PARSER = Parser(
    tool=_TOOL,
    command="cat /var/log/fabricmanager.log",
    recognises=recognises,
    marks=(b"[tid ",),
    parse=parse,
    yields=(
        Yield("node:*", "fabric-manager-seen-first", "", "time of the first line"),
        Yield("node:*", "fabric-manager-seen-last", "", "time of the last line"),
        Yield("node:*", "fabric-manager-errors-seen", "", "lines that are errors"),
        Yield("node:*", "fabric-manager-errors-seen-last", "", "what the last of them says"),
        Yield("node:*", "fabric-manager-version", "", "version of the Fabric Manager; it must be that of the driver"),
        Yield("node:*", "fabric-configured-seen", "", "true: it says that it configured all NVSwitches; absent where it does not"),
        Yield("node:*", "multicast-groups-seen", "", "multicast groups that are allocated at the end of the log"),
        Yield("node:*", "multicast-gpus-seen", "", "GPUs of the last team that was asked for"),
        Yield("node:*/nvswitch:*", "physical-id", "", "the switch's place on the board"),
        *(
            Yield(f"node:*/nvswitch:*{port}", f"nvswitch-error-seen{name}:*", "", meaning)
            for port in ("", "/port:*")
            for name, meaning in _FAULTS
        ),
    ),
)
