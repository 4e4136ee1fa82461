"""Actions of drills: a bubble is opened, a workload is started in it, planned faults are looked for, and nothing of it is left (R13)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import Permanent
from bridgehead.kernel.ids import ServiceId, SiteId, SnapshotId, StepId
from bridgehead.model.bubble import Bubble, fault_name
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.bubbles import Bubbles
from bridgehead.ports.scheduler import JobSpec
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.actions.jobs import POLL_S, free_for_start, is_running, take_away
from bridgehead.recovery.actions.services import seen_health
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending


class BubbleParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``bubble.open`` and ``bubble.close``: the bubble."""

    bubble: Bubble


class OpenBubble:
    """Make the bubble. Undo ends all its jobs and removes it as a whole, so that steps inside it need no undo of their own."""

    name = "bubble.open"
    params_type = BubbleParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: BubbleParams, call: Call) -> Outcome:
        """This run has bubbles."""
        return Done() if self._ports.bubbles is not None else Failed("this estate has no bubbles", "Only drills have bubbles.")

    def apply(self, params: BubbleParams, call: Call) -> Outcome:
        """Make it."""
        bubbles_of(self._ports).open(params.bubble, stamp=call.stamp)
        return Done({"opened_s": call.now_s})

    def verify(self, params: BubbleParams, call: Call) -> Outcome:
        """Its vault can be read, and none of its jobs runs."""
        for job in params.bubble.jobs:
            if isinstance(is_running(self._ports.scheduler(params.bubble.site).observe(job), params.bubble.site), Done):
                return Failed(f"job '{job}' runs in the bubble already", "End what an earlier drill left there.")
        return Done()

    def undo(self, params: BubbleParams, call: Call) -> Outcome:
        """Nothing is left."""
        return emptied(self._ports, params.bubble, call)


class CloseBubble:
    """End all jobs of the bubble and remove it. What it leaves behind is nothing; the step waits until that is so."""

    name = "bubble.close"
    params_type = BubbleParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: BubbleParams, call: Call) -> Outcome:
        """Always."""
        return Done()

    def apply(self, params: BubbleParams, call: Call) -> Outcome:
        """End, and remove."""
        return emptied(self._ports, params.bubble, call)

    def verify(self, params: BubbleParams, call: Call) -> Outcome:
        """Look once more."""
        left = bubbles_of(self._ports).close(params.bubble.id, stamp=call.stamp)
        return Failed(f"left over: {', '.join(left)}", "It is removed again.") if left else Done({"left": []})

    def undo(self, params: BubbleParams, call: Call) -> Outcome:
        """Nothing to take back: the bubble does not come again."""
        return Done()


class FaultsHitParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``bubble.faults``: ``kills`` names, for each planned fault that ends jobs, the steps that do it."""

    bubble: Bubble
    kills: dict[str, tuple[StepId, ...]] = {}


class FaultsHit:
    """See that each planned fault struck: a drill that went well because nothing went wrong has proved nothing."""

    name = "bubble.faults"
    params_type = FaultsHitParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: FaultsHitParams, call: Call) -> Outcome:
        """Always."""
        return Done()

    def apply(self, params: FaultsHitParams, call: Call) -> Outcome:
        """Nothing to do."""
        return Done()

    def verify(self, params: FaultsHitParams, call: Call) -> Outcome:
        """All were hit."""
        planned = [fault_name(fault) for fault in params.bubble.faults]
        hit = set(bubbles_of(self._ports).hits(params.bubble.id))
        hit |= {name for name, steps in params.kills.items() if all(call.earlier.get(step, {}).get("ended_running") for step in steps)}
        missed = [name for name in planned if name not in hit]
        if missed:
            return Failed(
                f"planned and not hit: {', '.join(missed)}", "The drill proves nothing about them; plan them so that they strike."
            )
        return Done({"hit": planned})

    def undo(self, params: FaultsHitParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done()


class ProveThisParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``bubble.prove``: which snapshot, in the vault of which site."""

    site: SiteId
    snapshot: SnapshotId


