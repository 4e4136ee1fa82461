"""Words of the demo's report: numbers with units, and sentences that claim no more than was measured."""

from __future__ import annotations

import pytest

from bridgehead.app.demo.report import words
from bridgehead.app.demo.report.excerpt import excerpt
from bridgehead.app.demo.report.tiles import grouped, tiles
from bridgehead.app.demo.summary import LedgerLine, Summary


def summary(**changes: object) -> Summary:
    """A move in which nothing went wrong, but for ``changes``."""
    plain = {
        "kind": "move", "proxy": "traefik", "seed": 1, "version": "1", "verdict": "done", "requests_sent": 10_500, "requests_failed": 0,
        "requests_wrong": 0, "requests_cut": 0, "streams": 2_000, "steps": 900, "steps_lost": 0, "weights_identical": True,
        "weights_hash_moved": "ab" * 32, "weights_hash_unmoved": "ab" * 32, "lost_compute_s_precopy": 0.5,
        "lost_compute_s_stop_copy_start": 5.0, "splits": [], "latencies": [], "resume_s": 0.01,
        "raw_bytes": 1000, "stored_bytes": 490, "wire_bytes": 500,
        "ledger_entries": 3, "ledger_head": "cd" * 32, "duration_s": 70.0, "promises": {"all_well": True}, "notes": [],
    }  # fmt: skip
    return Summary(**{**plain, **changes})


def plain(text: str) -> str:
    return text.replace("\N{NO-BREAK SPACE}", " ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (words.count(1_234_567), "1,234,567"),
        (words.plural(1, "step"), "1 step"),
        (words.plural(0, "entry", "entries"), "0 entries"),
        (words.seconds(0.0123), "0.012 s"),
        (words.seconds(0.41), "0.41 s"),
        (words.seconds(12.34), "12.3 s"),
        (words.seconds(78.4), "78 s"),
        (words.brief(0.04), "40 ms"),
        (words.brief(0.7), "0.70 s"),
        (words.brief(8.6), "8.6 s"),
        (words.brief(1234.0), "1,234 s"),
        (words.milliseconds(0.00342), "3.42 ms"),
        (words.milliseconds(1.24), "1,240 ms"),
        (words.size(511_900_000), "512 MB"),
        (words.percent(5.224, digits=2), "5.22 %"),
        (words.times(4.99, 1.0), "4.9 times"),
        (words.times(1234.5, 1.0), "1,234 times"),
        (words.promise("no_request_failed"), "No request failed"),
        (words.promise("split-brain refused"), "Split brain refused"),
        (words.promise("__"), "(no name)"),
        (words.utc(0.0), "1970-01-01 00:00:00 UTC"),
        (grouped("0123456789abcdef0"), "01234567 89abcdef 0"),
    ],
)
def test_numbers_have_units_and_separators(text: str, expected: str) -> None:
    assert plain(text) == expected


def test_ratio_is_never_rounded_up() -> None:
    assert plain(words.times(4.9999, 1.0)) == "4.9 times"


def test_lead_tells_what_went_wrong() -> None:
    bad = summary(requests_failed=3, requests_cut=1, steps_lost=20, weights_identical=False)
    assert plain(words.counted(bad)) == (
        "Of 10,500 requests, 3 failed and 1 lost the end of its stream. "
        "20 training steps had to be computed again, and the final weights differ."
    )


def test_lead_is_silent_about_what_was_not_measured() -> None:
    assert plain(words.counted(summary(steps_lost=None, weights_identical=None))) == (
        "All 10,500 requests were answered, and answered right; no stream was cut."
    )
    assert words.counted(summary(requests_sent=0, steps_lost=None)) == "No request was sent."


def test_verdict_counts_broken_promises() -> None:
    assert plain(words.verdict(summary(promises={"a": True, "b": False, "c": False}))) == "2 of 3 promises broken"
    assert "nothing is proved" in words.verdict(summary(promises={}))


@pytest.mark.parametrize("verdict", ["rolled-back", "abandoned", ""])
def test_headline_claims_a_move_only_when_it_was_done(verdict: str) -> None:
    assert "moved" not in words.headline(summary(verdict=verdict))
    assert "moved from" in words.headline(summary())


def test_tones_of_tiles() -> None:
    def tones(**changes: object) -> dict[str, str]:
        return {tile.label: tile.tone for tile in tiles(summary(**changes))}

    assert tones()["Failed"] == "good"
    assert tones(requests_failed=1)["Failed"] == "bad"
    assert tones(requests_wrong=9, kind="gate")["Answered wrong"] == "warn"
    assert tones(requests_wrong=9, kind="gate", promises={"a": False})["Answered wrong"] == "bad"
    assert tones(lost_compute_s_precopy=6.0)["Lost compute"] == "bad"
    assert tones(lost_compute_s_precopy=None)["Lost compute"] == "none"
    assert tones(weights_identical=False)["Final weights, moved and never moved"] == "bad"


def test_compared_with_zero_claims_no_ratio() -> None:
    lost = next(tile for tile in tiles(summary(lost_compute_s_precopy=0.0)) if tile.label == "Lost compute")
    assert "times" not in lost.note


def lines(events: list[str]) -> list[LedgerLine]:
    return [LedgerLine(number, float(number), "00", event, "") for number, event in enumerate(events, 1)]


def test_short_ledger_is_shown_whole() -> None:
    short = lines(["run-opened", "intent", "run-ended"])
    assert excerpt(short[::-1]).head == tuple(short)
    assert excerpt([]).shown == 0


def test_long_ledger_loses_frequent_entries_first_and_says_so() -> None:
    shown = excerpt(lines(["intent", *["gate-measured", "step-done"] * 50, "intent"]))
    assert shown.thinned
    assert [line.seq for line in shown.head][:2] == [1, 3]
    assert shown.left_out == 0
    assert shown.head[-1].seq == 102


def test_very_long_ledger_keeps_beginning_and_end() -> None:
    shown = excerpt(lines(["step-done"] * 500))
    assert shown.shown == 60
    assert shown.left_out == 440
    assert (shown.head[0].seq, shown.head[-1].seq, shown.tail[0].seq, shown.tail[-1].seq) == (1, 20, 461, 500)
