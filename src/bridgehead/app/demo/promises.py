"""Promises: what each kind of demo promises, judged from facts. A promise without evidence is not kept."""

from __future__ import annotations

from typing import assert_never

from bridgehead.app.demo.breakages import KILL_AT, CutNetwork, Zombie
from bridgehead.app.demo.facts import Facts, weights_at_target
from bridgehead.app.demo.places import SOURCE, TARGET
from bridgehead.app.demo.records import Kind as Asked
from bridgehead.app.demo.records import Outcome, affinity_violations
from bridgehead.app.demo.script import Kind
from bridgehead.app.demo.summary import Summary
from bridgehead.model import event as ev

PRECOPY_FACTOR = 5.0
"""Pre-copied training loses at least this many times less compute than stop, copy and start."""
RESUME_S = 1.0
SKIPPED_SHARE = 0.2
"""Due requests that may be left out because the machine is busy. More, and the promises rest on another load than was announced; when the
service stops answering for long, the generator reaches its bound of open requests and leaves out far more."""
STALL_S = 10.0
"""No plain request takes longer. They take milliseconds, on an overloaded machine a second or two; an outage of 15 s, that a proxy hides by
letting requests wait, shows."""
GAP_TOLERANCE_S = 0.1
"""Reported and logged lost compute may differ by the time between two reports of a trainer."""


def promises(facts: Facts, summary: Summary, *, ledger_holds: bool) -> dict[str, bool]:
    """Name to kept. Names are part of the contract of ``summary.json``."""
    kept = {
        "ledger_verifies": ledger_holds,
        "cold_target_gets_no_traffic": _cold_target_untouched(facts),
        "sessions_stay": _sessions_stay(facts),
        **_load_carried(facts),
    }
    match facts.script.kind:
        case Kind.MOVE:
            kept |= _moved(facts, summary) | {"precopy_loses_5_times_less": _precopy_pays(summary)}
        case Kind.GATE:
            kept |= _gone_back(facts, summary)
        case Kind.CONTROLLER:
            quick = bool(facts.seen.resumes_s) and max(facts.seen.resumes_s) < RESUME_S
            kept |= _moved(facts, summary) | {"every_kill_happened": len(facts.seen.resumes_s) == len(KILL_AT), "resumes_within_1_s": quick}
        case Kind.NETWORK:
            kept |= _moved(facts, summary) | _survived_cuts(facts)
        case Kind.TRAINER:
            kept |= _served(summary) | {
                "run_done": facts.verdict is ev.Verdict.DONE,
                "weights_identical": summary.weights_identical is True,
            }
            kept |= _loss_stated(facts, summary)
        case Kind.SPLIT_BRAIN:
            kept |= _moved(facts, summary) | _zombie_harmless(facts)
        case _:
            assert_never(facts.script.kind)
    return kept


def _served(summary: Summary) -> dict[str, bool]:
    return {
        "no_request_failed": summary.requests_sent > 0 and summary.requests_failed == 0,
        "no_answer_wrong": summary.requests_sent > 0 and summary.requests_wrong == 0,
        "no_stream_cut": summary.streams > 0 and summary.requests_cut == 0,
        "splits_as_asked": len(summary.splits) == 4 and all(split.within for split in summary.splits),
    }


def _load_carried(facts: Facts) -> dict[str, bool]:
    """A service that answers nothing for a while fails no request when they wait, and when none are sent; both must show."""
    due = facts.load.sent + facts.load.skipped
    plain_s = [record.latency_s for record in facts.records if record.kind is Asked.ANSWER]
    return {
        "load_was_kept_up": facts.load.sent > 0 and facts.load.skipped <= SKIPPED_SHARE * due,
        "no_long_stall": bool(plain_s) and max(plain_s) < STALL_S,
    }


def _sessions_stay(facts: Facts) -> bool:
    """There were sessions that could have moved, and none did without need."""
    could_move = any(record.number > 0 and record.site in (SOURCE, TARGET) for record in facts.records)
    return could_move and not affinity_violations(facts.records, lambda site, at_s: _weight(facts, site, at_s))


