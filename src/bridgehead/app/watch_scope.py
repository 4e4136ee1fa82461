"""Scope of a watch: what of an estate is watched, by which objectives and recovery file (R1, R2, R11)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app.recovery_files import load_recovery
from bridgehead.app.runbook_files import read_text
from bridgehead.app.wiring import driver_options
from bridgehead.kernel.ids import JobName, ServiceId, SiteId, WorkloadId
from bridgehead.model.estate import Estate, Workload, WorkloadKind
from bridgehead.model.estatefile import read_estate
from bridgehead.model.objective import CLASSES, OF_KIND, REGULATIONS, Need, Objective, Part, need_of, needs_of
from bridgehead.model.objectivefile import Continuity, read_objectives
from bridgehead.model.policy import read_policy
from bridgehead.model.recovery import Drills, Recovery
from bridgehead.recovery.watch.scene import Protected


class WatchScope(msgspec.Struct, frozen=True):
    """What is watched.

    Attributes:
        defaults: whether the numbers of a kind's class are accepted where nobody gave an objective.
        connections: as the estate gives them.
        witness: a site with nothing but a vault, where observers meet; None: they meet in the home folder.
        declared_s: when the newest of the files was written.
        drill_every_s: how often a recovery is to be practised.
        files: that it was read from.
    """

    estate: Estate
    protected: tuple[Protected, ...]
    needs: tuple[Need, ...]
    defaults: bool
    connections: Mapping[str, Any]
    witness: SiteId | None
    declared_s: float
    drill_every_s: float = Drills().every_s
    files: tuple[Path, ...] = ()


class ScopeFiles(msgspec.Struct, frozen=True):
    """The files that say what is watched.

    Attributes:
        recovery: the recovery file; without it each workload is recovered at the other site, when there are two.
        objectives: the objectives file; without it the one that the recovery file names.
        policy: gives objectives where there is no file of them.
    """

    estate: Path
    recovery: Path | None = None
    objectives: Path | None = None
    policy: Path | None = None

    def stamp(self, scope: WatchScope) -> tuple[tuple[int, int], ...]:
        """Differs when one of the files that ``scope`` was read from has changed, or is gone."""
        return tuple(_stamp(file) for file in scope.files)


def _stamp(file: Path) -> tuple[int, int]:
    try:
        found = file.stat()
    except OSError:
        return 0, 0
    return found.st_mtime_ns, found.st_size


def read_scope(given: ScopeFiles) -> WatchScope:
    """Read the files. Raises BAD_INPUT with every fault."""
    estate, recovery, objectives, policy = given.estate, given.recovery, given.objectives, given.policy
    found = read_estate(read_text(estate, what="estate"), file=str(estate), drivers=driver_options())
    plan = None if recovery is None else load_recovery(recovery, estate=found)
    if objectives is None and recovery is not None and plan is not None and plan.objectives:
        objectives = recovery.parent / plan.objectives
    said = _said(found, objectives, policy)
    needs = needs_of(found, said.objectives, classes=said.classes, regulations=said.regulations)
    files = tuple(file for file in (estate, recovery, objectives, policy) if file is not None)
    return WatchScope(
        estate=found,
        protected=_protected(found, plan, needs, said),
        needs=needs,
        defaults=said.accept_defaults,
        connections=found.connections(),
        witness=plan.witness if plan is not None else None,
        declared_s=max(file.stat().st_mtime for file in files),
        drill_every_s=plan.drills.every_s if plan is not None else Drills().every_s,
        files=files,
    )


def _said(estate: Estate, objectives: Path | None, policy: Path | None) -> Continuity:
    if objectives is not None:
        return read_objectives(read_text(objectives, what="objectives file"), file=str(objectives), estate=estate)
    if policy is None:
        return Continuity(name="none", objectives=())
    rules = read_policy(read_text(policy, what="policy"), file=str(policy))
    return Continuity(name=rules.name, objectives=tuple(Objective(one.id, rpo_s=one.rpo_s, rto_s=one.rto_s) for one in rules.objectives))


def _protected(estate: Estate, plan: Recovery | None, needs: tuple[Need, ...], said: Continuity) -> tuple[Protected, ...]:
    """Of the recovery file, then what of the estate it leaves out."""
    by_id = {need.id: need for need in needs if need.part is Part.WORKLOAD}
    planned = {} if plan is None else {one.id: _planned(estate, plan, one.id, by_id, said) for one in plan.workloads}
    rest = [_unplanned(estate, one, by_id[one.id], alone=plan is not None) for one in estate.workloads if one.id not in planned]
    return (*planned.values(), *rest)


def _planned(estate: Estate, plan: Recovery, name: WorkloadId, needs: Mapping[str, Need], said: Continuity) -> Protected:
    one = plan.workload(name)
    declared = next((work for work in estate.workloads if work.id == name), None)
    work = declared or Workload(id=name, kind=one.kind, site=one.home, priority=one.priority, objective=one.objective)
    changes: dict[str, Any] = {"gpus": one.gpus or work.gpus, "priority": one.priority or work.priority}
    if one.datasets:
        changes["datasets"] = one.datasets
    work = msgspec.structs.replace(work, **changes)
    need = needs.get(name)
    if one.objective is not None or need is None:
        own = next((objective for objective in said.objectives if objective.id == one.objective), None)
        classes, laws = (*said.classes, *CLASSES), (*said.regulations, *REGULATIONS)
        kind = one.data_class or work.data_class or OF_KIND.get(one.kind, "")
        need = need_of(Part.WORKLOAD, name, own, data_class=kind, classes=classes, regulations=laws)
    return Protected(
        workload=work,
        home=one.home,
        refuge=one.refuge,
        objective=need.objective.id if need.objective is not None else "",
        rpo_s=need.rpo.value_s if need.rpo is not None else None,
        rto_s=need.rto.value_s if need.rto is not None else None,
        pattern=one.pattern.value,
        jobs={str(job.site): job.name or JobName(name) for job in one.jobs},
        services=(one.service,) if one.service is not None else (),
        served=one.served,
    )


def _unplanned(estate: Estate, work: Workload, need: Need, *, alone: bool) -> Protected:
    """Nobody planned it: with two sites, and no recovery file at all, it would go to the other one."""
    others = [site.id for site in estate.sites if site.id != work.site]
    jobs = {str(site): JobName(work.id) for site in (work.site, *others)} if work.kind is not WorkloadKind.SERVICE else {}
    services: tuple[ServiceId, ...] = tuple(service.id for service in estate.services if service.workload == work.id)
    return Protected(
        workload=work,
        home=work.site,
        refuge=others[0] if len(others) == 1 and not alone else None,
        objective=need.objective.id if need.objective is not None else "",
        rpo_s=need.rpo.value_s if need.rpo is not None else None,
        rto_s=need.rto.value_s if need.rto is not None else None,
        jobs=jobs,
        services=services,
    )
