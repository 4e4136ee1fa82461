"""``bridgehead run``: start, watch and steer runs."""

from __future__ import annotations

import getpass
import signal
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from cyclopts import App

from bridgehead.cli.options import AsOption, HomeOption, JsonOption
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode
from bridgehead.kernel.ids import Person, RunId, StepId

if TYPE_CHECKING:
    from bridgehead.app.home import Home
    from bridgehead.runbook.engine import Engine
    from bridgehead.runbook.state import RunState

app = App(name="run", help="Start, watch and steer runs of runbooks.")


def _home(folder: Path | None) -> Home:
    from bridgehead.app.home import Home

    return Home(folder)


def _who(name: str | None) -> str:
    return name or getpass.getuser()


@app.command
def start(runbook: Path, /, *, estate: Path, name: str | None = None, home: HomeOption = None, json: JsonOption = False) -> int:
    """Start a run of RUNBOOK on the connections of an estate, and drive it here until it ends.

    Args:
        runbook: the runbook file; it must pass `bridgehead runbook lint`.
        estate: the estate file that says how sites and services are reached.
        name: name of the run; default the runbook's name with the time.
    """
    from bridgehead.app import estate_files, runbook_files, runs

    book = runbook_files.read_runbook_file(runbook)
    connections = estate_files.load_estate(estate).connections()
    place = _home(home)
    run = runs.start(place, book, connections, name=name or f"{book.name}-{time.strftime('%Y%m%d-%H%M%S')}", by=_who(None))
    return _drive(place, run, json=json)


@app.command
def resume(run: str, /, *, by: AsOption = None, home: HomeOption = None, json: JsonOption = False) -> int:
    """End a pause, a freeze or a stuck undo, and drive the run here if nobody does (after a crash, too)."""
    from bridgehead.app import runs

    place = _home(home)
    runs.resume(place, RunId(run), by=_who(by))
    if place.journal().holder(RunId(run)) is not None:
        return _show(place, RunId(run), json=json)
    return _drive(place, RunId(run), json=json)


@app.command
def abort(run: str, /, *, reason: str = "asked for", by: AsOption = None, home: HomeOption = None, json: JsonOption = False) -> int:
    """Put everything back as it was before the run. Does nothing when the run has ended."""
    from bridgehead.app import runs

    place = _home(home)
    if not runs.abort(place, RunId(run), by=_who(by), reason=reason) or place.journal().holder(RunId(run)) is not None:
        return _show(place, RunId(run), json=json)
    return _drive(place, RunId(run), json=json)


@app.command
def undo(run: str, /, *, by: AsOption = None, home: HomeOption = None, json: JsonOption = False) -> int:
    """Roll a finished run back, as a run of its own that is called RUN-undo."""
    from bridgehead.app import runs

    place = _home(home)
    return _drive(place, runs.undo(place, RunId(run), by=_who(by)), json=json)


@app.command
def pause(run: str, /, *, reason: str = "asked for", by: AsOption = None, home: HomeOption = None) -> int:
    """Start nothing new until `run resume`; calls that are out come to their end."""
    from bridgehead.app import runs

    runs.pause(_home(home), RunId(run), by=_who(by), reason=reason)
    print(f"{run} is paused; `bridgehead run resume {run}` lets it go on")
    return ExitCode.DONE


@app.command
def approve(run: str, step: str, /, *, by: AsOption = None, comment: str = "", home: HomeOption = None) -> int:
    """Approve STEP of RUN, as one of the people that it names."""
    from bridgehead.app import runs

    runs.approve(_home(home), RunId(run), StepId(step), by=Person(_who(by)), comment=comment, yes=True)
    print(f"{_who(by)} approved {step} of {run}")
    return ExitCode.DONE


@app.command
def reject(run: str, step: str, /, *, by: AsOption = None, comment: str = "", home: HomeOption = None) -> int:
    """Reject STEP of RUN: the run rolls back."""
    from bridgehead.app import runs

    runs.approve(_home(home), RunId(run), StepId(step), by=Person(_who(by)), comment=comment, yes=False)
    print(f"{_who(by)} rejected {step} of {run}; it rolls back")
    return ExitCode.DONE


@app.command
def done(run: str, step: str, /, *, evidence: list[str], by: AsOption = None, home: HomeOption = None) -> int:
    """Sign a task off, with one --evidence for each item of its checklist."""
    from bridgehead.app import runs

    runs.sign_off(_home(home), RunId(run), StepId(step), by=Person(_who(by)), evidence=evidence)
    print(f"{_who(by)} signed off {step} of {run}")
    return ExitCode.DONE


