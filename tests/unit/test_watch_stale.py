"""What was told long ago, or never: the loss counts on, or is not known (R1, R6)."""

from __future__ import annotations

import msgspec
import pytest

from bridgehead.app.watch_memory import Memory, memory_resumed
from bridgehead.model.finding import FindingStatus
from bridgehead.ports.training import TrainerState
from bridgehead.recovery.watch.alarm import AlarmKind, AlarmState, Patience, follow
from bridgehead.recovery.watch.board import Bulletin, Heard, Posted, sights
from bridgehead.recovery.watch.exposure import exposure_of
from bridgehead.recovery.watch.facts import CopyPoint, JobFacts, Sighted, at
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.liveness import Limits, SiteState, site_verdict
from bridgehead.recovery.watch.readiness import judge
from bridgehead.recovery.watch.scene import Scene
from bridgehead.testing.watch_bed import CHAT, HOUR_S, LM, NOW_S, A, B, full, point, with_trainer, with_vault

PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN
replace = msgspec.structs.replace


def rpo(given: Scene, workload: str = LM) -> WatchFinding:
    return next(one for one in judge(given) if one.code == "WCH-RPO" and one.workload == workload)


def saved(step: int = 9000, *, age_s: float) -> Scene:
    """The copy is of the step that the trainer last told."""
    last = point(step, age_s=age_s)
    given = with_vault(full(), LM, B, points=(last,), copies=(CopyPoint(last, NOW_S - age_s + 10),))
    return with_vault(given, LM, A, points=(last,), usable=1)


@pytest.mark.parametrize("state", [TrainerState.RUNNING, TrainerState.STARTING, TrainerState.HOLDING, TrainerState.STANDBY])
def test_after_a_report_that_is_old_the_loss_counts_on_from_it(state: TrainerState) -> None:
    """It had computed nothing since the copy when it last said something. Whether it has since, nobody knows."""
    given = saved(age_s=10 * HOUR_S)
    told = {"state": state, "step": 9000, "step_ended_s": NOW_S - 10 * HOUR_S}
    assert rpo(with_trainer(given, reported_s=NOW_S - 10, **told)).value == 0.0
    hour = rpo(with_trainer(given, reported_s=NOW_S - HOUR_S, **told))
    assert (hour.status, hour.value) == (PASS, HOUR_S)
    assert "last reported 1 h ago" in hour.text
    assert rpo(with_trainer(given, reported_s=NOW_S - 3 * HOUR_S, **told)).status is FAIL
    assert rpo(with_trainer(given, reported_s=NOW_S + HOUR_S, **told)).status is FAIL, "from the future: nobody knows how old it is"


def test_a_snapshot_is_as_old_as_nobody_tells_that_it_is_enough() -> None:
    given = with_trainer(saved(age_s=10 * HOUR_S), step=9000, reported_s=NOW_S - 3 * HOUR_S)
    [found] = [one for one in judge(given) if one.code == "WCH-SNAPSHOT" and one.workload == LM]
    assert (found.status, found.value) == (FAIL, 3 * HOUR_S)


def test_a_copy_that_is_younger_than_the_last_report_counts_from_itself() -> None:
    given = with_trainer(saved(age_s=600), step=8000, reported_s=NOW_S - 5 * HOUR_S)
    assert rpo(given).value == 600.0


@pytest.mark.parametrize(
    ("job", "value"),
    [
        (Sighted(JobFacts("ended"), NOW_S), 0.0),
        (Sighted(JobFacts("absent"), NOW_S), 0.0),
        (Sighted(JobFacts("running"), NOW_S), HOUR_S),
        (Sighted(JobFacts("ended"), NOW_S - HOUR_S), HOUR_S),
        (Sighted(), HOUR_S),
    ],
)
def test_a_trainer_that_has_finished_is_believed_while_its_job_is_seen_to_be_over(job: Sighted[JobFacts], value: float) -> None:
    told = {"state": TrainerState.FINISHED, "step": 9000, "reported_s": NOW_S - HOUR_S, "step_ended_s": NOW_S - HOUR_S}
    given = with_trainer(saved(age_s=10 * HOUR_S), **told)
    assert rpo(replace(given, facts=replace(given.facts, jobs={at("lm", A): job}))).value == value


