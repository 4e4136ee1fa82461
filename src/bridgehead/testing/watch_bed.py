"""WatchBed: a small estate with two sites and a training job, as a scene for judgements and as files for whole watches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from bridgehead.kernel.ids import JobName, ServiceId, SiteId, SnapshotId, WorkloadId
from bridgehead.model.equipment import Node, NodeId
from bridgehead.model.estate import (
    Connection,
    Dataset,
    DatasetId,
    Estate,
    Grace,
    Link,
    LinkId,
    ObjectiveId,
    Service,
    Site,
    Workload,
    WorkloadKind,
)
from bridgehead.model.objective import Objective, needs_of
from bridgehead.ports.training import TrainerState
from bridgehead.recovery.watch.facts import (
    CopyPoint,
    DrillPoint,
    Facts,
    JobFacts,
    Point,
    ServiceFacts,
    Sighted,
    TrainerFacts,
    VaultFacts,
    at,
)
from bridgehead.recovery.watch.liveness import Limits, Look, Sight, SiteClock, SiteVerdict, advance, site_verdict
from bridgehead.recovery.watch.scene import Credential, Protected, Scene

A, B, LM = SiteId("site-a"), SiteId("site-b"), WorkloadId("lm")
NOW_S = 1_800_000_000.0
RPO_S, RTO_S = 7200.0, 14_400.0
FIRMWARE = {"driver": "550.54", "cuda": "12.4", "nccl": "2.21"}
STEP_S = 1.0
HOUR_S = 3600.0
CHAT, WITNESS, OBJECTIVE = WorkloadId("chat"), SiteId("witness"), ObjectiveId("training")


def point(step: int, *, age_s: float, site: SiteId = A) -> Point:
    """A snapshot of so many seconds ago."""
    return Point(SnapshotId(f"lm@{step}.0-{step:016x}"), step, 0, NOW_S - age_s, 40_000_000_000, site)


def estate(**changes: Any) -> Estate:
    """Two sites with eight H100 each, two lines, one training job."""
    work = Workload(
        id=LM,
        kind=WorkloadKind.TRAINING,
        site=A,
        gpus=8,
        gpu_model="H100",
        save_s=20.0,
        warm_up_s=30.0,
        graces=(Grace("slurm", 60.0),),
        objective=ObjectiveId("training"),
    )
    nodes = (Node(id=NodeId("gpu-1"), gpus=8, gpu_model="NVIDIA H100 80GB", firmware=FIRMWARE),)
    links = tuple(
        Link(id=LinkId(name), between=(A, B), rate_bps=1e11, carrier=carrier, path=(duct,), failover_s=0.4)
        for name, carrier, duct in (("north", "Nordlys", "duct-1"), ("south", "Arcnet", "duct-2"))
    )
    made = Estate(name="two", sites=(Site(id=A, nodes=nodes), Site(id=B, nodes=nodes)), links=links, workloads=(work,))
    return replace(made, **changes)


def alive(site: SiteId) -> SiteVerdict:
    """A site that answered this moment."""
    clock = advance(SiteClock(site), Look(site, NOW_S, life=("it answered",)), blind=False)
    return site_verdict(site, sights=[Sight("o", clock)], now_s=NOW_S, limits=Limits())


def facts(
    *, home: VaultFacts | None = None, refuge: VaultFacts | None = None, trainer: TrainerFacts | None = None, seen_s: float = NOW_S
) -> Facts:
    """What was seen at ``seen_s``; by default everything as it should be: saves every half hour, copied five minutes later."""
    points = tuple(point(9000 - 1800 * number, age_s=600 + 1800 * number) for number in range(4))
    copies = tuple(CopyPoint(one, one.created_s + 300) for one in points)
    drill = DrillPoint(points[0].id, NOW_S - 86_400, 40.0, True, "")
    there = VaultFacts(points=points, copies=copies, usable=4, drill=drill, bytes_per_s=1e9, speed_s=NOW_S - 86_400)
    runs = trainer or TrainerFacts(TrainerState.RUNNING, 9600, 0, NOW_S, NOW_S)
    vaults = {at(LM, A): home or VaultFacts(points=points, usable=4), at(LM, B): refuge or there}
    return Facts(
        vaults={key: Sighted(value, seen_s) for key, value in vaults.items()},
        trainers={at(LM, A): Sighted(runs, seen_s)},
    )


def scene(seen: Facts | None = None, *, of: Estate | None = None, **changes: Any) -> Scene:
    """A scene in which everything is green, but for the changes."""
    used = of or estate()
    objectives = (Objective(ObjectiveId("training"), rpo_s=RPO_S, rto_s=RTO_S),)
    protected = tuple(
        Protected(one, A, B, objective="training", rpo_s=RPO_S, rto_s=RTO_S, jobs={A: JobName(one.id), B: JobName(one.id)})
        for one in used.workloads
    )
    made = Scene(
        estate=used,
        protected=protected,
        needs=needs_of(used, objectives),
        facts=seen or facts(),
        verdicts={A: alive(A), B: alive(B)},
        now_s=NOW_S,
        declared_s=NOW_S - 1000,
    )
    return replace(made, **changes)


def dataset(name: str, site: SiteId = A) -> Dataset:
    """A data set of the estate."""
    return Dataset(id=DatasetId(name), site=site, size_bytes=10**12)


def full() -> Scene:
    """A scene with every kind of finding, all green: a training with data, a served model, a witness, a certificate."""
    base = estate()
    training = replace(base.workloads[0], datasets=("corpus",))
    serves = Workload(id=CHAT, kind=WorkloadKind.INFERENCE, site=A, gpu_model="H100", warm_up_s=30.0, priority=1, objective=OBJECTIVE)
    service = Service(id=ServiceId("chat"), sites=(A, B), workload=CHAT, serving=Connection("httpserving", {}), objective=OBJECTIVE)
    nodes = tuple(replace(node, gpus=16) for node in base.sites[0].nodes)
    sites = tuple(replace(site, nodes=nodes, connections=replace(site.connections, vault=Connection("localfs", {}))) for site in base.sites)
    whole = replace(base, sites=sites, workloads=(training, serves), services=(service,), datasets=(dataset("corpus"),))
    given = scene(of=replace(whole, workloads=(training,)), credentials=(Credential("/etc/x.pem", "vault", NOW_S + 90 * 86_400),))
    model = point(1, age_s=5 * HOUR_S)
    kept = VaultFacts(points=(model,), usable=1, epoch=1, holder=A)
    drill = DrillPoint(model.id, NOW_S - 86_400, 5.0, True, "")
    copied = replace(kept, copies=(CopyPoint(model, NOW_S - 4 * HOUR_S),), drill=drill, bytes_per_s=1e9, speed_s=NOW_S - 86_400)
    vaults = {at(CHAT, A): kept, at(CHAT, B): copied, at("corpus", B): copied}
    chat = Protected(serves, A, B, objective="training", rpo_s=RPO_S, rto_s=4 * HOUR_S, services=(service.id,))
    seen = given.facts
    seen = replace(
        seen,
        vaults={**seen.vaults, **{key: Sighted(value, NOW_S) for key, value in vaults.items()}},
        services={at("chat", site): Sighted(ServiceFacts(True, model.id), NOW_S) for site in (A, B)},
        traffic={"chat": Sighted({A: 50, B: 50}, NOW_S)},
        jobs={at("lm", A): Sighted(JobFacts("running"), NOW_S)},
        witness=Sighted(True, NOW_S),
    )
    needs = needs_of(whole, (Objective(OBJECTIVE, rpo_s=RPO_S, rto_s=4 * HOUR_S, covers=("corpus",)),))
    return replace(given, estate=whole, protected=(*given.protected, chat), needs=needs, facts=seen, witness=WITNESS)


def with_vault(given: Scene, workload: str, site: SiteId, **changes: Any) -> Scene:
    """It with another content of one vault."""
    key = at(workload, site)
    known = given.facts.vaults[key].value
    assert known is not None
    return replace(
        given,
        facts=replace(given.facts, vaults={**given.facts.vaults, key: Sighted(replace(known, **changes), NOW_S)}),
    )


def with_trainer(given: Scene, **changes: Any) -> Scene:
    """It with another report of the trainer."""
    known = given.facts.trainers[at(LM, A)].value
    assert known is not None
    return replace(given, facts=replace(given.facts, trainers={at(LM, A): Sighted(replace(known, **changes), NOW_S)}))


FILES = """estate: two
sites:
  site-a:
    nodes:
      gpu-1: {{gpus: 8, gpu_model: H100, firmware: {{driver: "550.54", cuda: "12.4", nccl: "2.21"}}}}
    connections:
      scheduler: {{driver: process, directory: {folder}/a/jobs}}
      training: {{driver: files, directory: {folder}/a/control}}
      vault: {{driver: localfs, directory: {folder}/a/vault}}
  site-b:
    nodes:
      gpu-1: {{gpus: 8, gpu_model: H100, firmware: {{driver: "550.54", cuda: "12.4", nccl: "2.21"}}}}
    connections:
      scheduler: {{driver: process, directory: {folder}/b/jobs}}
      training: {{driver: files, directory: {folder}/b/control}}
      vault: {{driver: localfs, directory: {folder}/b/vault}}
links:
  north: {{between: [site-a, site-b], rate: 100 Gbps, carrier: Nordlys, path: [duct-1], failover: 0.4 s}}
  south: {{between: [site-a, site-b], rate: 100 Gbps, carrier: Arcnet, path: [duct-2], failover: 0.4 s}}
workloads:
  lm:
    kind: training
    site: site-a
    gpus: 8
    gpu_model: H100
    save: 20 s
    warm_up: 30 s
    graces: {{slurm: {{lasts: 60 s}}}}
    objective: training
"""
POLICY = """policy: p
source: site-a
target: site-b
objectives:
  training: {rpo: 2 h, rto: 4 h}
"""


def write_files(folder: Path) -> tuple[Path, Path]:
    """Estate and policy of two sites in ``folder``, which must have ``a`` and ``b``; returns both paths."""
    estate_file, policy = folder / "estate.yaml", folder / "policy.yaml"
    estate_file.write_text(FILES.format(folder=folder), encoding="utf-8")
    policy.write_text(POLICY, encoding="utf-8")
    return estate_file, policy
