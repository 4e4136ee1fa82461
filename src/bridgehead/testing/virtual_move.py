"""VirtualMove: the standard move of one training workload and one service in a simulated world, its size and temper drawn from a seed."""

from __future__ import annotations

from random import Random

import msgspec

from bridgehead.kernel.ids import Epoch, JobName, Person, ServiceId, SiteId, WorkloadId
from bridgehead.kernel.streams import stream
from bridgehead.model.runbook import Retry, Runbook
from bridgehead.ports.scheduler import JobSpec
from bridgehead.recovery.actions.training import OnSilence
from bridgehead.recovery.runbooks import CanaryRules, Move, ServiceMove, TrainingMove, move_runbook
from bridgehead.simulate import faults as ft
from bridgehead.simulate.blueprint import BackendPlan, Blueprint, ServicePlan, StoredPlan, TrainerPlan
from bridgehead.simulate.fault_plan import Ground, draw_faults
from bridgehead.simulate.vault import snapshot_id

SOURCE, TARGET = SiteId("old"), SiteId("new")
TRAIN, MODEL, SERVICE = WorkloadId("train"), WorkloadId("model"), ServiceId("chat")
TRAINER_OLD, TRAINER_NEW = JobName("train-old"), JobName("train-new")
BACKEND_OLD, BACKEND_NEW = JobName("chat-old"), JobName("chat-new")
GROUND = Ground(source=SOURCE, target=TARGET, trainer=TRAINER_NEW, backend=BACKEND_NEW)


class Temper(msgspec.Struct, frozen=True):
    """What is special about a move."""

    trainer_ignores: bool = False
    on_silence: OnSilence = OnSilence.FAIL
    wrong_share: float = 0.0
    wrong_model: bool = False
    approval: bool = False


class Scenario(msgspec.Struct, frozen=True):
    """A world, a runbook, and what goes wrong."""

    seed: int
    temper: Temper
    blueprint: Blueprint
    runbook: Runbook
    faults: tuple[ft.Fault, ...]


def scenario(seed: int) -> Scenario:
    """The scenario of a seed; always the same."""
    temper = _temper(stream(seed, "temper"))
    blueprint, runbook = move_of(stream(seed, "sizes"), temper)
    return Scenario(seed, temper, blueprint, runbook, draw_faults(stream(seed, "faults"), GROUND))


def calm(temper: Temper | None = None) -> Scenario:
    """A move of ordinary size in which nothing goes wrong."""
    temper = temper or Temper()
    blueprint, runbook = move_of(stream(0, "calm"), temper)
    return Scenario(0, temper, blueprint, runbook, ())


def _temper(dice: Random) -> Temper:
    return Temper(
        trainer_ignores=dice.random() < 0.12,
        on_silence=OnSilence.LAST_VERIFIED if dice.random() < 0.5 else OnSilence.FAIL,
        wrong_share=dice.choice((0.01, 0.1, 1.0)) if dice.random() < 0.08 else 0.0,
        wrong_model=dice.random() < 0.04,
        approval=dice.random() < 0.2,
    )


def move_of(dice: Random, temper: Temper) -> tuple[Blueprint, Runbook]:
    """World and runbook of a move. The link is always fast enough for the pre-copy to catch up."""
    step_s, every = dice.uniform(0.05, 0.3), dice.randint(20, 60)
    snapshot_bytes = dice.randint(20_000_000, 400_000_000)
    trainer = TrainerPlan(
        site=SOURCE,
        job=TRAINER_OLD,
        workload=TRAIN,
        running=True,
        step_s=step_s,
        save_every_steps=every,
        save_s=dice.uniform(0.05, 0.4),
        load_s=dice.uniform(0.3, 2.0),
        ignores_orders=temper.trainer_ignores,
        snapshot_bytes=snapshot_bytes,
        first_step=dice.randint(0, 100_000),
    )
    there = msgspec.structs.replace(trainer, site=TARGET, job=TRAINER_NEW, running=False, ignores_orders=False)
    rate_rps = dice.uniform(100, 500)
    backend = BackendPlan(SOURCE, BACKEND_OLD, SERVICE, running=True, warm_s=dice.uniform(0.3, 4.0), capacity_rps=1.5 * rate_rps)
    model = "model-b" if temper.wrong_model else "model-a"
    backend_there = msgspec.structs.replace(
        backend, site=TARGET, job=BACKEND_NEW, running=False, wrong_share=temper.wrong_share, model=model
    )
    service = ServicePlan(
        SERVICE,
        {SOURCE: 100, TARGET: 0},
        rate_rps=rate_rps,
        lag_s=dice.uniform(0.02, 1.0),
        stream_s=dice.uniform(1.0, 5.0),
        floor_rps=1.2 * rate_rps,
    )
    blueprint = Blueprint(
        sites=(SOURCE, TARGET),
        trainers=(trainer, there),
        backends=(backend, backend_there),
        services=(service,),
        stored=(StoredPlan(SOURCE, MODEL, 1),),
        link_bps=snapshot_bytes / (step_s * every * dice.uniform(0.05, 0.4)),
    )
    return blueprint, move_runbook(_move(temper))


def _move(temper: Temper) -> Move:
    standby = {"BRIDGEHEAD_STANDBY": "1"}
    training = TrainingMove(
        workload=TRAIN,
        source_job=TRAINER_OLD,
        standby=JobSpec(name=TRAINER_NEW, command=("train",), env=standby, grace_s=5.0),
        restart=JobSpec(name=TRAINER_OLD, command=("train",), env=standby, grace_s=5.0),
        patience_s=4.0,
        on_silence=temper.on_silence,
    )
    service = ServiceMove(
        service=SERVICE,
        source_job=BACKEND_OLD,
        backend=JobSpec(name=BACKEND_NEW, command=("serve",), grace_s=5.0),
        restart=JobSpec(name=BACKEND_OLD, command=("serve",), grace_s=5.0),
        model_workload=MODEL,
        model=snapshot_id(MODEL, 1, Epoch(0)),
    )
    return Move(
        name="move",
        source=SOURCE,
        target=TARGET,
        training=training,
        service=service,
        canary=CanaryRules(min_traffic=20, min_samples=3, interval_s=0.5, gate_deadline_s=40.0),
        approvers=(Person("ann"),) if temper.approval else (),
        step_deadline_s=60.0,
        drain_deadline_s=30.0,
        retry=Retry(attempts=3, backoff_s=0.5),
    )
