"""Reports of drills: signed and chained; what the history says of them, and what is due (R13)."""

from __future__ import annotations

import resource
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from bridgehead.app.drills import reports
from bridgehead.app.drills.folder import BubbleRecord, begin
from bridgehead.app.drills.history import due, history
from bridgehead.app.drills.result import CaseResult, DrillResult, DrillVerdict, FaultResult, Measured, hours_text
from bridgehead.app.home import Home
from bridgehead.host.identity import this_driver
from bridgehead.kernel.errors import Permanent
from bridgehead.kernel.ids import RunId, SiteId, WorkloadId
from bridgehead.model.bubble import Bubble, BubbleId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Drills, Protected, Recovery, SiteJob
from bridgehead.recovery.drills.runbook import DrillPlan, Target
from bridgehead.runbook.ledger import KeyFolder

LM, SITE_A, SITE_B = WorkloadId("lm"), SiteId("site-a"), SiteId("site-b")
DAY_S = 86_400.0


def result(
    number: int, verdict: DrillVerdict = DrillVerdict.PASSED, *, rto_s: float | None = 10.0, faults: tuple[str, ...] = ()
) -> DrillResult:
    recovered = rto_s is not None
    rto, rpo = Measured.against(rto_s, Target(60.0, "objectives.all.rto")), Measured.against(5.0, None)
    case = CaseResult(LM, WorkloadKind.TRAINING, recovered, "lm@1.0-0123456789abcdef", "computed step 2", rpo, rto)
    began_s = number * DAY_S
    return DrillResult(
        f"drill-{number}", RunId(f"drill-{number}"), "two-halls", SITE_B, "ana <b>", (), began_s, began_s + 20, verdict,
        "" if recovered else "step ready-lm: it <i>broke</i>", rto_s, 5.0, 3, 0.1, False, {"lost": None, "recovered": None, "clean": None},
        (case,), tuple(FaultResult(name, True) for name in faults), (), (), "", "0" * 64, 12, "0.1.0",
    )  # fmt: skip


def recovery() -> Recovery:
    jobs = tuple(SiteJob(site, ("train",)) for site in (SITE_A, SITE_B))
    return Recovery("two-halls", (SITE_A, SITE_B), (Protected(LM, WorkloadKind.TRAINING, SITE_A, SITE_B, jobs),), drills=Drills(2 * DAY_S))


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


def test_R13_each_report_names_the_one_before_and_a_missing_one_shows(home: Home) -> None:
    for number in range(3):
        reports.write(home, result(number))
    assert history(home).holds
    assert [line.drill for line in history(home).drills] == ["drill-0", "drill-1", "drill-2"]
    (reports.folder_of(home) / "drill-1.json").unlink()
    found = history(home)
    assert not found.holds
    assert found.problems == ("the report before that of drill-2 is missing, or was changed",)


def test_R13_report_that_was_changed_counts_for_nothing(home: Home) -> None:
    reports.write(home, result(1, DrillVerdict.FAILED, rto_s=None))
    file = reports.folder_of(home) / "drill-1.json"
    file.write_bytes(
        file.read_bytes().replace(b'"verdict": "failed"', b'"verdict": "passed"').replace(b'"recovered": false', b'"recovered": true')
    )
    [line] = history(home).drills
    assert line.problem == "its signature is wrong: the file was changed after it was signed"
    assert due(home, recovery(), now_s=1.5 * DAY_S)[0].overdue
    shutil.copy(file, file.with_name("other.json"))
    assert "no signature" in reports.read(file.with_name("other.json"), home.keys).problem
    file.write_text("{")
    assert "no report" in history(home).problems[0]


