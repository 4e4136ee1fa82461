"""Verdicts: what must hold when a simulated move is over. Written against the world and the journal; shares no code with the actions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from bridgehead.kernel.ids import ServiceId, SiteId, StepId, WorkloadId
from bridgehead.model import event as ev
from bridgehead.runbook import state as st
from bridgehead.runbook.ledger import verify_chain
from bridgehead.simulate import faults as ft
from bridgehead.simulate.invariants import Violation, writers
from bridgehead.simulate.trainer import REPORT_S, Stretch
from bridgehead.testing.virtual_lab import Finished, VirtualLab

RELEASE = StepId("release")
"""The step of ``recovery.runbooks`` that reports what was lost."""
CLOCK_S = 1e-6


def violations(lab: VirtualLab, finished: Finished) -> list[Violation]:
    """Everything that was broken at any moment or is wrong at the end; empty when all promises held."""
    found = list(lab.invariants.violations)
    checks = {
        "ends": _ends(finished),
        "steps": _steps(finished),
        "one-live-writer": _live_writer(lab, finished),
        "weights": _weights(lab, finished),
        "jobs": _jobs(lab, finished),
        "steps-once": _steps_once(lab, finished),
        "reported-losses": _reported(lab, finished),
        "ledger": _ledger(lab, finished),
    }
    found += [Violation(lab.world.now_s, rule, text) for rule, broken in checks.items() for text in broken]
    return found


def verdict_of(finished: Finished) -> str:
    """``done``, ``rolled-back``, ``stuck``, or what else the run is."""
    match finished.state.mode:
        case st.Ended(verdict=verdict):
            return verdict.value
        case st.NeedsPerson():
            return "stuck"
        case mode:
            return str(mode.__struct_config__.tag)


def _ends(finished: Finished) -> Iterator[str]:
    """No state without an exit (design rule 6)."""
    if not finished.ended:
        yield f"the run has not ended; it is {verdict_of(finished)}"


def _steps(finished: Finished) -> Iterator[str]:
    """Every started step ended: Finished, Undone, Skipped (or failed without having touched anything); or the run is Stuck and says so."""
    verdict = verdict_of(finished)
    for step_id, step in finished.state.steps.items():
        match step:
            case st.Finished() | st.Undone() | st.Skipped():
                settled = verdict != "done" or isinstance(step, st.Finished)
            case st.Broken(touched=touched):
                settled = verdict in ("rolled-back", "stuck") and not touched
            case st.Stuck():
                settled = verdict == "stuck"
            case _:
                settled = verdict == "stuck"
        if not settled:
            yield f"the run is {verdict}, and step {step_id} is {step.__struct_config__.tag}"
    if verdict == "stuck" and not any(isinstance(step, st.Stuck) for step in finished.state.steps.values()):
        yield "the run needs a person, but no step says what to do"


def _live_writer(lab: VirtualLab, finished: Finished) -> Iterator[str]:
    """No job is lost: exactly one trainer counts at the end, unless the run is Stuck, or a fault killed it after it was seen to compute."""
    verdict = verdict_of(finished)
    before = {plan.workload: plan.site for plan in lab.world.blueprint.trainers if plan.running}
    counting_now = writers(lab.world)
    for workload in before:
        counting = counting_now[workload]
        sites = [trainer.plan.site for trainer in counting]
        if verdict == "stuck" and len(sites) <= 1:
            continue
        if not sites and verdict == "done" and _trainer_died(lab):
            continue
        if len(sites) != 1:
            yield f"{workload}: the run is {verdict}, and {len(sites)} trainers count"
        elif (sites[0] == before[workload]) is not (verdict == "rolled-back"):
            yield f"{workload}: the run is {verdict}, and the writer is at {sites[0]}"


def _trainer_died(lab: VirtualLab) -> bool:
    """A fault killed a trainer that the run knew."""
    newest = [executions[-1] for executions in lab.world.jobs.values()]
    return any(job.died and job.trainer is not None and job.spec.command != ("returned",) for job in newest)


def _weights(lab: VirtualLab, finished: Finished) -> Iterator[str]:
    """After a rollback the weights in force are the recorded ones; after success the target has everything (G04)."""
    for service, proxy in lab.world.proxies.items():
        if proxy.forgotten:
            continue  # it lost them in the last moment, and the run that would have put them back is over
        wanted = proxy.plan.weights
        if verdict_of(finished) == "done":
            wanted = _last_shift(finished, service)
        if verdict_of(finished) in ("done", "rolled-back") and proxy.in_force != wanted:
            yield f"{service}: the run is {verdict_of(finished)}, and the weights in force are {proxy.in_force}, not {wanted}"


def _jobs(lab: VirtualLab, finished: Finished) -> Iterator[str]:
    """After a rollback the same jobs run as before, but for those that a fault killed; what the run started is gone."""
    if verdict_of(finished) != "rolled-back":
        return
    before = {(plan.site, plan.job) for plan in lab.world.blueprint.trainers if plan.running}
    before |= {(plan.site, plan.job) for plan in lab.world.blueprint.backends if plan.running}
    before |= set(lab.world.blueprint.jobs)
    for key, executions in lab.world.jobs.items():
        job = executions[-1]
        if job.running is not (key in before) and not job.died and job.spec.command != ("returned",):
            yield f"the run is rolled-back, and job {key[1]} at {key[0]} is {'running' if job.running else 'gone'}"


def _last_shift(finished: Finished, service: ServiceId) -> dict[SiteId, int]:
    plan = finished.state.plan
    shifts: list[dict[SiteId, int]] = []
    for step_id in plan.order:
        params: Any = getattr(plan.steps[step_id], "params", {})
        if params.get("service") == service and "weights" in params:
            shifts.append(params["weights"])
    return shifts[-1]


def _counted(stretch: Stretch, now_step: int) -> int:
    """Last step of the stretch that was completed while its trainer counted."""
    last = now_step if stretch.last is None else stretch.last
    return last if stretch.uncounted_from is None else min(last, stretch.uncounted_from - 1)


def _steps_once(lab: VirtualLab, finished: Finished) -> Iterator[str]:
    """In the lineage that counts no step is left out, and none is computed twice beyond what was stated or a fault destroyed."""
    for workload, stretches in lab.world.history.items():
        counting = [stretch for stretch in stretches if stretch.uncounted_from is None or stretch.uncounted_from > stretch.first]
        counting = [stretch for stretch in counting if "-returned-" not in stretch.trainer]
        allowed = _allowed(lab, finished, workload)
        for earlier, later in pairwise(sorted(counting, key=lambda stretch: stretch.begun_s)):
            last = _counted(earlier, later.first - 1)
            if later.first > last + 1:
                yield f"{workload}: steps {last + 1} to {later.first - 1} were left out"
            if last - (later.first - 1) > allowed:
                yield f"{workload}: {last - later.first + 1} steps were computed twice, from {later.first} on, {allowed} allowed"


def _allowed(lab: VirtualLab, finished: Finished, workload: WorkloadId) -> int:
    """What was stated (of a trainer that did not hold: as its newest report said it, so a moment older); and where a fault destroyed
    state, the distance of two snapshots and what was computed until it was noticed."""
    evidence = [event.evidence for event in _events(finished) if isinstance(event, ev.PhaseDone) and "lost_steps" in event.evidence]
    stated = max((int(one["lost_steps"] or 0) for one in evidence), default=0)
    plans = [plan for plan in lab.world.blueprint.trainers if plan.workload == workload]
    if any(one.get("obeyed") is False for one in evidence):
        stated += max(int(REPORT_S / plan.step_s) + 1 for plan in plans)
    destroyed = _trainer_died(lab) or any(isinstance(fault, ft.BadWrite | ft.DiskFull) for fault in lab.book.hit)
    interval = max(plan.save_every_steps + int(plan.save_s / plan.step_s) + 2 for plan in plans)
    return max(stated, 2 * interval if destroyed else 0)


def _events(finished: Finished) -> list[ev.Event]:
    return [entry.event for entry in finished.entries]


def _evidence(finished: Finished, phase: ev.Phase) -> dict[str, Any] | None:
    for event in reversed(_events(finished)):
        if isinstance(event, ev.PhaseDone) and event.step == RELEASE and event.phase is phase:
            return event.evidence
    return None


def _reported(lab: VirtualLab, finished: Finished) -> Iterator[str]:
    """RPO and RTO that the run reports are those that the world saw (R1, R2)."""
    seen, found = _evidence(finished, ev.Phase.VERIFY), _evidence(finished, ev.Phase.PRECHECK)
    if seen is None or found is None:
        return
    for workload, stretches in lab.world.history.items():
        resumed = next((stretch for stretch in stretches if stretch.epoch == seen["epoch"] and stretch.first == seen["resumed_step"]), None)
        source = _source_stretch(lab, workload, stretches)
        if resumed is None or source is None:
            yield f"{workload}: the report names a resume at step {seen['resumed_step']} that nobody saw"
            continue
        yield from _compare(lab, seen, source, resumed, asked_s=_asked_s(lab))


def _source_stretch(lab: VirtualLab, workload: WorkloadId, stretches: Sequence[Stretch]) -> Stretch | None:
    names = {f"{plan.job}@{plan.site}" for plan in lab.world.blueprint.trainers if plan.running and plan.workload == workload}
    before_fence = [stretch for stretch in stretches if stretch.trainer in names and stretch.epoch == 0]
    return before_fence[-1] if before_fence else None


def _asked_s(lab: VirtualLab) -> tuple[float, float]:
    """World time between which the precheck of the release, which reads where the source stopped, looked."""
    looked = [
        (at_s, event)
        for at_s, event in lab.happened
        if isinstance(event, ev.Intent | ev.PhaseDone) and event.step == RELEASE and event.phase is ev.Phase.PRECHECK
    ]
    began = [at_s for at_s, event in looked if isinstance(event, ev.Intent)]
    return began[-1], looked[-1][0]


def _compare(lab: VirtualLab, seen: dict[str, Any], source: Stretch, resumed: Stretch, *, asked_s: tuple[float, float]) -> Iterator[str]:
    snapshot_step = resumed.first - 1
    plans = {f"{plan.job}@{plan.site}": plan for plan in lab.world.blueprint.trainers}
    step_s = plans[source.trainer].step_s
    first_s = resumed.begun_s + plans[resumed.trainer].step_s
    if source.last is not None and source.ended_s is not None and source.ended_s <= asked_s[0] + CLOCK_S:
        least = most = source.last - snapshot_step
    elif source.uncounted_from is not None:
        # It computes on, fenced off. At least what it had completed before the fence is lost (its report may be a moment older);
        # at most what it had completed when it was asked.
        least = source.uncounted_from - 1 - snapshot_step - int(REPORT_S / step_s) - 1
        most = source.first - 1 + int((asked_s[1] - source.begun_s + CLOCK_S) / step_s) - snapshot_step
    else:
        yield "training resumed at the target while nothing had closed the epoch of the source, which computes on"
        return
    if not least <= seen["lost_steps"] <= most:
        yield f"reported {seen['lost_steps']} lost steps, the world saw {least} to {most}"
    if seen["lost_steps"] == 0:
        ended_s = source.begun_s + (snapshot_step - source.first + 1) * step_s
    else:
        assert resumed.based_on is not None
        ended_s = lab.world.vaults[plans[source.trainer].site].held[resumed.based_on].created_s
    if seen["lost_compute_s"] is None or abs(seen["lost_compute_s"] - (first_s - ended_s)) > CLOCK_S:
        yield f"reported {seen['lost_compute_s']} s of lost compute, the world saw {first_s - ended_s:.6f}"


def _ledger(lab: VirtualLab, finished: Finished) -> Iterator[str]:
    """The chain verifies from the first entry to the last."""
    for fault in verify_chain(finished.entries, lab.signer, head=finished.entries[-1].hash):
        yield f"entry {fault.seq}: {fault.problem}"
