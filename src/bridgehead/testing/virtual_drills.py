"""VirtualDrills: drills in a row in one simulated world, beside a training and a service that go on meanwhile (R13)."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.kernel.ids import JobName, RunId, ServiceId, SiteId, WorkloadId
from bridgehead.kernel.streams import stream
from bridgehead.model.bubble import Bubble, BubbleFault, BubbleId, DamagedBlock, DeadNode, KillRestore, SiteDown, SlowLine
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.runbook import Runbook
from bridgehead.ports.scheduler import JobSpec
from bridgehead.recovery.drills.runbook import DrillCase, DrillPlan, Target, drill_runbook
from bridgehead.runbook.engine import open_run
from bridgehead.simulate import faults as ft
from bridgehead.simulate.blueprint import BackendPlan, Blueprint, ServicePlan, StoredPlan, TrainerPlan
from bridgehead.testing.virtual_lab import ActionsOf, Finished, VirtualLab

SITE, BUBBLE = SiteId("site-b"), SiteId("bubble")
TRAIN, MODEL, CHAT = WorkloadId("train"), WorkloadId("model"), ServiceId("chat")
TRAINER, DRILL_TRAINERS = JobName("train"), (JobName("drill-train"), JobName("drill2-train"))
SERVER, DRILL_SERVERS = JobName("chat"), (JobName("drill-chat"), JobName("drill2-chat"))
STANDBY = {"BRIDGEHEAD_STANDBY": "1"}


def blueprint() -> Blueprint:
    """A site that works, and an empty one that is the bubble's."""
    trainer = TrainerPlan(SITE, TRAINER, TRAIN, running=True, save_every_steps=50, first_step=100)
    in_bubble = [TrainerPlan(BUBBLE, job, TRAIN, running=False) for job in DRILL_TRAINERS]
    backend = BackendPlan(SITE, SERVER, CHAT, running=True)
    beside = [BackendPlan(BUBBLE, job, CHAT, running=False) for job in DRILL_SERVERS]
    return Blueprint(
        sites=(SITE, BUBBLE),
        trainers=(trainer, *in_bubble),
        backends=(backend, *beside),
        services=(ServicePlan(CHAT, {SITE: 100, BUBBLE: 0}),),
        stored=(StoredPlan(SITE, MODEL, 1), StoredPlan(SITE, MODEL, 2), StoredPlan(SITE, TRAIN, 50), StoredPlan(SITE, TRAIN, 100)),
    )


def drill_of(number: int) -> Runbook:
    """The drill of that number: its faults are drawn from it."""
    dice = stream(number, "drill")
    possible: list[BubbleFault] = [SlowLine(dice.uniform(1e8, 1e10)), DamagedBlock(TRAIN), DamagedBlock(MODEL), SiteDown()]
    possible += [dice.choice((DeadNode(workload), KillRestore(workload))) for workload in (TRAIN, MODEL)]
    faults = tuple(fault for fault in possible if dice.random() < 0.4)
    bubble = Bubble(BubbleId(f"drill-{number}"), BUBBLE, SITE, (*DRILL_TRAINERS, *DRILL_SERVERS), faults)
    trainers = [JobSpec(name=name, command=("train",), env=STANDBY) for name in DRILL_TRAINERS]
    servers = [JobSpec(name=name, command=("serve",)) for name in DRILL_SERVERS]
    training = DrillCase(TRAIN, WorkloadKind.TRAINING, trainers[0], TRAIN, priority=1, rpo=Target(60), rto=Target(600), again=trainers[1])
    chat = DrillCase(MODEL, WorkloadKind.INFERENCE, servers[0], MODEL, service=CHAT, rpo=Target(86_400), rto=Target(900), again=servers[1])
    return drill_runbook(DrillPlan(f"drill-{number}", bubble, (training, chat)))


class VirtualDrills(VirtualLab):
    """A lab in which one run after the other goes on in the same world."""

    def __init__(self, actions_of: ActionsOf, *, faults: Sequence[ft.Fault] = ()) -> None:
        super().__init__(blueprint(), drill_of(0), actions_of, faults=faults)

    def drill(self, number: int) -> Finished:
        """Play the drill of that number; the world goes on for a little after it."""
        if number:
            self._run, self._over_s, self._watched = RunId(f"drill-{number}"), None, 0
            open_run(self.journal, self._run, drill_of(number), estate={}, by="lab", at_s=self.world.now_s)
        return self.run()

    def leftovers(self) -> list[str]:
        """What a drill has left behind: jobs, objects, orders, open bubbles; and what it has changed outside of its bubble."""
        world = self.world
        found = [f"job {name}" for (site, name), jobs in world.jobs.items() if site == BUBBLE and jobs[-1].running]
        found += [f"object {held}" for held in world.vaults[BUBBLE].held]
        found += [f"fence of {workload}" for workload in world.vaults[BUBBLE].fences]
        found += [f"order to {job}" for job in world.desks[BUBBLE].orders]
        found += [f"bubble {bubble}" for bubble in world.bubbles.open]
        found += [f"fence at {SITE}" for _ in world.vaults[SITE].fences]
        found += [f"drill's snapshot {held.id} at {SITE}" for held in world.vaults[SITE].held.values() if held.written_by != SITE]
        if world.proxies[CHAT].in_force != {SITE: 100, BUBBLE: 0}:
            found.append(f"traffic {world.proxies[CHAT].in_force}")
        holder = self.journal.holder(self._run)
        found += [f"lease of {self._run} held by {holder.pid}"] if holder is not None else []
        return found