def test_R13_somebody_else_needs_only_the_public_key(home: Home, tmp_path: Path) -> None:
    reports.write(home, result(1))
    file, keys = reports.folder_of(home) / "drill-1.json", tmp_path / "auditor"
    keys.mkdir()
    assert "unknown" in reports.read(file, KeyFolder(keys)).problem
    for path in (home.folder / "keys").glob("*.pub"):
        shutil.copy(path, keys)
    assert reports.read(file, KeyFolder(keys)).problem == ""
    [pem] = reports.folder_of(home).glob("*.pem")
    if shutil.which("openssl"):
        check = ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", pem, "-rawin", "-in", file, "-sigfile", f"{file}.sig"]
        assert subprocess.run(check, capture_output=True, check=False).returncode == 0
        file.write_bytes(file.read_bytes() + b" ")
        assert subprocess.run(check, capture_output=True, check=False).returncode != 0


def test_R13_page_has_history_and_trend_and_writes_nothing_unescaped(home: Home) -> None:
    reports.write(home, result(1))
    reports.write(home, result(2, DrillVerdict.FAILED, rto_s=None, faults=("site-down",)))
    page = (reports.folder_of(home) / "drill-2.html").read_text()
    assert "recovered in 1 of 2" in page
    assert "drill-1" in page
    assert "ana &lt;b&gt;" in page
    assert "<i>broke" not in page
    assert "objectives.all.rto" in page
    assert page.count("<svg") == 3  # the logo, RTO, RPO; no step was noted


def test_R13_trend_is_the_slope_of_what_was_measured(home: Home) -> None:
    for number, rto_s in enumerate((10.0, 12.0, None, 16.0)):
        verdict = DrillVerdict.FAILED if rto_s is None else DrillVerdict.PASSED
        reports.write(home, result(number, verdict, rto_s=rto_s))
    reports.write(home, result(4, DrillVerdict.STOPPED, rto_s=None))
    [trend] = history(home).trends
    assert (trend.drills, trend.passed) == (4, 3), "a drill that was stopped says nothing"
    assert trend.rto_slope_s == pytest.approx(2.0)
    assert trend.rpo_slope_s == pytest.approx(0.0)


def test_R13_what_is_due_goes_by_the_policy_of_the_recovery_file(home: Home) -> None:
    assert [line.because for line in due(home, recovery(), now_s=DAY_S)] == ["its recovery was never drilled"]
    reports.write(home, result(1))
    [line] = due(home, recovery(), now_s=2.9 * DAY_S)
    assert (line.overdue, line.last_drill, line.due_s) == (False, "drill-1", 3 * DAY_S)
    assert due(home, recovery(), now_s=3.1 * DAY_S)[0].overdue
    reports.write(home, result(2, DrillVerdict.STOPPED, rto_s=None))
    reports.write(home, result(2, DrillVerdict.NOT_APPROVED, rto_s=None))
    assert not due(home, recovery(), now_s=2.5 * DAY_S)[0].overdue
    reports.write(home, msgspec.structs.replace(result(2, DrillVerdict.FAILED, rto_s=None), drill="drill-2b"))
    [line] = due(home, recovery(), now_s=2.5 * DAY_S)
    assert line.overdue
    assert "it <i>broke</i>" in line.because


def test_little_loss_is_not_shown_as_none_and_much_not_as_a_power_of_ten(tmp_path: Path) -> None:
    assert [hours_text(value) for value in (0.0, 0.004012, 0.1, 12.345, 123456.7)] == ["0", "0.00401", "0.1", "12.3", "123,457"]
    home = Home(tmp_path / "home")
    reports.write(home, msgspec.structs.replace(result(1), rpo_gpu_hours=4567.8))
    assert "4,568 GPU-hours" in (reports.folder_of(home) / "drill-1.html").read_text()


def test_R13_full_home_is_named_and_not_the_site(tmp_path: Path) -> None:
    bubble = Bubble(BubbleId("full"), SITE_B, SITE_B, ())
    folder, home = tmp_path / "site-b" / "drills" / "full", Home(tmp_path / "home")
    record = BubbleRecord(DrillPlan("full", bubble, ()), this_driver(), "ana", "small", RunId("full"), str(folder), {}, 0.0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
    try:
        with pytest.raises(Permanent) as told:
            begin(home, record)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert told.value.subject == str(tmp_path / "home" / "drills" / "full" / "bubble.json")
