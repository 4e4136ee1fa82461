"""Quantities: units at the edge, SI inside (rules section 0).

Arithmetic is exact (fractions and decimals) up to the one conversion into a float, so that what ``format_quantity`` writes reads
back as the same value. A number without unit, a unit of another dimension, and a unit that can be read in two ways are refused.
"""

from __future__ import annotations

import math
import re
import unicodedata
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, NoReturn

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.units import MEASURES, UNITS, Dimension, UnitEntry, entry_of, readings, unit_name, with_article


class Unit(msgspec.Struct, frozen=True):
    """Metadata for ``typing.Annotated``: the field is written with a unit in files and kept in the base unit inside."""

    dimension: Dimension


Seconds = Annotated[float, Unit(Dimension.DURATION)]
Bytes = Annotated[int, Unit(Dimension.SIZE)]
BitsPerSecond = Annotated[float, Unit(Dimension.RATE)]
Watts = Annotated[float, Unit(Dimension.POWER)]
VoltAmperes = Annotated[float, Unit(Dimension.APPARENT_POWER)]
Volts = Annotated[float, Unit(Dimension.VOLTAGE)]
Amperes = Annotated[float, Unit(Dimension.CURRENT)]
Kelvin = Annotated[float, Unit(Dimension.TEMPERATURE)]
KelvinApart = Annotated[float, Unit(Dimension.TEMPERATURE_DIFFERENCE)]
"""A difference of two temperatures."""
Metres = Annotated[float, Unit(Dimension.LENGTH)]
Kilograms = Annotated[float, Unit(Dimension.MASS)]
Pascals = Annotated[float, Unit(Dimension.PRESSURE)]
CubicMetresPerSecond = Annotated[float, Unit(Dimension.FLOW)]
Hertz = Annotated[float, Unit(Dimension.FREQUENCY)]
Share = Annotated[float, Unit(Dimension.SHARE)]
"""A fraction of one; files write percent."""

NUMBER = r"(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?(?:[eE][+-]?\d{1,3})?"
_PART = re.compile(rf"\s*(?P<number>{NUMBER})\s*(?P<unit>[^\s\d.,+-][^\s\d]*)")
_BARE = re.compile(rf"\s*{NUMBER}\s*")
_PRICE = re.compile(rf"\s*(?P<number>{NUMBER})\s*(?P<currency>[A-Z]{{3}})/(?P<unit>kWh|MWh)\s*")
_MAX_TEXT = 1000
_REMEMBERED = 1 << 12
"""Quantities of a large estate are many times the same few."""
_EXACT = Context(prec=1200, Emax=9999, Emin=-9999)


class EnergyPrice(msgspec.Struct, frozen=True):
    """Money for a kilowatt-hour; ``currency`` is the three-letter code (M11, P22)."""

    currency: str
    per_kwh: float


@lru_cache(maxsize=_REMEMBERED)
def parse(text: str, dimension: Dimension) -> float:
    """Read ``text`` as a quantity of ``dimension``; the value in base units (for sizes: an int of whole bytes).

    Raises BAD_QUANTITY: no unit, another dimension, an ambiguous or unknown unit, not a number, negative (temperatures: below absolute
    zero), too large for a float, or not a whole byte.
    """
    clean = unicodedata.normalize("NFKC", text).replace("\N{MINUS SIGN}", "-").strip()
    if len(clean) > _MAX_TEXT:
        _refuse(clean[:40] + "...", dimension, "it is too long for a quantity")
    sign, body = (-1, clean[1:]) if clean.startswith("-") else (1, clean)
    total = Fraction(0)
    last = None
    position = 0
    for part in _parts(clean, body, dimension):
        entry = _entry(clean, part["number"], part["unit"], dimension)
        if last is not None and (dimension is not Dimension.DURATION or entry.factor >= last):
            _refuse(clean, dimension, "only a duration has several parts, larger units first")
        total += sign * Fraction(part["number"].replace(",", "")) * entry.factor + entry.offset
        last = entry.factor
        position = part.end()
    assert position == len(body)
    return _value(clean, total, dimension)


