"""Workloads: the fewest GPUs, time to save, to restore and to lose; what stays behind (M5.2, M4, M13, P23; rules section 7)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from bridgehead.assess import asking
from bridgehead.assess.carriage import size_bytes
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.checkpoint_math import transfer_s
from bridgehead.assess.fleet import few, judged_nodes, shown
from bridgehead.assess.generations import fits
from bridgehead.assess.scope import Scope
from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Store
from bridgehead.model.estate import Service, Workload, WorkloadKind
from bridgehead.model.finding import Finding, Origin, Severity
from bridgehead.model.policy import Objective

_SAVE: Final = "measure one save and one restore of each workload under load"
_OBJECTIVE: Final = "give RPO and RTO of each workload (objectives of the policy)"
_GRACE: Final = "give the chain of grace periods of each workload (KillWait, terminationGracePeriodSeconds, preStop, signal lead)"
_MODELS: Final = "read the GPU model of each node (nvidia-smi -L)"

SAVES: Final = (WorkloadKind.TRAINING, WorkloadKind.BATCH)
"""Kinds of work that write checkpoints while they run."""


def ordered(scope: Scope, *kinds: WorkloadKind) -> list[Workload]:
    """Workloads of these kinds, by name."""
    return sorted((one for one in scope.workloads if one.kind in kinds), key=lambda one: one.id)


def objective_of(scope: Scope, workload: Workload) -> Objective | None:
    """What must hold for it after a disaster; None while nobody said."""
    return next((one for one in scope.policy.objectives if one.id == workload.objective), None)


def _store_of(scope: Scope, workload: Workload) -> tuple[str, Store] | None:
    for site in scope.sites:
        for store in site.stores:
            if site.id == workload.site and store.id == workload.store:
                return f"sites.{site.id}.stores.{store.id}", store
    return None


def save_s(case: Case, scope: Scope, workload: Workload) -> float | None:
    """Time of one save: measured, else bytes by the store's rate as a guess that can only fail (J10); None when neither is known."""
    if workload.save_s is not None:
        return case.take("save", workload.save_s, "s", f"workloads.{workload.id}.save", origin=Origin.MEASURED)
    size, store = size_bytes(case, workload), _store_of(scope, workload)
    if size is None or store is None or not store[1].write_bps:
        case.take("save", None, "s", f"workloads.{workload.id}.save")
        return None
    case.take("write", store[1].write_bps, "bit/s", f"{store[0]}.write", origin=Origin.MEASURED)
    least = transfer_s(size, rate_bps=store[1].write_bps)
    return case.guess("save", None, "s", f"workloads.{workload.id}.save", otherwise=least, because="bytes / rate of writing")


def _graces(scope: Scope) -> Iterator[Finding]:
    for workload in ordered(scope, *SAVES):
        case = Case(GRACE, f"workload:{workload.id}")
        saving = save_s(case, scope, workload)
        for grace in workload.graces:
            case.take(grace.id, grace.lasts_s, "s", f"workloads.{workload.id}.graces.{grace.id}")
        if not workload.graces:
            yield case.unknown("how long it may take to stop is not known", measurement=_GRACE)
            continue
        shortest = min(workload.graces, key=lambda one: (one.lasts_s, one.id))
        if saving is None:
            yield case.unknown(
                f"nobody measured a save; it has {shown(shortest.lasts_s, Dimension.DURATION)} to stop ({shortest.id})", measurement=_SAVE
            )
            continue
        text = f"a save takes {shown(saving, Dimension.DURATION)}, {shortest.id} allows {shown(shortest.lasts_s, Dimension.DURATION)}"
        remedy = f"raise {shortest.id}, or ask for the checkpoint before the drain"
        yield case.at_most(saving, shortest.lasts_s, "s", text, remedy=remedy, measurement=_SAVE)


def _restore(scope: Scope) -> Iterator[Finding]:
    for workload in ordered(scope, *WorkloadKind):
        case = Case(RESTORE, f"workload:{workload.id}")
        path = f"workloads.{workload.id}"
        restore = case.take("restore", workload.restore_s, "s", f"{path}.restore", origin=Origin.MEASURED)
        warm_up = case.take("warm-up", workload.warm_up_s, "s", f"{path}.warm_up", origin=Origin.MEASURED)
        objective = objective_of(scope, workload)
        limit = case.take("RTO", objective.rto_s if objective else None, "s", f"policy.objectives.{workload.objective or '?'}.rto")
        if limit is None:
            yield case.unknown("nobody said how soon it must work again", measurement=_OBJECTIVE)
            continue
        least = (restore or 0.0) + (warm_up or 0.0)
        text = f"restore and warm-up take {shown(least, Dimension.DURATION)}, its RTO is {shown(limit, Dimension.DURATION)}"
        remedy = "keep a restored standby warm, or restore from a faster store"
        if least <= limit and (restore is None or warm_up is None):
            yield case.unknown("its time to restore and warm up was not measured", measurement=_SAVE)
        else:
            yield case.at_most(least, limit, "s", text, remedy=remedy, measurement=_SAVE)


