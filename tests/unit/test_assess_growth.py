"""P18: how long GPUs last, from the accounting of quarters."""

from __future__ import annotations

import math

import pytest

from bridgehead.assess.growth import growth_a_quarter, quarters_left
from bridgehead.model.estate import Quarter


def test_P18_growth_counts_quarters_that_lie_between() -> None:
    assert growth_a_quarter([Quarter("2026-Q1", 1_000), Quarter("2025-Q1", 500)]) == pytest.approx(2**0.25 - 1)
    assert growth_a_quarter([Quarter("2025-Q4", 1_000), Quarter("2026-Q1", 1_100)]) == pytest.approx(0.1)
    assert growth_a_quarter([Quarter("2025-Q4", 1_000)]) is None
    assert growth_a_quarter([Quarter("2025-Q3", 0), Quarter("2025-Q4", 5)]) is None


def test_P18_quarters_until_it_is_full() -> None:
    assert quarters_left(500, capacity=1_000, growth=0.1) == pytest.approx(7.27, rel=1e-3)
    assert quarters_left(1_000, capacity=1_000, growth=0.1) == 0
    assert math.isinf(quarters_left(500, capacity=1_000, growth=0.0))
    assert math.isinf(quarters_left(500, capacity=1_000, growth=-0.2))
    assert quarters_left(500, capacity=1_000, growth=0.2) < quarters_left(500, capacity=1_000, growth=0.1)