def test_steps_are_stated_only_while_they_are_told() -> None:
    given = with_trainer(full(), reported_s=NOW_S - HOUR_S)
    assert exposure_of(given, given.protected[0]).lost_steps is None
    assert exposure_of(full(), full().protected[0]).lost_steps == 600


def test_what_is_not_known_of_home_is_no_loss_of_nothing() -> None:
    """Nothing is lost when nothing was saved since the copy: who does not see home cannot know."""
    given = full()
    assert rpo(given, CHAT).value == 0.0
    for seen in (Sighted(), Sighted(None, None, "no answer"), Sighted(given.facts.vaults[at(CHAT, A)].value, NOW_S - HOUR_S)):
        blind = replace(given, facts=replace(given.facts, vaults={**given.facts.vaults, at(CHAT, A): seen}))
        found = rpo(blind, CHAT)
        assert (found.status, exposure_of(blind, blind.protected[1]).lost_s) == (UNKNOWN, None)
        assert found.measurement
    assert rpo(with_vault(given, CHAT, A, points=(), usable=0, passed_over="torn"), CHAT).status is UNKNOWN
    assert rpo(with_vault(given, CHAT, A, points=(point(2, age_s=-60),)), CHAT).status is UNKNOWN


def test_new_saves_do_not_hide_that_the_ones_before_were_never_copied() -> None:
    known = full().facts.vaults[at(CHAT, A)].value
    assert known is not None
    [model] = known.points
    newer = tuple(point(step, age_s=60 + 3000 * (5 - step)) for step in (5, 4, 3, 2))
    found = rpo(with_vault(full(), CHAT, A, points=(*newer, model), usable=5), CHAT)
    assert (found.status, found.value) == (FAIL, 60 + 9000)
    only_listed = rpo(with_vault(full(), CHAT, A, points=newer, usable=40), CHAT)
    assert only_listed.value == 5 * HOUR_S, "there are more than are listed: since the copy"
    assert rpo(with_vault(full(), CHAT, A, points=newer, usable=4), CHAT).value == 60 + 9000


# A clock that was set back while nobody watched


def test_what_was_kept_from_ahead_is_not_fresh_for_longer() -> None:
    """The memory is of an hour ahead: nobody is heard, no alarm waits, and no fact is known by it."""
    later_s = NOW_S + HOUR_S
    posted = Posted(A, contact_age_s=0.0, first_loss_age_s=None, looked_age_s=0.0, misses=0)
    kept = Memory(
        heard={"two": Heard(Bulletin("two", 7, later_s, (posted,)), later_s, news=True)},
        facts=full().facts,
        alarms={"WCH-SITE site-a": AlarmState("WCH-SITE site-a", troubled_s=later_s)},
        trail={LM: ((NOW_S - 60, 1.0), (later_s, 2.0))},
    )
    memory = memory_resumed(kept, now_s=NOW_S)
    assert memory.trail[LM] == ((NOW_S - 60, 1.0),)
    limits, patience = Limits(), Patience(raise_after_s=60.0)
    states = [
        site_verdict(A, sights=sights(memory.heard.values(), A), now_s=NOW_S + age_s, limits=limits).state
        for age_s in (0.0, limits.stale_s)
    ]
    assert states == [SiteState.ALIVE, SiteState.UNKNOWN]
    unknown = replace(next(one for one in judge(full()) if one.code == "WCH-SITE"), status=UNKNOWN)
    assert follow(memory.alarms, [unknown], now_s=NOW_S + 61, patience=patience)[unknown.key].kind is AlarmKind.UNKNOWN
    assert replace(full(), now_s=NOW_S - 1).known(memory.facts.trainers[at(LM, A)]) is None
