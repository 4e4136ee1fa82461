"""What a plan is shown as: page, calendar, list for movers, task sheets, terminal; whole, safe, and the same for any order (M6, M7.4)."""

from __future__ import annotations

import csv
import datetime
import io
import json
import re
import shutil
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bridgehead.app.example_estate import example
from bridgehead.app.plan_files import load_planned
from bridgehead.app.plan_report.ical import calendar, events
from bridgehead.app.plan_report.movers import COLUMNS, movers_csv
from bridgehead.app.plan_report.page import render
from bridgehead.app.plan_report.task_sheets import task_sheets
from bridgehead.app.plan_report.timescale import TimeScale
from bridgehead.cli.main import call
from bridgehead.model.finding import FindingStatus
from bridgehead.model.plan import RollbackPoint, TaskKind
from bridgehead.planning.checker import check
from bridgehead.planning.course import Course
from bridgehead.testing.plain_plan import plain_plan

CASES = Path(__file__).parents[2] / "examples" / "business-case"


def course_of(name: str) -> Course:
    folder = CASES / name
    given = load_planned(folder / "plan.yaml", folder / "estate.yaml", folder / "policy.yaml")
    return Course(given.plan, given.estate, given.policy)


def generated(gpus: int, seed: int) -> Course:
    made = example(gpus, seed=seed)
    return Course(plain_plan(made.estate, made.policy), made.estate, made.policy)


@pytest.fixture(scope="module", params=["six-weeks", "holiday-weekend", "generated"])
def course(request: pytest.FixtureRequest) -> Course:
    return generated(1500, 3) if request.param == "generated" else course_of(request.param)


def parsed(text: str) -> list[dict[str, str]]:
    """Events of a calendar by RFC 5545: unfolded, unescaped."""
    assert text.endswith("\r\n")
    lines = re.sub(r"\r\n[ \t]", "", text).split("\r\n")[:-1]
    assert (lines[0], lines[-1]) == ("BEGIN:VCALENDAR", "END:VCALENDAR")
    found: list[dict[str, str]] = []
    for line in lines[1:-1]:
        name, _, value = line.partition(":")
        if (name, value) == ("BEGIN", "VEVENT"):
            found.append({})
        elif found and name != "END":
            assert name not in found[-1], f"{name} twice"
            found[-1][name] = re.sub(r"\\(.)", lambda match: "\n" if match[1] in "nN" else match[1], value)
    return found


def moment(text: str) -> float:
    return datetime.datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=datetime.UTC).timestamp()


def test_page_is_well_formed_and_every_link_leads_somewhere(course: Course) -> None:
    tree = ElementTree.fromstring(render(course, made_s=0.0).removeprefix("<!DOCTYPE html>"))
    ids = [element.get("id") for element in tree.iter() if element.get("id")]
    assert len(ids) == len(set(ids))
    links = {element.get("href") for element in tree.iter() if element.get("href")} - {"data:,"}
    assert links
    assert all(link.startswith("#") and link[1:] in ids for link in links)


def test_page_asks_for_nothing_and_runs_nothing(course: Course) -> None:
    page = render(course, made_s=0.0)
    assert "<script" not in page
    assert not re.search(r"(src|href)=\"(?!#|data:)", page)
    assert "url(" not in page.replace("url(#", "")
    assert "@import" not in page
    assert "http" not in re.sub(r'http-equiv|xmlns="[^"]*"', "", page)


def test_page_has_every_wave_workload_rack_place_and_model(course: Course) -> None:
    tree = ElementTree.fromstring(render(course, made_s=0.0).removeprefix("<!DOCTYPE html>"))
    words = " ".join(tree.itertext())
    plan = course.plan
    wanted = [*(one.id for one in plan.swings), *(one.id for one in plan.waves), *(one.id for one in plan.services)]
    wanted += [*course.wave_of, *(one.place for one in plan.placements), *course.models, *(one.field for one in plan.assumptions)]
    assert [name for name in wanted if name not in words] == []


def test_names_from_files_are_shown_and_not_believed() -> None:
    course = course_of("six-weeks")
    evil = "<b>hall & \x07</b>"
    source = msgspec.structs.replace(course.source, name=evil)
    plan = msgspec.structs.replace(course.plan, name=evil, rollback=(RollbackPoint("x", 0.0, "<script>", '"'),))
    page = render(Course(plan, msgspec.structs.replace(course.estate, sites=(source, course.target)), course.policy), made_s=0.0)
    assert "<b>hall" not in page
    assert "<script" not in page
    assert "&lt;b&gt;hall &amp; \N{REPLACEMENT CHARACTER}" in page


