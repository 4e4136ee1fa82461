"""World: sites with schedulers, trainers, backends and vaults, proxies in front, a network between; all in virtual time.

Drivers (``bridgehead.drivers.world``) show it through ports; faults and checks reach into it. The world knows nothing of runbooks.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bridgehead.kernel.errors import Conflict, NotFound, Permanent
from bridgehead.kernel.ids import Epoch, JobName, RunId, ServiceId, SiteId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobIdentity, JobSpec
from bridgehead.simulate.blueprint import BackendPlan, Blueprint, TrainerPlan
from bridgehead.simulate.bubbles import BubbleBook
from bridgehead.simulate.databases import DatabaseHall
from bridgehead.simulate.desk import Desk
from bridgehead.simulate.doors import Doors
from bridgehead.simulate.machines import MachineRoom
from bridgehead.simulate.network import Network
from bridgehead.simulate.proxy import BackendView, Proxy
from bridgehead.simulate.timeline import Timeline
from bridgehead.simulate.trainer import Stretch, Trainer
from bridgehead.simulate.vault import HeldSnapshot, SiteVault, snapshot_id

KILLED = 137
NOBODY = BackendView(up=False, warm=False, model="", wrong_share=0.0, capacity_rps=0.0)


class Job(msgspec.Struct):
    """One execution of a job."""

    spec: JobSpec
    key: str
    identity: JobIdentity
    running: bool = True
    exit_code: int | None = None
    ended_s: float | None = None
    trainer: Trainer | None = None
    backend: BackendPlan | None = None
    warm_from_s: float = 0.0
    waiting: bool = False
    """It has not begun: no node is open, or it is held."""
    died: bool = False
    """It was ended by a fault, and not because anyone asked."""


class Effect(msgspec.Struct, frozen=True):
    """Something was changed on behalf of a run: where, and by which driving epoch."""

    at_s: float
    place: str
    run: RunId
    epoch: Epoch


class World:
    """All that exists."""

    def __init__(self, blueprint: Blueprint, timeline: Timeline | None = None) -> None:
        self.blueprint = blueprint
        self.timeline = timeline or Timeline()
        self.network = Network(rate_bps=blueprint.link_bps)
        self.vaults = {site: SiteVault(site) for site in blueprint.sites}
        self.desks = {site: Desk() for site in blueprint.sites}
        self.bubbles = BubbleBook()
        self.rooms = {site: MachineRoom(self.timeline, plans, line_bps=blueprint.image_bps) for site, plans in blueprint.machines}
        self.databases = DatabaseHall()
        self.doors: dict[SiteId, Doors] = {}
        self.jobs: dict[tuple[SiteId, JobName], list[Job]] = {}
        self._training: dict[WorkloadId, list[list[Job]]] = {}
        self.history: dict[WorkloadId, list[Stretch]] = {plan.workload: [] for plan in blueprint.trainers}
        self.effects: list[Effect] = []
        self.seen_epochs: dict[tuple[str, RunId], Epoch] = {}
        self._trainer_plans = {(plan.site, plan.job): plan for plan in blueprint.trainers}
        self._backend_plans = {(plan.site, plan.job): plan for plan in blueprint.backends}
        self._serving: dict[tuple[ServiceId, SiteId], Job] = {}
        self.wall_ahead_s = 0.0
        self.on_fence: list[Callable[[SiteId, Fence], None]] = []
        self.proxies: dict[ServiceId, Proxy] = {}
        self._executions = 0
        for stored in blueprint.stored:
            identity = stored.snapshot or snapshot_id(stored.workload, stored.step, Epoch(0))
            size_bytes, now_s = stored.size_bytes, self.now_s
            held = HeldSnapshot(identity, stored.workload, stored.step, Epoch(0), stored.site, now_s, size_bytes, whole=True)
            self.vaults[stored.site].put(held)
        before = [(plan.site, plan.job) for plan in blueprint.trainers if plan.running]
        before += [(plan.site, plan.job) for plan in blueprint.backends if plan.running]
        for site, job in [*before, *blueprint.jobs]:
            self._begin(site, JobSpec(name=job, command=("before",)), "before", long_ago=True)
        self.proxies = {plan.service: Proxy(plan, self.timeline, self.backend) for plan in blueprint.services}

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return self.timeline.now_s

    # epochs of drivers (J13)

    def admit(self, place: str, stamp: Stamp) -> None:
        """The far side's own check: it has seen a newer epoch of this run, or takes note of this one. Raises Conflict."""
        seen = self.seen_epochs.get((place, stamp.run), Epoch(0))
        if stamp.epoch < seen:
            raise Conflict(f"epoch {stamp.epoch} is older than {seen}", tried="act for a run", subject=f"{place}, run {stamp.run}")
        self.seen_epochs[place, stamp.run] = stamp.epoch

    def note(self, place: str, stamp: Stamp) -> None:
        """Write down that an effect happened; independent of ``admit``, so that a check can compare."""
        self.effects.append(Effect(self.now_s, place, stamp.run, stamp.epoch))

    # jobs

    def newest(self, site: SiteId, name: JobName) -> Job | None:
        """The newest execution."""
        executions = self.jobs.get((site, name))
        return executions[-1] if executions else None

    def doors_of(self, site: SiteId) -> Doors:
        """What lets jobs begin at the site."""
        return self.doors.setdefault(site, Doors(site))

    def computes(self, site: SiteId) -> bool:
        """Whether any job runs there that has begun."""
        return any(where == site and one[-1].running and not one[-1].waiting for (where, _), one in self.jobs.items())

    def start(self, site: SiteId, spec: JobSpec, key: str) -> JobIdentity:
        """See ``Scheduler.start``."""
        executions = self.jobs.get((site, spec.name), [])
        for job in executions:
            if job.key == key:
                return job.identity
        if executions and executions[-1].running:
            raise Conflict(f"it runs already, started by {executions[-1].key}", tried="start a job", subject=f"{spec.name} at {site}")
        if spec.command[:1] == ("cannot-execute",):
            raise Permanent("no such program", tried="start a job", subject=f"{spec.name} at {site}")
        return self._begin(site, spec, key, long_ago=False).identity

    def stop(self, site: SiteId, name: JobName) -> None:
        """See ``Scheduler.stop``."""
        job = self._known(site, name)
        if not job.running or job.spec.command[:1] == ("ignores-stop",):
            return
        if job.waiting:
            self._ended(job, None)
        elif job.trainer is not None:
            job.trainer.ask_to_stop()
        else:
            delay_s = job.backend.stop_s if job.backend is not None else 0.1
            self.timeline.after(delay_s, lambda: self._ended(job, 0))

    def kill(self, site: SiteId, name: JobName, *, died: bool = False) -> bool:
        """See ``Scheduler.kill``; ``died`` when it is a fault. False when it had ended before."""
        job = self._known(site, name)
        if not job.running:
            return False
        job.died = died
        if job.trainer is not None:
            job.trainer.die()
        self._ended(job, KILLED)
        return True

    def fence(self, site: SiteId, fence: Fence) -> Fence:
        """See ``Vaults.fence``; notes from which step on the trainers of the site no longer count. Raises Conflict."""
        vault = self.vaults[site]
        before = vault.fence_in_force(fence.workload)
        recorded = vault.open_fence(fence)
        if vault.fence_in_force(fence.workload) == before:
            return recorded
        decided = self.decided(fence.workload)
        for trainer in self.trainers(fence.workload):
            stretch = trainer.stretch
            if self.blueprint.voters:
                closed = decided is not None and trainer.epoch < decided.epoch
            else:
                closed = trainer.plan.site == site and trainer.epoch != fence.epoch
            if stretch is not None and stretch.uncounted_from is None and closed:
                stretch.uncounted_from = trainer.step_at(self.now_s) + 1
        for told in self.on_fence:
            told(site, fence)
        return recorded

    def decided(self, workload: WorkloadId) -> Fence | None:
        """The newest fence that a majority of the voters has recorded; None before the first, or where there are no voters."""
        voters = self.blueprint.voters
        recorded = [fence for voter in voters for fence in self.vaults[voter].fences.get(workload, ())]
        kept = [fence for fence in recorded if recorded.count(fence) > len(voters) // 2]
        return max(kept, key=lambda fence: fence.epoch, default=None)

    def lose(self, site: SiteId) -> None:
        """Everything at ``site`` dies, and nobody reaches it any more."""
        for (where, name), executions in list(self.jobs.items()):
            if where == site and executions[-1].running:
                self.kill(site, name, died=True)
        self.network.cut_off(site)

    def revive(self, site: SiteId) -> None:
        """The trainers that computed at ``site`` in the beginning compute again where they were, under their own names, and obey nobody."""
        for plan in self.blueprint.trainers:
            newest = self.newest(site, plan.job)
            if plan.site != site or not plan.running or (newest is not None and newest.running):
                continue
            last = max(
                (one.last for one in self.history[plan.workload] if one.last is not None and one.epoch == 0), default=plan.first_step
            )
            self._trainer_plans[site, plan.job] = msgspec.structs.replace(plan, ignores_orders=True, first_step=last)
            job = self._begin(site, JobSpec(name=plan.job, command=("returned",)), f"returned/{self._executions}", long_ago=True)
            self._trainer_plans[site, plan.job] = plan
            if self.decided(plan.workload) is not None and job.trainer is not None and job.trainer.stretch is not None:
                job.trainer.stretch.uncounted_from = job.trainer.stretch.first

    def bring_back(self, site: SiteId, workload: WorkloadId, *, for_s: float) -> bool:
        """The trainer that computed at ``site`` in the beginning is back beside everything else, obeys nobody, and saves in epoch 0
        for a while (J05, J06). False when none computed there."""
        plan = next((plan for plan in self.blueprint.trainers if plan.site == site and plan.workload == workload and plan.running), None)
        if plan is None:
            return False
        steps = [stretch.last for stretch in self.history[workload] if stretch.last is not None and stretch.epoch == 0]
        name = JobName(f"{plan.job}-returned-{len(self.jobs)}")
        self._trainer_plans[site, name] = msgspec.structs.replace(
            plan, job=name, ignores_orders=True, first_step=max(steps, default=plan.first_step)
        )
        job = self._begin(site, JobSpec(name=name, command=("returned",)), f"returned/{name}", long_ago=True)
        assert job.trainer is not None
        assert job.trainer.stretch is not None
        if not self.vaults[site].counts(workload, Epoch(0)):
            job.trainer.stretch.uncounted_from = job.trainer.stretch.first

        def leave() -> None:
            self.kill(site, name, died=True)

        self.timeline.after(for_s, leave)
        return True

    def set_wall_clock(self, by_s: float) -> None:
        """The wall clock of the controller's machine jumps; whoever runs already follows its monotonic clock and does not see it."""
        self.wall_ahead_s += by_s

    def trainers(self, workload: WorkloadId) -> list[Trainer]:
        """All living trainers of a workload."""
        return [
            executions[-1].trainer
            for executions in self._training.get(workload, ())
            if executions[-1].trainer is not None and executions[-1].running
        ]

    def backend(self, service: ServiceId, site: SiteId) -> BackendView:
        """The backend as requests find it."""
        job = self._serving.get((service, site))
        if job is None or job.backend is None:
            return NOBODY
        plan, warm = job.backend, self.now_s >= job.warm_from_s
        return BackendView(
            up=job.running,
            warm=warm,
            model=plan.model if warm else "",
            wrong_share=plan.wrong_share,
            capacity_rps=plan.capacity_rps,
            snapshot=plan.snapshot if warm else "",
            died=job.died,
        )

    def _known(self, site: SiteId, name: JobName) -> Job:
        job = self.newest(site, name)
        if job is None:
            raise NotFound("no such job was ever started", tried="end a job", subject=f"{name} at {site}")
        return job

    def _begin(self, site: SiteId, spec: JobSpec, key: str, *, long_ago: bool) -> Job:
        self._executions += 1
        identity = JobIdentity(site, spec.name, f"sim-{self._executions}", self.now_s)
        job = Job(spec, key, identity)
        self.jobs.setdefault((site, spec.name), []).append(job)
        job.waiting = not (long_ago or self.doors_of(site).enter(identity.native_id, spec.name, lambda: self._run(job, long_ago=False)))
        if not job.waiting:
            self._run(job, long_ago=long_ago)
        return job

    def _run(self, job: Job, *, long_ago: bool) -> None:
        job.waiting = False
        site, spec = job.identity.site, job.spec
        executions = self.jobs[site, spec.name]
        trainer, backend = self._trainer_plans.get((site, spec.name)), self._backend_plans.get((site, spec.name))
        if trainer is not None:
            together = self._training.setdefault(trainer.workload, [])
            if executions not in together:
                together.append(executions)
            self._begin_training(job, trainer, long_ago=long_ago)
        elif backend is not None:
            self._begin_serving(job, backend, long_ago=long_ago)
        elif spec.command[:1] == ("exits",):
            self.timeline.after(0.01, lambda: self._ended(job, int(spec.command[1])))

    def _begin_serving(self, job: Job, plan: BackendPlan, *, long_ago: bool) -> None:
        job.backend = plan
        job.warm_from_s = self.now_s + (0.0 if long_ago else plan.warm_s)
        for proxy in self.proxies.values():
            proxy.settle()
        self._serving[plan.service, plan.site] = job

    def add_backend(self, plan: BackendPlan) -> None:
        """One more backend, or another in the place of one; warm ``warm_s`` from now."""
        self._backend_plans[plan.site, plan.job] = plan
        self._begin(plan.site, JobSpec(name=plan.job, command=("added",)), f"added/{self._executions}", long_ago=False)

    def _begin_training(self, job: Job, plan: TrainerPlan, *, long_ago: bool) -> None:
        job.trainer = Trainer(
            plan,
            timeline=self.timeline,
            vault=self.vaults[plan.site],
            desk=self.desks[plan.site],
            standby=not long_ago and job.spec.env.get("BRIDGEHEAD_STANDBY", "0") == "1",
            epoch=Epoch(int(job.spec.env.get("BRIDGEHEAD_EPOCH", "0"))),
            history=self.history[plan.workload],
            ended=lambda code: self._ended(job, code),
        )
        if long_ago:
            job.trainer.start_running()
        else:
            job.trainer.start()

    def _ended(self, job: Job, code: int | None) -> None:
        if not job.running:
            return
        if job.waiting:
            self.doors_of(job.identity.site).leave(job.identity.native_id)
            job.waiting = False
        if job.backend is not None:
            proxy = self.proxies[job.backend.service]
            proxy.settle()
            if not job.died and not proxy.forgotten:
                proxy.streams_cut += proxy.open_streams(job.identity.site)
        job.running, job.exit_code, job.ended_s = False, code, self.now_s
