"""Recoveries of this home that have not ended: which there are, and that no two are about the same workloads."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.app import runs
from bridgehead.app.home import Home
from bridgehead.app.recover_outcome import is_serving
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import RunId, SiteId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ActionStep, Runbook
from bridgehead.recovery.actions.milestones import ReachMilestone
from bridgehead.recovery.protection import CONFIRM, PROTECTED
from bridgehead.runbook import state as st


def open_recoveries(home: Home) -> Iterator[tuple[RunId, st.RunState]]:
    """Recoveries of this home that have not ended, newest first as the journal lists them."""
    if home.is_new:
        return
    journal = home.journal()
    for run in journal.runs():
        last = journal.read(run, after_seq=max(0, journal.head_seq(run) - 1))
        if not last or isinstance(last[-1].event, ev.RunEnded):
            continue
        try:
            state = runs.state_of(home, run, journal=journal)
        except BridgeheadError:
            continue
        if any(isinstance(step, ActionStep) and step.action == ReachMilestone.name for step in state.plan.runbook.steps):
            yield run, state


def open_failover(home: Home, site: SiteId) -> RunId | None:
    """A failover from ``site`` that serves and has not ended: the lost site had not returned. The newest; None when there is none."""
    for run, state in open_recoveries(home):
        last = state.plan.steps.get(PROTECTED)
        waits = isinstance(last, ActionStep) and last.params["site"] == site and CONFIRM in state.plan.steps
        if waits and not isinstance(state.mode, st.Ended | st.Backward) and is_serving(state):
            return run
    return None


def refuse_beside(home: Home, runbook: Runbook) -> None:
    """Two recoveries of the same workloads would each take the other's half-done work for a fault. Raises RECOVERY_REFUSED.

    A failover may begin beside a move that stands still because its site was lost: its fence ends what the move may do.
    """
    mine = _touched(runbook)
    takes_over = CONFIRM in {step.id for step in runbook.steps}
    for run, state in open_recoveries(home):
        both = sorted(mine & _touched(state.plan.runbook))
        if not both or (takes_over and CONFIRM not in state.plan.steps):
            continue
        raise BridgeheadError(
            ErrorCode.RECOVERY_REFUSED,
            tried="recover",
            subject=str(run),
            happened=f"run {run} of the same workloads ({', '.join(both)}) has not ended: {runs.mode_word(state)}",
            remedy=f"`bridgehead run explain {run}{home.option}` says how far it is; `run resume` goes on with it, `run abort` ends it.",
        )


def _touched(runbook: Runbook) -> set[str]:
    """Workloads, services and jobs that its steps are about."""
    found = set()
    for step in runbook.steps:
        if isinstance(step, ActionStep):
            found |= {str(step.params[key]) for key in ("workload", "service") if step.params.get(key)}
            job = step.params.get("job")
            found |= {f"job {job['name']}"} if isinstance(job, dict) and "name" in job else set()
    return found
