"""Swings: the steps by which one of many workloads of a plan goes over, as ``recovery.runbooks`` does for a single one (design section 6).

A plan's runbook holds hundreds of them, so every step's id begins with the swing's, and a gate that is breached freezes the run and calls a
person: to roll a whole move of months back for one service would be worse than the breach.
"""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import JobName, Person, ServiceId, SiteId, StepId, WorkloadId
from bridgehead.model.runbook import ActionStep, ApprovalStep, Criterion, GateStep, HoldStep, OnBreach, Retry, Step, UndoPolicy
from bridgehead.ports.scheduler import JobSpec
from bridgehead.recovery.actions.fencing import FenceParams, RaiseFence
from bridgehead.recovery.actions.jobs import StartJob, StartJobParams, StopJob, StopJobParams
from bridgehead.recovery.actions.replication import Precopy, PrecopyParams, Replicate, ReplicateParams
from bridgehead.recovery.actions.services import DrainParams, DrainTraffic, ShiftParams, ShiftTraffic, StartService, StartServiceParams
from bridgehead.recovery.actions.training import Hold, HoldParams, OnSilence, ReleaseParams, ReleaseTarget, Standby, StandbyParams
from bridgehead.recovery.runbooks import COPIES_ARE_HARMLESS

SAMPLES = 10
"""Readings of a gate during one soak."""
MIN_TRAFFIC = 100
LATENCY_RATIO = 3.0
"""The target's mean latency may be this many times the source's."""


class SwingFrame(msgspec.Struct, frozen=True):
    """What all steps of one swing share.

    Attributes:
        prefix: the ids of its steps begin with it.
        needs: what must be done before its first step.
        command: what starts the workload at a site; the estate does not know it.
        copy_deadline_s: of steps that move data.
        step_deadline_s: of all others.
        approvers, quorum, answer_s: who approves the cut-over; nobody is asked when there are none.
    """

    prefix: str
    workload: WorkloadId
    source: SiteId
    target: SiteId
    needs: tuple[StepId, ...]
    command: tuple[str, ...]
    copy_deadline_s: float
    step_deadline_s: float = 1800.0
    approvers: tuple[Person, ...] = ()
    quorum: int = 1
    answer_s: float = 14_400.0
    grace_s: float = 30.0

    def id(self, name: str) -> StepId:
        """Id of one of its steps."""
        return StepId(f"{self.prefix}-{name}")

    @property
    def job(self) -> JobName:
        """The job is called like the workload at both sites."""
        return JobName(self.workload)

    def spec(self, *, standby: bool) -> JobSpec:
        """How its job is started."""
        env = {"BRIDGEHEAD_STANDBY": "1"} if standby else {}
        return JobSpec(name=self.job, command=self.command, env=env, grace_s=self.grace_s)


def training_swing(frame: SwingFrame, *, precopied: bool, patience_s: float) -> list[Step]:
    """Pre-copied: copied and in standby before it is held. Else: held, copied, restored, released (``checkpoint-restart``).

    Args:
        patience_s: how long its trainer has for the final checkpoint; after that the newest verified one counts.
    """
    workload, source, target, hold = frame.workload, frame.source, frame.target, frame.id("hold")
    copy = PrecopyParams(workload, source, target)
    steps: list[Step] = [_step(frame, "precopy", Precopy.name, copy, needs=frame.needs, title=f"copy {workload} while it runs", keep=True)]
    before: tuple[StepId, ...] = (frame.id("precopy"),)
    warm = StandbyParams(workload, target, frame.spec(standby=True))
    if precopied:
        steps.append(_step(frame, "standby", Standby.name, warm, needs=before, title=f"restore {workload} at {target}, in standby"))
        before = (frame.id("standby"),)
    steps += _approval(frame, before, f"Cut {workload} over to {target}: it stands still until it is released there.")
    before = (frame.id("approve"),) if frame.approvers else before
    if precopied:
        steps.append(_step(frame, "precopy-again", Precopy.name, copy, needs=before, title="copy what was trained meanwhile", keep=True))
        before = (frame.id("precopy-again"),)
    stop = HoldParams(
        workload, source, frame.job, patience_s, OnSilence.LAST_VERIFIED,
        successor_site=target if precopied else None, successor=frame.job if precopied else None, restart=frame.spec(standby=True),
    )  # fmt: skip
    last = ReplicateParams(workload, source, target, of=hold)
    fence = FenceParams(workload, target, (source, target), of=hold)
    steps += [
        _step(frame, "hold", Hold.name, stop, needs=before, title=f"final checkpoint at {source}, then hold"),
        _step(frame, "final-copy", Replicate.name, last, needs=(hold,), title="copy the final checkpoint", keep=True),
    ]
    if not precopied:
        steps.append(_step(frame, "standby", Standby.name, warm, needs=(frame.id("final-copy"),), title=f"restore {workload} at {target}"))
    release = ReleaseParams(workload, source, frame.job, target, frame.job, hold=hold)
    end = StopJobParams(source, frame.job, frame.spec(standby=True), frame.grace_s)
    return [
        *steps,
        _step(frame, "fence", RaiseFence.name, fence, needs=(hold, frame.id("final-copy")), title=f"fence: {target} is the writer now"),
        _step(
            frame,
            "release",
            ReleaseTarget.name,
            release,
            needs=(frame.id("fence"), hold, frame.id("standby")),
            title=f"goes on at {target}",
        ),
        _step(frame, "stop", StopJob.name, end, needs=(frame.id("release"),), title=f"stop the held job at {source}"),
    ]


