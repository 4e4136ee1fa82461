"""Losing: is the source really gone, and what did it do last? Measured again when it returns (design rules 7 and 9; J01, J05)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import JobName, ServiceId, SiteId, StepId, WorkloadId
from bridgehead.ports.scheduler import JobEnded, JobRunning
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.loss import LastSeen
from bridgehead.runbook.action import Call, Done, Failed, Json, Outcome, Pending


class Watched(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Something of the source that would show that it lives: a job, and what it trains or serves.

    Attributes:
        quiet_s: a trainer whose scheduler cannot be asked is listened to for so long: one that reports again is alive.
    """

    job: JobName
    trains: WorkloadId | None = None
    serves: ServiceId | None = None
    quiet_s: float = 5.0


class ConfirmLossParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``recovery.confirm-loss``: the site, and what would show that it lives.

    Attributes:
        because: the words of the operator who goes on although it is seen alive; empty: then it is refused.
        voters: places whose vaults show whether this driver sees anything at all.
        in_sight: so many of them must answer. Who sees too little may be cut off itself, and can tell nothing of the site.
    """

    site: SiteId
    watched: tuple[Watched, ...]
    because: str = ""
    voters: tuple[SiteId, ...] = ()
    in_sight: int = 0


class ConfirmLoss:
    """Look at the source once more, right before it is fenced off. A site that is seen alive is moved, not failed over.

    Not to be seen is no proof of death, and none is needed: the fence makes what it still does worthless. Proof of life stops this.
    """

    name = "recovery.confirm-loss"
    params_type = ConfirmLossParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports
        self._heard: dict[tuple[str, JobName], tuple[float, float]] = {}
        """When this process first listened, and the newest report then. A driver that takes over listens anew."""

    def precheck(self, params: ConfirmLossParams, call: Call) -> Outcome:
        """No sign of life where others can be seen, or an operator who says why it does not matter."""
        seen = [voter for voter in params.voters if self._answers(voter, call)]
        if len(seen) < params.in_sight:
            sight = f"only {', '.join(seen)} of" if seen else "none of"
            words = f"cannot tell whether {params.site} lives: {sight} {', '.join(params.voters)} can be seen, {params.in_sight} must be"
            return Pending(1.0, {"waiting_for": words})
        signs = [sign for one in params.watched if (sign := sign_of_life(self._ports, params.site, one))]
        signs += [
            f"trainer {one.job} reports" for one in params.watched if one.trains is not None and self._reports(params.site, one, call)
        ]
        doubts = [one for one in params.watched if not signs and self._may_report(params.site, one, call)]
        if doubts and not params.because:
            return Pending(0.5, {"waiting_for": f"{doubts[0].job} at {params.site} to be silent for {doubts[0].quiet_s:g} s"})
        if signs and not params.because:
            return Failed(
                f"{params.site} is alive: {'; '.join(signs)}",
                "Use `bridgehead recover move`, which loses nothing. If it must be given up all the same: --force 'REASON'.",
            )
        return Done({"signs": signs, "because": params.because})

    def _answers(self, voter: SiteId, call: Call) -> bool:
        try:
            self._ports.vaults.newest_driver(call.stamp.run, site=voter)
        except PortError:
            return False
        return True

    def _reports(self, site: SiteId, one: Watched, call: Call) -> bool:
        """It has said something since this step first looked."""
        last = last_seen(self._ports, site, one.job)
        if last is None or last.final:
            return False
        return last.reported_s > self._heard.setdefault((call.stamp.key, one.job), (call.now_s, last.reported_s))[1]

    def _may_report(self, site: SiteId, one: Watched, call: Call) -> bool:
        """It reported lately, and nobody has listened for long enough."""
        last = last_seen(self._ports, site, one.job) if one.trains is not None else None
        if last is None or last.final or call.now_s - last.reported_s >= 2 * one.quiet_s:
            return False
        return call.now_s - self._heard.setdefault((call.stamp.key, one.job), (call.now_s, last.reported_s))[0] < one.quiet_s

    def apply(self, params: ConfirmLossParams, call: Call) -> Outcome:
        """Nothing to do."""
        return Done()

    def verify(self, params: ConfirmLossParams, call: Call) -> Outcome:
        """What its trainers did last, as far as it can be seen now."""
        found: Json = {"confirmed_s": call.now_s}
        for one in params.watched:
            last = last_seen(self._ports, params.site, one.job) if one.trains is not None else None
            if last is not None and one.trains is not None:
                found[one.trains] = msgspec.to_builtins(last)
        return Done(found)

    def undo(self, params: ConfirmLossParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done()


def sign_of_life(ports: Switchboard, site: SiteId, one: Watched) -> str:
    """What was seen alive; empty when nothing was. What cannot be seen is no sign either way."""
    try:
        state = ports.scheduler(site).observe(one.job)
        running = isinstance(state, JobRunning) and not state.waiting_for
    except PortError:
        running = False
    if running:
        return f"job {one.job} runs"
    if one.serves is not None:
        try:
            if ports.serving(one.serves).health(one.serves, site).warm:
                return f"{one.serves} answers"
        except PortError:
            pass
    return ""


def last_seen(ports: Switchboard, site: SiteId, job: JobName) -> LastSeen | None:
    """The trainer's newest report, None when it cannot be read. Final only when the job was *seen* to have ended before that."""
    try:
        ended = isinstance(ports.scheduler(site).observe(job), JobEnded)
    except PortError:
        ended = False
    try:
        progress = ports.training(site).progress(job)
    except PortError:
        return None
    return LastSeen(progress.step, progress.step_ended_s, progress.reported_s, final=ended)


class MeasureLossParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``recovery.measure-loss``: after the source was closed and its jobs ended, what had it really done?

    Attributes:
        point: the step that named the promoted snapshot.
        fence: the step that raised the fence: what was computed later was in vain, and is no loss.
        confirmed: the step that saw what it did last, before.
    """

    workload: WorkloadId
    site: SiteId
    job: JobName
    point: StepId
    fence: StepId
    confirmed: StepId


class MeasureLoss:
    """The real loss, to be held against the one that was stated. A source that left no report leaves it unknown, and the step is done."""

    name = "recovery.measure-loss"
    params_type = MeasureLossParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: MeasureLossParams, call: Call) -> Outcome:
        """Always."""
        return Done()

    def apply(self, params: MeasureLossParams, call: Call) -> Outcome:
        """Nothing to do."""
        return Done()

    def verify(self, params: MeasureLossParams, call: Call) -> Outcome:
        """Its last report."""
        point = call.earlier.get(params.point, {})
        promoted = point.get("step")
        fenced_s = call.earlier.get(params.fence, {}).get("decided_s", call.now_s)
        told = call.earlier.get(params.confirmed, {}).get(params.workload)
        before = None if told is None else msgspec.convert(told, LastSeen)
        now = last_seen(self._ports, params.site, params.job)
        in_vain: Json = {}
        if now is not None and now.step_ended_s > fenced_s:
            # It went on, or began again, behind the fence. What it had done until then is what was seen before.
            in_vain = {"in_vain_until_step": now.step}
        # A report without the time of a step is of a trainer that began again and completed none: it says nothing of what was done before.
        usable = [one for one in (before, now) if one is not None and 0 < one.step_ended_s <= fenced_s]
        last = max(usable, key=lambda one: (one.step, one.final), default=None)
        if last is None or promoted is None:
            return Done({"lost_steps": None, "because": f"{params.job} left no report at {params.site} from before the fence", **in_vain})
        steps = max(0, last.step - promoted)
        seconds = max(0.0, last.step_ended_s - point["created_s"]) if steps and "created_s" in point else 0.0 if not steps else None
        return Done({"last_step": last.step, "lost_steps": steps, "lost_compute_s": seconds, "final": last.final, **in_vain})

    def undo(self, params: MeasureLossParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done()
