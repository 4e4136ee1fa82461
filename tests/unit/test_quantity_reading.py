"""Quantities with units at the edge; decimal and binary prefixes, bits and bytes are distinct (rules section 0)."""

from __future__ import annotations

import pytest

from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode
from bridgehead.kernel.quantity import (
    EnergyPrice,
    format_bytes,
    format_duration,
    format_energy_price,
    format_quantity,
    format_rate,
    parse,
    parse_bytes,
    parse_duration,
    parse_energy_price,
    parse_rate,
)
from bridgehead.kernel.units import MEASURES, UNITS, Dimension, symbols_of


@pytest.mark.parametrize(
    ("text", "dimension", "value"),
    [
        ("5 TB", Dimension.SIZE, 5 * 10**12),
        ("5 TiB", Dimension.SIZE, 5 * 2**40),
        ("2.3 TiB", Dimension.SIZE, 2528876743885),
        ("12 B", Dimension.SIZE, 12),
        ("2.5 Gbps", Dimension.RATE, 2.5e9),
        ("2.5 Gb/s", Dimension.RATE, 2.5e9),
        ("2.5 Gbit/s", Dimension.RATE, 2.5e9),
        ("100 GB/s", Dimension.RATE, 8e11),
        ("1 GiB/s", Dimension.RATE, 8.0 * 2**30),
        ("10 Mbps", Dimension.RATE, 1e7),
        ("10 MBps", Dimension.RATE, 8e7),
        ("30 min", Dimension.DURATION, 1800.0),
        ("1 h 30 min", Dimension.DURATION, 5400.0),
        ("1h30min", Dimension.DURATION, 5400.0),
        ("2 d", Dimension.DURATION, 172800.0),
        ("0.1 s", Dimension.DURATION, 0.1),
        ("3 µs", Dimension.DURATION, 3e-6),
        ("3 μs", Dimension.DURATION, 3e-6),
        ("1e3 s", Dimension.DURATION, 1000.0),
        ("40.8 kW", Dimension.POWER, 40800.0),
        ("208 V", Dimension.VOLTAGE, 208.0),
        ("30 A", Dimension.CURRENT, 30.0),
        ("7.36 kVA", Dimension.APPARENT_POWER, 7360.0),
        ("23 °C", Dimension.TEMPERATURE, 296.15),
        ("-40 degF", Dimension.TEMPERATURE, 233.15),
        ("3 m", Dimension.LENGTH, 3.0),
        ("1,360 kg", Dimension.MASS, 1360.0),
        ("12,345,678.5 kg", Dimension.MASS, 12345678.5),
        ("250 kPa", Dimension.PRESSURE, 250000.0),
        ("80 %", Dimension.SHARE, 0.8),
        ("10 Hz", Dimension.FREQUENCY, 10.0),
    ],
)
def test_quantity_is_read_into_si(text: str, dimension: Dimension, value: float) -> None:
    seen = parse(text, dimension)
    assert seen == value
    assert type(seen) is (int if dimension is Dimension.SIZE else float)


