"""Cost in words: amounts and inputs as people read them, the same in the terminal and on the page. Pure."""

from __future__ import annotations

from bridgehead.model.finding import Input
from bridgehead.planning.cost import Cost


def money(amount: float, currency: str) -> str:
    """An amount in whole units."""
    return f"{amount:,.0f} {currency}"


def input_words(one: Input) -> str:
    """An input with its unit; what nobody gave says so."""
    if not isinstance(one.value, int | float):
        return f"{one.name} unknown"
    if one.unit == "1":
        return f"{one.value:.4g}"
    small = isinstance(one.value, float) and abs(one.value) < 100
    return f"{one.value:,.4g} {one.unit}" if small else f"{one.value:,.0f} {one.unit}"


def months(found: Cost) -> str:
    """The payback, or why there is none."""
    if found.payback_months is not None:
        return f"{found.payback_months:.1f} months" if found.payback_months else "at once: the move costs nothing extra"
    if found.saved_year is None:
        return "unknown: nobody said what a year at the target saves"
    if found.saved_year <= 0:
        return "never: a year at the target costs more"
    return "unknown: some lines are"
