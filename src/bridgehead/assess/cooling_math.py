"""Cooling arithmetic (rules section 4). Pure; watts, kelvin, cubic metres a second."""

from __future__ import annotations

import itertools
from typing import Final

from bridgehead.kernel.units import UNITS

BTU_PER_H_PER_KW: Final = 3412.0
_CFM_M3PS: Final = float(UNITS["CFM"].factor)
_FOOT_M: Final = 0.3048
_PRESSURE: Final = ((0.0, 1.0), (2_000.0, 0.93), (4_000.0, 0.86), (6_000.0, 0.80), (8_000.0, 0.74), (10_000.0, 0.69))
"""Altitude in feet and the pressure there as a share of that at the sea (rules section 4)."""


def btu_per_h(power_w: float) -> float:
    """Heat in BTU/h; heat is the electrical power."""
    return BTU_PER_H_PER_KW * power_w / 1_000


def pressure_ratio(altitude_m: float) -> float | None:
    """Pressure as a share of that at the sea, between the steps of the table on straight lines; None above 10,000 ft."""
    altitude_ft = altitude_m / _FOOT_M
    for (low, at_low), (high, at_high) in itertools.pairwise(_PRESSURE):
        if altitude_ft <= high * (1 + 1e-12):
            return at_low + (at_high - at_low) * max(0.0, altitude_ft - low) / (high - low)
    return None


def air_m3ps(heat_w: float, *, rise_k: float, pressure: float = 1.0) -> float:
    """Air that carries ``heat_w`` at a rise of ``rise_k``: CFM = 3,412·kW / (1.085·ΔT_F), by the pressure ratio of the altitude."""
    return btu_per_h(heat_w) / (1.085 * rise_k * 9 / 5) / pressure * _CFM_M3PS


def liquid_m3ps(heat_w: float, *, rise_k: float, density_kg_per_m3: float = 998.0, heat_j_per_kg_k: float = 4182.0) -> float:
    """Coolant that carries ``heat_w`` at a rise of ``rise_k``: P / (ρ·cp·ΔT)."""  # noqa: RUF002  the symbol of the formula
    return heat_w / (density_kg_per_m3 * heat_j_per_kg_k * rise_k)
