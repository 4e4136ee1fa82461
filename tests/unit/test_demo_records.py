from __future__ import annotations

from pathlib import Path

import msgspec

from bridgehead.app.demo.counters import Counters
from bridgehead.app.demo.records import (
    FILE_NAME,
    UNKNOWN_SITE,
    Kind,
    Outcome,
    Record,
    affinity_violations,
    first_sites,
    latencies_s,
    moves,
    read_records,
)
from bridgehead.model.exposition import parse_exposition


def record(at_s: float, session: int, number: int, site: str, kind: Kind = Kind.ANSWER, outcome: Outcome = Outcome.OK) -> Record:
    return Record(at_s, 0.5, session, number, site, kind, outcome)


RECORDS = [
    record(1.0, 1, 0, "a"),
    record(2.0, 2, 0, "b"),
    record(3.0, 1, 1, "b"),
    record(4.0, 2, 1, UNKNOWN_SITE, outcome=Outcome.FAILED),
    record(5.0, 2, 2, "b", kind=Kind.STREAM),
    record(6.0, 1, 2, "a"),
    record(7.0, 3, 0, "b"),
]


def test_records_are_read_back_and_a_torn_last_line_is_left_out(tmp_path: Path) -> None:
    lines = b"".join(msgspec.json.encode(one) + b"\n" for one in RECORDS)
    (tmp_path / FILE_NAME).write_bytes(lines + b"[7.0,0.5,3")
    assert read_records(tmp_path) == RECORDS


def test_split_of_an_interval_counts_first_requests_only() -> None:
    assert first_sites(RECORDS, begin_s=1.0, end_s=7.0) == {"a": 1, "b": 1}
    assert first_sites(RECORDS, begin_s=1.5, end_s=8.0) == {"b": 2}


def test_a_session_that_moves_violates_affinity_only_while_its_side_has_weight() -> None:
    assert [(move.source, move.target, move.at_s) for move in moves(RECORDS)] == [("a", "b", 3.0), ("b", "a", 6.0)]
    assert [move.at_s for move in affinity_violations(RECORDS, lambda site, at_s: 50)] == [3.0, 6.0]
    assert affinity_violations(RECORDS, lambda site, at_s: 0) == []
    assert [move.at_s for move in affinity_violations(RECORDS, lambda site, at_s: 0 if site == "a" else 100)] == [6.0]
    # The weight went to 0 while the request was under way: whichever side answered is right.
    assert affinity_violations(RECORDS, lambda site, at_s: 100 if at_s <= 3.2 else 0) == []


def test_latencies_are_those_of_good_plain_requests() -> None:
    assert latencies_s(RECORDS, begin_s=4.0, end_s=8.0) == [0.5, 0.5]


def test_counters_page_is_read_by_the_driver_s_parser() -> None:
    counters = Counters("chat")
    assert parse_exposition(counters.page()).samples == ()
    counters.sites["a"].requests = 3
    counters.sites["a"].answered(0.25)
    page = parse_exposition(counters.page())
    values = {sample.name: sample.value for sample in page.matching({"service": "chat", "site": "a"})}
    assert values == {"requests_total": 3, "errors_total": 0, "wrong_total": 0, "latency_seconds_sum": 0.25, "latency_seconds_count": 1}
    counters.sites["a"].in_flight = 2
    page = parse_exposition(counters.page())
    assert page.type_of("in_flight") == "gauge"
    assert page.type_of("requests_total") == "counter"
