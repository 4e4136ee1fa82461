"""ipmitool: power (``dcmi power reading``), sensors (``sensor``, ``sdr list`` and ``elist``) and parts (``fru``) of a host (M2, M5.3)."""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements, Yield, number_in
from bridgehead.discovery.tables import path_part

_UNIT_WORDS: Final = r"degrees [CF]|RPM|Volts|Watts|Amps|percent|discrete|unspecified|CFM|Joules|Hz|seconds?"
# No two runs of blanks stand side by side, so that a long one is looked through once.
_SENSOR: Final = re.compile(
    rf"[^|\n]{{1,64}}\| *(?:[\w.+-]+ *)?\| *(?:(?:{_UNIT_WORDS}) *)?\| *(?:\w+ *)?(?:\|[^|\n]{{0,24}}){{6}}", re.ASCII
)
_STATUS: Final = r"ok|ns|nc|cr|nr|lnc|lcr|lnr|unc|ucr|unr|us|\w{2,3}"
_SDR: Final = re.compile(rf"[^|\n]{{1,64}}\| *[^|\n]{{1,64}}\| *(?:{_STATUS}) *", re.ASCII)
_ELIST: Final = re.compile(
    rf"[^|\n]{{1,64}}\| *[0-9A-Fa-f]{{2}}h *\| *(?:{_STATUS}) *\| *\d{{1,3}}\.\d{{1,3}} *\|[^|\n]{{0,120}}", re.ASCII
)
_POWER_HEAD: Final = re.compile(r"[ \t]*Instantaneous power reading:")
_FRU: Final = re.compile(r"FRU Device Description : (.{1,80}?) \(ID (\d{1,4})\)", re.ASCII)
_AMOUNT: Final = re.compile(r"(-?\d{1,12}(?:\.\d{1,9})?) ?(.{1,24})", re.ASCII)
# The unit as printed: attribute and unit of the fact.
_UNITS: Final = {
    "degrees C": ("temperature", "degC"),
    "RPM": ("fan-speed", "rpm"),
    "Volts": ("voltage-seen", "V"),
    "Watts": ("power-draw", "W"),
    "Amps": ("current-seen", "A"),
    "percent": ("share-seen", "%"),
}
_HEALTH: Final = {
    "ok": "OK",
    **dict.fromkeys(("nc", "lnc", "unc"), "Warning"),
    **dict.fromkeys(("cr", "nr", "lcr", "ucr", "lnr", "unr"), "Critical"),
}
_LIMITS: Final = tuple(
    f"threshold-{side}"
    for side in ("lower-fatal", "lower-critical", "lower-noncritical", "upper-noncritical", "upper-critical", "upper-fatal")
)
_POWER: Final = {
    "Instantaneous power reading": ("power-draw", "W", " Watts", "what the host takes in now"),
    "Minimum during sampling period": ("power-draw-min", "W", " Watts", "lowest since the counter began"),
    "Maximum during sampling period": ("power-draw-max", "W", " Watts", "highest since the counter began"),
    "Average power reading over sample period": ("power-draw-average", "W", " Watts", "mean of the sampling period"),
    "Sampling period": ("power-draw-interval", "s", " Seconds.", "how long the sampling period is"),
}
_PARTS: Final = {
    "Product Manufacturer": ("manufacturer", "maker"),
    "Product Name": ("model", "model"),
    "Product Serial": ("serial", "serial number"),
    "Product Part Number": ("part-number", "part number"),
    "Product Asset Tag": ("asset-tag", "the owner's number"),
    "Board Product": ("board-model", "model of its board"),
    "Board Serial": ("board-serial", "serial number of its board"),
    "Chassis Serial": ("chassis-serial", "serial number of the chassis"),
}
_NO_READING: Final = frozenset({"na", "no reading", "disabled", "not readable", ""})
_LOOKED_AT: Final = 60
_TOOL: Final = "ipmitool"


def recognises(head: bytes) -> bool:
    """The words of a power reading or a FRU, or rows of one of the tables of sensors."""
    lines = [line for line in head.decode("utf-8-sig", "replace").splitlines() if line.strip()][:_LOOKED_AT]
    if any(_POWER_HEAD.match(line) or _FRU.match(line) for line in lines):
        return True
    best = max(sum(row.fullmatch(line.rstrip()) is not None for line in lines) for row in (_SENSOR, _SDR, _ELIST))
    return best > 0 and best >= 0.6 * len(lines) and any(word in line for line in lines for word in (*_UNITS, "discrete", "| ok", "| ns"))


