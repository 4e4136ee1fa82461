"""VirtualFailover: a site is lost in a simulated world, its workloads go on at the other one, and come back. Sizes and faults by seed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from random import Random

import msgspec

from bridgehead.drivers.world import Calls
from bridgehead.kernel.ids import Epoch, JobName, ServiceId, SiteId, SnapshotId, WorkloadId
from bridgehead.kernel.streams import stream
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Deadlines, Protected, Ramp, Recovery, Role, SiteJob
from bridgehead.model.runbook import Runbook
from bridgehead.recovery.failover import Failover, failover_runbook
from bridgehead.recovery.moving import Move, move_runbook
from bridgehead.recovery.steps import Case
from bridgehead.simulate import faults as ft
from bridgehead.simulate.blueprint import BackendPlan, Blueprint, ServicePlan, StoredPlan, TrainerPlan
from bridgehead.simulate.fault_plan import MOVE_S, WRITES
from bridgehead.simulate.invariants import Violation, writers
from bridgehead.simulate.network import EDGE
from bridgehead.simulate.timeline import START_S
from bridgehead.simulate.vault import snapshot_id
from bridgehead.simulate.world import World
from bridgehead.testing.fault_verdicts import verdict_of
from bridgehead.testing.virtual_lab import ActionsOf, Finished, VirtualLab

OLD, NEW, WITNESS = SiteId("old"), SiteId("new"), SiteId("witness")
TRAIN, MODEL, LDAP, CHAT = WorkloadId("train"), WorkloadId("model"), WorkloadId("ldap"), WorkloadId("chat")
SERVICE = ServiceId("chat")
TRAINERS = {OLD: JobName("train-old"), NEW: JobName("train-new")}
BACKENDS = {OLD: JobName("chat-old"), NEW: JobName("chat-new")}
ZOMBIE = ("returned",)
"""Command of what comes back by itself."""


class FailoverScenario(msgspec.Struct, frozen=True):
    """A world, what is lost in it, and the runbooks that answer it. ``failback`` is played when the failover has ended."""

    seed: int
    blueprint: Blueprint
    failover: Runbook
    failback: Runbook
    faults: tuple[ft.Fault, ...]


def calm_loss(*, loss: ft.Fault | None = None) -> FailoverScenario:
    """Nothing but the loss of the site, for 15 s, with a zombie when it is back."""
    gone = loss or ft.SiteLoss(OLD, 0.0, 15.0, zombie=True)
    return _scenario(0, stream(0, "calm"), (gone,))


def lost_by(seed: int) -> FailoverScenario:
    """The scenario of a seed; always the same. The site is lost, or only cut off and computes on, and more goes wrong beside it."""
    dice = stream(seed, "loss")
    away_s = dice.uniform(2.0, 60.0)
    kind = dice.random()
    if kind < 0.4:
        faults: list[ft.Fault] = [ft.SiteLoss(OLD, 0.0, away_s, zombie=dice.random() < 0.7)]
    else:
        faults = [ft.CutOff(OLD, 0.0, away_s)]
    for _ in range(dice.choices((0, 1, 2), weights=(3, 4, 2))[0]):
        faults += _more(dice)
    return _scenario(seed, stream(seed, "sizes"), tuple(faults))


def _more(dice: Random) -> list[ft.Fault]:
    """Partitions that come and go, drivers that die, calls that are late, doubled or lost. A majority of voters is never lost for good."""
    match dice.randint(0, 6):
        case 0:
            return [ft.CutOff(WITNESS, dice.uniform(0.0, MOVE_S), dice.uniform(0.5, 20.0))]
        case 1:
            return [ft.CutOff(dice.choice((NEW, EDGE)), dice.uniform(0.0, MOVE_S), dice.uniform(0.5, 20.0))]
        case 2:
            zombie_s = dice.uniform(0.5, 30.0) if dice.random() < 0.5 else None
            return [ft.DieAtAppend(dice.randint(2, 120), dice.choice(tuple(ft.Side)), dice.uniform(0.1, 10.0), zombie_s)]
        case 3:
            return [ft.LateCall(_write(dice), dice.randint(1, 6), dice.uniform(0.1, 30.0), dice.uniform(0.1, 10.0))]
        case 4:
            return [ft.RepeatedCall(_write(dice), dice.randint(1, 6))]
        case 5:
            return [ft.FailAfter(_write(dice), dice.randint(1, 6))]
        case _:
            return [ft.DieInCall(_write(dice), dice.randint(1, 6), dice.choice(tuple(ft.Side)), dice.uniform(0.1, 10.0))]


def _write(dice: Random) -> str:
    return dice.choice((*WRITES, "vaults.cast", "vaults.cast", "vaults.fence"))


def _scenario(seed: int, dice: Random, faults: tuple[ft.Fault, ...]) -> FailoverScenario:
    blueprint = _blueprint(dice)
    recovery = protected()
    away = tuple(_case(one, OLD, NEW) for one in recovery.workloads)
    failover = failover_runbook(Failover("failover", recovery, OLD, away, START_S))
    home = tuple(_case(one, NEW, OLD) for one in recovery.workloads)
    failback = move_runbook(Move("failback", recovery, NEW, OLD, home, START_S, returned=True))
    return FailoverScenario(seed, blueprint, failover, failback, faults)


def protected() -> Recovery:
    """A directory service, a training that needs it, and a service with a model."""
    jobs = {site: f"ldap-{site}" for site in (OLD, NEW)}
    workloads = (
        Protected(
            LDAP, WorkloadKind.SERVICE, OLD, NEW, _jobs("ldap", {site: JobName(name) for site, name in jobs.items()}), role=Role.IDENTITY
        ),
        Protected(TRAIN, WorkloadKind.TRAINING, OLD, NEW, _jobs("train", TRAINERS), needs=(LDAP,), gpus=64, patience_s=10.0),
        Protected(CHAT, WorkloadKind.INFERENCE, OLD, NEW, _jobs("serve", BACKENDS), service=SERVICE, model=MODEL),
    )
    return Recovery(
        "virtual",
        (OLD, NEW),
        workloads,
        witness=WITNESS,
        ramp=Ramp(step=0.25, lost_step=0.5, every_s=0.5),
        deadlines=Deadlines(step_s=600.0, restore_s=600.0, copy_s=600.0, return_s=1200.0),
    )


def _jobs(command: str, names: dict[SiteId, JobName]) -> tuple[SiteJob, ...]:
    return tuple(SiteJob(site, (command,), name, grace_s=5.0) for site, name in names.items())


def _case(one: Protected, source: SiteId, target: SiteId) -> Case:
    return Case(one, source, target, model=snapshot_id(MODEL, 1, Epoch(0)) if one.id == CHAT else None)


def _blueprint(dice: Random) -> Blueprint:
    """The newest copy at the other site is some steps old; the link is fast enough for a pre-copy to catch up."""
    step_s, every = dice.uniform(0.05, 0.3), dice.randint(20, 60)
    copied = dice.randint(1, 1000) * every
    size_bytes = dice.randint(20_000_000, 200_000_000)
    trainer = TrainerPlan(
        OLD, TRAINERS[OLD], TRAIN, running=True, step_s=step_s, save_every_steps=every, save_s=dice.uniform(0.05, 0.4),
        load_s=dice.uniform(0.3, 2.0), snapshot_bytes=size_bytes, first_step=copied + dice.randint(0, every - 1),
    )  # fmt: skip
    there = msgspec.structs.replace(trainer, site=NEW, job=TRAINERS[NEW], running=False)
    rate_rps = dice.uniform(100, 500)
    backend = BackendPlan(OLD, BACKENDS[OLD], SERVICE, running=True, warm_s=dice.uniform(0.3, 3.0), capacity_rps=1.5 * rate_rps)
    backend_there = msgspec.structs.replace(backend, site=NEW, job=BACKENDS[NEW], running=False)
    weights = {OLD: 100, NEW: 0}
    service = ServicePlan(SERVICE, weights, rate_rps=rate_rps, lag_s=dice.uniform(0.02, 0.5), floor_rps=0.0)
    stored = [StoredPlan(site, MODEL, 1) for site in (OLD, NEW)]
    stored += [StoredPlan(site, TRAIN, copied, size_bytes=size_bytes) for site in (OLD, NEW)]
    return Blueprint(
        sites=(OLD, NEW, WITNESS),
        trainers=(trainer, there),
        backends=(backend, backend_there),
        services=(service,),
        stored=tuple(stored),
        jobs=((OLD, JobName("ldap-old")),),
        link_bps=size_bytes / (step_s * every * dice.uniform(0.05, 0.4)),
        voters=(OLD, NEW, WITNESS),
    )


class Recovered(msgspec.Struct, frozen=True):
    """A scenario after its end: the lab, both runs (the second None when it was not played), and all that was broken."""

    lab: VirtualLab
    failover: Finished
    failback: Finished | None
    violations: tuple[Violation, ...]


def play(
    scenario: FailoverScenario,
    *,
    actions_of: ActionsOf,
    back: bool,
    more: Sequence[ft.Fault] = (),
    calls: type[Calls] = Calls,
) -> Recovered:
    """Play the failover, and the failback when it has succeeded."""
    lab = VirtualLab(scenario.blueprint, scenario.failover, actions_of, faults=[*scenario.faults, *more], calls=calls)
    first = lab.run()
    second = lab.follow(scenario.failback) if back and verdict_of(first) == "done" else None
    return Recovered(lab, first, second, tuple(_broken(lab, first, second)))


def _broken(lab: VirtualLab, first: Finished, second: Finished | None) -> list[Violation]:
    found = list(lab.invariants.violations)
    world = lab.world
    texts: dict[str, list[str]] = {"ends": [], "writer": [], "zombie": [], "lineage": [], "once": []}
    for name, finished in (("failover", first), ("failback", second)):
        if finished is not None and verdict_of(finished) not in ("done", "rolled-back", "on-hold"):
            texts["ends"].append(f"the {name} is {verdict_of(finished)}")
    counting = [(trainer.plan.site, trainer.epoch) for trainer in writers(world)[TRAIN]]
    if verdict_of(first) == "done" and len(counting) != 1:
        texts["writer"].append(f"{len(counting)} trainers count at the end: {counting}")
    texts["zombie"] = _zombies(world)
    texts["lineage"] = _lineage(world)
    texts["once"] = _twice(world)
    return found + [Violation(world.now_s, rule, text) for rule, broken in texts.items() for text in broken]


def _zombies(world: World) -> list[str]:
    """What was saved behind a fence counts nowhere where the fence is known, and nobody went on from it (J05, J06)."""
    decided = world.decided(TRAIN)
    if decided is None:
        return []
    found: list[str] = []
    based = {one.based_on for one in world.history[TRAIN] if one.epoch > 0}
    promoted: set[SnapshotId] = {snapshot for vault in world.vaults.values() for f in vault.fences.get(TRAIN, ()) for snapshot in f.counts}
    for site, vault in world.vaults.items():
        newest = vault.fence_in_force(TRAIN)
        for held in vault.held.values():
            late = held.workload == TRAIN and held.epoch < decided.epoch and held.id not in promoted
            if late and newest is not None and newest.epoch == decided.epoch and vault.info(held).counts:
                found.append(f"{held.id} counts at {site} although nobody named it")
            if late and held.id in based:
                found.append(f"a trainer went on from {held.id}, which does not count")
    return found


def _lineage(world: World) -> list[str]:
    """In the lineage that counts no step is left out between one epoch and the next."""
    counted = [one for one in world.history[TRAIN] if one.uncounted_from is None or one.uncounted_from > one.first]
    counted.sort(key=lambda one: one.begun_s)
    found = []
    for earlier, later in pairwise(counted):
        last = later.first - 1 if earlier.last is None else earlier.last
        if later.first > last + 1:
            found.append(f"steps {last + 1} to {later.first - 1} were left out")
    return found


def _twice(world: World) -> list[str]:
    """No step of a run began a job twice: one execution for each key, but for what came back by itself."""
    found = []
    for (site, name), executions in world.jobs.items():
        asked = [job.key for job in executions if job.spec.command != ZOMBIE and job.key != "before"]
        if len(set(asked)) != len(asked):
            found.append(f"{name} at {site} was begun twice by the same step")
    return found
