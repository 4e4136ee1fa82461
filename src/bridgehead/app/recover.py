"""Recover: what `bridgehead recover` does: look, say what it costs, make the runbook, open the run, drive it to a milestone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bridgehead.app import runs
from bridgehead.app.home import Home
from bridgehead.app.notifying_runs import with_escalation
from bridgehead.app.recover_look import UNSEEN, Seen, look, remembered_trainers, signs_of_life
from bridgehead.app.recover_open import refuse_beside
from bridgehead.app.recover_outcome import RecoveryOutcome, is_serving, outcome_of
from bridgehead.app.views import clock_time
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import Person, RunId, SiteId, WorkloadId
from bridgehead.model import event as ev
from bridgehead.model.recovery import Recovery
from bridgehead.model.runbook import Runbook
from bridgehead.model.site_needs import SiteNeeds
from bridgehead.recovery.failover import Failover, failover_runbook
from bridgehead.recovery.loss import Losses
from bridgehead.recovery.moving import Move, move_runbook
from bridgehead.recovery.protection import Protection, protect_runbook
from bridgehead.recovery.steps import APPROVE
from bridgehead.runbook import state as st

if TYPE_CHECKING:
    from bridgehead.ports.switchboard import Switchboard
    from bridgehead.runbook.engine import Engine

PROTECT = "protect"
SPARE_WORKERS = 8
"""Beside the restores: fences, starts, ramps."""


class Setting(msgspec.Struct, frozen=True):
    """What a verb works on: the recovery file, the estate's connections, and both connected.

    Attributes:
        folder: where results of hooks are kept, on this machine.
        needs: what workloads need at a target, where the recovery file names a mapping.
    """

    recovery: Recovery
    connections: dict[str, Any]
    ports: Switchboard
    folder: str = ""
    needs: Callable[[Iterable[WorkloadId], SiteId], tuple[SiteNeeds, ...]] = lambda workloads, target: ()


class Proposal(msgspec.Struct, frozen=True):
    """A runbook before anything is done.

    Attributes:
        text: what it does to whom, and what is lost, for the person who decides.
        losses: None where nothing can be lost.
    """

    runbook: Runbook
    text: str
    losses: Losses | None
    left_out: dict[WorkloadId, str]


def setting(recovery: Path, estate: Path, *, folder: str = "") -> Setting:
    """Read both files and connect. ``folder``: see ``Setting``. Raises BAD_INPUT with every fault."""
    from bridgehead.app import estate_files, preflight, recovery_files, wiring
    from bridgehead.app.site_preflight.needs import needs_of_move

    found = estate_files.load_estate(estate)
    file = recovery_files.load_recovery(recovery, estate=found)
    connections = preflight.rooted(found.connections())
    return Setting(file, connections, wiring.connect(connections), folder, partial(needs_of_move, recovery, found))


def propose_failover(
    here: Setting,
    lost: SiteId,
    *,
    home: Home,
    only: Sequence[WorkloadId] = (),
    lost_s: float | None = None,
    because: str = "",
    look_only: bool = False,
) -> Proposal:
    """What a failover from ``lost`` would do and lose.

    Args:
        lost_s: when it was lost, if that is known; else its last known sign of life is taken, and the loss is bounded by now.
        look_only: it will not be done: that the site is alive is then said, and no reason to refuse.

    Raises:
        BridgeheadError: RECOVERY_REFUSED when the site is seen alive and nobody said why it is to be given up all the same, or when
            nothing is there.
    """
    seen = look(here.ports, here.recovery, site=lost, only=only, remembered=remembered_trainers(home.folder), unseen_at_home=True)
    _refuse_nothing(seen, lost)
    signs = signs_of_life(here.ports, lost, seen.cases)
    if signs and not because and not look_only:
        raise BridgeheadError(
            ErrorCode.RECOVERY_REFUSED,
            tried=f"fail over from {lost}",
            subject=here.recovery.name,
            happened=f"{lost} is alive: {'; '.join(signs)}",
            remedy=f"`bridgehead recover move {lost}` loses nothing. To give it up all the same, say why: --force 'REASON'. "
            "Nothing was done.",
        )
    now_s = time.time()
    sign_s, clock = _rto_clock(seen, lost, lost_s, now_s)
    plan = Failover(
        _name("failover", here, lost),
        here.recovery,
        lost,
        seen.cases,
        sign_s,
        because,
        here.folder,
        stated_s=now_s if lost_s is None else None,
    )
    alive = f"NOW {lost} IS ALIVE ({'; '.join(signs)}): it is not failed over without --force.\n" if signs and not because else ""
    text = f"{alive}LOST if this is done:\n{_indented(plan.losses.text)}\n{clock}\n{plan.radius}"
    return Proposal(failover_runbook(plan), text, plan.losses, seen.left_out)


def propose_move(here: Setting, source: SiteId, *, only: Sequence[WorkloadId] = ()) -> Proposal:
    """What a planned move away from ``source`` would do. Raises RECOVERY_REFUSED when nothing is there, or it does not go to one site."""
    seen = look(here.ports, here.recovery, site=source, only=only)
    _refuse_nothing(seen, source)
    target = _one_target(here, seen, source)
    plan = Move(
        _name("move", here, source),
        here.recovery,
        source,
        target,
        seen.cases,
        time.time(),
        folder=here.folder,
        needs=_needs(here, seen, target),
    )
    return Proposal(move_runbook(plan), plan.radius, None, seen.left_out)


def propose_failback(here: Setting, home_site: SiteId, *, only: Sequence[WorkloadId] = ()) -> Proposal:
    """What a failback to ``home_site`` would do: everything that is at home there and runs elsewhere goes back, losing nothing."""
    seen, source = _away(here, home_site, only, verb="fail back")
    plan = Move(
        _name("failback", here, home_site),
        here.recovery,
        source,
        home_site,
        seen.cases,
        time.time(),
        returned=True,
        folder=here.folder,
        needs=_needs(here, seen, home_site),
    )
    text = f"{plan.radius} Before that, {home_site} is closed for old writers, its zombies are ended, and only the difference is copied."
    return Proposal(move_runbook(plan), text, None, seen.left_out)


def propose_protect(here: Setting, returned: SiteId, *, only: Sequence[WorkloadId] = ()) -> Proposal:
    """What protecting in the direction of ``returned`` would do."""
    seen, _ = _away(here, returned, only, verb=PROTECT)
    cases = tuple(msgspec.structs.replace(case, source=case.target, target=case.source) for case in seen.cases)
    plan = Protection(_name("protect", here, returned), here.recovery, returned, cases, time.time())
    runbook = protect_runbook(plan)
    return Proposal(runbook, runbook.description, None, seen.left_out)


def open_proposal(home: Home, here: Setting, proposal: Proposal, *, name: str | None, by: str) -> RunId:
    """Open the run. Raises as ``runs.start``, and RECOVERY_REFUSED beside another recovery of the same workloads."""
    refuse_beside(home, proposal.runbook)
    named = runs.name_for(proposal.runbook, now_s=time.time()) if name is None else name
    connections = with_escalation(here.connections, here.recovery.escalation)
    return runs.start(home, proposal.runbook, connections, name=named, by=by)


def drive(
    home: Home,
    here: Setting,
    run: RunId,
    *,
    until_serving: bool,
    approve_as: Person | None = None,
    show: Callable[[st.RunState], None] = lambda state: None,
    say: Callable[[str], None] = lambda text: None,
    on_engine: Callable[[Engine], None] = lambda engine: None,
) -> st.RunState:
    """Drive it until it has ended, needs a person, or serves.

    Args:
        until_serving: leave it there: what is left waits for the lost site.
        approve_as: gives this person's approval as soon as it is asked for.
        say: told who is called (escalation).
    """
    engines: list[Engine] = []

    def start(engine: Engine) -> None:
        engines.append(engine)
        on_engine(engine)

    def watch(state: st.RunState, events: Sequence[ev.Event]) -> None:
        show(state)
        if approve_as is not None and any(isinstance(event, ev.StepStarted) and event.step == APPROVE for event in events):
            runs.approve(home, run, APPROVE, by=approve_as, comment="given with the command", yes=True)
        frozen = isinstance(state.mode, st.OnHold) and state.mode.frozen
        if engines and (frozen or (until_serving and is_serving(state))):
            engines[0].stop()

    workers = here.recovery.streams + SPARE_WORKERS
    return runs.drive(home, run, watcher=watch, on_engine=start, workers=workers, say=say)


def outcome(home: Home, run: RunId, *, stated: Losses | None = None) -> RecoveryOutcome:
    """What came of a run so far. Raises RUN_NOT_FOUND."""
    entries = runs.entries_of(home, run)
    return outcome_of(runs.state_of(home, run), head=entries[-1].hash, stated=stated)


def _needs(here: Setting, seen: Seen, target: SiteId) -> tuple[SiteNeeds, ...]:
    return here.needs([case.id for case in seen.cases], target)


def _away(here: Setting, home_site: SiteId, only: Sequence[WorkloadId], *, verb: str) -> tuple[Seen, SiteId]:
    """What has its home at ``home_site`` and is elsewhere, and where. Raises RECOVERY_REFUSED when there is nothing, or two elsewheres."""
    others = [site for site in here.recovery.sites if site != home_site]
    try:
        found = {site: look(here.ports, here.recovery, site=site, only=only, target_needed=verb != PROTECT) for site in others}
    except PortError as error:
        happened = f"{error.subject} does not answer: {error.happened}"
        remedy = f"`bridgehead watch` shows which site is silent. {verb.capitalize()} when it is back."
        raise _refused(verb, home_site, happened, remedy) from error
    cases = {site: [case for case in seen.cases if case.target == home_site] for site, seen in found.items()}
    there = [site for site in others if cases[site]]
    if not there:
        raise _refused(
            verb, home_site, f"nothing that could go to {home_site} is at {', '.join(others)}", "`bridgehead watch` shows where."
        )
    if len(there) > 1:
        remedy = f"Name those of one site by --workload, one site after the other: {', '.join(there)}."
        raise _refused(verb, home_site, f"workloads are at {' and '.join(there)}", remedy)
    return Seen(tuple(cases[there[0]]), found[there[0]].left_out), there[0]


def _rto_clock(seen: Seen, lost: SiteId, lost_s: float | None, now_s: float) -> tuple[float, str]:
    """From when the RTO counts, and in words."""
    if lost_s is not None:
        since_s, why = lost_s, "as --lost-for says"
    else:
        signs = [case.last.reported_s for case in seen.cases if case.last is not None]
        signs += [case.point.created_s for case in seen.cases if case.point is not None]
        since_s, why = max(signs, default=now_s), "its last sign of life that is known"
        if not signs:
            why = "this moment: nothing tells when it was lost (--lost-for)"
    since_s = min(since_s, now_s)
    return since_s, f"The RTO counts from {clock_time(since_s)}, {now_s - since_s:.0f} s ago: {why}."


def _refuse_nothing(seen: Seen, site: SiteId) -> None:
    if seen.cases:
        return
    elsewhere = "; ".join(f"{name}: {why}" for name, why in seen.left_out.items()) or "the recovery file protects nothing there"
    unseen = [name for name, why in seen.left_out.items() if why == UNSEEN]
    if unseen:
        remedy = f"Whether {', '.join(unseen)} is there is not known: check that this user may reach its proxy (address, socket, rights)."
    else:
        remedy = "There is nothing to do. Check the site's name."
    raise _refused("recover", site, f"nothing is known to be at {site} ({elsewhere})", remedy)


def _one_target(here: Setting, seen: Seen, source: SiteId) -> SiteId:
    targets = sorted({case.target for case in seen.cases})
    if len(targets) > 1:
        remedy = f"Name those of one target by --workload, one target after the other: {', '.join(targets)}."
        raise _refused("move", source, f"the workloads have {len(targets)} targets", remedy)
    return targets[0]


def _refused(verb: str, site: SiteId, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.RECOVERY_REFUSED, tried=verb, subject=site, happened=happened, remedy=remedy)


def _name(verb: str, here: Setting, site: SiteId) -> str:
    return f"{verb}-{here.recovery.name}-{site}"


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
