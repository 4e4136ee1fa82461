"""Book: every number that a price rests on, where it comes from, and which of them are guesses (R3)."""

from __future__ import annotations

from bridgehead.model.finding import Input, Origin
from bridgehead.model.objectivefile import Continuity
from bridgehead.model.recovery import Pattern
from bridgehead.model.tariff import GUESSES, OF_R11, TERMS

_UNITS = {
    "prices.gpu_month": "/GPU/month",
    "prices.on_call_gpu_month": "/GPU/month",
    "prices.cloud_gpu_hour": "/GPU/h",
    "prices.store_tb_month": "/TB/month",
    "prices.link_gbps_month": "/Gbps/month",
    "prices.egress_gb": "/GB",
    "prices.labour_hour": "/h",
}
_TERM_UNITS = {"standby": "", "provision": "s", "overhead": "", "hours": "h/month", "fixed_hours": "h/month"}


class Book:
    """Reads numbers and remembers which were used.

    Args:
        continuity: what the file gives.
    """

    def __init__(self, continuity: Continuity) -> None:
        self._continuity = continuity
        self._used: dict[str, Input] = {}

    @property
    def currency(self) -> str:
        """Of all prices."""
        return self._continuity.currency

    @property
    def used(self) -> tuple[Input, ...]:
        """Every number that was asked for, by name."""
        return tuple(self._used[name] for name in sorted(self._used))

    @property
    def guesses(self) -> tuple[Input, ...]:
        """Those of them that nobody gave."""
        return tuple(one for one in self.used if one.origin is Origin.GUESS)

    def inputs(self, *names: str) -> tuple[Input, ...]:
        """Those of the used numbers, for a finding that rests on them."""
        return tuple(one for one in self.used if one.name in names)

    def price(self, name: str) -> float:
        """A price, in the file's currency."""
        return self._number("prices", name, getattr(self._continuity.prices, name), self.currency + _UNITS[f"prices.{name}"])

    def seconds(self, name: str) -> float:
        """An assumption that is a time."""
        return self._number("assumptions", name, getattr(self._continuity.assumptions, f"{name}_s"), "s")

    def rate_bps(self, name: str) -> float:
        """An assumption that is a data rate."""
        return self._number("assumptions", name, getattr(self._continuity.assumptions, f"{name}_bps"), "bit/s")

    def plain(self, name: str) -> float:
        """An assumption without a unit."""
        return self._number("assumptions", name, getattr(self._continuity.assumptions, name), "")

    def term(self, pattern: Pattern, name: str) -> float:
        """What a pattern means: ``standby``, ``provision`` (seconds), ``overhead``, ``hours`` or ``fixed_hours``."""
        attribute = "provision_s" if name == "provision" else name
        own = next((one for one in self._continuity.patterns if one.id is pattern), None)
        given = None if own is None else getattr(own, attribute)
        source = f"patterns.{pattern.value}.{name}"
        if given is not None:
            return self._keep(source, given, _TERM_UNITS[name], Origin.DECLARED, source)
        value = getattr(TERMS[pattern], attribute)
        if (pattern, name) in OF_R11:
            return self._keep(source, value, _TERM_UNITS[name], Origin.DEFAULT, "requirement R11")
        return self._keep(source, value, _TERM_UNITS[name], Origin.GUESS, "nobody gave it")

    def _number(self, section: str, name: str, given: float | None, unit: str) -> float:
        key = f"{section}.{name}"
        if given is not None:
            return self._keep(key, float(given), unit, Origin.DECLARED, key)
        value, why = GUESSES[key]
        return self._keep(key, value, unit, Origin.GUESS, why)

    def _keep(self, name: str, value: float, unit: str, origin: Origin, source: str) -> float:
        self._used[name] = Input(name, value, unit, origin, source)
        return value
