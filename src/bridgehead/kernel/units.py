"""Units: which symbols mean what. Decimal (k, M, G) and binary (Ki, Mi, Gi) prefixes are distinct, and so are bits and bytes."""

from __future__ import annotations

import enum
from fractions import Fraction
from typing import Final

import msgspec


class Dimension(enum.Enum):
    """What a quantity measures; the value is the noun that messages use."""

    DURATION = "duration"
    SIZE = "size in bytes"
    BITS = "number of bits"
    RATE = "data rate"
    POWER = "power"
    APPARENT_POWER = "apparent power"
    VOLTAGE = "voltage"
    CURRENT = "current"
    TEMPERATURE = "temperature"
    TEMPERATURE_DIFFERENCE = "temperature difference"
    LENGTH = "length"
    MASS = "mass"
    PRESSURE = "pressure"
    FREQUENCY = "frequency"
    FLOW = "volume flow"
    SHARE = "share"


class Measure(msgspec.Struct, frozen=True):
    """How a dimension is kept and written.

    Attributes:
        base: the unit inside (SI, bit/s for rates, a plain fraction for shares).
        example: a right quantity, for messages.
        suffix: what the names of fields end in (house rule: units last).
        shown: symbols for display, largest first.
    """

    base: str
    example: str
    suffix: str
    shown: tuple[str, ...]


class UnitEntry(msgspec.Struct, frozen=True):
    """One symbol: value in base units = number x ``factor`` + ``offset``, exactly."""

    dimension: Dimension
    factor: Fraction
    offset: Fraction = Fraction(0)


MEASURES: Final[dict[Dimension, Measure]] = {
    Dimension.DURATION: Measure("s", "30 min", "_s", ("d", "h", "min", "s", "ms", "us", "ns")),
    Dimension.SIZE: Measure("B", "5 TB", "_bytes", ("EB", "PB", "TB", "GB", "MB", "kB", "B")),
    Dimension.RATE: Measure("bit/s", "2.5 Gbps", "_bps", ("Tbps", "Gbps", "Mbps", "kbps", "bps")),
    Dimension.POWER: Measure("W", "40.8 kW", "_w", ("GW", "MW", "kW", "W")),
    Dimension.APPARENT_POWER: Measure("VA", "7.36 kVA", "_va", ("MVA", "kVA", "VA")),
    Dimension.VOLTAGE: Measure("V", "208 V", "_v", ("kV", "V")),
    Dimension.CURRENT: Measure("A", "30 A", "_a", ("kA", "A")),
    Dimension.TEMPERATURE: Measure("K", "23 °C", "_k", ("°C",)),
    Dimension.TEMPERATURE_DIFFERENCE: Measure("K", "10 K", "_k", ("K",)),
    Dimension.LENGTH: Measure("m", "3 m", "_m", ("km", "m", "mm")),
    Dimension.MASS: Measure("kg", "1,360 kg", "_kg", ("kg",)),
    Dimension.PRESSURE: Measure("Pa", "250 kPa", "_pa", ("MPa", "kPa", "Pa")),
    Dimension.FREQUENCY: Measure("Hz", "10 Hz", "_hz", ("GHz", "MHz", "kHz", "Hz")),
    Dimension.FLOW: Measure("m3/s", "120 L/min", "_m3ps", ("L/s",)),
    Dimension.SHARE: Measure("1", "80 %", "", ("%",)),
}

_DECIMAL = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18}
_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60}

# Simple symbols with their factor. No milliwatt and no millipascal: in a datacenter they are always a mistyped mega.
_PLAIN: dict[Dimension, dict[str, str | int]] = {
    Dimension.DURATION: {"d": 86_400, "h": 3_600, "min": 60, "s": 1, "ms": "1/1000", "us": "1/1000000", "μs": "1/1000000", "ns": "1e-9"},
    Dimension.POWER: {"W": 1, "kW": 10**3, "MW": 10**6, "GW": 10**9},
    Dimension.APPARENT_POWER: {"VA": 1, "kVA": 10**3, "MVA": 10**6},
    Dimension.VOLTAGE: {"V": 1, "kV": 10**3},
    Dimension.CURRENT: {"A": 1, "kA": 10**3},
    Dimension.LENGTH: {"mm": "1/1000", "cm": "1/100", "m": 1, "km": 10**3, "in": "0.0254", "ft": "0.3048"},
    Dimension.MASS: {"g": "1/1000", "kg": 1, "t": 10**3, "lb": "0.45359237"},
    Dimension.PRESSURE: {"Pa": 1, "hPa": 100, "kPa": 10**3, "MPa": 10**6, "mbar": 100, "bar": 10**5},
    Dimension.FREQUENCY: {"Hz": 1, "kHz": 10**3, "MHz": 10**6, "GHz": 10**9},
    Dimension.FLOW: {"L/s": "1/1000", "L/min": "1/60000", "CFM": "28316846592/60000000000000"},
    Dimension.SHARE: {"%": "1/100"},
}


def _table() -> dict[str, UnitEntry]:
    table = {symbol: UnitEntry(dimension, Fraction(factor)) for dimension, symbols in _PLAIN.items() for symbol, factor in symbols.items()}
    for prefix, factor in {**_DECIMAL, **_BINARY}.items():
        table[f"{prefix}B"] = UnitEntry(Dimension.SIZE, Fraction(factor))
        table[f"{prefix}b"] = table[f"{prefix}bit"] = UnitEntry(Dimension.BITS, Fraction(factor))
        for symbol in ("b/s", "bit/s", "bps"):
            table[f"{prefix}{symbol}"] = UnitEntry(Dimension.RATE, Fraction(factor))
        for symbol in ("B/s", "Bps"):
            table[f"{prefix}{symbol}"] = UnitEntry(Dimension.RATE, Fraction(8 * factor))
    table["K"] = UnitEntry(Dimension.TEMPERATURE, Fraction(1))
    table["°C"] = table["degC"] = UnitEntry(Dimension.TEMPERATURE, Fraction(1), Fraction("273.15"))
    table["°F"] = table["degF"] = UnitEntry(Dimension.TEMPERATURE, Fraction(5, 9), Fraction("459.67") * Fraction(5, 9))
    return table


