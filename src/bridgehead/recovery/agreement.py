"""Agreement: is the world as a run's journal can have left it? (J09; design rules 2 and 7)

A control plane that was lost and restored from an old copy would act on stale intent: shift traffic back, fence the site that serves,
start what runs. Before a driver does anything, what it can see is compared with what its journal can have brought about. What cannot be
seen is no difference: a site that is lost must not stop the failover from it. It is no agreement either: the ledger names it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec

from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import Epoch, JobName, ServiceId, SiteId, StepId, WorkloadId
from bridgehead.model.runbook import ActionStep
from bridgehead.model.snapshot import Fence
from bridgehead.ports.scheduler import JobRunning
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.actions.jobs import StartJob
from bridgehead.recovery.actions.services import StartService
from bridgehead.recovery.actions.training import Standby
from bridgehead.runbook import state as st
from bridgehead.runbook.comparing import Comparison, Lane, Unseen

SETTLE_S = 3.0
"""A proxy that lost its weights may take so long until they are back."""
_POLL_S = 0.1
_STARTS = (StartJob.name, StartService.name, Standby.name)
Weights = dict[SiteId, int]


class SeenFence(msgspec.Struct, frozen=True):
    """The newest fence of a workload in the vault of a site."""

    site: SiteId
    fence: Fence


Fact = str | SeenFence | Unseen
"""A difference in words, or what only all sites together can tell, or what was not seen."""


def comparison(
    state: st.RunState, epoch: Epoch, ports: Switchboard, *, vault_sites: Sequence[SiteId], sleep: Callable[[float], None] = time.sleep
) -> Comparison:
    """What to ask, place by place, and how the world differs by the answers: in words, each with what the journal tells and what is seen.

    Args:
        state: the run before this driver took it over.
        epoch: the new driver's.
        vault_sites: sites that have a vault, the witness among them.
    """
    lanes: dict[str, Lane] = {f"the vault of {site}": partial(_in_vault, state, epoch, ports, site) for site in vault_sites}
    if state.epoch:  # else nobody drove it yet: the prechecks of its steps look
        for service in map(ServiceId, sorted(_named(state, "service"))):
            expected = _expected_weights(state, service)
            if expected and service in ports.traffics:
                lanes[f"the traffic of {service}"] = partial(_moved_traffic, service, expected, ports, sleep)
        for site, starts in _starts(state).items():
            if site in ports.schedulers:
                lanes[f"the scheduler of {site}"] = partial(_unknown_jobs, site, starts, ports)
    return Comparison(lanes, partial(_judge, state))


def _in_vault(state: st.RunState, epoch: Epoch, ports: Switchboard, site: SiteId) -> Iterator[Fact]:
    """Drivers of this very run that the journal has never heard of are the strongest evidence, and are asked for first."""
    place = f"the vault of {site}"
    try:
        newest = ports.vaults.newest_driver(state.run, site=site)
    except PortError as error:
        yield Unseen(place, error.happened)
    else:
        if newest >= epoch:
            yield f"the vault of {site} was changed by driver {newest} of this run, the journal knows of {epoch - 1}"
    for workload in sorted(_named(state, "workload")):
        try:
            fence = ports.vaults.newest_fence(WorkloadId(workload), site=site)
        except PortError as error:
            yield Unseen(place, error.happened)
        else:
            if fence is not None:
                yield SeenFence(site, fence)


def _judge(state: st.RunState, facts: Sequence[Fact]) -> list[str]:
    newest: dict[WorkloadId, SeenFence] = {}
    for fact in facts:
        if isinstance(fact, SeenFence):
            known = newest.setdefault(fact.fence.workload, fact)
            if (fact.fence.epoch, known.site) > (known.fence.epoch, fact.site):
                newest[fact.fence.workload] = fact
    found = [fact for fact in facts if isinstance(fact, str)]
    for _, (site, fence) in sorted((workload, (seen.site, seen.fence)) for workload, seen in newest.items()):
        if not _explained(state, fence):
            when = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(fence.opened_s))
            found.append(
                f"epoch {fence.epoch} of {fence.workload} was opened for {fence.holder} by {fence.opened_by} at {when} UTC "
                f"(vault of {site}), of which the journal knows nothing"
            )
    return sorted(found)


def _explained(state: st.RunState, fence: Fence) -> bool:
    """Whether this run may have raised it, or it stood before the run looked."""
    opener, _, rest = fence.opened_by.partition("/")
    step = StepId(rest.partition("/")[0])
    if opener == state.run and step in state.plan.steps:
        return _touched(state, step)
    known = [
        recorded["epoch"]
        for step_id, plan_step in state.plan.steps.items()
        if isinstance(plan_step, ActionStep) and plan_step.params.get("workload") == fence.workload
        if isinstance((recorded := _recorded(state.steps[step_id])).get("epoch"), int)
    ]
    return fence.epoch <= max(known) if known else fence.opened_s <= state.last_s


def _moved_traffic(service: ServiceId, expected: Sequence[Weights], ports: Switchboard, sleep: Callable[[float], None]) -> Iterator[Fact]:
    """A proxy that does not answer raises its port error."""
    traffic = ports.traffic(service)
    traffic.reconcile(service)  # a proxy that lost its weights is another matter (G09)
    seen = traffic.read(service)
    waited_s = 0.0
    while seen not in expected and waited_s < SETTLE_S:
        sleep(_POLL_S)
        waited_s += _POLL_S
        seen = traffic.read(service)
    if seen not in expected:
        yield f"{service} has the weights {_words(seen)} in force, the journal tells {' or '.join(map(_words, expected))}"


def _expected_weights(state: st.RunState, service: ServiceId) -> list[Weights]:
    """Those that the last finished shift saw in force; while one is under way or is undone, those before and after it, too.

    Empty when they may be anything: nothing was shifted, or a ramp is under way.
    """
    expected: list[Weights] = []
    for step_id in state.plan.order:
        plan_step, step = state.plan.steps[step_id], state.steps[step_id]
        if not isinstance(plan_step, ActionStep) or plan_step.params.get("service") != service or not _touched(state, step_id):
            continue
        before = _weights(_recorded(step).get("weights"))  # what shifts traffic records where it began
        if before is None:
            continue
        after = _weights(step.verified.get("weights") if isinstance(step, st.Finished) else plan_step.params.get("weights"))
        if after is None:
            return []
        expected = [after] if isinstance(step, st.Finished) else [*expected, before, after]
    return [weights for number, weights in enumerate(expected) if weights not in expected[:number]]


def _starts(state: st.RunState) -> dict[SiteId, list[tuple[StepId, JobName]]]:
    """Jobs by site whose step, which starts them and would refuse to while they run, has not begun."""
    found: dict[SiteId, list[tuple[StepId, JobName]]] = {}
    for step_id, plan_step in state.plan.steps.items():
        if not isinstance(plan_step, ActionStep) or plan_step.action not in _STARTS or not isinstance(state.steps[step_id], st.Waiting):
            continue
        job, site = plan_step.params.get("job"), SiteId(str(plan_step.params.get("site", "")))
        if isinstance(job, dict):
            found.setdefault(site, []).append((step_id, JobName(str(job.get("name", "")))))
    return found


def _unknown_jobs(site: SiteId, starts: Sequence[tuple[StepId, JobName]], ports: Switchboard) -> Iterator[Fact]:
    for step_id, name in starts:
        try:
            seen = ports.scheduler(site).observe(name)
        except PortError as error:
            yield Unseen(f"the scheduler of {site}", error.happened)
            continue
        if isinstance(seen, JobRunning):
            yield f"job {name} runs at {site} (id {seen.identity.native_id}), the journal has not begun step '{step_id}', which starts it"


def _named(state: st.RunState, field: str) -> set[str]:
    steps = state.plan.steps.values()
    return {str(step.params[field]) for step in steps if isinstance(step, ActionStep) and isinstance(step.params.get(field), str)}


def _touched(state: st.RunState, step_id: StepId) -> bool:
    """Whether the journal says that the step may have changed the world."""
    match state.steps[step_id]:
        case st.Working() as step:
            return step.may_have_changed_the_world
        case st.Broken(touched=touched):
            return touched
        case st.Finished() | st.ToUndo() | st.Undoing() | st.Undone() | st.Stuck():
            return True
        case _:
            return False


def _recorded(step: st.StepState) -> dict[str, Any]:
    match step:
        case st.Working(recorded=recorded) | st.Finished(recorded=recorded) | st.Broken(recorded=recorded) | st.ToUndo(recorded=recorded):
            return recorded
        case st.Undoing(recorded=recorded) | st.Stuck(recorded=recorded):
            return recorded
        case _:
            return {}


def _weights(value: object) -> Weights | None:
    return {SiteId(str(site)): int(weight) for site, weight in value.items()} if isinstance(value, dict) else None


def _words(weights: Weights) -> str:
    return ", ".join(f"{site} {weight} %" for site, weight in weights.items())
