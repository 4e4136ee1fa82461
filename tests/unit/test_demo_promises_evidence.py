"""Every promise of the demo is broken when there is no evidence for it, and kept or broken by the evidence that it names."""

from __future__ import annotations

from typing import Any, cast

import immutables
import msgspec
import pytest

from bridgehead.app.demo.breakages import Breaker, Cut, CutNetwork, Zombie
from bridgehead.app.demo.facts import Facts
from bridgehead.app.demo.places import SOURCE, TARGET
from bridgehead.app.demo.play import Seen
from bridgehead.app.demo.promises import promises
from bridgehead.app.demo.records import Kind as Asked
from bridgehead.app.demo.records import LoadSummary, Outcome, Record
from bridgehead.app.demo.scene import Scene
from bridgehead.app.demo.script import Kind, Proxy, Script
from bridgehead.app.demo.summary import Summary
from bridgehead.kernel.ids import Epoch, RunId, SnapshotId, StepId
from bridgehead.model import event as ev
from bridgehead.ports.journal import Entry
from bridgehead.runbook import state as st

BREAKERS = {Kind.NETWORK: CutNetwork, Kind.SPLIT_BRAIN: Zombie}


def facts_of(
    kind: Kind, *, records: list[Record] | None = None, entries: list[Entry] | None = None, load: LoadSummary | None = None
) -> Facts:
    """As after a run that did nothing at all."""
    state = st.RunState(
        run=RunId("move"),
        opened_s=0.0,
        plan=cast(st.CompiledRunbook, None),
        epoch=Epoch(1),
        mode=st.Forward(),
        steps=immutables.Map({StepId("release"): st.Waiting()}),
        active=frozenset(),
        ready=frozenset(),
        unfinished=1,
        paused_total_s=0.0,
        last_s=0.0,
        driven_s=0.0,
    )
    seen = Seen(
        began_s=0.0,
        ended_s=0.0,
        model=SnapshotId("lm@50.1-0"),
        state=state,
        resumes_s=[],
        plain=None,
        compared_step=None,
        weights_at_end={},
        wire_bytes=0,
        breaker=BREAKERS.get(kind, Breaker)(cast(Scene, None)),
    )
    empty = LoadSummary(sent=0, failed=0, wrong=0, cut=0, streams=0, sessions=0, skipped=0)
    script = Script(kind=kind, seed=1, proxy=Proxy.TRAEFIK, quick=True)
    return Facts(script=script, seen=seen, entries=entries or [], load=load or empty, records=records or [], losses=[])


def empty_summary() -> Summary:
    values: dict[str, Any] = dict.fromkeys(Summary.__struct_fields__)
    zeros = (
        "requests_sent",
        "requests_failed",
        "requests_wrong",
        "requests_cut",
        "streams",
        "steps",
        "raw_bytes",
        "stored_bytes",
        "wire_bytes",
        "seed",
    )
    values |= dict.fromkeys(zeros, 0) | {"splits": [], "latencies": [], "promises": {}, "notes": []}
    return Summary(**values)


def judged(facts: Facts, summary: Summary | None = None) -> dict[str, bool]:
    return promises(facts, summary or empty_summary(), ledger_holds=False)


@pytest.mark.parametrize("kind", Kind)
def test_nothing_is_promised_without_evidence(kind: Kind) -> None:
    kept = {name for name, kept in judged(facts_of(kind)).items() if kept}
    assert kept == set()


def record(session: int, number: int, site: str, *, sent_s: float, latency_s: float = 0.01, kind: Asked = Asked.ANSWER) -> Record:
    return Record(sent_s, latency_s, session, number, site, kind, Outcome.OK)


def entry(event: ev.Event) -> Entry:
    return Entry(seq=1, event=event, payload=b"", previous="", hash="", signature="", key_id="")


def done(step: str, at_s: float, percent: int | None = None) -> Entry:
    evidence = {} if percent is None else {"weights": {SOURCE: 100 - percent, TARGET: percent}}
    return entry(ev.PhaseDone(at_s=at_s, step=StepId(step), phase=ev.Phase.VERIFY, attempt=1, epoch=Epoch(1), evidence=evidence))


def asked(step: str, at_s: float) -> Entry:
    return entry(ev.Intent(at_s=at_s, step=StepId(step), phase=ev.Phase.APPLY, attempt=1, epoch=Epoch(1)))


SHIFTED = [done("warm-target", 10.0), asked("shift-5", 20.0), done("shift-5", 21.0, 5)]


