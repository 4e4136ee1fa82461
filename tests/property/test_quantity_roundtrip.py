"""What is written reads back as exactly the same value."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.moment import format_moment, parse_moment
from bridgehead.kernel.quantity import EnergyPrice, format_energy_price, format_quantity, parse, parse_energy_price
from bridgehead.kernel.units import MEASURES, UNITS, Dimension

FLOATS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)
REAL = [dimension for dimension in MEASURES if dimension is not Dimension.SIZE]


def refusal(text: str, dimension: Dimension) -> str:
    """Why a text is refused; empty when it is read. Nothing else may be raised."""
    try:
        value = parse(text, dimension)
    except BridgeheadError as error:
        return error.happened if error.code is ErrorCode.BAD_QUANTITY and error.remedy else "an error that says too little"
    return "" if value >= 0 else "negative"


@given(st.integers(min_value=0, max_value=2**80))
def test_sizes_round_trip(size_bytes: int) -> None:
    assert parse(format_quantity(size_bytes, Dimension.SIZE), Dimension.SIZE) == size_bytes


@given(FLOATS, st.sampled_from(REAL))
def test_quantities_round_trip(value: float, dimension: Dimension) -> None:
    assert parse(format_quantity(value, dimension), dimension) == value


@given(FLOATS, st.sampled_from(list(MEASURES)), st.integers(min_value=1, max_value=6))
def test_rounded_display_always_reads(value: float, dimension: Dimension, digits: int) -> None:
    if dimension is Dimension.TEMPERATURE:
        value += 1  # rounding may not take it below absolute zero
        digits = 6
    if dimension is Dimension.SIZE:
        value = int(min(value, 1e24))
    assert refusal(format_quantity(value, dimension, digits=digits), dimension) in ("", "it is too large", "it is below absolute zero")


@given(st.text(max_size=30), st.sampled_from(list(MEASURES)))
def test_any_text_is_read_or_refused(text: str, dimension: Dimension) -> None:
    assert refusal(text, dimension) not in ("negative", "an error that says too little")


@given(st.integers(min_value=0, max_value=10**6), st.sampled_from(sorted(UNITS)), st.sampled_from(list(MEASURES)))
def test_a_unit_fits_exactly_its_own_dimension(number: int, symbol: str, dimension: Dimension) -> None:
    assert (refusal(f"{number} {symbol}", dimension) == "") == (
        (Dimension.TEMPERATURE_DIFFERENCE is dimension and symbol == "K") or UNITS[symbol].dimension is dimension
    )


@given(st.floats(min_value=0, max_value=1e6), st.sampled_from(["EUR", "USD"]))
def test_prices_round_trip(per_kwh: float, currency: str) -> None:
    price = EnergyPrice(currency, per_kwh)
    assert parse_energy_price(format_energy_price(price)) == price


@given(st.integers(min_value=0, max_value=4_000_000_000))
def test_moments_round_trip(moment_s: int) -> None:
    assert parse_moment(format_moment(float(moment_s))) == moment_s