class ProveThis:
    """Read back one snapshot that a service is known to serve, as ``vault.prove`` does with the newest. Changes nothing that counts."""

    name = "bubble.prove"
    params_type = ProveThisParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: ProveThisParams, call: Call) -> Outcome:
        """It is there. Its age counts from here."""
        return Done({"asked_s": call.now_s}) if self._find(params) is not None else self._missing(params)

    def apply(self, params: ProveThisParams, call: Call) -> Outcome:
        """Nothing to do: reading is what verify does."""
        return Done()

    def verify(self, params: ProveThisParams, call: Call) -> Outcome:
        """Every block of it is there and right."""
        info = self._find(params)
        if info is None:
            return self._missing(params)
        try:
            receipt = self._ports.vaults.receipt(info.id, site=params.site, stamp=call.stamp)
        except Permanent as error:
            return Failed(f"snapshot {info.id} at {params.site} is damaged: {error.happened}", "Replicate an intact one from another site.")
        age_s = max(0.0, call.recorded["asked_s"] - info.created_s)
        return Done({"snapshot": info.id, "step": info.step, "age_s": age_s, "raw_bytes": receipt.raw_bytes, "passed_over": []})

    def undo(self, params: ProveThisParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done()

    def _find(self, params: ProveThisParams) -> SnapshotInfo | None:
        return self._ports.vaults.find(params.snapshot, site=params.site)

    def _missing(self, params: ProveThisParams) -> Failed:
        return Failed(f"{params.site} does not hold snapshot {params.snapshot}", "Replicate it.")


class StrikeParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``bubble.strike``: the job whose node dies."""

    site: SiteId
    job: JobSpec


class StrikeJob:
    """Kill a job that is up, without asking, as the death of its node does."""

    name = "bubble.strike"
    params_type = StrikeParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: StrikeParams, call: Call) -> Outcome:
        """It runs: else the fault would strike nothing."""
        return is_running(self._ports.scheduler(params.site).observe(params.job.name), params.site)

    def apply(self, params: StrikeParams, call: Call) -> Outcome:
        """Kill it, and see it end."""
        return take_away(self._ports, params.site, params.job.name, grace_s=0.0, call=call)

    def verify(self, params: StrikeParams, call: Call) -> Outcome:
        """It has ended; it ran before."""
        running = is_running(self._ports.scheduler(params.site).observe(params.job.name), params.site)
        if isinstance(running, Done):
            return Failed(f"job '{params.job.name}' still runs", "It is killed again.")
        return Done({"ended_running": call.recorded.get("native_id", "")})

    def undo(self, params: StrikeParams, call: Call) -> Outcome:
        """Nothing to take back: the bubble is thrown away as a whole."""
        return Done()


class AnswersParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``bubble.start``: a job of a bubble that must answer.

    Attributes:
        service: whose health is asked; without it the job counts as up when it has run for ``settle_s``.
        of: the step that proved the snapshot from which a service must be loaded.
    """

    site: SiteId
    job: JobSpec
    service: ServiceId | None = None
    of: StepId | None = None
    settle_s: float = 1.0


class StartInBubble:
    """Start a job in the bubble and see that it answers: a service warm from the proved snapshot, anything else alive for a while."""

    name = "bubble.start"
    params_type = AnswersParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: AnswersParams, call: Call) -> Outcome:
        """The name is free."""
        return free_for_start(self._ports, params.site, params.job)

    def apply(self, params: AnswersParams, call: Call) -> Outcome:
        """Start it, told which snapshot it is to load."""
        snapshot = call.earlier.get(params.of, {}).get("snapshot", "") if params.of is not None else ""
        told = {"BRIDGEHEAD_SNAPSHOT": snapshot} if snapshot else {}
        command = tuple(word.replace("{snapshot}", snapshot) for word in params.job.command)
        spec = msgspec.structs.replace(params.job, command=command, env={**params.job.env, **told})
        self._ports.scheduler(params.site).start(spec, stamp=call.stamp)
        return Done()

    def verify(self, params: AnswersParams, call: Call) -> Outcome:
        """It answers."""
        running = is_running(self._ports.scheduler(params.site).observe(params.job.name), params.site)
        if not isinstance(running, Done):
            return running
        if params.service is None:
            left_s = params.settle_s - (call.now_s - call.since_s)
            return Pending(min(left_s, 1.0), {"waiting_for": f"{params.job.name} to stay up"}) if left_s > 0 else Done(running.evidence)
        health = seen_health(self._ports, params.service, params.site)
        if health is None or not health.warm:
            return Pending(POLL_S, {"waiting_for": f"{params.service} to be warm in the bubble"})
        wanted = call.earlier.get(params.of, {}).get("snapshot") if params.of is not None else None
        if wanted is not None and health.snapshot and health.snapshot != wanted:
            return Failed(f"{params.service} has loaded {health.snapshot}, not {wanted}", "Let its command take {snapshot}.")
        return Done({**running.evidence, "model_hash": health.model_hash, "snapshot": health.snapshot})

    def undo(self, params: AnswersParams, call: Call) -> Outcome:
        """It is seen to have ended."""
        return take_away(self._ports, params.site, params.job.name, grace_s=0.0, call=call)


def bubbles_of(ports: Switchboard) -> Bubbles:
    """The port. Raises Permanent when the estate has none."""
    if ports.bubbles is None:
        raise Permanent("this estate has no bubbles", tried="open a bubble", subject="drill", remedy="Only drills have bubbles.")
    return ports.bubbles


def emptied(ports: Switchboard, bubble: Bubble, call: Call) -> Outcome:
    """End every job of the bubble at once, then remove the bubble; Done when nothing is left."""
    waiting = [take_away(ports, bubble.site, job, grace_s=0.0, call=call) for job in bubble.jobs]
    for outcome in waiting:
        if not isinstance(outcome, Done):
            return outcome
    left = bubbles_of(ports).close(bubble.id, stamp=call.stamp)
    return Pending(POLL_S, {"left": list(left)}) if left else Done({"left": []})