def _loss(scope: Scope) -> Iterator[Finding]:
    for workload in ordered(scope, *SAVES):
        case = Case(LOSS, f"workload:{workload.id}")
        every = case.take("interval", workload.checkpoint_every_s, "s", f"workloads.{workload.id}.checkpoint_every")
        saving = save_s(case, scope, workload)
        objective = objective_of(scope, workload)
        limit = case.take("RPO", objective.rpo_s if objective else None, "s", f"policy.objectives.{workload.objective or '?'}.rpo")
        if limit is None:
            yield case.unknown("nobody said how much work it may lose", measurement=_OBJECTIVE)
            continue
        most = (every or 0.0) + (saving or 0.0)
        if most <= limit and (every is None or saving is None):
            yield case.unknown(
                "its checkpoint interval or its time to save is not known", measurement=f"{_SAVE}; give the interval of checkpoints"
            )
            continue
        text = (
            f"interval and save let up to {shown(most, Dimension.DURATION)} of work be lost, its RPO is {shown(limit, Dimension.DURATION)}"
        )
        yield case.at_most(most, limit, "s", text, remedy="save more often", measurement=_SAVE)


def _minimum(scope: Scope) -> Iterator[Finding]:
    nodes = judged_nodes(scope)
    for workload in ordered(scope, *WorkloadKind):
        if not workload.gpus:
            continue
        case = Case(MINIMUM, f"workload:{workload.id}")
        case.take("model", workload.gpu_model or "any", "", f"workloads.{workload.id}.gpu_model")
        fewest = case.take("fewest GPUs", workload.min_gpus, "", f"workloads.{workload.id}.min_gpus")
        known = sum(one.node.gpus for one in nodes if one.node.gpu_model and fits(workload.gpu_model, one.node.gpu_model))
        vague = sum(one.node.gpus for one in nodes if not one.node.gpu_model)
        case.take("GPUs", known, "", f"sites.{scope.target.id}.nodes.*", origin=Origin.DERIVED)
        if fewest is None:
            ask = "say with how few GPUs each workload still makes sense (min_gpus)"
            yield case.unknown("nobody said with how few GPUs it still makes sense", measurement=ask)
        elif not nodes or known < fewest <= known + vague:
            yield case.unknown("the GPU models of the target are not all known", measurement=_MODELS)
        elif not workload.gpu_model and known >= fewest:
            yield case.unknown("nobody said which GPU model it needs", measurement=asking.GPU_MODEL)
        else:
            text = f"it needs at least {fewest} {workload.gpu_model or 'GPUs'}, the target has {known}"
            yield case.at_least(known, fewest, "", text, remedy="keep it at the source until enough GPUs are at the target")


def _dependencies(scope: Scope) -> Iterator[Finding]:
    if scope.source is None:
        return
    workloads: dict[str, Workload] = {one.id: one for one in scope.estate.workloads}
    services: dict[str, Service] = {one.id: one for one in scope.estate.services}
    movers: list[Workload | Service] = [*ordered(scope, *WorkloadKind)]
    movers += sorted((one for one in services.values() if scope.source.id in one.sites), key=lambda one: one.id)
    for mover in movers:
        if not mover.needs:
            continue
        kind = "workload" if isinstance(mover, Workload) else "service"
        case = Case(DEPENDENCIES, f"{kind}:{mover.id}")
        case.take("needs", ", ".join(sorted(mover.needs)), "", f"{kind}s.{mover.id}.needs")
        behind = [need for need in mover.needs if need in services and scope.target.id not in services[need].sites]
        homes = {site.id for site in scope.sites}
        elsewhere = [need for need in mover.needs if need in workloads and workloads[need].site not in homes]
        if behind:
            text = f"it needs {few(behind)}, which has no backend at {scope.target.id}"
            yield case.holds(False, text, remedy=f"give {few(behind)} a backend at {scope.target.id}, or move it first")
        elif elsewhere:
            ask = f"measure rate and delay from {scope.target.id} to what workloads need at other sites"
            yield case.unknown(f"it needs {few(elsewhere)}, which stays at another site", measurement=ask)
        else:
            yield case.holds(True, f"all that it needs is at {scope.target.id} in the end", remedy="")


def _seeds(scope: Scope) -> Iterable[Finding]:
    for workload in ordered(scope, WorkloadKind.TRAINING):
        case = Case(SEEDS, f"workload:{workload.id}")
        seeded = case.take("seeded", workload.seeded, "", f"workloads.{workload.id}.seeded")
        if seeded is None:
            ask = "ask the owner of each training job for its seeds and records"
            yield case.unknown("whether it can be repeated is not known", measurement=ask)
        else:
            text = (
                "its seeds and records are kept"
                if seeded
                else "it has no seeds or records, so nobody can prove that the move changed nothing"
            )
            yield case.holds(seeded, text, remedy="record seeds, versions and data order before the move")


GRACE = Check(
    "WL-GRACE",
    "Is there time for a last save before the kill?",
    ("M5.2", "M4"),
    "save <= shortest grace of the chain; unmeasured saves take bytes / rate of writing at least (J10)",
    _graces,
)
RESTORE = Check("WL-RESTORE", "Does it work again in time?", ("M5.2", "M4"), "restore + warm-up <= RTO (R2)", _restore)
LOSS = Check("WL-RPO", "Is no more work lost than allowed?", ("M5.2",), "interval + save <= RPO (R1)", _loss)
MINIMUM = Check(
    "WL-MINIMUM",
    "Has the target at least the GPUs with which it makes sense?",
    ("M5.2", "M13"),
    "GPUs of its model at the target >= min_gpus (M13)",
    _minimum,
)
DEPENDENCIES = Check(
    "WL-NEEDS",
    "Does nothing that it needs stay behind?",
    ("M5.2",),
    "each need moves too, or has a backend at the target (M5.2)",
    _dependencies,
)
SEEDS = Check("WL-SEEDS", "Can it be repeated?", ("P23",), "seeds and records are kept (P23)", _seeds, Severity.WARNING)
CHECKS = (GRACE, RESTORE, LOSS, MINIMUM, DEPENDENCIES, SEEDS)
