"""What the watch says of a scene in which everything is green but for one thing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from bridgehead.model.estate import Estate
from bridgehead.model.finding import FindingStatus
from bridgehead.ports.training import TrainerState
from bridgehead.recovery.watch.exposure import exposure_of
from bridgehead.recovery.watch.facts import CopyPoint, DrillPoint, Facts, Sighted, TrainerFacts, VaultFacts, at
from bridgehead.recovery.watch.finding import WatchFinding, worst
from bridgehead.recovery.watch.liveness import Limits, site_verdict
from bridgehead.recovery.watch.readiness import CODES, judge, report
from bridgehead.recovery.watch.scene import Credential, Scene, Terms
from bridgehead.testing.watch_bed import LM, NOW_S, RPO_S, A, B, dataset, estate, facts, point, scene

PASS, FAIL, UNKNOWN = FindingStatus.PASS, FindingStatus.FAIL, FindingStatus.UNKNOWN


def one(code: str, given: Scene) -> WatchFinding:
    """The only finding of a code."""
    found = [finding for finding in judge(given) if finding.code == code]
    assert len(found) == 1, [f"{finding.code} {finding.subject}" for finding in found]
    return found[0]


def work(**changes: Any) -> Estate:
    base = estate()
    return msgspec.structs.replace(base, workloads=(msgspec.structs.replace(base.workloads[0], **changes),))


def refuge(**changes: Any) -> VaultFacts:
    known = facts().vaults[at(LM, B)].value
    assert known is not None
    return msgspec.structs.replace(known, **changes)


def test_all_is_green_when_everything_is_as_it_should_be() -> None:
    found = judge(scene())
    assert [f"{finding.code}: {finding.text}" for finding in found if finding.status is not PASS or finding.foreseen] == []
    assert worst(found) is PASS


def test_R1_the_loss_is_told_in_seconds_steps_and_gpu_hours() -> None:
    given = scene()
    found = exposure_of(given, given.protected[0])
    assert (found.lost_s, found.lost_steps, found.lost_gpu_hours) == (600.0, 600, pytest.approx(8 * 600 / 3600))
    assert (found.lag_s, found.lag_steps) == (0.0, 0)
    assert "600 steps" in one("WCH-RPO", given).text


def test_nothing_is_lost_when_nothing_was_computed_since() -> None:
    for state in (TrainerState.FINISHED, TrainerState.RUNNING):
        given = scene(facts(trainer=TrainerFacts(state, 9000, 0, NOW_S, NOW_S - 600)))
        assert one("WCH-RPO", given).value == 0.0
        assert one("WCH-SNAPSHOT", given).value == 0.0


def test_a_job_that_holds_loses_only_what_it_had_computed() -> None:
    given = scene(facts(trainer=TrainerFacts(TrainerState.HOLDING, 9100, 0, NOW_S, NOW_S - 500)))
    assert one("WCH-RPO", given).value == 100.0


def test_an_rpo_that_is_missed_fails_and_one_that_will_be_is_foreseen() -> None:
    old = tuple(CopyPoint(point(100, age_s=age), NOW_S - age + 300) for age in (RPO_S + 1,))
    assert one("WCH-RPO", scene(facts(refuge=refuge(copies=old)))).status is FAIL
    soon = tuple(CopyPoint(point(100, age_s=RPO_S - 60), NOW_S - RPO_S + 360) for _ in range(1))
    home = VaultFacts(points=(point(9000, age_s=200), point(7200, age_s=2000)), usable=2)
    found = one("WCH-RPO", scene(facts(home=home, refuge=refuge(copies=soon))))
    assert (found.status, found.foreseen) == (PASS, True)
    assert found.breaks_s == NOW_S + 60
    assert "missed in 1 min" in found.text


def test_a_cycle_that_cannot_keep_the_objective_is_foreseen_at_once() -> None:
    points = tuple(point(9000 - number, age_s=60 + 7000 * number) for number in range(3))
    copies = tuple(CopyPoint(known, known.created_s + 400) for known in points)
    found = one("WCH-RPO", scene(facts(home=VaultFacts(points=points, usable=3), refuge=refuge(points=points, copies=copies))))
    assert found.foreseen
    assert "each cycle" in found.text


def test_stale_or_missing_observations_are_unknown_and_never_green() -> None:
    """Of everything that rests on observations: nothing passes when they are old, and nothing when there are none."""
    rests = {"WCH-SNAPSHOT", "WCH-RPO", "WCH-RTO", "WCH-DRILL", "WCH-COVER", "WCH-FENCE", "WCH-SITE"}
    for seen, age_s in ((facts(seen_s=NOW_S - 91), 91), (Facts(), 0)):
        dead = {site: site_verdict(site, sights=[], now_s=NOW_S, limits=Limits()) for site in (A, B)}
        found = [finding for finding in judge(scene(seen, verdicts=dead)) if finding.code in rests]
        assert {finding.code for finding in found} == rests
        assert {finding.status for finding in found} == {UNKNOWN}, age_s
        assert all(finding.measurement for finding in found)
    assert one("WCH-RPO", scene(facts(seen_s=NOW_S - 89))).status is PASS


def test_a_look_in_vain_does_not_take_away_what_was_seen_just_before() -> None:
    seen = facts(seen_s=NOW_S - 30)
    blind = msgspec.structs.replace(seen, vaults={key: one_.unseen("timeout") for key, one_ in seen.vaults.items()})
    assert one("WCH-RPO", scene(blind)).status is PASS


def test_a_snapshot_from_the_future_has_no_age() -> None:
    ahead = point(9000, age_s=-60)
    home = VaultFacts(points=(ahead,), usable=1)
    given = scene(facts(home=home, refuge=refuge(points=(ahead,), copies=(CopyPoint(ahead, NOW_S),))))
    assert one("WCH-RPO", given).status is UNKNOWN
    assert one("WCH-SNAPSHOT", given).status is UNKNOWN
    clock = next(finding for finding in judge(given) if finding.code == "WCH-CLOCK")
    assert (clock.status, clock.value) == (FAIL, 60.0)


def test_R2_the_recovery_time_follows_from_measured_speed() -> None:
    assert one("WCH-RTO", scene()).value == 300 + 40 + 30
    assert one("WCH-RTO", scene(facts(refuge=refuge(bytes_per_s=2e6)))).status is FAIL
    assert one("WCH-RTO", scene(facts(refuge=refuge(bytes_per_s=None, speed_s=None)))).status is UNKNOWN
    assert one("WCH-RTO", scene(facts(refuge=refuge(speed_s=NOW_S - 31 * 86_400)))).status is UNKNOWN
    assert one("WCH-RTO", scene(of=work(warm_up_s=None))).status is UNKNOWN
    slow = scene(of=work(warm_up_s=None), terms=Terms(detect_s=20_000.0))
    assert one("WCH-RTO", slow).status is FAIL, "what is known is too long already"


@pytest.mark.parametrize(
    ("drill", "status", "foreseen"),
    [
        (None, FAIL, False),
        (DrillPoint(point(1, age_s=0).id, NOW_S - 60, 1.0, False, "block x"), FAIL, False),
        (DrillPoint(point(1, age_s=0).id, NOW_S - 8 * 86_400, 1.0, True, ""), FAIL, False),
        (DrillPoint(point(1, age_s=0).id, NOW_S - 6.5 * 86_400, 1.0, True, ""), PASS, True),
        (DrillPoint(point(1, age_s=0).id, NOW_S - 60, 1.0, True, ""), PASS, False),
    ],
)
def test_R13_restores_are_tested_weekly(drill: DrillPoint | None, status: FindingStatus, foreseen: bool) -> None:
    found = one("WCH-DRILL", scene(facts(refuge=refuge(drill=drill))))
    assert (found.status, found.foreseen) == (status, foreseen)


def test_R8_coverage_names_what_has_no_second_copy() -> None:
    assert one("WCH-COVER", scene(facts(home=VaultFacts()))).status is FAIL
    assert one("WCH-COVER", scene(facts(refuge=VaultFacts()))).status is FAIL
    nothing = scene(facts(refuge=VaultFacts()))
    assert one("WCH-RPO", nothing).status is FAIL
    assert "everything would be lost" in one("WCH-RPO", nothing).text


def test_fences_that_differ_or_belong_to_another_site_fail() -> None:
    assert one("WCH-FENCE", scene(facts(refuge=refuge(epoch=1, holder="site-b")))).status is FAIL
    home = msgspec.structs.replace(VaultFacts(points=(point(9000, age_s=60),), usable=1), epoch=1, holder="site-a")
    assert one("WCH-FENCE", scene(facts(home=home))).status is FAIL
    assert one("WCH-FENCE", scene(facts(home=home, refuge=refuge(epoch=1, holder="site-a")))).status is PASS


def test_capacity_goes_by_priority_and_by_model() -> None:
    base = estate()
    second = msgspec.structs.replace(base.workloads[0], id="lm-2", priority=-1)
    found = {
        finding.subject: finding
        for finding in judge(scene(of=msgspec.structs.replace(base, workloads=(base.workloads[0], second))))
        if finding.code == "WCH-SPARE"
    }
    assert found["lm@site-b"].status is PASS
    assert found["lm-2@site-b"].status is FAIL
    assert one("WCH-SPARE", scene(of=work(gpu_model="B200"))).status is FAIL
    bare = msgspec.structs.replace(base, sites=(base.sites[0], msgspec.structs.replace(base.sites[1], nodes=())))
    assert one("WCH-SPARE", scene(of=bare)).status is UNKNOWN


def test_R4_plans_notice_generation_reshard_versions_and_grace() -> None:
    assert one("WCH-GPU", scene(of=work(gpu_model="B200"))).status is FAIL
    assert one("WCH-GPU", scene(of=work(gpu_model=""))).status is UNKNOWN
    shrunk = one("WCH-GPU", scene(of=work(gpus=16, min_gpus=8)))
    assert (shrunk.status, "must be resharded" in shrunk.text) == (PASS, True)
    assert one("WCH-GRACE", scene(of=work(save_s=61.0))).status is FAIL
    assert one("WCH-GRACE", scene(of=work(graces=()))).status is UNKNOWN
    base = estate()
    old = msgspec.structs.replace(base.sites[1].nodes[0], firmware={"driver": "535.104", "cuda": "12.4", "nccl": "2.21"})
    older = msgspec.structs.replace(base, sites=(base.sites[0], msgspec.structs.replace(base.sites[1], nodes=(old,))))
    found = one("WCH-VERSIONS", scene(of=older))
    assert (found.status, "driver 535.104 there, 550.54 at home" in found.text) == (FAIL, True)


def test_data_that_it_needs_must_be_proved_there() -> None:
    with_data = msgspec.structs.replace(work(datasets=("corpus",)), datasets=(dataset("corpus"),))
    seen = facts()
    assert one("WCH-NEEDS", scene(seen, of=with_data)).status is UNKNOWN
    empty = msgspec.structs.replace(seen, vaults={**seen.vaults, at("corpus", B): Sighted(VaultFacts(), NOW_S)})
    assert one("WCH-NEEDS", scene(empty, of=with_data)).status is FAIL
    there = msgspec.structs.replace(seen, vaults={**seen.vaults, at("corpus", B): Sighted(refuge(), NOW_S)})
    assert one("WCH-NEEDS", scene(there, of=with_data)).status is PASS


def test_credentials_end() -> None:
    def found(expires_s: float | None) -> WatchFinding:
        return one("WCH-CREDENTIAL", scene(credentials=(Credential("/etc/x.pem", "vault of site-b", expires_s),)))

    assert found(NOW_S - 1).status is FAIL
    assert found(NOW_S + 86_400).foreseen
    assert not found(NOW_S + 30 * 86_400).foreseen
    assert found(None).status is UNKNOWN


def test_M10_2_lines_must_be_apart_and_quick() -> None:
    base = estate()
    north, south = base.links

    def found(*links: object) -> FindingStatus:
        return one("WCH-PATHS", scene(of=msgspec.structs.replace(base, links=links))).status

    assert found(north) is FAIL
    assert found(north, msgspec.structs.replace(south, carrier="Nordlys")) is FAIL
    assert found(north, msgspec.structs.replace(south, path=None)) is UNKNOWN
    assert found(north, msgspec.structs.replace(south, failover_s=None)) is UNKNOWN
    assert found(north, msgspec.structs.replace(south, failover_s=3.0)) is FAIL


def test_R5_everything_has_an_objective_or_is_reported() -> None:
    given = scene(of=msgspec.structs.replace(work(objective=None), datasets=(dataset("corpus"),)))
    found = {finding.subject: finding.status for finding in judge(given) if finding.code == "WCH-OBJECTIVE"}
    assert found == {"workload:lm": FAIL, "dataset:corpus": FAIL}
    accepted = msgspec.structs.replace(given, defaults=True)
    assert {finding.status for finding in judge(accepted) if finding.code == "WCH-OBJECTIVE"} == {PASS}


def test_every_code_is_made_by_its_own_function_and_is_documented_once() -> None:
    codes = [code.code for code, _ in CODES]
    assert len(set(codes)) == len(codes)
    for code, make in CODES:
        assert {finding.code for finding in make(scene())} <= {code.code}


def test_a_report_is_encoded_and_says_what_the_scene_says() -> None:
    given = scene()
    made = report(given, judge(given), observer="o", alarms={}, observers={"p": 3.0})
    data = msgspec.json.decode(msgspec.json.encode(made))
    [line] = data["workloads"]
    assert (line["workload"], line["lost_s"], line["lost_steps"], line["restore_s"], line["spare_gpus"]) == ("lm", 600.0, 600, 40.0, 8)
    assert (data["version"], data["status"], data["observers"]) == (1, "pass", {"p": 3.0})
