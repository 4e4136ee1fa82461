"""Moments are read back as they were written: clocks are finer than microseconds, and a rewritten runbook must be the same runbook."""

from __future__ import annotations

import re

from hypothesis import example, given
from hypothesis import strategies as st

from bridgehead.kernel.moment import format_moment, parse_moment
from bridgehead.kernel.shape import MOMENT


@given(st.floats(min_value=0.0, max_value=4e9))
@example(1796282845.0485373)
@example(0.0)
@example(5e-324)
@example(1796282845.9999998)
def test_every_moment_reads_back_as_the_same_number(moment_s: float) -> None:
    text = format_moment(moment_s)
    assert parse_moment(text) == moment_s
    assert re.match(MOMENT.pattern, text), "editors take what is written"


def test_what_a_microsecond_holds_is_written_as_before() -> None:
    assert format_moment(1796282845.0) == "2026-12-03 07:27:25Z"
    assert format_moment(1796282845.5) == "2026-12-03 07:27:25.500000Z"
    assert parse_moment("2026-12-03 08:27:25.5+01:00") == 1796282845.5
