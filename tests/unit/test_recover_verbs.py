"""What `bridgehead recover` says and refuses before anything is done (J05, J15)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bridgehead.app import runs
from bridgehead.app.home import Home
from bridgehead.app.recover import _refuse_nothing, _rto_clock
from bridgehead.app.recover_look import UNSEEN, Seen, look
from bridgehead.app.recover_open import open_recoveries, refuse_beside
from bridgehead.app.recover_outcome import _really
from bridgehead.drivers.world import Calls, connect
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Protected, Recovery, SiteJob
from bridgehead.model.runbook import Runbook
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.recovery.failover import Failover, failover_runbook
from bridgehead.recovery.loss import LastSeen, Loss
from bridgehead.recovery.moving import Move, move_runbook
from bridgehead.recovery.steps import Case
from bridgehead.simulate.network import EDGE
from bridgehead.simulate.world import World
from bridgehead.testing.virtual_failover import CHAT, NEW, OLD, TRAIN, calm_loss, protected

POINT = SnapshotInfo("lm@100", "lm", 100, 0, "a", 1000.0, 10, verified=True, counts=True)


def work(name: str, kind: WorkloadKind = WorkloadKind.TRAINING) -> Protected:
    return Protected(name, kind, "a", "b", tuple(SiteJob(site, ("run",), name=f"{name}-{site}") for site in ("a", "b")))


def move(*names: str, kind: WorkloadKind = WorkloadKind.TRAINING) -> Runbook:
    each = tuple(work(name, kind) for name in names)
    return move_runbook(
        Move("move", Recovery("r", ("a", "b"), each, witness="w"), "a", "b", tuple(Case(one, "a", "b") for one in each), 0.0)
    )


def failover(*names: str) -> Runbook:
    each = tuple(work(name) for name in names)
    cases = tuple(Case(one, "a", "b", point=POINT) for one in each)
    return failover_runbook(Failover("failover", Recovery("r", ("a", "b"), each, witness="w"), "a", cases, 0.0))


def opened(home: Home, runbook: Runbook, name: str) -> None:
    runs.start(home, runbook, {"sites": {}, "services": {}}, name=name, by="ada")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_J15_two_recoveries_of_the_same_workloads_are_refused_with_the_first_ones_name(home: Home) -> None:
    refuse_beside(home, move("lm"))  # nothing was ever begun
    opened(home, move("lm", "job"), "m1")
    for second in (move("lm"), move("job", "other")):
        with pytest.raises(BridgeheadError) as refused:
            refuse_beside(home, second)
        assert refused.value.code is ErrorCode.RECOVERY_REFUSED
        assert "run m1 of the same workloads" in refused.value.happened
        assert "run resume" in refused.value.remedy
    refuse_beside(home, move("other"))
    refuse_beside(home, failover("lm"))  # its site may have been lost in the middle of the move
    opened(home, failover("lm"), "fo")
    with pytest.raises(BridgeheadError, match="run fo of the same"):
        refuse_beside(home, failover("lm"))
    assert {run for run, _ in open_recoveries(home)} == {"m1", "fo"}


def test_services_without_a_vault_are_the_same_by_their_jobs(home: Home) -> None:
    opened(home, move("dns", kind=WorkloadKind.SERVICE), "m1")
    with pytest.raises(BridgeheadError, match="m1"):
        refuse_beside(home, move("dns", kind=WorkloadKind.SERVICE))
    refuse_beside(home, move("ldap", kind=WorkloadKind.SERVICE))


def test_a_service_whose_proxy_was_lost_with_its_site_is_failed_over_all_the_same() -> None:
    world = World(calm_loss().blueprint)
    ports = connect(Calls(world))
    world.network.cut_off(EDGE)
    assert look(ports, protected(), site=OLD).left_out == {CHAT: UNSEEN}
    there = look(ports, protected(), site=OLD, unseen_at_home=True)
    assert there.left_out == {}
    assert CHAT in {case.id for case in there.cases}
    assert CHAT not in {case.id for case in look(ports, protected(), site=NEW, unseen_at_home=True).cases}


def test_what_cannot_be_seen_is_not_called_nothing_to_do() -> None:
    with pytest.raises(BridgeheadError) as refused:
        _refuse_nothing(Seen((), {CHAT: UNSEEN, TRAIN: "it is at new"}), OLD)
    assert "nothing to do" not in refused.value.remedy
    assert f"Whether {CHAT} is there is not known" in refused.value.remedy
    with pytest.raises(BridgeheadError, match="nothing is known to be at old"):
        _refuse_nothing(Seen((), {TRAIN: "it is at new"}), OLD)


def test_a_target_is_needed_for_what_is_promoted_there_and_not_for_what_is_protected_later() -> None:
    world = World(calm_loss().blueprint)
    ports = connect(Calls(world))
    world.network.cut_off(NEW)
    with pytest.raises(PortError):
        look(ports, protected(), site=OLD, only=[TRAIN])
    assert [case.id for case in look(ports, protected(), site=OLD, only=[TRAIN], target_needed=False).cases] == [TRAIN]


def test_the_clock_of_the_rto_begins_with_the_last_sign_of_life_and_says_so() -> None:
    train = work("lm")
    quiet = Seen((Case(train, "a", "b", point=POINT, last=LastSeen(160, 1030.0, 1031.0, final=False)),), {})
    assert _rto_clock(quiet, "a", None, 1100.0)[0] == 1031.0
    assert "69 s ago: its last sign of life" in _rto_clock(quiet, "a", None, 1100.0)[1]
    assert _rto_clock(quiet, "a", 1050.0, 1100.0)[0] == 1050.0
    assert _rto_clock(Seen((Case(train, "a", "b"),), {}), "a", None, 1100.0)[0] == 1100.0
    assert "nothing tells when it was lost" in _rto_clock(Seen((), {}), "a", None, 1100.0)[1]
    assert _rto_clock(quiet, "a", 1200.0, 1100.0)[0] == 1100.0  # never in the future


def test_the_measured_loss_takes_the_place_of_the_stated_one() -> None:
    stated = Loss("lm", "lm@100", 100, 130, 30, 270.0, 8, exact=False)
    really = _really(stated, {"last_step": 188, "lost_steps": 88, "lost_compute_s": 8.8, "final": True})
    assert (really.steps, really.seconds, really.exact) == (88, 8.8, True)
    assert really.text == "lm: goes on from step 100 (lm@100); lost: 88 steps, 8.8 s of computing (0.0196 GPU-hours)"
    assert not _really(stated, {"last_step": 188, "lost_steps": 88, "lost_compute_s": None, "final": True}).exact
    assert "(4,568.00 GPU-hours)" in msgspec.structs.replace(really, seconds=4568 * 450.0).text
    assert msgspec.structs.replace(really, exact=False).text.count("at most") == 1
