"""``bridgehead recover``: move, fail over, fail back, protect. Drills are in a module of their own and register at ``app``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import App, Parameter

from bridgehead.cli.options import AsOption, HomeOption, JsonOption, NameOption, who
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode
from bridgehead.kernel.ids import Person, RunId, SiteId, WorkloadId

if TYPE_CHECKING:
    from bridgehead.app.home import Home
    from bridgehead.app.recover import Proposal, Setting
    from bridgehead.recovery.loss import Losses
    from bridgehead.runbook.state import RunState

app = App(name="recover", help="Move workloads between sites, fail over when a site is lost, fail back, protect again.")
app.command("bridgehead.cli.recover_drill:drill", name="drill", help="Play a recovery in an isolated bubble, and measure it.")
app.command("bridgehead.cli.recover_point:point", name="point", help="One moment over model and databases of a workload, in the vault.")
app.command("bridgehead.cli.recover_map:map_job", name="map", help="Turn a job script of one site into that of another.")
app.command("bridgehead.cli.recover_map:preflight", name="preflight", help="Prove that what a workload needs is at its other site.")

RecoveryOption = Annotated[Path, Parameter(name="--recovery", help="The recovery file: what is protected, and how.")]
EstateOption = Annotated[Path, Parameter(name="--estate", help="The estate file that says how sites and services are reached.")]
OnlyOption = Annotated[list[str] | None, Parameter(name="--workload", negative="", help="Only this workload; may be repeated.")]
PlanOption = Annotated[bool, Parameter(name="--plan-only", negative="", help="Show the runbook and what is lost; do nothing.")]
ApproveOption = Annotated[
    bool, Parameter(name="--approve", negative="", help="Approve it as well, as the person of --as, who must be named.")
]
WaitOption = Annotated[bool, Parameter(name="--wait", negative="", help="Go on until the lost site is clean and protection is restored.")]


class Ways(msgspec.Struct, frozen=True):
    """How a verb was asked for."""

    plan_only: bool
    approve: bool
    name: str | None
    by: str
    json: bool
    wait: bool


@app.command
def failover(
    site: str, /, *, recovery: RecoveryOption = Path("recovery.yaml"), estate: EstateOption = Path("estate.yaml"),
    workload: OnlyOption = None, lost_for: str | None = None, force: str | None = None, plan_only: PlanOption = False,
    approve: ApproveOption = False, wait: WaitOption = False, name: NameOption = None, by: AsOption = None, home: HomeOption = None,
    json: JsonOption = False,
) -> int:  # fmt: skip
    """SITE is lost: let its workloads go on at their other site. Says first what is lost; loses the work since the last copy.

    Returns when everything works again (milestone: serving). The run stays open until SITE is back, closed, clean, and protected again:
    `bridgehead recover protect SITE` goes on with it.

    Args:
        lost_for: how long ago the site was lost ("90 s"), if that is known; the RTO counts from there, else from its last sign of life.
        force: go on although the site is seen alive, and why. It is fenced off; what it still computes is worthless from then on.
    """
    from bridgehead.app import recover

    place, here = _at(home, recovery, estate)
    lost_s = _ago(lost_for)
    only = [WorkloadId(one) for one in workload or []]
    proposal = recover.propose_failover(
        here, SiteId(site), home=place, only=only, lost_s=lost_s, because=(force or "").strip(), look_only=plan_only
    )
    return _done(place, here, proposal, Ways(plan_only, approve, name, who(by), json, wait))


@app.command
def move(
    site: str, /, *, recovery: RecoveryOption = Path("recovery.yaml"), estate: EstateOption = Path("estate.yaml"),
    workload: OnlyOption = None, plan_only: PlanOption = False, approve: ApproveOption = False, name: NameOption = None,
    by: AsOption = None, home: HomeOption = None, json: JsonOption = False,
) -> int:  # fmt: skip
    """Move the workloads of SITE to their other site while both work. Loses nothing; a step that fails puts everything back."""
    from bridgehead.app import recover

    place, here = _at(home, recovery, estate)
    proposal = recover.propose_move(here, SiteId(site), only=[WorkloadId(one) for one in workload or []])
    return _done(place, here, proposal, Ways(plan_only, approve, name, who(by), json, wait=True))


@app.command
def failback(
    site: str, /, *, recovery: RecoveryOption = Path("recovery.yaml"), estate: EstateOption = Path("estate.yaml"),
    workload: OnlyOption = None, plan_only: PlanOption = False, approve: ApproveOption = False, name: NameOption = None,
    by: AsOption = None, home: HomeOption = None, json: JsonOption = False,
) -> int:  # fmt: skip
    """SITE is back: bring home what belongs there. It is closed for old writers and cleaned first; only the difference travels."""
    from bridgehead.app import recover

    place, here = _at(home, recovery, estate)
    proposal = recover.propose_failback(here, SiteId(site), only=[WorkloadId(one) for one in workload or []])
    return _done(place, here, proposal, Ways(plan_only, approve, name, who(by), json, wait=True))


@app.command
def protect(
    site: str, /, *, recovery: RecoveryOption = Path("recovery.yaml"), estate: EstateOption = Path("estate.yaml"),
    workload: OnlyOption = None, plan_only: PlanOption = False, name: NameOption = None, by: AsOption = None, home: HomeOption = None,
    json: JsonOption = False,
) -> int:  # fmt: skip
    """SITE is back: close it for old writers, end its zombies, and protect in the new direction what runs elsewhere.

    Goes on with the failover from SITE if one is open; else this is a run of its own. Waits for SITE while it does not answer.
    """
    from bridgehead.app import recover, recover_open, runs

    place, here = _at(home, recovery, estate)
    open_run = recover_open.open_failover(place, SiteId(site)) if not workload and not plan_only and name is None else None
    if open_run is None:
        proposal = recover.propose_protect(here, SiteId(site), only=[WorkloadId(one) for one in workload or []])
        return _done(place, here, proposal, Ways(plan_only, False, name, who(by), json, wait=True))
    print(f"goes on with {open_run}", file=sys.stderr)
    runs.resume(place, open_run, by=who(by))
    return _drive(place, here, open_run, Ways(False, False, None, who(by), json, wait=True), losses=None)


def _at(home: Path | None, recovery: Path, estate: Path) -> tuple[Home, Setting]:
    from bridgehead.app.home import Home
    from bridgehead.app.recover import setting

    place = Home(home)
    return place, setting(recovery, estate, folder=str((place.folder / "hooks").absolute()))


def _ago(text: str | None) -> float | None:
    import time

    from bridgehead.kernel.quantity import parse
    from bridgehead.kernel.units import Dimension

    return None if text is None else time.time() - parse(text, Dimension.DURATION)


def _done(place: Home, here: Setting, proposal: Proposal, ways: Ways) -> int:
    """Say it, and do it unless only the plan was wanted."""
    from bridgehead.app import recover
    from bridgehead.recovery.steps import APPROVE

    if ways.approve:
        _refuse_stranger(here, ways.by)
    if ways.plan_only:
        return _show_plan(proposal, json=ways.json)
    print(proposal.text, file=sys.stderr)
    _say_left_out(proposal)
    run = recover.open_proposal(place, here, proposal, name=ways.name, by=ways.by)
    asks = any(step.id == APPROVE for step in proposal.runbook.steps)
    if asks and here.recovery.approvers is not None and not ways.approve:
        people = ", ".join(here.recovery.approvers.people)
        print(f"asks {people}: `bridgehead run approve {run} approve --as NAME{place.option}`", file=sys.stderr)
    return _drive(place, here, run, ways, losses=proposal.losses)


def _refuse_stranger(here: Setting, by: str) -> None:
    approvers = here.recovery.approvers
    if approvers is not None and by not in approvers.people:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="approve",
            subject=by,
            happened="this person may not approve",
            remedy=f"--as one of {', '.join(approvers.people)}; or leave --approve out and let them answer.",
        )


def _show_plan(proposal: Proposal, *, json: bool) -> int:
    from bridgehead.app import wiring
    from bridgehead.runbook.language import write_runbook

    text = write_runbook(proposal.runbook, actions=wiring.action_params())
    if json:
        losses = proposal.losses
        document = {
            "text": proposal.text,
            "rpo_s": None if losses is None else losses.seconds,
            "rpo_steps": None if losses is None else losses.steps,
            "rpo_gpu_hours": None if losses is None else losses.gpu_hours,
            "rpo_exact": losses is not None and losses.exact,
            "left_out": proposal.left_out,
            "runbook": text,
        }
        print(msgspec.json.encode(document).decode())
        return ExitCode.DONE
    print(text, end="")
    print(proposal.text, file=sys.stderr)
    _say_left_out(proposal)
    return ExitCode.DONE


def _say_left_out(proposal: Proposal) -> None:
    for workload, why in proposal.left_out.items():
        print(f"left out: {workload}: {why}", file=sys.stderr)


def _drive(place: Home, here: Setting, run: RunId, ways: Ways, *, losses: Losses | None) -> int:
    """With a live picture; a first SIGTERM, SIGINT or SIGHUP leaves the run where it is, a second one ends the process at once."""
    from bridgehead.app import recover, runs
    from bridgehead.cli import display
    from bridgehead.cli.stopping import stop_on_signals

    with display.Live(runs.state_of(place, run)) as live:
        state = recover.drive(
            place,
            here,
            run,
            until_serving=not ways.wait,
            approve_as=Person(ways.by) if ways.approve and here.recovery.approvers is not None else None,
            show=lambda now: live.show(now, driver="this process"),
            say=lambda text: print(text, file=sys.stderr),
            on_engine=stop_on_signals,
        )
    return _ended(place, state, ways, losses=losses)


def _ended(place: Home, state: RunState, ways: Ways, *, losses: Losses | None) -> int:
    """Say what was reached, and what is left to do. 0 when it is done, or serves and was asked for no more."""
    from bridgehead.app import recover
    from bridgehead.cli.recover_display import print_outcome
    from bridgehead.model.event import Verdict
    from bridgehead.runbook import state as st

    came = recover.outcome(place, state.run, stated=losses)
    if ways.json:
        print(msgspec.json.encode(came).decode())
    else:
        print_outcome(came, home_option=place.option, state=state)
    match state.mode:
        case st.Ended(verdict=verdict):
            return ExitCode.DONE if verdict is Verdict.DONE else ExitCode.NEGATIVE
        case st.NeedsPerson(reason=reason) | st.OnHold(reason=reason, frozen=True):
            raise BridgeheadError(
                ErrorCode.RUN_STUCK,
                tried="go on with the recovery",
                subject=str(state.run),
                happened=reason,
                remedy=f"Mend that; then `bridgehead run resume {state.run}{place.option}` tries it again. "
                f"`bridgehead run explain {state.run}{place.option}` says more.",
            )
        case _:
            return ExitCode.DONE if came.rto_s is not None and not ways.wait else ExitCode.UNAVAILABLE