def _parts(clean: str, body: str, dimension: Dimension) -> list[re.Match[str]]:
    found: list[re.Match[str]] = []
    position = 0
    while position < len(body) or not found:
        part = _PART.match(body, position)
        if part is None:
            rest = body[position:]
            if _BARE.fullmatch(rest):
                _refuse(clean, dimension, "the unit is missing" if not found else f"'{rest.strip()}' has no unit")
            if re.match(r"\s*\d+,\d", rest):
                _refuse(clean, dimension, "a comma separates thousands here; decimals are written with a point")
            if clean.casefold().lstrip("-+.") in ("nan", "inf", "infinity"):
                _refuse(clean, dimension, "it is not a finite number")
            _refuse(clean, dimension, "it does not begin with a number" if not found else f"'{rest.strip()}' cannot be read")
        found.append(part)
        position = part.end()
    return found


def _entry(clean: str, number: str, symbol: str, dimension: Dimension) -> UnitEntry:
    found = entry_of(symbol, dimension)
    if found is not None:
        return found
    entry = UNITS.get(symbol)
    meant = readings(symbol, dimension)
    if symbol in ("mW", "mw") and dimension is Dimension.POWER:
        _refuse(clean, dimension, "mW would be a milliwatt, MW is a megawatt", f"Write '{number} MW' if megawatts are meant.")
    if dimension is Dimension.TEMPERATURE_DIFFERENCE and entry is not None and entry.dimension is Dimension.TEMPERATURE:
        step = float(Fraction(number.replace(",", "")) * entry.factor)
        remedy = "" if clean.startswith("-") else f"Write '{step:.4g} K'."
        _refuse(clean, dimension, f"'{symbol}' is a point on a scale; a difference is written in kelvin", remedy)
    if len(meant) > 1:
        choices = " or ".join(f"'{number} {unit}' ({unit_name(unit)})" for unit in meant)
        _refuse(clean, dimension, f"'{symbol}' can be read in several ways", f"Write {choices}.")
    what = (
        f"'{symbol}' is no unit that is known here"
        if entry is None
        else f"'{symbol}' ({unit_name(symbol)}) is {with_article(entry.dimension)}"
    )
    if meant:
        case = "; upper and lower case matter" if meant[0].casefold() == symbol.casefold() else ""
        _refuse(clean, dimension, what + case, f"Did you mean '{number} {meant[0]}' ({unit_name(meant[0])})?")
    _refuse(clean, dimension, what)


def _value(clean: str, total: Fraction, dimension: Dimension) -> float:
    if total < 0:
        _refuse(clean, dimension, "it is below absolute zero" if dimension is Dimension.TEMPERATURE else "it is negative")
    if dimension is Dimension.SIZE:
        whole = round(total)
        if total != whole and total < 1024:
            _refuse(clean, dimension, "it is not a whole number of bytes")
        return whole
    try:
        value = float(total)
    except OverflowError:
        value = math.inf
    if math.isinf(value):
        _refuse(clean, dimension, "it is too large")
    return value


def _refuse(text: str, dimension: Dimension, happened: str, remedy: str = "") -> NoReturn:
    raise BridgeheadError(
        ErrorCode.BAD_QUANTITY,
        tried=f"read {with_article(dimension)}",
        subject=f"'{text}'",
        happened=happened,
        remedy=remedy or f"Write {with_article(dimension)} with its unit, such as '{MEASURES[dimension].example}'.",
    )


def parse_bytes(text: str) -> int:
    """A size, in bytes; see ``parse``. A part of a byte that a prefix brings about (2.3 TiB) is rounded."""
    return int(parse(text, Dimension.SIZE))


def parse_duration(text: str) -> float:
    """A duration, in seconds; see ``parse``."""
    return parse(text, Dimension.DURATION)


def parse_rate(text: str) -> float:
    """A data rate, in bit/s; see ``parse``."""
    return parse(text, Dimension.RATE)