def parse(capture: Capture) -> Parsed:
    """Of whichever of the outputs it is. A last line without end may be cut and says nothing."""
    say = Statements(_TOOL, capture)
    lines = capture.lines
    if lines[-1].strip():
        say.skip(len(lines), "the last line has no end and may be cut off")
    lines = lines[:-1]
    power = {number for number, line in enumerate(lines, 1) if _POWER_HEAD.match(line)}
    names: Counter[str] = Counter()
    others: list[int] = []
    holder = ""
    active = not any("Power reading state is" in line and "deactivated" in line for line in lines)
    for number, raw in enumerate(lines, 1):
        line = raw.rstrip()
        if not line.strip():
            continue
        if found := _FRU.fullmatch(line):
            holder = say.node if found[2] == "0" else f"{say.node}/fru:{path_part(found[1])}"
        elif holder:
            _part(say, holder, line, number)
        elif power:
            _power(say, line, number, active=active)
        elif not _row(say, line, number, names):
            others.append(number)
    if others:
        say.skip(others[0], f"{len(others)} rows with no unit that is read, or no rows of sensors")
    return say.done()


def _power(say: Statements, line: str, number: int, *, active: bool) -> None:
    key, _, value = line.strip().partition(":")
    if key not in _POWER:
        return
    attribute, unit, ending, _ = _POWER[key]
    word = value.strip()
    amount = word.removesuffix(ending) if word.endswith(ending) else f"{word} without a unit"
    if not active:
        say.unknown(say.node, attribute, line=number, unit=unit, note=f"the tool printed {word!r}, and that readings are deactivated")
    elif attribute == "power-draw" and number_in(amount) == 0:
        say.unknown(
            say.node, attribute, line=number, unit=unit, note=f"the tool printed {word!r}: a host that answers draws more than nothing"
        )
    else:
        say.number(say.node, attribute, amount, line=number, unit=unit)


def _part(say: Statements, holder: str, line: str, number: int) -> None:
    key, colon, value = line.strip().partition(":")
    if not colon:
        say.skip(number, f"of {holder}: {line.strip()[:80]}")
    elif key.strip() in _PARTS and value.strip():
        say.word(holder, _PARTS[key.strip()][0], value, line=number)


def _row(say: Statements, line: str, number: int, names: Counter[str]) -> bool:
    """A row of a table of sensors; False where it gave nothing."""
    cells = [cell.strip() for cell in line.split("|")]
    limits: list[str] = []
    if _SENSOR.fullmatch(line):
        reading, unit, status, limits = cells[1], cells[2], cells[3], cells[4:10]
        printed = f"{reading} {unit}".strip()
    elif _ELIST.fullmatch(line):
        printed, status = cells[4], cells[2]
    elif _SDR.fullmatch(line):
        printed, status = cells[1], cells[2]
    else:
        return False
    name = cells[0] if cells[0] not in names else f"{cells[0]}#{names[cells[0]] + 1}"
    names[cells[0]] += 1
    subject = f"{say.node}/sensor:{path_part(name)}"
    found = _AMOUNT.fullmatch(printed)
    if found is not None and found[2] in _UNITS:
        attribute, unit = _UNITS[found[2]]
        say.number(subject, attribute, found[1], line=number, unit=unit)
        for limit, value in zip(_LIMITS, limits, strict=False):
            if number_in(value) is not None:
                say.number(subject, limit, value, line=number, unit=unit)
    elif limits and cells[1].lower() in _NO_READING and cells[2] in _UNITS:
        attribute, unit = _UNITS[cells[2]]
        say.unknown(subject, attribute, line=number, unit=unit, note=f"the tool printed {cells[1]!r}")
    elif printed.lower() in _NO_READING:
        say.unknown(subject, "state-seen", line=number, note=f"the tool printed {printed!r}")
    elif not limits and not printed[0].isdigit():
        say.word(subject, "state-seen", printed, line=number)
    else:
        return False
    if status.lower() in _HEALTH:
        say.known(subject, "health-seen", _HEALTH[status.lower()], line=number)
    return True


PARSER = Parser(
    tool=_TOOL,
    command="ipmitool dcmi power reading",
    recognises=recognises,
    marks=(
        b"|",
        b"instantaneous power reading:",
        b"fru device description",
    ),
    parse=parse,
    yields=(
        *(Yield("node:*", attribute, unit, meaning) for attribute, unit, _, meaning in _POWER.values()),
        *(Yield(subject, attribute, "", meaning) for subject in ("node:*", "node:*/fru:*") for attribute, meaning in _PARTS.values()),
        *(Yield("node:*/sensor:*", attribute, unit, "reading") for attribute, unit in _UNITS.values()),
        *(Yield("node:*/sensor:*", limit, unit, "limit of the reading") for limit in _LIMITS for _, unit in _UNITS.values()),
        Yield("node:*/sensor:*", "state-seen", "", "state of a sensor that has no amount, as printed; unknown without a reading"),
        Yield("node:*/sensor:*", "health-seen", "", "OK, Warning or Critical"),
    ),
)
