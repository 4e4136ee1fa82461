"""Diff of two plans: what moved, and by how much; nothing where only the order differs (design rule 2)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from bridgehead.app.plan_files import load_plan
from bridgehead.cli.main import call
from bridgehead.model.plan import Placement, Plan, Shrink, Vehicle, write_plan
from bridgehead.planning.plan_diff import Change, plan_changes

FILE = Path(__file__).parents[2] / "examples" / "business-case" / "six-weeks" / "plan.yaml"
PLAN = load_plan(FILE)


def changes(**new: object) -> dict[tuple[str, str, str], Change]:
    other: Plan = msgspec.structs.replace(PLAN, **new)
    return {(one.kind, one.id, one.field): one for one in plan_changes(PLAN, other)}


def test_same_plan_in_another_order_is_the_same() -> None:
    other = {name: getattr(PLAN, name)[::-1] for name in ("phases", "transfers", "swings", "waves", "placements", "spares", "services")}
    assert changes(**other) == {}


def test_swing_that_begins_later_says_by_how_much() -> None:
    later = tuple(msgspec.structs.replace(one, begins_s=one.begins_s + 3600) if one.id == "train-4" else one for one in PLAN.swings)
    (one,) = changes(swings=later).values()
    assert (one.kind, one.id, one.field, one.shift_s) == ("swing", "train-4", "begins", 3600)
    assert one.before == "2027-02-24 20:00:00Z"


def test_swing_that_is_gone_and_shrink_that_came() -> None:
    shrink = Shrink(PLAN.swings[0].id, PLAN.source, 10, PLAN.begins_s, PLAN.ends_s)
    found = changes(swings=PLAN.swings[1:], shrinks=(shrink,))
    assert found["swing", "chat-1", ""].after is None
    assert found["shrink", "chat-1 at old-hall #1", ""].before is None
    assert len(found) == 2


def test_rack_in_another_wave_and_another_place() -> None:
    waves = list(PLAN.waves)
    first, second = waves[1], waves[2]
    moved = first.vehicles[0].racks[0]
    waves[1] = with_vehicle(first, 0, racks=first.vehicles[0].racks[1:])
    waves[2] = with_vehicle(second, 0, racks=(*second.vehicles[0].racks, moved))
    places = tuple(Placement(one.id, "p99") if one.id == moved else one for one in PLAN.placements)
    found = changes(waves=tuple(waves), placements=places)
    assert (found["rack", moved, "wave"].before, found["rack", moved, "wave"].after) == ("wave-2", "wave-3")
    assert found["place", moved, ""].after == "p99"
    assert len(found) == 2


def with_vehicle(wave: object, number: int, **new: object) -> object:
    vehicles: list[Vehicle] = list(wave.vehicles)
    vehicles[number] = msgspec.structs.replace(vehicles[number], **new)
    return msgspec.structs.replace(wave, vehicles=tuple(vehicles))


def test_score_steps_and_quantities_with_units() -> None:
    score = msgspec.structs.replace(
        PLAN.score, gap=0.25, levels=(msgspec.structs.replace(PLAN.score.levels[0], value=1.0), PLAN.score.levels[1])
    )
    transfers = tuple(msgspec.structs.replace(one, rate_bps=1e9) if one.id == "corpus" else one for one in PLAN.transfers)
    wave = PLAN.waves[0]
    tasks = (msgspec.structs.replace(wave.tasks[0], ends_s=wave.tasks[0].ends_s + 60), *wave.tasks[1:])
    found = changes(score=score, transfers=transfers, waves=(msgspec.structs.replace(wave, tasks=tasks), *PLAN.waves[1:]))
    assert found["score", "lost-gpu-hours", "value"].after == "1"
    assert found["score", "gap", ""].after == "0.25"
    assert (found["transfer", "corpus", "rate_bps"].before, found["transfer", "corpus", "rate_bps"].after) == ("5 Gbps", "1 Gbps")
    assert found["step", "wave-1 drain", "ends"].shift_s == 60
    assert len(found) == 4


def test_diff_is_the_other_way_round_backwards() -> None:
    other = msgspec.structs.replace(PLAN, swings=PLAN.swings[2:], spares=())
    there, back = plan_changes(PLAN, other), plan_changes(other, PLAN)
    assert {(one.kind, one.id, one.field, one.after, one.before) for one in back} == {
        (one.kind, one.id, one.field, one.before, one.after) for one in there
    }


def test_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["plan", "diff", str(FILE), str(FILE)]) == 0
    assert capsys.readouterr().out == "the plans are the same\n"
    later = tuple(msgspec.structs.replace(one, begins_s=one.begins_s - 3600) if one.id == "train-4" else one for one in PLAN.swings)
    other = tmp_path / "other.yaml"
    other.write_text(write_plan(msgspec.structs.replace(PLAN, swings=later)))
    assert call(["plan", "diff", str(FILE), str(other)]) == 1
    assert capsys.readouterr().out == ("swing: 1 change\n  ~ train-4 begins: 2027-02-24 20:00:00Z -> 2027-02-24 19:00:00Z (1 h earlier)\n")
    assert call(["plan", "diff", str(FILE), str(other), "--json"]) == 1
    data = json.loads(capsys.readouterr().out)
    assert data["same"] is False
    assert data["changes"][0]["shift_s"] == -3600
