"""``bridgehead recover point``: one moment over a workload's model and databases, in the vault."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
from cyclopts import Parameter

from bridgehead.cli.options import AsOption, HomeOption, JsonOption, who
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode
from bridgehead.kernel.ids import SiteId, WorkloadId

if TYPE_CHECKING:
    from bridgehead.app.home import Home
    from bridgehead.app.recover_point import PointOutcome
    from bridgehead.kernel.ids import RunId
    from bridgehead.runbook.state import RunState

WorkloadOption = Annotated[str, Parameter(name="--workload", help="Of which workload.")]
PlanOption = Annotated[bool, Parameter(name="--plan-only", negative="", help="Check everything and show the runbook; hold nothing.")]


def point(
    recovery: Path = Path("recovery.yaml"), /, *, workload: WorkloadOption, estate: Path = Path("estate.yaml"), site: str | None = None,
    plan_only: PlanOption = False, name: str | None = None, by: AsOption = None, home: HomeOption = None, json: JsonOption = False,
) -> int:  # fmt: skip
    """One moment over a workload's model and databases: hooks, final checkpoint, all databases at once, copies into the vault.

    The trainer holds until the databases are pinned; their writers stand still for a moment only. Copies are made while all goes on.
    Exit code 1 when there is no point: then everything goes on as before, too.

    Args:
        recovery: the recovery file: which databases and hooks the workload has.
        estate: the estate file that says how sites and services are reached.
        site: where the workload is; default: where its fence, traffic or job shows it.
        name: of the run.
    """
    from bridgehead.app import recover_point, wiring
    from bridgehead.app.home import Home
    from bridgehead.app.recover import setting
    from bridgehead.recovery.points import point_runbook
    from bridgehead.runbook.language import write_runbook

    place, here = Home(home), setting(recovery, estate)
    where = SiteId(site) if site is not None else None
    plan = recover_point.propose_point(here, WorkloadId(workload), home=place, site=where)
    if plan_only:
        text = write_runbook(point_runbook(plan), actions=wiring.action_params())
        print(msgspec.json.encode({"text": plan.text, "runbook": text}).decode() if json else text)
        return ExitCode.DONE
    print(plan.text, file=sys.stderr)
    run = recover_point.open_point(place, here, plan, name=name, by=who(by))
    state = _driven(place, run)
    return _ended(place, state, recover_point.outcome_of_point(place, run), json=json)


def _driven(place: Home, run: RunId) -> RunState:
    """With a live picture; a first SIGTERM, SIGINT or SIGHUP leaves the run where it is: nothing is held longer than its limit then."""
    from bridgehead.app import recover_point, runs
    from bridgehead.cli import display
    from bridgehead.cli.stopping import stop_on_signals

    with display.Live(runs.state_of(place, run)) as live:
        return recover_point.drive_point(place, run, show=lambda now: live.show(now, driver="this process"), on_engine=stop_on_signals)


def _ended(place: Home, state: RunState, came: PointOutcome, *, json: bool) -> int:
    from bridgehead.model.event import Verdict
    from bridgehead.runbook import state as st

    if json:
        print(msgspec.json.encode(came).decode())
    else:
        _print(came)
    match state.mode:
        case st.Ended(verdict=verdict):
            return ExitCode.DONE if verdict is Verdict.DONE else ExitCode.NEGATIVE
        case st.NeedsPerson(reason=reason) | st.OnHold(reason=reason, frozen=True):
            raise BridgeheadError(
                ErrorCode.RUN_STUCK,
                tried="take a point",
                subject=str(state.run),
                happened=reason,
                remedy=f"Mend that; then `bridgehead run resume {state.run}{place.option}` tries it again.",
            )
        case _:
            return ExitCode.UNAVAILABLE


def _print(came: PointOutcome) -> None:
    print(f"{came.run}: {came.mode}{f': {came.reason}' if came.reason else ''}")
    if came.point is None:
        return
    print(f"  point: {came.snapshot} at {came.point.site}")
    if came.point.model is not None:
        paused = "" if came.training_paused_s is None else f"; training stood still for {came.training_paused_s:.2f} s"
        print(f"  model: {came.point.model}, step {came.point.model_step}{paused}")
    for one in came.point.databases:
        print(f"  database {one.id}: {one.file}, {one.size_bytes} bytes")
    if came.point.databases:
        print(f"  writers stood still for {came.point.pause_s:.3f} s")
    for name, ran in came.hooks.items():
        print(f"  hook {name}: {ran['happened'] or 'ended well'} after {ran['took_s']:.2f} s, {ran['log']}")
