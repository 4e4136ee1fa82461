"""Runbooks of moves: one training workload and one service go from a source to a target (design section 6; M7.1, M7.3, M10.4)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.kernel.ids import JobName, Person, ServiceId, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.runbook import ActionStep, ApprovalStep, Criterion, GateStep, Retry, Runbook, Step, UndoPolicy
from bridgehead.ports.scheduler import JobSpec
from bridgehead.recovery.actions.fencing import FenceParams, RaiseFence
from bridgehead.recovery.actions.jobs import StopJob, StopJobParams
from bridgehead.recovery.actions.replication import Precopy, PrecopyParams, Replicate, ReplicateParams
from bridgehead.recovery.actions.services import DrainParams, DrainTraffic, ShiftParams, ShiftTraffic, StartService, StartServiceParams
from bridgehead.recovery.actions.training import Hold, HoldParams, OnSilence, ReleaseParams, ReleaseTarget, Standby, StandbyParams

COPIES_ARE_HARMLESS = "copies at the target are never used without a fence, and make the next try shorter"


class TrainingMove(msgspec.Struct, frozen=True):
    """The training side. ``standby`` starts at the target; ``restart`` is what an undo starts at the source, in standby too."""

    workload: WorkloadId
    source_job: JobName
    standby: JobSpec
    restart: JobSpec
    patience_s: float = 30.0
    on_silence: OnSilence = OnSilence.FAIL


class ServiceMove(msgspec.Struct, frozen=True):
    """The serving side. ``model`` is the snapshot that it serves, of ``model_workload``."""

    service: ServiceId
    source_job: JobName
    backend: JobSpec
    restart: JobSpec
    model_workload: WorkloadId
    model: SnapshotId


class CanaryRules(msgspec.Struct, frozen=True):
    """The canary: percent at the target, and the evidence that each gate wants."""

    percents: tuple[int, ...] = (5, 25, 50, 100)
    min_traffic: int = 100
    min_samples: int = 5
    interval_s: float = 1.0
    gate_deadline_s: float = 120.0
    latency_ratio: float = 3.0
    """The target's mean latency may be this many times the source's."""


class Move(msgspec.Struct, frozen=True):
    """What is moved, and how carefully."""

    name: str
    source: SiteId
    target: SiteId
    training: TrainingMove
    service: ServiceMove
    canary: CanaryRules = CanaryRules()
    approvers: tuple[Person, ...] = ()
    step_deadline_s: float = 120.0
    drain_deadline_s: float = 60.0
    retry: Retry = Retry(attempts=3, backoff_s=0.5)


def move_runbook(move: Move) -> Runbook:
    """Bridgehead, pre-copy, canary with gates, cut-over of training, release of the source; everything undoable in reverse."""
    steps: list[Step] = [*_bridgehead(move), *_canary(move), *_cut_over(move), *_release_source(move)]
    description = f"Move {move.training.workload} and {move.service.service} from {move.source} to {move.target}"
    return Runbook(name=move.name, steps=tuple(steps), description=description)


def _step(move: Move, step_id: str, action: str, params: msgspec.Struct, *, needs: Sequence[str], title: str, keep: str = "") -> ActionStep:
    given = {key: value for key, value in msgspec.json.decode(msgspec.json.encode(params)).items() if value is not None}
    return ActionStep(
        id=StepId(step_id),
        action=action,
        params=given,
        deadline_s=move.drain_deadline_s if action == DrainTraffic.name else move.step_deadline_s,
        needs=tuple(StepId(need) for need in needs),
        retry=move.retry,
        undo=UndoPolicy.KEEP if keep else UndoPolicy.ACTION,
        undo_reason=keep,
        undo_deadline_s=move.step_deadline_s,
        title=title,
    )


def _bridgehead(move: Move) -> list[Step]:
    """The target holds the model and the state, and is warm; nothing has changed for users yet."""
    training, service, source, target = move.training, move.service, move.source, move.target
    model = ReplicateParams(service.model_workload, source, target, snapshot=service.model)
    backend = StartServiceParams(service.service, target, service.backend, like=source)
    copy = PrecopyParams(training.workload, source, target)
    standby = StandbyParams(training.workload, target, training.standby)
    return [
        _step(move, "copy-model", Replicate.name, model, needs=[], title=f"copy the served model to {target}", keep=COPIES_ARE_HARMLESS),
        _step(move, "warm-target", StartService.name, backend, needs=["copy-model"], title=f"start {service.service} at {target}, warm"),
        _step(
            move, "precopy", Precopy.name, copy, needs=[], title=f"pre-copy {training.workload} while it trains", keep=COPIES_ARE_HARMLESS
        ),
        _step(move, "standby", Standby.name, standby, needs=["precopy"], title=f"restore {training.workload} at {target}, in standby"),
    ]


def _canary(move: Move) -> list[Step]:
    steps: list[Step] = []
    before = "warm-target"
    for percent in move.canary.percents:
        shift, gate = f"shift-{percent}", f"gate-{percent}"
        weights = ShiftParams(move.service.service, {move.source: 100 - percent, move.target: percent})
        title = f"{percent} % of {move.service.service} to {move.target}"
        steps.append(_step(move, shift, ShiftTraffic.name, weights, needs=[before], title=title))
        steps.append(_gate(move, gate, shift, percent))
        before = gate
    return steps


def _gate(move: Move, step_id: str, need: str, percent: int) -> GateStep:
    """No wrong answer, no error, no cut stream; latency beside the source's while the source has traffic to compare with."""
    rules = move.canary
    never = [
        Criterion("wrong answers", "wrong_total", "requests_total", limit=0.0),
        Criterion("errors", "errors_total", "requests_total", limit=0.0),
    ]
    latency = Criterion("mean latency", "latency_seconds_sum", "latency_seconds_count", ratio_to_baseline=rules.latency_ratio)
    compared = percent < 100
    return GateStep(
        id=StepId(step_id),
        service=move.service.service,
        target=move.target,
        baseline=move.source if compared else None,
        criteria=(*never, latency) if compared else tuple(never),
        traffic="requests_total",
        min_traffic=rules.min_traffic,
        min_samples=rules.min_samples,
        interval_s=rules.interval_s,
        deadline_s=rules.gate_deadline_s,
        needs=(StepId(need),),
        title=f"gate at {percent} %",
    )