UNITS: Final[dict[str, UnitEntry]] = _table()

_NAMES = {
    "b": "bit", "B": "byte", "B/s": "byte a second", "Bps": "byte a second", "b/s": "bit a second", "bit/s": "bit a second",
    "bps": "bit a second", "bit": "bit", "W": "watt", "VA": "volt-ampere", "V": "volt", "A": "ampere", "Hz": "hertz", "Pa": "pascal",
}  # fmt: skip
_PREFIX_NAMES = {"k": "kilo", "M": "mega", "G": "giga", "T": "tera", "P": "peta", "E": "exa", "": ""}
_BINARY_NAMES = {"Ki": "kibi", "Mi": "mebi", "Gi": "gibi", "Ti": "tebi", "Pi": "pebi", "Ei": "exbi"}
_WORDS = {
    "d": "days", "h": "hours", "min": "minutes", "s": "seconds", "ms": "milliseconds", "us": "microseconds", "μs": "microseconds",
    "ns": "nanoseconds", "m": "metres", "mm": "millimetres", "cm": "centimetres", "km": "kilometres", "in": "inches", "ft": "feet",
    "g": "grams", "kg": "kilograms", "t": "tonnes", "lb": "pounds", "K": "kelvin", "%": "percent", "hPa": "hectopascal",
    "mbar": "millibar", "bar": "bar", "°C": "degrees Celsius", "degC": "degrees Celsius",
    "°F": "degrees Fahrenheit", "degF": "degrees Fahrenheit",
    "L/s": "litres a second", "L/min": "litres a minute", "CFM": "cubic feet a minute",
}  # fmt: skip

NEAR: Final[dict[str, tuple[str, ...]]] = {
    "sec": ("s",), "secs": ("s",), "second": ("s",), "seconds": ("s",), "mins": ("min",), "minute": ("min",), "minutes": ("min",),
    "hr": ("h",), "hrs": ("h",), "hour": ("h",), "hours": ("h",), "day": ("d",), "days": ("d",), "m": ("min", "ms"), "M": ("min",),
    "c": ("°C",), "C": ("°C",), "celsius": ("°C",), "f": ("°F",), "F": ("°F",), "kelvin": ("K",), "percent": ("%",), "pct": ("%",),
    "watt": ("W",), "watts": ("W",), "volt": ("V",), "volts": ("V",), "amp": ("A",), "amps": ("A",), "kilo": ("kg",), "lbs": ("lb",),
    "bytes": ("B",), "byte": ("B",), "KB": ("kB", "KiB"), "K": ("kB", "KiB"), "k": ("kB", "KiB"), "G": ("GB", "GiB"), "g": ("GB", "GiB"),
    "T": ("TB", "TiB"), "P": ("PB", "PiB"), "Gi": ("GiB",), "Ti": ("TiB",), "Mi": ("MiB",), "Ki": ("KiB",),
    "feet": ("ft",), "inch": ("in",), "meter": ("m",), "meters": ("m",), "metre": ("m",), "metres": ("m",),
}  # fmt: skip
"""What people write instead, and what they may have meant."""


def with_article(dimension: Dimension) -> str:
    """The noun of a dimension: "a duration"."""
    return f"{'an' if dimension.value[0] in 'aeiou' else 'a'} {dimension.value}"


def unit_name(symbol: str) -> str:
    """The unit in words: ``Mbps`` is "megabit a second"."""
    if symbol in _WORDS:
        return _WORDS[symbol]
    for prefix, name in {**_BINARY_NAMES, **_PREFIX_NAMES}.items():
        if symbol.startswith(prefix) and symbol[len(prefix) :] in _NAMES:
            return name + _NAMES[symbol[len(prefix) :]]
    return symbol


def entry_of(symbol: str, dimension: Dimension) -> UnitEntry | None:
    """What a symbol means where ``dimension`` is asked for; None where it means nothing, or something else.

    A difference of temperatures is written in kelvin only: 10 °C would be 283.15 K, and nobody who writes it for a rise means that.
    """
    entry = UNITS.get(symbol)
    if dimension is Dimension.TEMPERATURE_DIFFERENCE:
        return entry if symbol == "K" else None
    return entry if entry is not None and entry.dimension is dimension else None


def symbols_of(dimension: Dimension) -> list[str]:
    """All symbols of a dimension, in the order of the table."""
    return [symbol for symbol in UNITS if entry_of(symbol, dimension) is not None]


def readings(symbol: str, dimension: Dimension) -> list[str]:
    """Symbols of ``dimension`` that may have been meant by the unknown or misplaced ``symbol``: synonyms, and other upper and lower case.

    For sizes this includes bits, so that ``gb`` shows both readings.
    """
    near = [meant for meant in NEAR.get(symbol, ()) if entry_of(meant, dimension) is not None]
    if near:
        return near
    folded = symbol.casefold()
    allowed = {dimension, Dimension.BITS} if dimension is Dimension.SIZE and symbol not in UNITS else {dimension}
    return [known for known, entry in UNITS.items() if known.casefold() == folded and entry.dimension in allowed]
