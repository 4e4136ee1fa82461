"""``bridgehead assess``: is the destination ready?"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode

if TYPE_CHECKING:
    from bridgehead.app.assess import Assessment


def assess(
    estate: Path,
    /,
    *,
    policy: Path | None = None,
    source: str = "",
    target: str = "",
    what_if: Annotated[tuple[str, ...], Parameter(name="--what-if", negative="", show_default=False)] = (),
    all: Annotated[bool, Parameter(name="--all", negative="")] = False,
    risks: Annotated[bool, Parameter(negative="")] = False,
    calendar: Annotated[bool, Parameter(negative="")] = False,
    html: Path | None = None,
    json: JsonOption = False,
) -> int:
    """Say whether the target of a move is ready: go, no-go, or cannot tell; with every number and where it comes from.

    Exit code 0 for go, 1 for no-go, 3 when it cannot be told.

    Args:
        estate: an estate file.
        policy: a policy file, which names source, target, margins and objectives.
        source: the site that is left, where no policy says; without it the target is judged as it stands.
        target: the site that is judged.
        what_if: judge as if one value were another, such as 'sites.b.circuits.a1.continuous=100 %' or 'policy.margin=10 %'; may be given
            several times.
        all: print also what passes.
        risks: print the risk register instead.
        calendar: print the schedule of the assessment, from ninety days before the move, instead.
        html: write one self-contained page with drawings into this file as well.
    """
    from bridgehead.app.assess import assess as judge
    from bridgehead.app.assess import read
    from bridgehead.app.what_if import changed
    from bridgehead.app.whole_file import refuse_other

    if html is not None:
        refuse_other(html, what="report", begins=(b"<!DOCTYPE html>",))
    given = read(estate, policy)
    found = judge(given.estate, policy=given.policy, source=source, target=target)
    before, other, rules = None, given.estate, given.policy
    if what_if:
        before = found
        for assumption in what_if:
            other, rules = changed(other, rules, assumption)
        found = judge(other, policy=rules, source=source, target=target)
    if html is not None:
        from bridgehead.app.assess_report.page import render, write_report

        write_report(render(found, other, places=given.places, made_s=time.time()), html)
    if json:
        import msgspec

        from bridgehead.app.assess import document

        print(msgspec.json.encode(document(found, places=given.places, before=before)).decode())
    else:
        from bridgehead.cli.assess_display import print_assessment, print_calendar, print_risks

        if risks:
            print_risks(found)
        if calendar:
            print_calendar(found)
        if risks or calendar:
            return exit_code(found)
        print_assessment(found, before=before, all_of_them=all, places=given.places)
    return exit_code(found)


def exit_code(found: Assessment) -> ExitCode:
    """Of a verdict."""
    from bridgehead.model.finding import Verdict

    return {Verdict.GO: ExitCode.DONE, Verdict.NO_GO: ExitCode.NEGATIVE, Verdict.CANNOT_TELL: ExitCode.CANNOT_TELL}[found.verdict]
