"""VirtualPoints: points of a training and its two databases in the simulated world, with drivers that die and calls that fail (R16)."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.drivers.world.databases import WorldHooks
from bridgehead.kernel.ids import JobName, SiteId, WorkloadId
from bridgehead.kernel.streams import stream
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.point import points_of
from bridgehead.model.recovery import Capture, Database, DatabaseEngine, Hook, HookPoint, Protected, Recovery, SiteJob
from bridgehead.model.runbook import Runbook
from bridgehead.ports.training import TrainerState
from bridgehead.recovery.points import PointPlan, point_runbook
from bridgehead.simulate import faults as ft
from bridgehead.simulate.blueprint import Blueprint, TrainerPlan
from bridgehead.simulate.databases import Application
from bridgehead.testing.virtual_lab import ActionsOf, VirtualLab

A, B = SiteId("site-a"), SiteId("site-b")
TRAIN, TRAINER = WorkloadId("train"), JobName("train")
LEDGER, REGISTRY = "ledger-db", "registry-db"
PAUSE_S = 5.0
CALLS = ("databases.hold", "databases.release", "databases.copy", "databases.drop", "hooks.run", "vaults.keep", "training.request")


def runbook() -> Runbook:
    """Both databases, hooks on either side, code."""
    databases = (Database("ledger", DatabaseEngine.POSTGRES, LEDGER), Database("registry", DatabaseEngine.SQLITE, REGISTRY))
    hooks = (Hook("freeze", HookPoint.BEFORE_SNAPSHOT, ("freeze",)), Hook("thaw", HookPoint.AFTER_SNAPSHOT, ("thaw",)))
    jobs = tuple(SiteJob(site, ("train",)) for site in (A, B))
    one = Protected(TRAIN, WorkloadKind.TRAINING, A, B, jobs, hooks=hooks, databases=databases, pause_s=PAUSE_S, capture=Capture("code"))
    return point_runbook(PointPlan("point", Recovery("points", (A, B), (one,)), one, A, "points"))


class VirtualPoints(VirtualLab):
    """One point; ``broken`` says what is wrong after it."""

    def __init__(self, actions_of: ActionsOf, *, faults: Sequence[ft.Fault] = ()) -> None:
        trainer = TrainerPlan(A, TRAINER, TRAIN, running=True, save_every_steps=50, first_step=100)
        super().__init__(Blueprint(sites=(A, B), trainers=(trainer,)), runbook(), actions_of, faults=faults)
        self.application = Application((LEDGER, REGISTRY))
        self.world.databases.applications.append(self.application)

    def _resume(self) -> None:
        """Holds and pins are those of the process that took them."""
        if self._drivers:
            self.world.databases.lose_process(self.world.now_s)
        super()._resume()

    @property
    def hooks(self) -> WorldHooks:
        """What was begun."""
        assert isinstance(self.ports.hooks, WorldHooks)
        return self.ports.hooks

    def broken(self, *, done: bool) -> list[str]:
        """Promises that were not kept. ``done``: the run says that there is a point."""
        world, found = self.world, []
        points = [held for held in world.vaults[A].held.values() if held.workload == points_of(TRAIN)]
        if done and len(points) != 1:
            found.append(f"{len(points)} points")
        moments: dict[str, set[int]] = {}
        for copy, written in world.databases.pinned.items():
            moments.setdefault(copy.partition("/")[2], set()).add(written)
        found += [f"databases of one moment have {values} writes" for values in moments.values() if len(values) > 1]
        found += [f"{location} is held" for location in world.databases.held(world.now_s)]
        found += [f"{key} is pinned" for key in world.databases.holds]
        if "freeze" in self.hooks.begun and "thaw" not in self.hooks.begun:
            found.append("the application was made ready and never told to go on")
        job = world.newest(A, TRAINER)
        if job is None or job.trainer is None or job.trainer.report().state is not TrainerState.RUNNING:
            found.append("the trainer does not compute")
        before = world.databases.written(self.application, world.now_s)
        world.timeline.run_until(world.now_s + 1.0)
        if world.databases.written(self.application, world.now_s) <= before:
            found.append("the application does not write")
        return found


def faults_of(seed: int) -> list[ft.Fault]:
    """Up to three faults, drawn from the seed."""
    dice = stream(seed, "points")
    found: list[ft.Fault] = []
    for _ in range(dice.randint(1, 3)):
        call, nth = dice.choice(CALLS), dice.randint(1, 3)
        kind = dice.randrange(4)
        side = dice.choice(list(ft.Side))
        if kind == 0:
            found.append(ft.DieInCall(call, nth, side, resume_after_s=dice.choice([0.1, 3.0, 20.0])))
        elif kind == 1:
            found.append(ft.DieAtAppend(dice.randint(1, 40), side, resume_after_s=dice.choice([0.1, 3.0, 20.0])))
        elif kind == 2:
            found.append(ft.FailBefore(call, nth, dice.randint(1, 3)))
        else:
            found.append(ft.SlowCall(call, nth, dice.choice([0.5, PAUSE_S + 1.0])))
    return found