def _moved(facts: Facts, summary: Summary) -> dict[str, bool]:
    reported = facts.reported
    gap_s, lost_s = summary.lost_compute_s_precopy, reported.get("lost_compute_s")
    return {
        **_served(summary),
        "run_done": facts.verdict is ev.Verdict.DONE,
        "enough_requests": summary.requests_sent >= facts.script.least_requests,
        "traffic_at_target": facts.seen.weights_at_end == {SOURCE: 0, TARGET: 100},
        "no_step_lost": summary.steps_lost == 0 and not facts.computed_twice() and _every_step_once(facts),
        "weights_identical": summary.weights_identical is True,
        "reported_loss_is_the_real_one": reported.get("lost_steps") == summary.steps_lost
        and gap_s is not None
        and lost_s is not None
        and abs(gap_s - lost_s) <= GAP_TOLERANCE_S,
    }


def _every_step_once(facts: Facts) -> bool:
    """The steps of both sites together are 1, 2, 3, ... without a gap or a repeat."""
    steps = sorted(point.step for point in facts.losses)
    return bool(steps) and steps == list(range(1, len(steps) + 1))


def _precopy_pays(summary: Summary) -> bool:
    precopy_s, plain_s = summary.lost_compute_s_precopy, summary.lost_compute_s_stop_copy_start
    return precopy_s is not None and plain_s is not None and plain_s >= PRECOPY_FACTOR * precopy_s


def _gone_back(facts: Facts, summary: Summary) -> dict[str, bool]:
    """The gate breached, the traffic is back, read back from the proxy, and nobody but the canary's share saw wrong answers."""
    breaches = [e.event for e in facts.entries if isinstance(e.event, ev.GateJudged) and e.event.verdict is ev.GateVerdict.BREACH]
    back_s = facts.done_at_s("shift-5", ev.Phase.UNDO)
    bad = [record for record in facts.records if record.outcome is not Outcome.OK]
    late = [
        record for record in facts.records if back_s is not None and record.sent_s > back_s and record.site == TARGET and not record.number
    ]
    return {
        "gate_breached": len(breaches) == 1,
        "run_rolled_back": facts.verdict is ev.Verdict.ROLLED_BACK,
        "traffic_back_at_source": facts.seen.weights_at_end == {SOURCE: 100, TARGET: 0},
        "no_new_session_at_target_after_it": back_s is not None and not late,
        "only_the_canary_saw_wrong_answers": 0 < len(bad) == sum(record.site == TARGET for record in bad),
        "no_request_failed": summary.requests_sent > 0 and summary.requests_failed == 0,
        "no_stream_cut": summary.streams > 0 and summary.requests_cut == 0,
        "training_stayed": summary.steps_lost is None and _every_step_once(facts),
    }


def _survived_cuts(facts: Facts) -> dict[str, bool]:
    breaker = facts.seen.breaker
    cuts = breaker.cuts if isinstance(breaker, CutNetwork) else []
    return {
        "line_was_cut_twice": len(cuts) == 2,
        "nothing_sent_twice": bool(cuts) and all(cut.nothing_sent_twice for cut in cuts),
    }


def _loss_stated(facts: Facts, summary: Summary) -> dict[str, bool]:
    """A trainer reports a step a moment after it completed it, so the stated loss may be one step behind the log."""
    stated, real = facts.reported.get("lost_steps"), summary.steps_lost
    stated_right = stated is not None and real is not None and abs(stated - real) <= 1
    return {"steps_were_lost": real is not None and real > 0, "loss_is_stated": stated_right}


def _zombie_harmless(facts: Facts) -> dict[str, bool]:
    zombie = facts.seen.breaker
    if not isinstance(zombie, Zombie):
        return {"zombie_saved": False}
    return {
        "zombie_saved": zombie.saved is not None,
        "zombie_never_counts_at_source": zombie.counts_at_source is False,
        "zombie_never_counts_at_target": zombie.counts_at_target is False,
        "newest_is_the_targets": zombie.newest_is_the_targets is True,
    }


def _cold_target_untouched(facts: Facts) -> bool:
    """The first request that the target answered was sent after it was found warm and after its first weight was asked for."""
    first_s = facts.first_at_target_s()
    warm_s, asked_s = facts.done_at_s("warm-target", ev.Phase.VERIFY), facts.asked_at_s("shift-5", ev.Phase.APPLY)
    return first_s is not None and warm_s is not None and asked_s is not None and first_s > max(warm_s, asked_s)


def _weight(facts: Facts, site: str, at_s: float) -> int:
    """The least weight of a site at a time: while a change is on its way, either the old or the new one may be in force."""
    possible = weights_at_target(facts.entries, at_s)
    return min(possible) if site == TARGET else 100 - max(possible)
