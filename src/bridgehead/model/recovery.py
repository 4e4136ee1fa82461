"""Recovery file: what is protected, and how it is recovered when a site is lost (R2, R11, R14, R16; J08). Connections stand in the estate.

Files are read by ``model.recoveryfile``; ``app.recovery_files`` also holds them against their estate.
"""

from __future__ import annotations

import enum
from typing import Annotated

import msgspec

from bridgehead.kernel.ids import JobName, Person, ServiceId, SiteId, SnapshotId, WorkloadId
from bridgehead.kernel.quantity import Seconds, Share
from bridgehead.kernel.shape import Keyed, Ref
from bridgehead.model.estate import ObjectiveId, WorkloadKind
from bridgehead.model.fabric import AtLeastOne, Count

Positive = Annotated[Seconds, msgspec.Meta(gt=0)]
Portion = Annotated[Share, msgspec.Meta(gt=0, le=1)]
ProtectedRef = Annotated[WorkloadId, Ref(("protected workload",))]


class Pattern(enum.StrEnum):
    """How much of a workload stands ready at the other site (R11)."""

    ACTIVE_ACTIVE = "active-active"
    """Runs at both sites: recovery is a shift of traffic."""
    ACTIVE_PASSIVE = "active-passive"
    """A restored standby waits at the other site."""
    PILOT_LIGHT = "pilot-light"
    """Data and identity are there; everything else is started."""
    CLOUD_BURST = "cloud-burst"
    """Capacity is rented when it is needed."""
    CROSS_CLOUD = "cross-cloud"
    """As pilot-light, at another provider: formats and images differ."""


class Role(enum.StrEnum):
    """What a service is to the others. Recovery goes in this order where ``needs`` says nothing (R14)."""

    IDENTITY = "identity"
    DNS = "dns"
    STORAGE = "storage"
    REGISTRY = "registry"
    SCHEDULER = "scheduler"
    OTHER = "other"


class HookPoint(enum.StrEnum):
    """When a hook runs (R16)."""

    BEFORE_SNAPSHOT = "before-snapshot"
    AFTER_SNAPSHOT = "after-snapshot"
    """Runs whatever came of the snapshot."""
    BEFORE_RECOVERY = "before-recovery"
    AFTER_RECOVERY = "after-recovery"


class OnHookFailure(enum.StrEnum):
    """What a hook that fails or runs out of time means."""

    STOP = "stop"
    CONTINUE = "continue"


class Hook(msgspec.Struct, frozen=True):
    """A program that is run around a snapshot or a recovery.

    Attributes:
        id: its name, which is also that of the file with its output.
        at: when it runs.
        command: program and arguments; no shell in between.
        timeout_s: then it is ended and counts as failed.
        on_failure: whether what it stands around goes on.
        env: added to its environment.
    """

    id: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    at: HookPoint
    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    timeout_s: Positive = 60.0
    on_failure: OnHookFailure = OnHookFailure.STOP
    env: dict[str, str] = {}


class DatabaseEngine(enum.StrEnum):
    """Databases whose state is put on record with a snapshot (R16)."""

    POSTGRES = "postgres"
    SQLITE = "sqlite"