@pytest.mark.parametrize(
    ("text", "dimension", "says"),
    [
        ("5", Dimension.SIZE, "the unit is missing. Write a size in bytes with its unit, such as '5 TB'."),
        ("1 h 30", Dimension.DURATION, "'30' has no unit"),
        ("5 Tb", Dimension.SIZE, "'Tb' (terabit) is a number of bits; upper and lower case matter. Did you mean '5 TB' (terabyte)?"),
        ("5 kb", Dimension.SIZE, "'kb' (kilobit) is a number of bits"),
        ("5 KB", Dimension.SIZE, "'KB' can be read in several ways. Write '5 kB' (kilobyte) or '5 KiB' (kibibyte)."),
        ("5 gb", Dimension.SIZE, "Write '5 GB' (gigabyte) or '5 Gb' (gigabit)."),
        ("5 G", Dimension.SIZE, "Write '5 GB' (gigabyte) or '5 GiB' (gibibyte)."),
        ("10 mbps", Dimension.RATE, "Write '10 Mbps' (megabit a second) or '10 MBps' (megabyte a second)."),
        ("10 GB", Dimension.RATE, "'GB' (gigabyte) is a size in bytes. Write a data rate with its unit, such as '2.5 Gbps'."),
        ("40 mW", Dimension.POWER, "mW would be a milliwatt, MW is a megawatt. Write '40 MW' if megawatts are meant."),
        ("40 KW", Dimension.POWER, "Did you mean '40 kW' (kilowatt)?"),
        ("40 kVA", Dimension.POWER, "'kVA' (kilovolt-ampere) is an apparent power"),
        ("5 m", Dimension.DURATION, "Write '5 min' (minutes) or '5 ms' (milliseconds)."),
        ("5 Min", Dimension.DURATION, "Did you mean '5 min' (minutes)?"),
        ("5 minutes", Dimension.DURATION, "Did you mean '5 min' (minutes)?"),
        ("5 fortnights", Dimension.DURATION, "'fortnights' is no unit that is known here"),
        ("30 min 1 h", Dimension.DURATION, "larger units first"),
        ("1 h 1 h", Dimension.DURATION, "larger units first"),
        ("1 kg 5 g", Dimension.MASS, "only a duration has several parts"),
        ("1,5 kg", Dimension.MASS, "a comma separates thousands here; decimals are written with a point"),
        ("-5 s", Dimension.DURATION, "it is negative"),
        ("\N{MINUS SIGN}5 s", Dimension.DURATION, "it is negative"),
        ("-300 °C", Dimension.TEMPERATURE, "it is below absolute zero"),
        ("23 C", Dimension.TEMPERATURE, "Did you mean '23 °C' (degrees Celsius)?"),
        ("nan", Dimension.POWER, "it is not a finite number"),
        ("nan W", Dimension.POWER, "it does not begin with a number"),
        ("inf", Dimension.POWER, "it is not a finite number"),
        ("1e999 W", Dimension.POWER, "it is too large"),
        ("1e999999999 W", Dimension.POWER, "'e' is no unit"),
        ("0.5 B", Dimension.SIZE, "it is not a whole number of bytes"),
        ("0.8", Dimension.SHARE, "the unit is missing. Write a share with its unit, such as '80 %'."),
        ("", Dimension.POWER, "it does not begin with a number"),
        ("a lot", Dimension.POWER, "it does not begin with a number"),
        ("1.2.3 W", Dimension.POWER, "it does not begin with a number"),
        ("5 W extra", Dimension.POWER, "'extra' cannot be read"),
        ("9" * 2000 + " W", Dimension.POWER, "it is too long for a quantity"),
    ],
)
def test_quantity_is_refused_and_says_why(text: str, dimension: Dimension, says: str) -> None:
    with pytest.raises(BridgeheadError) as caught:
        parse(text, dimension)
    assert caught.value.code is ErrorCode.BAD_QUANTITY
    assert caught.value.exit_code is ExitCode.USAGE
    assert says in str(caught.value)


@pytest.mark.parametrize(
    ("text", "value"),
    [("5 TB", 5 * 10**12), ("1 TiB", 2**40), ("2.5 GiB", 5 * 2**29), ("0 B", 0), ("999 B", 999), ("2.528876743885 TB", 2528876743885)],
)
def test_size_is_shown_exactly(text: str, value: int) -> None:
    assert format_bytes(value) == text


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 h 30 min", 5400),
        ("0 s", 0.0),
        ("250 ms", 0.25),
        ("1 d 12 h", 129_600),
        ("1 min 0.5 s", 60.5),
        ("3 us", 3e-6),
        ("30 d", 2_592_000),
    ],
)
def test_duration_is_shown_exactly(text: str, value: float) -> None:
    assert format_duration(value) == text


def test_display_is_rounded_when_asked() -> None:
    assert format_bytes(12_345_678_901_234, digits=3) == "12.3 TB"
    assert format_duration(90_061.7, digits=3) == "1 d 1 h"
    assert format_duration(5_431.2, digits=3) == "1 h 31 min"
    assert format_duration(75.26, digits=3) == "1 min 15 s"
    assert format_duration(1.23456, digits=3) == "1.23 s"
    assert format_rate(2.4999e9, digits=2) == "2.5 Gbps"
    assert format_quantity(296.15, Dimension.TEMPERATURE) == "23 °C"
    assert format_quantity(0.8, Dimension.SHARE) == "80 %"


def test_short_names_read_the_same() -> None:
    assert (parse_bytes("5 TB"), parse_duration("1 min"), parse_rate("1 kbps")) == (5 * 10**12, 60.0, 1000.0)


def test_energy_price_keeps_its_currency() -> None:
    assert parse_energy_price("0.12 EUR/kWh") == EnergyPrice("EUR", 0.12)
    assert parse_energy_price("120 EUR/MWh") == EnergyPrice("EUR", 0.12)
    assert format_energy_price(EnergyPrice("USD", 0.085)) == "0.085 USD/kWh"
    for text in ("0.12 EUR", "0.12/kWh", "EUR 0.12/kWh", "-1 EUR/kWh"):
        with pytest.raises(BridgeheadError, match="Write it such as"):
            parse_energy_price(text)


def test_every_dimension_has_an_example_that_reads_and_units_that_show() -> None:
    for dimension, measure in MEASURES.items():
        assert parse(measure.example, dimension) > 0
        assert set(measure.shown) <= set(symbols_of(dimension))
        assert UNITS[measure.shown[-1]].factor <= 1
