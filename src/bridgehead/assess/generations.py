"""Generations: one GPU generation per job, nodes of one kind balanced (P1, P23)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import Placed, by_class, counted, few, judged_nodes, shown
from bridgehead.assess.scope import Scope
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.finding import Finding, Origin, Severity


def fits(wanted: str, model: str) -> bool:
    """Whether a GPU model is the one that a workload names: all words of the name occur in it, whatever the tool puts around them."""
    return set(wanted.casefold().replace("-", " ").split()) <= set(model.casefold().replace("-", " ").split())


def _jobs(scope: Scope) -> Iterator[Finding]:
    nodes = judged_nodes(scope)
    pool: Counter[str] = Counter()
    for placed in nodes:
        pool[placed.node.gpu_model] += placed.node.gpus
    pool = +pool
    for workload in sorted(scope.workloads, key=lambda one: one.id):
        if workload.kind is not WorkloadKind.TRAINING or not workload.gpus:
            continue
        case = Case(JOBS, f"workload:{workload.id}")
        case.take("GPUs", workload.gpus, "", f"workloads.{workload.id}.gpus")
        case.take("pool", counted(pool) if pool else None, "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
        if not pool or "" in pool:
            yield case.unknown(
                "the GPU models of the target are not all known", measurement="read the GPU model of each node (nvidia-smi -L)"
            )
            continue
        model = workload.gpu_model
        suited = {name: count for name, count in pool.items() if fits(model, name)} if model else dict(pool)
        most = max(suited.values(), default=0)
        text = f"it needs {workload.gpus} GPUs of one generation; the largest pool that suits it has {most}"
        if most < workload.gpus:
            yield case.at_least(
                most, workload.gpus, "", text, remedy="add nodes of one generation, or shrink the job; never mix generations"
            )
        elif not model:
            yield case.unknown(
                "it names no GPU model, so it might mix generations", measurement="say which GPU model each training job needs"
            )
        else:
            yield case.at_least(most, workload.gpus, "", text, remedy="")


def _features(placed: Placed) -> tuple[tuple[str, str | None], ...]:
    node = placed.node
    rates = sorted(nic.rate_bps for nic in node.nics)
    return (
        ("memory", None if node.memory_bytes is None else shown(node.memory_bytes, Dimension.SIZE)),
        ("adapters", f"{len(rates)} with {shown(sum(rates), Dimension.RATE)}" if rates else None),
        ("GPUs", str(node.gpus)),
    )


def _balance(scope: Scope) -> Iterator[Finding]:
    groups: defaultdict[str, dict[str, Placed]] = defaultdict(dict)
    for placed in judged_nodes(scope):
        if placed.node.gpus:
            groups[placed.node.gpu_model][placed.subject] = placed
    for model, group in sorted(groups.items()):
        for feature in ("memory", "adapters", "GPUs"):
            case = Case(BALANCE, scope.target.id, state=f"{feature} of {model or 'GPUs of unknown model'}")
            classes = by_class({subject: dict(_features(placed))[feature] for subject, placed in group.items()})
            known = {value: owners for value, owners in classes.items() if value is not None}
            case.take("nodes", len(group), "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
            if len(known) > 1:
                (usual, many), *others = known.items()
                odd = "; ".join(f"{value} at {few(owners)}" for value, owners in others)
                text = f"{feature}: {usual} at {len(many)} nodes, {odd}"
                yield case.holds(False, text, remedy="keep nodes that differ in a partition of their own (P1)")
            elif None in classes or not model or "" in groups:
                ask = "read GPU model, memory and adapters of each node (nvidia-smi -L, dmidecode, ibv_devinfo)"
                yield case.unknown(f"{feature}: not known at {few(classes.get(None, group))}", measurement=ask)
            else:
                yield case.holds(True, f"{feature}: {next(iter(known))} at all {len(group)} nodes", remedy="")


JOBS = Check(
    "GEN-JOB",
    "Does each training job fit into one GPU generation?",
    ("P1", "P23"),
    "largest pool of one GPU model that suits the job >= its GPUs (P1)",
    _jobs,
)
BALANCE = Check(
    "GEN-BALANCE",
    "Are nodes with the same GPU alike?",
    ("P1",),
    "memory, adapters and number of GPUs are equal at all nodes of one GPU model (P1)",
    _balance,
    Severity.WARNING,
)
CHECKS = (JOBS, BALANCE)
