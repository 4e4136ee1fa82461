"""``bridgehead run``: start, watch and steer runs."""

from __future__ import annotations

import enum
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import App, Parameter

from bridgehead.cli.options import AsOption, HomeOption, JsonOption, who
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode
from bridgehead.kernel.ids import Person, RunId, StepId

if TYPE_CHECKING:
    from bridgehead.app.home import Home
    from bridgehead.app.views import RunView
    from bridgehead.ports.journal import Journal
    from bridgehead.runbook.state import RunState

app = App(name="run", help="Start, watch and steer runs of runbooks.")


class Goal(enum.Enum):
    """What a command wants of a run, and so which end is exit code 0."""

    DONE = "done"
    AS_BEFORE = "as before"
    """Rolled back, or taken over by a person."""


def _home(folder: Path | None) -> Home:
    from bridgehead.app.home import Home

    return Home(folder)


@app.command
def start(
    runbook: Path,
    /,
    *,
    estate: Path,
    name: str | None = None,
    detach: Annotated[bool, Parameter(negative="")] = False,
    by: AsOption = None,
    home: HomeOption = None,
    json: JsonOption = False,
) -> int:
    """Start a run of RUNBOOK on the connections of an estate, and drive it here until it ends.

    Args:
        runbook: the runbook file; it must pass `bridgehead runbook lint`.
        estate: the estate file that says how sites and services are reached.
        name: name of the run; default the runbook's name with the time.
        detach: only open the run; a controller (`bridgehead controller run`) or `run resume` drives it.
    """
    from bridgehead.app import estate_files, preflight, runbook_files, runs

    book = runbook_files.read_runbook_file(runbook)
    connections = preflight.rooted(estate_files.load_estate(estate).connections())
    preflight.refuse_unconnected(book, connections)
    place = _home(home)
    run = runs.start(place, book, connections, name=runs.name_for(book, now_s=time.time()) if name is None else name, by=who(by))
    return _show(place, run, json=json) if detach else _drive(place, run, json=json)


@app.command
def resume(run: str, /, *, by: AsOption = None, home: HomeOption = None, json: JsonOption = False) -> int:
    """End a pause, a freeze or a stuck undo, and drive the run here if nobody does (after a crash, too)."""
    from bridgehead.app import runs, views

    place = _home(home)
    resumed = runs.resume(place, RunId(run), by=who(by))
    holder = place.journal().holder(RunId(run))
    if holder is None:
        return _drive(place, RunId(run), json=json)
    if not resumed:
        raise runs.busy(place, RunId(run), f"{views.driver_text(holder)} drives it, and it is not on hold: there is nothing to resume")
    print(f"{run} goes on; {views.driver_text(holder)} drives it", file=sys.stderr)
    return _show(place, RunId(run), json=json)


@app.command
def abort(run: str, /, *, reason: str = "no reason given", by: AsOption = None, home: HomeOption = None, json: JsonOption = False) -> int:
    """Put everything back as it was before the run. Does nothing when the run has ended. Drives the way back here if nobody drives."""
    from bridgehead.app import runs, views

    place = _home(home)
    asked = runs.abort(place, RunId(run), by=who(by), reason=reason)
    holder = place.journal().holder(RunId(run))
    if asked and holder is None:
        return _drive(place, RunId(run), json=json, goal=Goal.AS_BEFORE)
    if asked:
        watch = f"`bridgehead run watch {run}{place.option}`"
        print(f"asked {views.driver_text(holder)} to roll {run} back; {watch} follows it", file=sys.stderr)
    else:
        print(f"{run} has ended before; nothing was done", file=sys.stderr)
    return _show(place, RunId(run), json=json)


@app.command
def undo(run: str, /, *, by: AsOption = None, home: HomeOption = None, json: JsonOption = False) -> int:
    """Roll a finished run back, as a run of its own that is called RUN-undo."""
    from bridgehead.app import runs

    place = _home(home)
    return _drive(place, runs.undo(place, RunId(run), by=who(by)), json=json, goal=Goal.AS_BEFORE)


@app.command
def pause(run: str, /, *, reason: str = "no reason given", by: AsOption = None, home: HomeOption = None) -> int:
    """Start nothing new until `run resume`; calls that are out come to their end."""
    from bridgehead.app import runs

    place = _home(home)
    runs.pause(place, RunId(run), by=who(by), reason=reason)
    print(f"{run} is paused; `bridgehead run resume {run}{place.option}` lets it go on")
    return ExitCode.DONE