class Database(msgspec.Struct, frozen=True):
    """A database that belongs to the same point in time.

    Attributes:
        id: its name.
        engine: which.
        location: a file, or a connection string without a password (it comes from the environment).
        password: reference to it, ``secret://MOUNT/PATH#FIELD``, where the environment does not have it.
    """

    id: Annotated[str, msgspec.Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
    engine: DatabaseEngine
    location: str
    password: str = ""


class Capture(msgspec.Struct, frozen=True):
    """What else belongs to a point in time, as the controller's machine sees it (R10).

    Attributes:
        code: folder of the code; the git commit, its difference and the lock files are kept.
        data: folder of which a manifest is kept: the hash of each file.
        config: JSON or YAML file of seeds and hyperparameters.
        python: interpreter whose packages are listed.
    """

    code: str
    data: str = ""
    config: str = ""
    python: str = ""


class SiteJob(msgspec.Struct, frozen=True):
    """The job of a workload at one site. A trainer must know how to stand by (BRIDGEHEAD_STANDBY=1 is set for it).

    Attributes:
        site: where.
        name: of the job, as the site's scheduler calls it; without it, the workload's id.
        command: program and arguments; ``{snapshot}`` stands for the model that is served.
        env: added to the environment that the site gives every job.
        workdir: where it runs.
        grace_s: between the request to stop and the kill (J10).
    """

    site: SiteId
    command: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    name: JobName = JobName("")
    env: dict[str, str] = {}
    workdir: str = ""
    grace_s: Seconds = 30.0


class Protected(msgspec.Struct, frozen=True):
    """A workload, and how it is recovered.

    Attributes:
        id: of the workload, as vaults call it.
        kind: training, batch, inference or service.
        home: where it runs while nothing is wrong.
        refuge: where it is recovered.
        jobs: its job at each of both; an inference workload has one for each backend.
        pattern: how much of it stands ready.
        role: of a service.
        service: what answers requests with it, as the estate connects it.
        model: the vault's name of what it serves; an inference workload without it serves its own.
        snapshot: the very snapshot that it serves; without it, the newest verified one.
        needs: workloads that must work before it.
        priority: among those of one kind, a higher number is recovered earlier.
        gpus: that it uses, for what a loss costs.
        objective: id of its objective.
        data_class: the class of its data.
        datasets: data that must be where it runs.
        script: the batch script of its job at its home, from the recovery file's folder; a preflight maps it to the other site and proves
            that everything it needs is there.
        patience_s: how long its trainer has for the final checkpoint of a planned move.
        quiet_s: a trainer of a lost site whose scheduler cannot be asked is listened to for so long before it counts as silent; give twice
            the time between its reports, which is that of a step where steps are long.
        restore_bytes: how much is restored before it works, where that is known; it plans the streams.
        hooks: programs around its snapshots and its recovery.
        databases: that belong to its point in time.
        pause_s: how long they may stand still for it, all together.
        capture: code, data and configuration that belong to it.
    """

    id: WorkloadId
    kind: WorkloadKind
    home: SiteId
    refuge: SiteId
    jobs: Annotated[tuple[SiteJob, ...], Keyed("job", field="site")] = ()
    pattern: Pattern = Pattern.PILOT_LIGHT
    role: Role = Role.OTHER
    service: ServiceId | None = None
    model: WorkloadId | None = None
    snapshot: SnapshotId | None = None
    needs: tuple[ProtectedRef, ...] = ()
    priority: Count = 0
    gpus: Count = 0
    objective: ObjectiveId | None = None
    data_class: str = ""
    datasets: tuple[str, ...] = ()
    script: str = ""
    patience_s: Positive = 60.0
    quiet_s: Positive = 5.0
    restore_bytes: int | None = None
    hooks: Annotated[tuple[Hook, ...], Keyed("hook")] = ()
    databases: Annotated[tuple[Database, ...], Keyed("database")] = ()
    pause_s: Positive = 10.0
    capture: Capture | None = None

    @property
    def served(self) -> WorkloadId:
        """The vault's name of what it serves."""
        return self.model or self.id

    @property
    def computes(self) -> bool:
        """Whether it writes snapshots, so that a fence decides who may."""
        return self.kind in (WorkloadKind.TRAINING, WorkloadKind.BATCH)

    def job(self, site: SiteId) -> SiteJob:
        """Its job at ``site``, with its name. Readers have made sure that home and refuge have one. Raises KeyError otherwise."""
        for job in self.jobs:
            if job.site == site:
                return job if job.name else msgspec.structs.replace(job, name=JobName(self.id))
        raise KeyError(f"{self.id} has no job at {site}")


class Ramp(msgspec.Struct, frozen=True):
    """How fast traffic may rise at the recovery site, so that recovery does not cascade (R11).

    Attributes:
        step: share of all traffic by which it may rise at once while the other site still answers.
        lost_step: the same when the other site is lost: what is not sent fails.
        every_s: time between two rises.
        most_open: requests and streams that may be open at the recovery site; while there are more, nothing is added. Without it, no limit.
        errors: share of answers that may be errors since the last rise; above it nothing is added.
        patience_s: how long it may stand still on a limit before it fails.
    """

    step: Portion = 0.25
    lost_step: Portion = 0.5
    every_s: Positive = 5.0
    most_open: AtLeastOne | None = None
    errors: Annotated[Share, msgspec.Meta(ge=0, le=1)] = 0.05
    patience_s: Positive = 600.0


class Approvers(msgspec.Struct, frozen=True):
    """Who must agree before something irrevocable is done.

    Attributes:
        people: who may.
        quorum: how many of them must.
        answer_s: after this long without an answer it counts as refused (G06).
    """

    people: Annotated[tuple[Person, ...], msgspec.Meta(min_length=1)]
    quorum: AtLeastOne = 1
    answer_s: Positive = 3600.0


class Escalation(msgspec.Struct, frozen=True):
    """Who is called when nobody has answered, or the run stands still.

    Attributes:
        after_s: how long after the first call.
        people: who is called then.
    """

    after_s: Seconds
    people: Annotated[tuple[Person, ...], msgspec.Meta(min_length=1)]


class Deadlines(msgspec.Struct, frozen=True):
    """How long steps may take before they count as failed.

    Attributes:
        step_s: of most steps.
        restore_s: of steps that restore, or start and warm something.
        copy_s: of steps that move data.
        return_s: how long the lost site may stay away before the run asks a person.
    """

    step_s: Positive = 300.0
    restore_s: Positive = 3600.0
    copy_s: Positive = 86_400.0
    return_s: Positive = 30 * 86_400.0


class Drills(msgspec.Struct, frozen=True):
    """How recovery is practised (R13).

    Attributes:
        every_s: each workload's recovery is drilled at least so often.
        own: folders that jobs write to beside their vault and their orders; a bubble has its own of each.
    """

    every_s: Positive = 7 * 86_400.0
    own: tuple[str, ...] = ()


class Recovery(msgspec.Struct, frozen=True):
    """How an estate is recovered.

    Attributes:
        name: its name.
        sites: that protect each other.
        witness: a third site with nothing but a vault, whose word makes a majority when one of the two is lost; without it, nothing can be
            promoted while the other site's vault is out of reach.
        workloads: what is protected.
        archives: further sites with a vault that holds copies: what the recovery site lacks is fetched from there.
        objectives: the file with the objectives, from the recovery file's folder.
        mapping: the policy file that says what things are called at each site, from the recovery file's folder.
        approvers: who approves a failover, and the cut-over of a move; nobody is asked where there are none.
        escalation: who is called when nobody answers.
        ramp: how fast traffic may rise.
        streams: restores at once (R14).
        deadlines: of steps.
        drills: how often it is practised, and with which folders of its own.
    """

    name: str = msgspec.field(name="recovery")
    sites: Annotated[tuple[SiteId, ...], msgspec.Meta(min_length=2)]
    workloads: Annotated[tuple[Protected, ...], Keyed("protected workload")]
    witness: SiteId | None = None
    archives: tuple[SiteId, ...] = ()
    objectives: str = ""
    mapping: str = ""
    approvers: Approvers | None = None
    escalation: tuple[Escalation, ...] = ()
    ramp: Ramp = Ramp()
    streams: AtLeastOne = 8
    deadlines: Deadlines = Deadlines()
    drills: Drills = Drills()

    @property
    def voters(self) -> tuple[SiteId, ...]:
        """Whose vaults decide together who may write."""
        return (*self.sites, *([self.witness] if self.witness is not None else []))

    def workload(self, workload: WorkloadId) -> Protected:
        """The protected workload of that name. Raises KeyError."""
        for one in self.workloads:
            if one.id == workload:
                return one
        raise KeyError(workload)