def test_page_says_when_the_reserve_is_broken() -> None:
    course = course_of("six-weeks")
    assert not course.reserve_broken()
    assert "It does, at every moment." in render(course, made_s=0.0)
    swings = tuple(msgspec.structs.replace(one, begins_s=course.plan.begins_s) for one in course.plan.swings)
    early = Course(msgspec.structs.replace(course.plan, swings=swings), course.estate, course.policy)
    assert [(site, model) for site, model, _ in early.reserve_broken()] == [("new-hall", "V100")]
    page = render(early, made_s=0.0)
    assert "The reserve is broken" in page
    assert "It does, at every moment." not in page


def test_order_of_the_estate_changes_no_output(course: Course) -> None:
    sites = tuple(msgspec.structs.replace(site, nodes=site.nodes[::-1], racks=site.racks[::-1]) for site in course.estate.sites[::-1])
    estate = msgspec.structs.replace(course.estate, sites=sites, workloads=course.estate.workloads[::-1], links=course.estate.links[::-1])
    other = Course(course.plan, estate, course.policy)
    assert movers_csv(other) == movers_csv(course)
    assert task_sheets(other) == task_sheets(course)
    assert render(other, made_s=0.0) == render(course, made_s=0.0)


def test_page_without_hardware_has_no_waves() -> None:
    course = course_of("six-weeks")
    page = render(Course(msgspec.structs.replace(course.plan, waves=(), placements=()), course.estate, course.policy), made_s=0.0)
    assert 'id="waves"' not in page
    assert "are carried" not in page
    assert "train-8" in page


@pytest.mark.parametrize("name", ["six-weeks", "holiday-weekend"])
def test_worked_cases_keep_all_rules(name: str) -> None:
    course = course_of(name)
    found = check(course.plan, course.estate, course.policy)
    assert found
    assert [(one.code, one.subject, one.text) for one in found if one.status is not FindingStatus.PASS] == []


def test_ticks_fit_the_span() -> None:
    for days in (0.5, 3, 10, 40, 100, 400):
        ticks = list(TimeScale(1.8e9, 1.8e9 + days * 86_400).ticks())
        assert 1 <= len(ticks) <= 17, days
        assert all(1.8e9 <= at <= 1.8e9 + days * 86_400 for at, _ in ticks)


def test_calendar_parses_back_to_the_plan(course: Course) -> None:
    text = calendar(course.plan, made_s=1.79e9)
    found = {one["UID"]: one for one in parsed(text)}
    assert len(found) == len(list(events(course.plan))), "UIDs are unique"
    plan = course.plan
    spans = {one["SUMMARY"]: (moment(one["DTSTART"]), moment(one["DTEND"])) for one in found.values() if "DTEND" in one}
    for swing in plan.swings:
        assert spans[f"{swing.id} goes over ({swing.mode.value})"] == (round(swing.begins_s), round(swing.ends_s))
    kinds = [one["CATEGORIES"] for one in found.values()]
    assert kinds.count("wave") == len(plan.waves)
    assert kinds.count("phase") == len(plan.phases)
    assert kinds.count("task") == sum(len(wave.tasks) for wave in plan.waves)
    assert all(set(one) >= {"UID", "DTSTAMP", "DTSTART", "SUMMARY"} for one in found.values())
    assert all(moment(one["DTEND"]) > moment(one["DTSTART"]) for one in found.values() if "DTEND" in one)


def test_calendar_lines_are_at_most_75_octets_and_no_character_is_parted(course: Course) -> None:
    name = "Größe 大 " * 20
    text = calendar(msgspec.structs.replace(course.plan, rollback=(RollbackPoint("x", 0.0, name, "a;b,c\\d\ne"),)), made_s=0.0)
    lines = text.encode().split(b"\r\n")
    assert max(map(len, lines)) <= 75
    for line in lines:
        line.decode()
    point = next(one for one in parsed(text) if one["CATEGORIES"] == "rollback")
    assert point["DESCRIPTION"] == f"afterwards it is no longer cheap: {name}; trigger: a;b,c\\d\ne"


def test_next_generation_keeps_uids_and_raises_the_sequence() -> None:
    plan = course_of("six-weeks").plan
    first, second = (parsed(calendar(one, made_s=0.0)) for one in (plan, msgspec.structs.replace(plan, generation=2)))
    assert [one["UID"] for one in first] == [one["UID"] for one in second]
    assert {one["SEQUENCE"] for one in first} == {"0"}
    assert {one["SEQUENCE"] for one in second} == {"1"}


def test_movers_list_has_one_row_for_each_rack(course: Course) -> None:
    rows = list(csv.DictReader(io.StringIO(movers_csv(course), newline=""), strict=True))
    assert sorted(row["rack"] for row in rows) == sorted(course.wave_of)
    placed = {one.id: one.place for one in course.plan.placements}
    for row in rows:
        assert None not in row
        wave = course.wave_of[row["rack"]]
        assert (row["wave"], row["to_place"]) == (wave.id, placed[row["rack"]])
        assert row["vehicle"] in {vehicle.id for vehicle in wave.vehicles}
        assert float(row["weight_kg"]) > 0
        assert row["out"] < row["leaves"] < row["arrives"] < row["joins"]