@app.command
def approve(run: str, step: str, /, *, by: AsOption = None, comment: str = "", home: HomeOption = None) -> int:
    """Approve STEP of RUN, as one of the people that it names."""
    from bridgehead.app import runs

    place = _home(home)
    runs.approve(place, RunId(run), StepId(step), by=Person(who(by)), comment=comment, yes=True)
    return _said(place, RunId(run), f"{who(by)} approved {step} of {run}")


@app.command
def reject(run: str, step: str, /, *, by: AsOption = None, comment: str = "", home: HomeOption = None) -> int:
    """Reject STEP of RUN: the run rolls back."""
    from bridgehead.app import runs

    place = _home(home)
    runs.approve(place, RunId(run), StepId(step), by=Person(who(by)), comment=comment, yes=False)
    return _said(place, RunId(run), f"{who(by)} rejected {step} of {run}: it rolls back")


@app.command
def done(run: str, step: str, /, *, evidence: list[str] | None = None, by: AsOption = None, home: HomeOption = None) -> int:
    """Sign a task off, with one --evidence for each item of its checklist."""
    from bridgehead.app import runs

    place = _home(home)
    runs.sign_off(place, RunId(run), StepId(step), by=Person(who(by)), evidence=evidence or [])
    return _said(place, RunId(run), f"{who(by)} signed off {step} of {run}")


@app.command(name="list")
def list_runs(*, home: HomeOption = None, json: JsonOption = False) -> int:
    """All runs of this home, newest first."""
    place = _home(home)
    journal = None if place.is_new else place.journal()
    found = [] if journal is None else [_listed(place, run, journal) for run in journal.runs()]
    if json:
        print(msgspec.json.encode({"runs": found}).decode())
    else:
        from bridgehead.cli import display

        display.print_runs(found, home=str(place.folder))
    return ExitCode.DONE


@app.command
def status(run: str, /, *, home: HomeOption = None, json: JsonOption = False) -> int:
    """Where RUN is, step by step."""
    return _show(_home(home), RunId(run), json=json)


@app.command
def explain(run: str, /, *, home: HomeOption = None, json: JsonOption = False) -> int:
    """What RUN waits for, why, until when, and what you can do now."""
    seen = _view(_home(home), RunId(run))
    if json:
        document = {"run": seen.run, "mode": seen.mode, "reason": seen.reason, "waits_for": seen.waits_for, "verbs": seen.what_you_can_do}
        print(msgspec.json.encode(document).decode())
    else:
        _explain(seen)
    return ExitCode.DONE


@app.command
def watch(run: str, /, *, home: HomeOption = None, json: JsonOption = False) -> int:
    """Follow RUN until it ends; ends with the exit code that the run would have given its driver."""
    from bridgehead.app import runs, views
    from bridgehead.cli import display

    place = _home(home)
    seen = runs.follow(place, RunId(run))
    state, holder = next(seen)
    with display.Live(state) as live:
        live.show(state, driver=views.driver_text(holder))
        for state, holder in seen:
            live.show(state, driver=views.driver_text(holder))
    return _ended(place, state, json=json)


@app.command(name="dry-run")
def dry_run(runbook: Path, /, *, json: JsonOption = False) -> int:
    """Run RUNBOOK in a simulated world without faults and print when each step would happen. Touches nothing real."""
    from bridgehead.app import dst, runbook_files
    from bridgehead.cli import display

    book = runbook_files.read_runbook_file(runbook)
    foreseen = dst.simulate_runbook(book)
    if json:
        print(msgspec.json.encode({"runbook": book.name, "timeline": foreseen.moments, "verdict": foreseen.verdict}).decode())
    else:
        display.print_prediction(book.name, foreseen)
    return ExitCode.DONE if foreseen.verdict == "done" else ExitCode.NEGATIVE


def _listed(home: Home, run: RunId, journal: Journal) -> RunView:
    """One damaged run hides no other."""
    from bridgehead.app import runs, views

    try:
        state = runs.state_of(home, run, journal=journal)
    except BridgeheadError as error:
        if error.code is not ErrorCode.JOURNAL_DAMAGED:
            raise
        return views.unreadable(run, error.happened, home_option=home.option)
    return views.view(state, driver=views.driver_text(journal.holder(run)), home_option=home.option)