def requeue_swing(frame: SwingFrame) -> list[Step]:
    """Stopped and begun anew."""
    stop = StopJobParams(frame.source, frame.job, frame.spec(standby=False), frame.grace_s)
    start = StartJobParams(frame.target, frame.spec(standby=False))
    steps = _approval(frame, frame.needs, f"Stop {frame.workload} and begin it anew at {frame.target}.")
    before = (frame.id("approve"),) if frame.approvers else frame.needs
    return [
        *steps,
        _step(frame, "stop", StopJob.name, stop, needs=before, title=f"stop {frame.workload} at {frame.source}"),
        _step(frame, "start", StartJob.name, start, needs=(frame.id("stop"),), title=f"begin it anew at {frame.target}"),
    ]


def canary_swing(frame: SwingFrame, services: tuple[ServiceId, ...], *, percents: tuple[int, ...], soak_s: float) -> list[Step]:
    """Warm at the target, shifted step by step with a gate over each soak, drained, stopped at the source.

    Args:
        services: what answers requests with this workload; one backend job each.
    """
    copy = PrecopyParams(frame.workload, frame.source, frame.target)
    steps: list[Step] = [_step(frame, "copy-model", Precopy.name, copy, needs=frame.needs, title="copy the served model", keep=True)]
    steps += _approval(frame, (frame.id("copy-model"),), f"Shift the traffic of {frame.workload} to {frame.target}, step by step.")
    before = frame.id("approve") if frame.approvers else frame.id("copy-model")
    for service in services:
        steps += _service(frame, service, before=before, many=len(services) > 1, percents=percents, soak_s=soak_s)
    return steps


def _service(frame: SwingFrame, service: ServiceId, *, before: StepId, many: bool, percents: tuple[int, ...], soak_s: float) -> list[Step]:
    name = f"{service}-" if many else ""
    job = JobName(service)
    backend = msgspec.structs.replace(frame.spec(standby=False), name=job)
    warm = StartServiceParams(service, frame.target, backend, like=frame.source)
    steps: list[Step] = [
        _step(frame, f"{name}warm", StartService.name, warm, needs=(before,), title=f"start {service} at {frame.target}, warm")
    ]
    needs: tuple[StepId, ...] = (frame.id(f"{name}warm"),)
    for percent in percents:
        shift, gate, soak = (frame.id(f"{name}{what}-{percent}") for what in ("shift", "gate", "soak"))
        weights = ShiftParams(service, {frame.source: 100 - percent, frame.target: percent})
        title = f"{percent} % of {service} to {frame.target}"
        steps.append(_step(frame, f"{name}shift-{percent}", ShiftTraffic.name, weights, needs=needs, title=title))
        steps += [_gate(frame, gate, service, shift, percent, soak_s), HoldStep(soak, soak_s, (shift,), title=f"soak at {percent} %")]
        needs = (gate, soak)
    drain, stop = DrainParams(service, frame.source), StopJobParams(frame.source, job, backend, frame.grace_s)
    drained = frame.id(f"{name}drain")
    return [
        *steps,
        _step(frame, f"{name}drain", DrainTraffic.name, drain, needs=needs, title=f"open streams at {frame.source} come to their end"),
        _step(frame, f"{name}stop", StopJob.name, stop, needs=(drained,), title=f"stop {service} at {frame.source}"),
    ]


def _gate(frame: SwingFrame, step: StepId, service: ServiceId, need: StepId, percent: int, soak_s: float) -> GateStep:
    """As ``recovery.runbooks``: no wrong answer, no error; latency beside the source's while that has traffic; over the whole soak."""
    compared = percent < 100
    never = (
        Criterion("wrong answers", "wrong_total", "requests_total", limit=0.0),
        Criterion("errors", "errors_total", "requests_total", limit=0.0),
    )
    latency = Criterion("mean latency", "latency_seconds_sum", "latency_seconds_count", ratio_to_baseline=LATENCY_RATIO)
    return GateStep(
        id=step,
        service=service,
        target=frame.target,
        baseline=frame.source if compared else None,
        criteria=(*never, latency) if compared else never,
        traffic="requests_total",
        min_traffic=MIN_TRAFFIC,
        min_samples=SAMPLES,
        interval_s=max(1.0, soak_s / SAMPLES),
        deadline_s=3 * soak_s + 600.0,
        needs=(need,),
        on_breach=OnBreach.FREEZE,
        title=f"gate at {percent} %",
    )


def _approval(frame: SwingFrame, needs: tuple[StepId, ...], text: str) -> list[Step]:
    if not frame.approvers:
        return []
    step = frame.id("approve")
    return [
        ApprovalStep(step, frame.approvers, frame.answer_s, needs, frame.quorum, text, title=f"approve the cut-over of {frame.workload}")
    ]


def _step(
    frame: SwingFrame, name: str, action: str, params: msgspec.Struct, *, needs: tuple[StepId, ...], title: str, keep: bool = False
) -> ActionStep:
    given = {key: value for key, value in msgspec.json.decode(msgspec.json.encode(params)).items() if value is not None}
    copies = action in (Precopy.name, Replicate.name)
    return ActionStep(
        id=frame.id(name),
        action=action,
        params=given,
        deadline_s=frame.copy_deadline_s if copies else frame.step_deadline_s,
        needs=needs,
        retry=Retry(attempts=3, backoff_s=1.0),
        undo=UndoPolicy.KEEP if keep else UndoPolicy.ACTION,
        undo_reason=COPIES_ARE_HARMLESS if keep else "",
        undo_deadline_s=frame.step_deadline_s,
        title=title,
    )
