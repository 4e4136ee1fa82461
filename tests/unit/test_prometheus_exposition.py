"""The text format is read strictly, and counters are summed only where that is right."""

from __future__ import annotations

import math

import pytest

from bridgehead.drivers.prometheus.text import counters
from bridgehead.model.exposition import Sample, finite_sum, parse_exposition

PAGE = r"""# HELP requests_total Requests with a \\ in "help".
# TYPE requests_total counter
requests_total{site="a",path="/x"} 3
requests_total{site="a",path="/y",} 4.5 1700000000000
requests_total{ site = "b" , path = "/x" } 1e3
  spaced_total	 7
# a comment TYPE that is none
escaped_total{text="quote \" back \\ line\nend } # {"} 1
# TYPE temperature gauge
temperature{site="a"} -3
# TYPE latency_seconds histogram
latency_seconds_bucket{site="a",le="0.5",replica="1"} 3
latency_seconds_bucket{site="a",le="0.5",replica="2"} 4
latency_seconds_bucket{site="a",le="+Inf",replica="1"} 5
latency_seconds_sum{site="a"} 1.25
latency_seconds_count{site="a"} 5
# TYPE size_bytes summary
size_bytes{site="a",quantile="0.9"} 100
size_bytes_sum{site="a"} 900
size_bytes_count{site="a"} 9
broken_total{site="a",part="1"} NaN
broken_total{site="a",part="2"} 5
endless_total{site="a"} +Inf
"""


def test_grammar():
    page = parse_exposition(PAGE)
    assert page.samples[0] == Sample(name="requests_total", labels={"site": "a", "path": "/x"}, value=3.0)
    assert page.samples[2] == Sample(name="requests_total", labels={"site": "b", "path": "/x"}, value=1000.0)
    assert page.samples[3] == Sample(name="spaced_total", labels={}, value=7.0)
    assert page.samples[4].labels == {"text": 'quote " back \\ line\nend } # {'}
    assert page.types["latency_seconds"] == "histogram"
    assert parse_exposition("").samples == ()
    assert parse_exposition("x_total 1\r\n").samples[0].value == 1.0


def test_G03_counters_are_summed_by_label_and_never_made_up():
    found = counters(parse_exposition(PAGE), {"site": "a"})
    assert found == {
        "requests_total": 7.5,
        'latency_seconds_bucket{le="0.5"}': 7.0,
        'latency_seconds_bucket{le="+Inf"}': 5.0,
        "latency_seconds_sum": 1.25,
        "latency_seconds_count": 5.0,
        "size_bytes_sum": 900.0,
        "size_bytes_count": 9.0,
    }  # no gauge, no quantile, and neither a part of broken_total nor a 0 for it
    assert counters(parse_exposition(PAGE), {"site": "c"}) == {}
    assert counters(parse_exposition(PAGE), {})["spaced_total"] == 7.0


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("a 1\nb 2", 2, "cut short"),
        ("a 1\nb\n", 2, "not a sample"),
        ("a{x=1} 1\n", 1, "bad label"),
        ('a{x="1" y="2"} 1\n', 1, "bad label"),
        ('a{x="1"', 1, "cut short"),
        ('a{x="1"\n', 1, "not a sample"),
        ('a{x="1",x="2"} 1\n', 1, "given twice"),
        ('a{x="\\t"} 1\n', 1, "unknown escape"),
        ("a 1\na 2\n", 2, "given twice"),
        ('a{x="1",y="2"} 1\na{y="2",x="1"} 1\n', 2, "given twice"),
        ("a 0x10\n", 1, "not a sample"),
        ("a 1_000\n", 1, "not a sample"),
        ("a 1 2 3\n", 1, "not a sample"),
        ("1a 1\n", 1, "not a sample"),
        ("# TYPE a counter\n# TYPE a gauge\n", 2, "second TYPE"),
        ("# TYPE a number\n", 1, "not a TYPE line"),
    ],
)
def test_damage_is_named_by_line(text, line, what):
    with pytest.raises(ValueError, match=f"line {line}: .*{what}"):
        parse_exposition(text)


def test_a_part_that_is_missing_makes_the_sum_unknown():
    assert finite_sum([]) is None
    assert finite_sum([1.0, math.nan]) is None
    assert finite_sum([1.0, -math.inf]) is None
    assert finite_sum([0.1] * 10) == 1.0