def _view(home: Home, run: RunId) -> RunView:
    from bridgehead.app import runs, views

    journal = runs.journal_of(home, run)
    state = runs.state_of(home, run, journal=journal)
    return views.view(state, driver=views.driver_text(journal.holder(run)), home_option=home.option)


def _show(home: Home, run: RunId, *, json: bool) -> int:
    seen = _view(home, run)
    if json:
        print(msgspec.json.encode(seen).decode())
    else:
        from bridgehead.cli import display

        display.print_status(seen)
    return ExitCode.DONE


def _explain(seen: RunView) -> None:
    """Plain sentences."""
    print(f"{seen.run} is {seen.mode}{': ' + seen.reason if seen.reason else ''}")
    if seen.waits_for:
        print("It waits for:")
        for line in seen.waits_for:
            print(f"  - {line}")
    if seen.what_you_can_do:
        print("You can:")
        for line in seen.what_you_can_do:
            print(f"  {line}")


def _said(home: Home, run: RunId, text: str) -> int:
    """Confirm a person's word, and say so when nobody is there to act on it."""
    print(text)
    if home.journal().holder(run) is None:
        print(f"nobody drives {run} now, so nothing happens before `bridgehead run resume {run}{home.option}`", file=sys.stderr)
    return ExitCode.DONE


def _drive(home: Home, run: RunId, *, json: bool, goal: Goal = Goal.DONE) -> int:
    """Drive with a live picture. A first SIGTERM, SIGINT or SIGHUP leaves the run where it is; a second one ends the process at once."""
    from bridgehead.app import runs
    from bridgehead.cli import display
    from bridgehead.cli.live_lines import HERE
    from bridgehead.cli.recover_display import Told
    from bridgehead.cli.stopping import stop_on_signals

    with display.Live(runs.state_of(home, run)) as live:
        told = Told(home.option, live.say)

        def watch(now: RunState, _events: object) -> None:
            live.show(now, driver=HERE)
            told.saw(now)

        state = runs.drive(home, run, watcher=watch, on_engine=stop_on_signals)
    return _ended(home, state, json=json, goal=goal)


def _ended(home: Home, state: RunState, *, json: bool, goal: Goal = Goal.DONE) -> int:
    """Say how the run ended, or where it stands. Returns 0 when it ended as wanted, 1 when otherwise, 7 when it was left under way.

    Raises RUN_STUCK.
    """
    from bridgehead.cli.recover_display import is_recovery, stopped_here
    from bridgehead.model.event import Verdict
    from bridgehead.runbook import state as st

    run = state.run
    if json:
        _show(home, run, json=True)
    else:
        _say_end(home, state)
    match state.mode:
        case st.Ended(verdict=verdict):
            wanted = verdict is Verdict.DONE or goal is Goal.AS_BEFORE or state.undoes is not None
            return ExitCode.DONE if wanted else ExitCode.NEGATIVE
        case st.NeedsPerson(reason=reason):
            raise BridgeheadError(
                ErrorCode.RUN_STUCK,
                tried="go on with the run",
                subject=str(run),
                happened=reason,
                remedy=f"`bridgehead run explain {run}{home.option}` says what a person must do.",
            )
        case _:
            frozen = isinstance(state.mode, st.OnHold) and state.mode.frozen
            if json or frozen or not is_recovery(state):
                print(stopped_here(run, home_option=home.option), file=sys.stderr)
            return ExitCode.UNAVAILABLE


def _say_end(home: Home, state: RunState) -> None:
    """The run's mode, and of a recovery what `recover` says of it: milestones, losses, what is left to do."""
    from bridgehead.app import views
    from bridgehead.app.recover_outcome import outcome_of
    from bridgehead.cli.recover_display import is_recovery, print_outcome

    head = home.journal().read(state.run)[-1].hash
    if is_recovery(state):
        print_outcome(outcome_of(state, head=head), home_option=home.option, state=state)
        return
    seen = views.view(state, driver="")
    print(f"{state.run}: {seen.mode}{' (' + seen.reason + ')' if seen.reason else ''}")
    print(f"ledger head {head}")