def _cut_over(move: Move) -> list[Step]:
    """Training stands still from ``hold`` to ``release``; everything that takes long is done before."""
    training, source, target = move.training, move.source, move.target
    hold, steps = StepId("hold"), []
    before = ["standby", f"gate-{move.canary.percents[-1]}"]
    if move.approvers:
        text = f"Cut {training.workload} over to {target}: training stands still until it is released there."
        needs = tuple(StepId(need) for need in before)
        steps.append(ApprovalStep(StepId("approve"), move.approvers, 4 * 3600.0, needs, text=text, title="approve the cut-over"))
        before = ["approve"]
    copy = PrecopyParams(training.workload, source, target)
    stop = HoldParams(
        training.workload,
        source,
        training.source_job,
        training.patience_s,
        training.on_silence,
        successor_site=target,
        successor=training.standby.name,
        restart=training.restart,
    )
    last = ReplicateParams(training.workload, source, target, of=hold)
    fence = FenceParams(training.workload, target, (source, target), of=hold)
    release = ReleaseParams(training.workload, source, training.source_job, target, training.standby.name, hold=hold)
    return [
        *steps,
        _step(
            move, "precopy-again", Precopy.name, copy, needs=before, title="pre-copy what was trained meanwhile", keep=COPIES_ARE_HARMLESS
        ),
        _step(move, "hold", Hold.name, stop, needs=["precopy-again"], title=f"final checkpoint at {source}, then hold"),
        _step(move, "final-copy", Replicate.name, last, needs=["hold"], title="copy the final checkpoint", keep=COPIES_ARE_HARMLESS),
        _step(move, "fence", RaiseFence.name, fence, needs=["hold", "final-copy"], title=f"fence: {target} is the writer from here on"),
        _step(move, "release", ReleaseTarget.name, release, needs=["fence", "hold", "standby"], title=f"training goes on at {target}"),
    ]


def _release_source(move: Move) -> list[Step]:
    service, training, source = move.service, move.training, move.source
    drain = DrainParams(service.service, source)
    stop_service = StopJobParams(source, service.source_job, service.restart, service.restart.grace_s)
    stop_training = StopJobParams(source, training.source_job, training.restart, training.restart.grace_s)
    last_gate = f"gate-{move.canary.percents[-1]}"
    return [
        _step(move, "drain", DrainTraffic.name, drain, needs=[last_gate, "release"], title=f"open streams at {source} come to their end"),
        _step(move, "stop-service", StopJob.name, stop_service, needs=["drain", "release"], title=f"stop {service.service} at {source}"),
        _step(move, "stop-training", StopJob.name, stop_training, needs=["release"], title=f"stop the held trainer at {source}"),
    ]
