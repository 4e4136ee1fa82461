"""ibswinfo: inventory, power supplies, temperature and fans of an InfiniBand switch without management of its own (M2)."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.discovery.infiniband import guid
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield
from bridgehead.discovery.textlines import whole_lines

_HEAD: Final = re.compile(rb"^(?:uptime \(d-h:m:s\)|PSU\d{1,2} status|fan#\d{1,3} \(rpm\))[ \t]*\|", re.MULTILINE)
_LINE: Final = re.compile(r"\s*(\S[^|]{0,40}?)\s*\|\s*(.{0,200})")
_UPTIME: Final = re.compile(r"(\d{1,6})d-(\d{1,2}):(\d{2}):(\d{2})", re.ASCII)
_PSU: Final = re.compile(r"PSU(\d{1,2}) status", re.ASCII)
_FAN: Final = re.compile(r"fan#(\d{1,3}) \(rpm\)", re.ASCII)
_WORDS: Final = {
    "part number": "part-number",
    "serial number": "serial",
    "product name": "product-name",
    "revision": "revision",
    "PSID": "psid",
    "firmware version": "firmware-version",
    "fan status": "fan-status",
}
_NUMBERS: Final = {"ports": ("port-count", ""), "temperature (C)": ("temperature", "degC"), "max temp (C)": ("temperature-max", "degC")}
_PSU_WORDS: Final = {"P/N": "part-number", "S/N": "serial", "DC power": "dc-power", "fan status": "fan-status"}
_EXPECTED: Final = (("temperature", "degC"), ("fan-status", ""))
_PSU_EXPECTED: Final = (("status", ""), ("dc-power", ""), ("fan-status", ""), ("power-draw", "W"))


class _Switch(msgspec.Struct):
    """The lines of one switch."""

    line: int
    title: tuple[str, int] | None = None
    rows: list[tuple[str, str, int, bool]] = msgspec.field(default_factory=list)


def recognises(head: bytes) -> bool:
    """A row that no other tool has."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All switches in the output."""
    say = Statements("ibswinfo", capture)
    switches = [_Switch(1)]
    rules = 0
    for number, line in whole_lines(capture, say):
        if line.startswith("===="):
            rules += 1
            if rules % 2 and switches[-1].rows:
                switches.append(_Switch(number))
        elif line.startswith("----"):
            switches[-1].rows.append(("", "", number, False))
        elif found := _LINE.fullmatch(line):
            switches[-1].rows.append((found[1], found[2].strip(), number, line[0] in " \t"))
        elif rules % 2 and switches[-1].title is None:
            switches[-1].title = (line.strip(), number)
    for switch in switches:
        if switch.rows:
            _state(say, switch)
    return say.done()


def _state(say: Statements, switch: _Switch) -> None:
    named = next((value for key, text, _, _ in switch.rows if key == "GUID" and (value := guid(text))), None)
    subject = f"switch:{named or '?'}"
    if named is None:
        say.skip(switch.line, "the output names no GUID: whose it is cannot be told")
    if switch.title:
        say.word(subject, "description", switch.title[0], line=switch.title[1])
    said: dict[str, set[str]] = {subject: set()}
    lines = {subject: switch.line}
    holder = subject
    for key, text, number, inner in switch.rows:
        if psu := _PSU.fullmatch(key):
            holder = f"{subject}/psu:{psu[1]}"
            lines[holder] = number
        elif not inner:
            holder = subject
        if key not in ("", "GUID"):
            said.setdefault(holder, set()).add(_row(say, holder, key, text, number))
    for holder, line in lines.items():
        for attribute, unit in _EXPECTED if holder == subject else _PSU_EXPECTED:
            if attribute not in said.get(holder, ()):
                say.unknown(holder, attribute, line=line, unit=unit, note="the tool prints no such row here")


def _row(say: Statements, holder: str, key: str, text: str, line: int) -> str:
    """State a row; its attribute."""
    psu = "/psu:" in holder
    if psu and _PSU.fullmatch(key):
        say.word(holder, "status", text, line=line)
        return "status"
    if psu and key == "power (W)":
        say.number(holder, "power-draw", text, line=line, unit="W")
        return "power-draw"
    if name := (_PSU_WORDS if psu else _WORDS).get(key):
        say.word(holder, name, text, line=line)
        return name
    if not psu and key in _NUMBERS:
        name, unit = _NUMBERS[key]
        say.number(holder, name, text, line=line, unit=unit)
        return name
    if not psu and (fan := _FAN.fullmatch(key)):
        say.number(f"{holder}/fan:{fan[1]}", "fan-speed", text, line=line, unit="rpm")
        return ""
    if not psu and key.startswith("uptime"):
        _uptime(say, holder, text, line)
        return "uptime"
    say.skip(line, f"an unknown row: {key[:40]!r}")
    return ""


def _uptime(say: Statements, subject: str, text: str, line: int) -> None:
    found = _UPTIME.fullmatch(text)
    if found is None:
        say.unknown(subject, "uptime", line=line, unit="s", note=f"the tool printed {text[:40]!r}")
        return
    days, hours, minutes, seconds = (int(part) for part in found.groups())
    say.known(subject, "uptime", ((days * 24 + hours) * 60 + minutes) * 60 + seconds, line=line, unit="s")


PARSER = Parser(
    tool="ibswinfo",
    command="ibswinfo -d lid-LID",
    recognises=recognises,
    marks=(b"|",),
    parse=parse,
    yields=(
        Yield("switch:*", "description", "", "node description"),
        *(Yield("switch:*", name, "", f"row {row!r}") for row, name in _WORDS.items()),
        *(Yield("switch:*", name, unit, f"row {row!r}") for row, (name, unit) in _NUMBERS.items()),
        Yield("switch:*", "uptime", "s", "time since it was started"),
        Yield("switch:*/psu:*", "status", "", "whether the power supply is all right"),
        *(Yield("switch:*/psu:*", name, "", f"row {row!r} of a power supply") for row, name in _PSU_WORDS.items()),
        Yield("switch:*/psu:*", "power-draw", "W", "power of a power supply"),
        Yield("switch:*/fan:*", "fan-speed", "rpm", "turns of a fan"),
    ),
)