@pytest.mark.parametrize(("sent_s", "kept"), [(9.0, False), (15.0, False), (20.5, True)])
def test_a_cold_target_is_one_without_weight_too(sent_s: float, kept: bool) -> None:
    facts = facts_of(Kind.MOVE, records=[record(1, 0, TARGET, sent_s=sent_s)], entries=SHIFTED)
    assert judged(facts)["cold_target_gets_no_traffic"] is kept


@pytest.mark.parametrize("missing", [0, 1])
def test_a_cold_target_needs_both_moments(missing: int) -> None:
    entries = [one for number, one in enumerate(SHIFTED) if number != missing]
    facts = facts_of(Kind.MOVE, records=[record(1, 0, TARGET, sent_s=30.0)], entries=entries)
    assert not judged(facts)["cold_target_gets_no_traffic"]


@pytest.mark.parametrize(
    ("records", "kept"),
    [
        ([record(1, 0, SOURCE, sent_s=1.0), record(2, 0, SOURCE, sent_s=2.0)], False),
        ([record(1, 0, SOURCE, sent_s=1.0), record(1, 1, SOURCE, sent_s=2.0)], True),
        ([record(1, 0, SOURCE, sent_s=1.0), record(1, 1, TARGET, sent_s=30.0)], False),
    ],
)
def test_sessions_stay_where_sessions_could_have_moved(records: list[Record], kept: bool) -> None:
    assert judged(facts_of(Kind.MOVE, records=records, entries=SHIFTED))["sessions_stay"] is kept


@pytest.mark.parametrize(("sent", "skipped", "kept"), [(0, 0, False), (80, 20, True), (79, 21, False), (0, 10, False)])
def test_the_load_was_kept_up(sent: int, skipped: int, kept: bool) -> None:
    load = LoadSummary(sent=sent, failed=0, wrong=0, cut=0, streams=1, sessions=1, skipped=skipped)
    assert judged(facts_of(Kind.MOVE, load=load))["load_was_kept_up"] is kept


def test_an_outage_of_15_s_is_a_stall() -> None:
    usual = [record(1, number, SOURCE, sent_s=float(number)) for number in range(3)]
    stream = record(2, 0, SOURCE, sent_s=1.0, latency_s=15.0, kind=Asked.STREAM)
    waited = record(3, 0, SOURCE, sent_s=1.0, latency_s=14.5)
    assert judged(facts_of(Kind.MOVE, records=[*usual, stream]))["no_long_stall"]
    assert not judged(facts_of(Kind.MOVE, records=[*usual, waited]))["no_long_stall"]
    assert not judged(facts_of(Kind.MOVE, records=[stream]))["no_long_stall"]


HELD_BYTES, LATE_BYTES, MISSING_BYTES = 500_000, 130_000, 3_700_000
EVERYTHING_BYTES = HELD_BYTES + LATE_BYTES + MISSING_BYTES
GOOD_CUT = Cut(HELD_BYTES, LATE_BYTES, MISSING_BYTES, MISSING_BYTES + 60_000)


@pytest.mark.parametrize(
    ("cut", "kept"),
    [
        (GOOD_CUT, True),
        (Cut(HELD_BYTES, LATE_BYTES, MISSING_BYTES, MISSING_BYTES + LATE_BYTES + 60_000), True),  # receipts lost
        (Cut(HELD_BYTES, LATE_BYTES, MISSING_BYTES, EVERYTHING_BYTES), False),  # everything again
        (Cut(HELD_BYTES, LATE_BYTES, MISSING_BYTES, MISSING_BYTES - 1), False),  # what arrived must have crossed the line
        (Cut(HELD_BYTES, LATE_BYTES, 0, 0), False),  # cut after the end
        (Cut(0, 0, EVERYTHING_BYTES, EVERYTHING_BYTES), False),  # cut before the beginning
    ],
)
def test_nothing_is_sent_twice_after_either_cut(cut: Cut, kept: bool) -> None:
    for cuts in ([GOOD_CUT, cut], [cut, GOOD_CUT]):
        facts = facts_of(Kind.NETWORK)
        assert isinstance(facts.seen.breaker, CutNetwork)
        facts.seen.breaker.cuts.extend(cuts)
        assert judged(facts)["nothing_sent_twice"] is kept
        assert judged(facts)["line_was_cut_twice"]


def test_weights_that_were_not_compared_are_not_identical() -> None:
    for identical in (None, False, True):
        summary = msgspec.structs.replace(empty_summary(), weights_identical=identical)
        assert judged(facts_of(Kind.TRAINER), summary)["weights_identical"] is (identical is True)
