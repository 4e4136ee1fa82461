"""Records: every request that the load generator sent, one JSON line each, and what can be read from them."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import msgspec

FILE_NAME = "requests.jsonl"
SUMMARY_NAME = "summary.json"
UNKNOWN_SITE = "unknown"
"""The answer, if any, did not say who gave it (a proxy's own error page, a connection that broke)."""


class Kind(enum.StrEnum):
    """What was asked."""

    ANSWER = "a"
    STREAM = "s"


class Outcome(enum.StrEnum):
    """How it ended; only OK is good."""

    OK = "ok"
    FAILED = "failed"
    """No answer, or one with another status than 200."""
    WRONG = "wrong"
    """An answer that differs from what the model says."""
    CUT = "cut"
    """A stream that ended before its last event."""


class Record(msgspec.Struct, frozen=True, array_like=True):
    """One request.

    Attributes:
        sent_s: seconds since the Unix epoch.
        latency_s: until the whole answer was there.
        session, number: which session, and the how manieth request of it (0 is the first: the one that a proxy spreads by weight).
        site: who answered.
        why: of a bad outcome.
    """

    sent_s: float
    latency_s: float
    session: int
    number: int
    site: str
    kind: Kind
    outcome: Outcome
    why: str = ""


class LoadSummary(msgspec.Struct, frozen=True):
    """Totals. ``skipped``: due requests that were not sent because too many were open."""

    sent: int
    failed: int
    wrong: int
    cut: int
    streams: int
    sessions: int
    skipped: int


class Move(msgspec.Struct, frozen=True):
    """A session was answered by another site than before; ``at_s`` when the request was sent, ``answered_s`` when it was answered."""

    session: int
    source: str
    target: str
    at_s: float
    answered_s: float


def read_records(directory: Path) -> list[Record]:
    """All records, in the order in which they ended. A last line that was cut off by a kill is left out."""
    lines = (directory / FILE_NAME).read_bytes().split(b"\n")[:-1]
    decoder = msgspec.json.Decoder(Record)
    return [decoder.decode(line) for line in lines]


def first_sites(records: Iterable[Record], *, begin_s: float, end_s: float) -> Counter[str]:
    """Sessions that began in [begin_s, end_s), by the site that answered first: the split as it was seen."""
    return Counter(record.site for record in records if record.number == 0 and begin_s <= record.sent_s < end_s)


def moves(records: Sequence[Record]) -> list[Move]:
    """Every change of site within a session, in order of time."""
    found = []
    last: dict[int, str] = {}
    for record in sorted(records, key=lambda record: (record.session, record.number)):
        before = last.get(record.session)
        if before is not None and before != record.site and record.site != UNKNOWN_SITE:
            found.append(Move(record.session, before, record.site, record.sent_s, record.sent_s + record.latency_s))
        if record.site != UNKNOWN_SITE:
            last[record.session] = record.site
    return sorted(found, key=lambda move: move.at_s)


def affinity_violations(records: Sequence[Record], weight_at: Callable[[str, float], int]) -> list[Move]:
    """Moves away from a site that still had weight, both when the request was sent and when it was answered.

    Args:
        weight_at: the weight in force of a site at a time (seconds since the Unix epoch).
    """
    return [move for move in moves(records) if weight_at(move.source, move.at_s) > 0 and weight_at(move.source, move.answered_s) > 0]


def latencies_s(records: Iterable[Record], *, begin_s: float, end_s: float) -> list[float]:
    """Latencies of good plain requests sent in [begin_s, end_s), sorted."""
    return sorted(r.latency_s for r in records if r.kind is Kind.ANSWER and r.outcome is Outcome.OK and begin_s <= r.sent_s < end_s)
