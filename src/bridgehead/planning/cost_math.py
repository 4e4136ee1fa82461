"""Cost arithmetic (M11, P22; rules section 10, vectors CO1 to CO5). Pure."""

from __future__ import annotations

from typing import Final

HOURS_OF_YEAR: Final = 8760.0
MONTHS_OF_YEAR: Final = 12.0
HOUR_S: Final = 3600.0


def energy_cost(it_kwh: float, *, pue: float, per_kwh: float) -> float:
    """kWh × PUE × tariff. The losses of UPS and PDU are in the PUE; they do not enter a second time."""
    return it_kwh * pue * per_kwh


def through_losses(it_kw: float, *losses: float) -> float:
    """Power in front of elements in series that each lose a share of what enters them, where no PUE is known: P / Π(1 - loss)."""
    for loss in losses:
        it_kw /= 1 - loss
    return it_kw


def payback_months(cost: float, *, saved_year: float) -> float | None:
    """Months until what is saved has paid the cost; 0 where nothing was spent, None where it never does."""
    if cost <= 0:
        return 0.0
    return MONTHS_OF_YEAR * cost / saved_year if saved_year > 0 else None


def outage_cost(lasts_s: float, *, per_hour: float) -> float:
    """What a standstill costs."""
    return lasts_s / HOUR_S * per_hour


def downtime_h(availability: float) -> float:
    """Hours of a year in which something with that availability is not there."""
    return (1 - availability) * HOURS_OF_YEAR