def parse_energy_price(text: str) -> EnergyPrice:
    """A price such as '0.12 EUR/kWh'. Raises BAD_QUANTITY."""
    match = _PRICE.fullmatch(unicodedata.normalize("NFKC", text))
    if match is None:
        raise BridgeheadError(
            ErrorCode.BAD_QUANTITY,
            tried="read a price of energy",
            subject=f"'{text}'",
            happened="it is not an amount of money for an amount of energy",
            remedy="Write it such as '0.12 EUR/kWh'.",
        )
    amount = Fraction(match["number"].replace(",", ""))
    return EnergyPrice(match["currency"], float(amount / 1000 if match["unit"] == "MWh" else amount))


def format_energy_price(price: EnergyPrice) -> str:
    """The text that ``parse_energy_price`` reads back."""
    return f"{_plain(Decimal(repr(price.per_kwh)))} {price.currency}/kWh"


@lru_cache(maxsize=_REMEMBERED, typed=True)
def format_quantity(value: float, dimension: Dimension, *, digits: int | None = None) -> str:
    """``value`` (base units, finite, not negative) for people.

    Without ``digits`` the text is exact: ``parse`` gives the same value. With ``digits`` it is rounded to that many significant digits;
    a duration from a minute up is rounded to seconds then, from an hour to minutes, from a day to hours.
    """
    with localcontext(_EXACT):
        exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
        if dimension is Dimension.DURATION:
            return _duration(exact if digits is None else _rounded_duration(exact, digits))
        candidates = [_in_largest(exact, dimension, MEASURES[dimension].shown, digits)]
        if dimension is Dimension.SIZE and digits is None:
            binary = _in_binary(exact)
            if binary and len(binary) < len(candidates[0]):
                candidates.insert(0, binary)
        return candidates[0]


def format_bytes(size_bytes: int, *, digits: int | None = None) -> str:
    """A size: '5 TB', or '1 TiB' where the binary prefix is exact and shorter."""
    return format_quantity(size_bytes, Dimension.SIZE, digits=digits)


def format_duration(duration_s: float, *, digits: int | None = None) -> str:
    """A duration: '1 h 30 min'."""
    return format_quantity(duration_s, Dimension.DURATION, digits=digits)


def format_rate(rate_bps: float, *, digits: int | None = None) -> str:
    """A data rate: '2.5 Gbps'."""
    return format_quantity(rate_bps, Dimension.RATE, digits=digits)


def _in_largest(exact: Decimal, dimension: Dimension, symbols: tuple[str, ...], digits: int | None) -> str:
    """In the largest unit that leaves a number of at least one, else in the smallest."""
    for symbol in symbols:
        entry = UNITS[symbol]
        number = (exact - _decimal(entry.offset)) / _decimal(entry.factor)
        if abs(number) >= 1 or symbol == symbols[-1]:
            return f"{_plain(_rounded(number, digits))} {symbol}"
    raise AssertionError("a dimension shows at least one unit")


def _in_binary(exact: Decimal) -> str | None:
    for symbol in ("EiB", "PiB", "TiB", "GiB", "MiB", "KiB"):
        number = Fraction(exact) / UNITS[symbol].factor
        if number >= 1 and (number * 4).denominator == 1:
            return f"{_plain(_decimal(number))} {symbol}"
    return None


def _rounded_duration(exact: Decimal, digits: int) -> Decimal:
    for size, step in ((86_400, 3_600), (3_600, 60), (60, 1)):
        if exact >= size:
            return (exact / step).quantize(Decimal(1)) * step
    return _rounded(exact, digits)


def _duration(exact: Decimal) -> str:
    if exact < 1:
        return _in_largest(exact, Dimension.DURATION, ("ms", "us", "ns"), None) if exact else "0 s"
    parts = []
    for symbol, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        count, exact = divmod(exact, size)
        if count:
            parts.append(f"{_plain(count)} {symbol}")
    if exact:
        parts.append(f"{_plain(exact)} s")
    return " ".join(parts)


def _decimal(value: Fraction) -> Decimal:
    return Decimal(value.numerator) / Decimal(value.denominator)


def _rounded(number: Decimal, digits: int | None) -> Decimal:
    return number if digits is None else Context(prec=digits, Emax=9999, Emin=-9999).plus(number)


def _plain(number: Decimal) -> str:
    text = format(number, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