def test_movers_list_of_the_worked_case() -> None:
    (first, *_) = csv.DictReader(io.StringIO(movers_csv(course_of("holiday-weekend")), newline=""))
    assert tuple(first) == COLUMNS
    assert first["from_position"] == "row A, 1"
    assert (first["weight_kg"], first["gpus"], first["value"], first["currency"]) == ("652.0", "32 A100", "576000.00", "EUR")
    assert first["leaves"] == "2027-03-26 00:00:00Z"


def test_list_is_utf8_quoted_and_no_formula() -> None:
    course = course_of("holiday-weekend")
    position = '=cmd("x"), Gebäude 1\nhinten'
    racks = (msgspec.structs.replace(course.source.racks[0], position=position, weight_kg=None), *course.source.racks[1:])
    sites = (msgspec.structs.replace(course.source, racks=racks), course.target)
    text = movers_csv(Course(course.plan, msgspec.structs.replace(course.estate, sites=sites), course.policy))
    (first, *_) = csv.DictReader(io.StringIO(text, newline=""))
    assert first["from_position"] == f"'{position}"
    assert first["weight_kg"] == ""
    assert "\r\n" in text


def test_every_task_of_a_crew_is_on_its_sheet(course: Course) -> None:
    sheets = task_sheets(course)
    for wave in course.plan.waves:
        for task in wave.tasks:
            name = f"crew-{task.crew}" if task.crew else "operators-and-drivers"
            row = f"| {wave.id} | {task.id.value} |"
            assert (row in sheets[name]) is (task.id not in (TaskKind.ACCLIMATISE, TaskKind.BURN_IN))
    assert all("- [ ] " in sheet and "All times are UTC" in sheet for sheet in sheets.values())


def test_sheet_says_preparation_and_what_to_sign() -> None:
    sheets = task_sheets(course_of("holiday-weekend"))
    assert set(sheets) == {"crew-old-hands", "crew-new-hands", "operators-and-drivers", "couriers"}
    assert "Preparation, from 2027-03-26 15:00 (18 h before):" in sheets["crew-new-hands"]  # 6 h of work: M6
    assert "- [ ] r01 at p01: racked, cabled, both feeds live" in sheets["crew-new-hands"]
    assert "records: drives filled at old-hall" in sheets["couriers"]


def test_verb_shows_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    folder = tmp_path / "case"
    shutil.copytree(CASES / "six-weeks", folder)
    words = ["plan", "show", str(folder / "plan.yaml"), "--html", str(tmp_path / "p.html"), "--ical", str(tmp_path / "p.ics")]
    assert call([*words, "--csv", str(tmp_path / "lists"), "--tasks", str(tmp_path / "lists")]) == 0
    out = capsys.readouterr().out
    for part in ("Phases (7)", "Hardware waves (6)", "Workloads (13)", "binds: PLAN-RESERVE-SOURCE, PLAN-WAVE", "no plan has less than",
                 "policy.precopy.delta_share", "train-8"):  # fmt: skip
        assert part in out
    assert (tmp_path / "p.html").read_text().startswith("<!DOCTYPE html>")
    assert (tmp_path / "p.ics").read_bytes().startswith(b"BEGIN:VCALENDAR\r\n")
    names = {path.name for path in (tmp_path / "lists").iterdir()}
    assert names == {"movers.csv", "crew-old-hands.md", "crew-new-hands.md", "operators-and-drivers.md"}
    assert call([*words, "--json"]) == 0  # what it wrote before may be written again
    data = json.loads(capsys.readouterr().out)
    assert data["written"] == [str(tmp_path / "p.html"), str(tmp_path / "p.ics")]
    assert len(data["swings"]) == 13


def test_verb_refuses_other_files_and_other_estates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = str(CASES / "six-weeks" / "plan.yaml")
    other = tmp_path / "notes.txt"
    other.write_text("mine")
    assert call(["plan", "show", plan, "--ical", str(other)]) == 2
    assert other.read_text() == "mine"
    estate = str(CASES / "holiday-weekend" / "estate.yaml")
    assert call(["plan", "show", plan, "--estate", estate, "--html", str(tmp_path / "p.html")]) == 2
    assert "another estate" in capsys.readouterr().err
    assert not (tmp_path / "p.html").exists()


def test_long_lists_are_cut_and_said_so(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bridgehead.model.plan import write_plan

    monkeypatch.setenv("COLUMNS", "200")
    course = generated(3000, 1)
    file = tmp_path / "plan.yaml"
    file.write_text(write_plan(course.plan))
    last = max(course.plan.swings, key=lambda one: (one.begins_s, one.id)).id
    assert call(["plan", "show", str(file)]) == 0
    out = capsys.readouterr().out
    assert "more; --all lists them" in out
    assert last not in out
    assert call(["plan", "show", str(file), "--all"]) == 0
    assert last in capsys.readouterr().out
