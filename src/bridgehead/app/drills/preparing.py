"""Preparing: from a recovery file and its estate to the plan of a drill (R13)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from bridgehead.app.drills.isolation import PREFIXES, Isolation, Network, bubble_folder, has_own_network, ports_of, vaults_of
from bridgehead.app.runbook_files import read_text
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import SiteId, SnapshotId, WorkloadId
from bridgehead.kernel.phrase import nearest
from bridgehead.kernel.quantity import parse
from bridgehead.kernel.units import Dimension
from bridgehead.model.bubble import Bubble, BubbleFault, BubbleId, DamagedBlock, DeadNode, KillRestore, SiteDown, SlowLine, fault_name
from bridgehead.model.estate import Estate, WorkloadKind
from bridgehead.model.objective import CLASSES, OF_KIND, REGULATIONS, Bound, Need, Part, need_of
from bridgehead.model.objectivefile import Continuity, read_objectives
from bridgehead.model.recovery import Protected, Recovery
from bridgehead.recovery.drills.runbook import DrillCase, DrillPlan, Target

if TYPE_CHECKING:
    from bridgehead.ports.switchboard import Switchboard

FAULTS = "slow-line=RATE, damaged-block=WORKLOAD, kill-restore=WORKLOAD, dead-node=WORKLOAD or site-down"


class Asked(msgspec.Struct, frozen=True):
    """What the user asks for.

    Attributes:
        workloads: that are drilled; all of the site's when empty.
        site: whose recovery is played; without it, the refuge of the first workload.
        ask: ask the approvers of the recovery file before it begins.
    """

    name: str
    workloads: tuple[WorkloadId, ...] = ()
    site: SiteId | None = None
    faults: tuple[BubbleFault, ...] = ()
    network: Network = Network.AUTO
    ask: bool = False


class Prepared(msgspec.Struct, frozen=True):
    """A drill that can begin."""

    plan: DrillPlan
    isolation: Isolation
    workloads: tuple[Protected, ...]


class Here(msgspec.Struct, frozen=True):
    """What is there.

    Attributes:
        production: connections of the estate, with absolute paths.
        ports: the same, connected.
        drills: the home's folder of drills.
    """

    production: dict[str, Any]
    ports: Switchboard
    drills: Path


def needs_of_recovery(recovery: Recovery, file: Path, estate: Estate) -> dict[WorkloadId, Need]:
    """What must hold of each protected workload. Raises BAD_INPUT for an objectives file with faults."""
    said = Continuity(name="none", objectives=())
    if recovery.objectives:
        path = file.parent / recovery.objectives
        said = read_objectives(read_text(path, what="objectives"), file=str(path), estate=estate)
    by_id = {one.id: one for one in said.objectives}
    covered = {name: one for one in said.objectives for name in one.covers}
    classes, laws = (*said.classes, *CLASSES), (*said.regulations, *REGULATIONS)
    return {
        one.id: need_of(
            Part.WORKLOAD,
            one.id,
            by_id.get(one.objective) if one.objective is not None else covered.get(one.id),
            data_class=one.data_class or OF_KIND.get(one.kind, ""),
            classes=classes,
            regulations=laws,
        )
        for one in recovery.workloads
    }


def prepare(recovery: Recovery, needs: dict[WorkloadId, Need], asked: Asked, here: Here) -> Prepared:
    """The plan. Raises BAD_USAGE for workloads, sites or faults that do not fit the file."""
    chosen = _chosen(recovery, asked)
    site = asked.site or chosen[0].refuge
    own_network = has_own_network(here.production, site, asked.network)
    tag = os.urandom(2).hex()
    network = f"bh-{asked.name[:50]}-{tag}" if own_network else ""
    services = [one.service for one in chosen if one.service is not None]
    isolation = Isolation(
        tag,
        bubble_folder(here.production, site, name=asked.name, home=here.drills),
        site,
        here.production,
        network,
        ports_of(here.production, services, site, network=own_network),
        vaults_of(here.production, recovery, site),
        tuple(folder.rstrip("/") for folder in recovery.drills.own),
    )
    twice = any(isinstance(fault, SiteDown) for fault in asked.faults)
    drilled = {one.id for one in chosen}
    cases = tuple(_case(one, needs[one.id], isolation, drilled, here, twice=twice) for one in chosen)
    _check_faults(asked.faults, cases)
    jobs = tuple(job.name for case in cases for job in (case.job, case.again) if job is not None)
    people = recovery.approvers
    if asked.ask and people is None:
        raise _usage("--ask", "the recovery file names no approvers", "Add 'approvers' there, or drill without --ask.")
    plan = DrillPlan(
        asked.name,
        Bubble(BubbleId(asked.name), site, site, jobs, asked.faults, network),
        cases,
        approvers=people.people if people is not None and asked.ask else (),
        quorum=people.quorum if people is not None else 1,
        approval_expires_s=people.answer_s if people is not None else 3600.0,
        step_deadline_s=recovery.deadlines.restore_s,
    )
    return Prepared(plan, isolation, tuple(chosen))


def parse_fault(text: str) -> BubbleFault:
    """``slow-line=100 Mbps``, ``damaged-block=lm``, ``site-down``. Raises BAD_USAGE, BAD_QUANTITY."""
    kind, _, value = text.partition("=")
    match kind:
        case "slow-line" if value:
            return SlowLine(parse(value, Dimension.RATE))
        case "damaged-block" if value:
            return DamagedBlock(WorkloadId(value))
        case "dead-node" if value:
            return DeadNode(WorkloadId(value))
        case "kill-restore" if value:
            return KillRestore(WorkloadId(value))
        case "site-down" if not value:
            return SiteDown()
        case _:
            raise _usage(f"--fault {text}", "this is no fault", f"Give {FAULTS}.")


def _chosen(recovery: Recovery, asked: Asked) -> list[Protected]:
    known = {one.id: one for one in recovery.workloads}
    for name in asked.workloads:
        if name not in known:
            raise _usage(f"--workload {name}", "the recovery file does not protect it", nearest(name, list(known)))
    chosen = [known[name] for name in asked.workloads] or list(recovery.workloads)
    if not chosen:
        raise _usage(recovery.name, "the recovery file protects nothing", "Add workloads there.")
    site = asked.site or chosen[0].refuge
    if site not in recovery.sites:
        raise _usage(f"--site {site}", "it is none of the sites of the recovery file", nearest(site, recovery.sites))
    there = [one for one in chosen if (asked.site is not None or one.refuge == site) and any(job.site == site for job in one.jobs)]
    left_out = [one.id for one in chosen if one not in there]
    if asked.workloads and left_out:
        raise _usage(f"--workload {left_out[0]}", f"it is not recovered at {site}", "Drill it by itself, or name its site by --site.")
    if not there:
        raise _usage(f"--site {site}", "no workload is recovered there", "Name another site.")
    return there


def _case(one: Protected, need: Need, isolation: Isolation, drilled: set[WorkloadId], here: Here, *, twice: bool) -> DrillCase:
    stored = one.id if one.computes else one.served if one.kind is WorkloadKind.INFERENCE else None
    return DrillCase(
        workload=one.id,
        kind=one.kind,
        job=isolation.job(one),
        again=isolation.job(one, prefix=PREFIXES[1]) if twice else None,
        stored=stored,
        snapshot=_served(one, isolation.site, here.ports) if stored is not None and not one.computes else None,
        service=one.service if one.service in isolation.ports else None,
        needs=tuple(name for name in one.needs if name in drilled),
        priority=one.priority,
        gpus=one.gpus,
        rpo=_target(need.rpo) if stored is not None else None,
        rto=_target(need.rto),
    )


def _target(bound: Bound | None) -> Target | None:
    return None if bound is None else Target(bound.value_s, bound.source)


def _served(one: Protected, site: SiteId, ports: Switchboard) -> SnapshotId | None:
    """The snapshot that a recovery would serve: what the file says, else what is served at home now, where ``site`` holds it."""
    if one.snapshot is not None or one.service is None:
        return one.snapshot
    try:
        served = SnapshotId(ports.serving(one.service).health(one.service, one.home).snapshot)
        return served if served and ports.vaults.find(served, site=site) is not None else None
    except (PortError, BridgeheadError):
        return None


def _check_faults(faults: Sequence[BubbleFault], cases: Sequence[DrillCase]) -> None:
    names = [case.workload for case in cases]
    if len({fault_name(fault) for fault in faults}) < len(faults):
        raise _usage("--fault", "a fault is planned twice", "Plan each once.")
    struck = [fault.workload for fault in faults if isinstance(fault, DeadNode | KillRestore)]
    if len(set(struck)) < len(struck):
        raise _usage("--fault", "two faults end the job of one workload", "Plan one of them, and the other in another drill.")
    for fault in faults:
        if isinstance(fault, SlowLine | SiteDown):
            continue
        case = next((case for case in cases if case.workload == fault.workload), None)
        if case is None:
            raise _usage(f"--fault {fault_name(fault)}", "that workload is not drilled", nearest(fault.workload, names))
        if isinstance(fault, DamagedBlock) and (case.stored is None or case.snapshot is not None):
            raise _usage(
                f"--fault {fault_name(fault)}",
                "it is not restored from the newest snapshot of a row" if case.stored else "it keeps no snapshots",
                "Name a workload that is.",
            )


def _usage(subject: str, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_USAGE, tried="prepare a drill", subject=subject, happened=happened, remedy=remedy)
