"""``bridgehead plan show``: a plan in the terminal, and as files for those who decide, carry and work."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode


def show_plan(
    plan: Path,
    /,
    *,
    estate: Path | None = None,
    policy: Path | None = None,
    html: Path | None = None,
    ical: Path | None = None,
    csv: Path | None = None,
    tasks: Path | None = None,
    all: Annotated[bool, Parameter(name="--all", negative="")] = False,
    json: JsonOption = False,
) -> int:
    """Show a plan: phases, waves, workloads, score with bounds, what binds, assumptions; and write it for others.

    Args:
        plan: a plan file.
        estate: the estate that the plan was made for; default estate.yaml beside the plan. Needed for --html, --csv and --tasks.
        policy: the policy that the plan was made for; default policy.yaml beside the plan. Needed for --html, --csv and --tasks.
        html: write one self-contained page with drawings and cost into this file.
        ical: write phases, waves, tasks and swings as a calendar (iCalendar) into this file.
        csv: write movers.csv, one row for each rack that is carried, into this folder.
        tasks: write a task sheet with checklists for each crew, in Markdown, into this folder.
        all: list every workload and wave, however many there are.
    """
    from bridgehead.app.plan_files import load_plan
    from bridgehead.app.whole_file import refuse_other

    found = load_plan(plan)
    if html is not None:
        refuse_other(html, what="page", begins=(b"<!DOCTYPE html>",))
    if ical is not None:
        refuse_other(ical, what="calendar", begins=(b"BEGIN:VCALENDAR",))
    written: list[Path] = []
    if html is not None or csv is not None or tasks is not None:
        written += _with_estate(plan, estate, policy, html=html, csv=csv, tasks=tasks)
    if ical is not None:
        from bridgehead.app.plan_report.ical import calendar

        written.append(_write(ical, calendar(found, made_s=time.time()), what="calendar"))
    if json:
        import msgspec

        print(msgspec.json.encode(msgspec.to_builtins(found) | {"written": [str(path) for path in written]}).decode())
        return ExitCode.DONE
    from bridgehead.cli.plan_show_display import print_plan

    print_plan(found, all_of_them=all)
    for path in written:
        print(f"{path} is written")
    return ExitCode.DONE


def _with_estate(
    plan: Path, estate: Path | None, policy: Path | None, *, html: Path | None, csv: Path | None, tasks: Path | None
) -> list[Path]:
    """What needs the estate and the policy too. Raises BAD_INPUT when they are not those that the plan was made for."""
    from bridgehead.app.plan_set import load_plan_set
    from bridgehead.planning.course import Course

    given = load_plan_set(plan, estate_file=estate, policy_file=policy)
    course = Course(given.plan, given.estate, given.policy)
    written = []
    if html is not None:
        from bridgehead.app.plan_report.page import render

        written.append(_write(html, render(course, made_s=time.time()), what="page"))
    if csv is not None:
        from bridgehead.app.plan_report.movers import movers_csv

        written.append(_write(_folder(csv) / "movers.csv", movers_csv(course), what="list for movers"))
    if tasks is not None:
        from bridgehead.app.plan_report.task_sheets import task_sheets

        folder = _folder(tasks)
        written += [_write(folder / f"{name}.md", text, what="task sheet") for name, text in task_sheets(course).items()]
    return written


def _folder(path: Path) -> Path:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="make the folder",
            subject=str(path),
            happened=error.strerror or str(error),
            remedy="Choose a folder that can be written to.",
        ) from error
    return path


def _write(path: Path, text: str, *, what: str) -> Path:
    from bridgehead.app.whole_file import whole_file

    with whole_file(path, what=what) as stream:
        stream.write(text.encode())
    return path
