"""``bridgehead plan check``: what is broken first, then what is not known; exit codes that scripts rely on (issue 5)."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from bridgehead.cli.main import call
from bridgehead.kernel.errors import ExitCode
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import write_estate
from bridgehead.model.plan import Plan, digest_of, write_plan
from bridgehead.model.policy import write_policy
from bridgehead.testing.small_move import small_move

MOVE = small_move()
replace = msgspec.structs.replace


def files(folder: Path, plan: Plan = MOVE.plan, estate: Estate = MOVE.estate) -> list[str]:
    found = {"plan.yaml": write_plan(plan), "estate.yaml": write_estate(estate), "policy.yaml": write_policy(MOVE.policy)}
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [str(folder / name) for name in found]


def test_a_plan_that_keeps_every_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["plan", "check", *files(tmp_path)]) == ExitCode.DONE
    out = capsys.readouterr().out
    assert out.startswith("KEPT  small\n")
    assert "0 broken, 0 unknown, 128 pass (--all lists them)" in out


def test_a_broken_rule_comes_before_what_is_not_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estate = replace(MOVE.estate, links=tuple(replace(one, used_bps=None) for one in MOVE.estate.links))
    plan = replace(MOVE.plan, placements=MOVE.plan.placements[1:], estate=digest_of(estate))
    assert call(["plan", "check", *files(tmp_path, plan, estate)]) == ExitCode.NEGATIVE
    out = capsys.readouterr().out
    assert out.startswith("BROKEN  small\n")
    assert out.index("PLAN-COMPLETE") < out.index("Not known") < out.index("PLAN-LINE")
    assert "rack c1 never gets a place\n    -> give c1 one place at new" in out
    assert "-> give links.north.used" in out
    assert not any(line != line.rstrip() for line in out.splitlines())


def test_what_is_not_known_is_its_own_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    estate = replace(MOVE.estate, links=tuple(replace(one, used_bps=None) for one in MOVE.estate.links))
    plan = replace(MOVE.plan, estate=digest_of(estate))
    assert call(["plan", "check", *files(tmp_path, plan, estate)]) == ExitCode.CANNOT_TELL
    assert capsys.readouterr().out.startswith("CANNOT TELL  small\n")


def test_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = replace(MOVE.plan, swings=MOVE.plan.swings[1:])
    assert call(["plan", "check", *files(tmp_path, plan), "--json"]) == ExitCode.NEGATIVE
    found = json.loads(capsys.readouterr().out)
    assert found["ok"] is False
    assert found["broken"][0] == "PLAN-PHASES" or "PLAN-COMPLETE" in found["broken"]
    assert [one["status"] for one in found["findings"]] == sorted(
        (one["status"] for one in found["findings"]), key=["fail", "unknown", "pass"].index
    )
    assert found["counts"]["fail"] == sum(one["status"] == "fail" for one in found["findings"])
    assert {"code", "subject", "text", "value", "limit", "margin", "unit", "remedy", "measurement"} <= set(found["findings"][0])


def test_json_of_a_plan_that_keeps_every_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["plan", "check", *files(tmp_path), "--json"]) == ExitCode.DONE
    found = json.loads(capsys.readouterr().out)
    assert (found["ok"], found["broken"]) == (True, [])


def test_many_findings_of_one_rule_are_cut_off_and_all_shows_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files(tmp_path, replace(MOVE.plan, placements=()))
    assert call(["plan", "check", *paths]) == ExitCode.NEGATIVE
    assert "PLAN-COMPLETE  and 1 more\n" in capsys.readouterr().out
    assert call(["plan", "check", *paths, "--all"]) == ExitCode.NEGATIVE
    out = capsys.readouterr().out
    assert out.count("never gets a place") == 6
    assert "\nKept\n" in out


def test_a_plan_with_faults_of_form_names_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = files(tmp_path)
    text = Path(paths[0]).read_text(encoding="utf-8")
    Path(paths[0]).write_text(text.replace("mode: canary", "mode: hope"), encoding="utf-8")
    assert call(["plan", "check", *paths]) == ExitCode.USAGE
    err = capsys.readouterr().err
    assert "plan.yaml:" in err
    assert "hope" in err
