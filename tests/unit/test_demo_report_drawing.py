"""What the drawings of the demo's report rest on: scales, ticks, traces of training, verdicts of gates, colours that can be told apart."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridgehead.app.demo.places import SOURCE, TARGET
from bridgehead.app.demo.report import axes, frame, loss, page, splits, svg, timeline, traffic
from bridgehead.app.demo.summary import LossPoint, Split, StepSpan

STYLE = (Path(page.__file__).parent / "style.css").read_text(encoding="utf-8")
NUMBERS = st.floats(min_value=-1e9, max_value=1e9, allow_nan=False)


def span(state: str, *, kind: str = "vault.precopy", begin_s: float = 0.0, end_s: float = 1.0) -> StepSpan:
    return StepSpan("a-step", "a step", kind, begin_s, end_s, state)


def steps(site: str, first: int, last: int, at_s: float) -> list[LossPoint]:
    return [LossPoint(step, 3.0, site, at_s + 0.1 * (step - first)) for step in range(first, last + 1)]


@given(NUMBERS, NUMBERS)
def test_round_ticks_enclose_their_values_and_stay_few(one: float, other: float) -> None:
    low, high = sorted((one, other))
    ticks = axes.round_ticks(low, high, count=5)
    slack = 1e-6 * max(abs(low), abs(high), 1.0)
    assert ticks[0] <= low + slack
    assert ticks[-1] >= high - slack
    assert 2 <= len(ticks) <= 13
    assert ticks == sorted(set(ticks))


@given(st.floats(min_value=0, max_value=1e6), st.floats(min_value=0.5, max_value=1e6), st.integers(min_value=2, max_value=12))
def test_time_ticks_lie_inside_and_are_not_more_than_asked(low: float, span_s: float, count: int) -> None:
    ticks = axes.time_ticks(low, low + span_s, count=count)
    assert len(ticks) <= count + 1
    slack = 1e-6 * (1 + span_s)  # far less than a pixel
    assert all(low - slack <= tick <= low + span_s + slack for tick in ticks)


def test_ticks_are_what_people_count_in() -> None:
    assert axes.time_ticks(0, 78, count=12) == [0, 10, 20, 30, 40, 50, 60, 70]
    assert axes.round_ticks(2.2, 6.9, count=5) == [2, 3, 4, 5, 6, 7]
    assert [axes.moment(at) for at in (0, 90, 150, -0.5)] == ["0 s", "90 s", "2:30 min", "\N{MINUS SIGN}0.5 s"]


def test_scale_without_extent_does_not_divide_by_zero() -> None:
    assert axes.Scale(5, 5, 10, 90)(5) == 10


def test_steps_after_the_cut_over_never_count_at_the_source() -> None:
    late = steps(SOURCE, 8, 12, 5.0)
    training = frame.trace([*steps(SOURCE, 1, 7, 0.0), *steps(TARGET, 8, 10, 3.0), *late])
    assert [point.step for point in training.counted] == list(range(1, 11))
    assert list(training.uncounted) == late
    assert training.cut_over is not None
    assert training.cut_over.step == 8
    assert training.gap_s == pytest.approx(3.0 - 0.6)
    assert f"5\N{NO-BREAK SPACE}steps of {SOURCE} do not count" in loss.describe(training)


def test_training_that_stayed_has_no_gap_and_no_zoom() -> None:
    training = frame.trace(steps(SOURCE, 1, 20, 0.0))
    assert training.gap_s is None
    assert training.cut_over is None
    assert loss.zoom(training, 360) == ""
    assert f"never left {SOURCE}" in loss.describe(training)


@given(st.lists(NUMBERS, min_size=1, max_size=4000), st.integers(min_value=10, max_value=500))
def test_thinning_keeps_ends_order_and_extremes(values: list[float], limit: int) -> None:
    points = list(enumerate(values))
    kept = frame.thinned(points, limit=limit)
    assert len(kept) <= max(limit + 4, len(points) if len(points) <= limit else 0)
    assert kept[0] == points[0]
    assert kept[-1] == points[-1]
    assert [x for x, _ in kept] == sorted(x for x, _ in kept)
    assert min(y for _, y in kept) == min(values)
    assert max(y for _, y in kept) == max(values)


@pytest.mark.parametrize(
    ("state", "verdict", "look"),
    [("done", True, "gate"), ("failed", False, "bad"), ("undone", True, "undone"), ("measuring", None, "open")],
)
def test_gate_verdicts(state: str, verdict: bool | None, look: str) -> None:
    gate = span(state, kind="gate")
    assert traffic.gate_verdict(gate) is verdict
    assert timeline.state_class(gate) == look


def test_what_a_step_came_to_is_said_and_not_only_coloured() -> None:
    assert timeline.state_word(span("undone")) == "undone"
    assert timeline.state_word(span("failed", kind="gate")) == "did not pass"
    assert timeline.duration(span("done", begin_s=5.0, end_s=4.0)) == "0\N{NO-BREAK SPACE}ms"


@pytest.mark.parametrize(
    ("split", "outcome", "dot"),
    [
        (Split(50, 48.0, 200, 96, 10.0, 0.0, 1.0), "as asked", "dot-good"),
        (Split(50, 90.0, 200, 180, 10.0, 0.0, 1.0), "not as asked", "dot-bad"),
        (Split(100, 99.0, 100, 99, 0.0, 0.0, 1.0), "not as asked", "dot-bad"),
        (Split(5, 0.0, 0, 0, 0.0, 0.0, 1.0), "no session began", None),
    ],
)
def test_splits_beside_their_tolerance(split: Split, outcome: str, dot: str | None) -> None:
    assert splits.outcome(split) == outcome
    circles = list(ElementTree.fromstring(splits.draw(split, 0)).iter("circle"))
    assert [circle.get("class") for circle in circles] == ([dot] if dot else [])
    assert all(0 <= float(circle.get("cx", "-1")) <= 150 for circle in circles)


@given(st.text())
def test_any_text_becomes_well_formed_markup(words: str) -> None:
    drawn = svg.text((0, 0), words, class_=words)
    element = ElementTree.fromstring(drawn)
    assert (element.text or "") == svg.clean(words).replace("\r\n", "\n").replace("\r", "\n")


def test_markup_is_not_escaped_twice_and_text_always() -> None:
    assert svg.tag("g", svg.tag("title", "a<b&c")) == "<g><title>a&lt;b&amp;c</title></g>"
    assert svg.rect((0, 0), -3, 2, class_="x") == '<rect x="0" y="0" width="0" height="2" class="x"></rect>'
    assert svg.shortened("a long title of a step", width_px=60, size_px=12) == "a long…"


def colours(mode: str) -> dict[str, str]:
    """The palette of a mode: dark replaces what it names."""
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block)) for block in STYLE.split("@media")[:2])
    return light if mode == "light" else light | dark


def contrast(one: str, other: str) -> float:
    """Contrast ratio of WCAG 2.2: (lighter + 0.05) / (darker + 0.05), of relative luminances."""

    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("mode", ["light", "dark"])
def test_letters_and_shapes_stand_out(mode: str) -> None:
    palette = colours(mode)
    for ground in ("card", "paper"):
        for ink in ("ink", "muted", "good", "bad", "warn", "still"):
            assert contrast(palette[ink], palette[ground]) >= 4.5, (ink, ground)
        for shape in ("source", "target", "other", "step", "gate"):
            assert contrast(palette[shape], palette[ground]) >= 3, (shape, ground)
    for tone in ("good", "bad", "warn"):
        assert contrast(palette[tone], palette[f"{tone}-ground"]) >= 4.5, tone
    for shape in ("good", "step"):
        assert contrast(palette["card"], palette[shape]) >= 4.5, f"letters on {shape}"