@app.command(name="list")
def list_runs(*, home: HomeOption = None, json: JsonOption = False) -> int:
    """All runs of this home, newest first."""
    from bridgehead.app import runs, views
    from bridgehead.cli import display

    place = _home(home)
    journal = place.journal()
    holders = {run: journal.holder(run) for run in journal.runs()}
    found = [views.view(runs.state_of(place, run), driver=display.driver_text(holder)) for run, holder in holders.items()]
    if json:
        print(msgspec.json.encode({"runs": found}).decode())
    else:
        display.print_runs(found)
    return ExitCode.DONE


@app.command
def status(run: str, /, *, home: HomeOption = None, json: JsonOption = False) -> int:
    """Where RUN is, step by step."""
    return _show(_home(home), RunId(run), json=json)


@app.command
def explain(run: str, /, *, home: HomeOption = None, json: JsonOption = False) -> int:
    """What RUN waits for, why, until when, and what you can do now."""
    from bridgehead.app import runs, views
    from bridgehead.cli import display

    place = _home(home)
    seen = views.view(runs.state_of(place, RunId(run)), driver=display.driver_text(place.journal().holder(RunId(run))))
    if json:
        document = {"run": seen.run, "mode": seen.mode, "reason": seen.reason, "waits_for": seen.waits_for, "verbs": seen.what_you_can_do}
        print(msgspec.json.encode(document).decode())
    else:
        display.print_explanation(seen)
    return ExitCode.DONE


@app.command
def watch(run: str, /, *, home: HomeOption = None) -> int:
    """Follow RUN until it ends; ends with the exit code that the run would have given its driver."""
    from bridgehead.app import runs
    from bridgehead.cli import display
    from bridgehead.runbook import state as st

    place = _home(home)
    state = runs.state_of(place, RunId(run))
    journal = place.journal()
    with display.Live(state) as live:
        while not isinstance(state.mode, st.Ended | st.NeedsPerson):
            time.sleep(0.2)
            state = runs.state_of(place, RunId(run))
            live.show(state, driver=display.driver_text(journal.holder(RunId(run))))
    code = _exit_code(state)
    assert code is not None
    return code


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


def _show(home: Home, run: RunId, *, json: bool) -> int:
    from bridgehead.app import runs, views

    state = runs.state_of(home, run)
    holder = home.journal().holder(run)
    seen = views.view(state, driver="" if holder is None else f"{holder.host}/{holder.pid}")
    if json:
        print(msgspec.json.encode(seen).decode())
    else:
        from bridgehead.cli import display

        display.print_status(seen)
    return ExitCode.DONE


def _drive(home: Home, run: RunId, *, json: bool) -> int:
    """Drive with a live picture. SIGTERM and SIGINT leave the run where it is."""
    from bridgehead.app import runs
    from bridgehead.cli import display

    def stoppable(engine: Engine) -> None:
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: engine.stop())

    with display.Live(runs.state_of(home, run)) as live:
        state = runs.drive(home, run, watcher=lambda now, events: live.show(now, driver="this process"), on_engine=stoppable)
    if json:
        _show(home, run, json=True)
    else:
        head = home.journal().read(run)[-1].hash
        print(f"{run}: {runs.mode_word(state)}; ledger head {head}")
    code = _exit_code(state)
    if code is None:
        print(f"stopped; the run waits where it is: `bridgehead run resume {run}`", file=sys.stderr)
        return ExitCode.UNAVAILABLE
    return code


def _exit_code(state: RunState) -> int | None:
    """0 done, 1 rolled back or abandoned, 5 stuck, None when it has not ended."""
    from bridgehead.model.event import Verdict
    from bridgehead.runbook import state as st

    match state.mode:
        case st.Ended(verdict=Verdict.DONE):
            return ExitCode.DONE
        case st.Ended():
            return ExitCode.DONE if state.undoes is not None else ExitCode.NEGATIVE
        case st.NeedsPerson(reason=reason):
            raise BridgeheadError(
                ErrorCode.RUN_STUCK,
                tried="go on with the run",
                subject=str(state.run),
                happened=reason,
                remedy=f"`bridgehead run explain {state.run}` says what a person must do.",
            )
        case _:
            return None
