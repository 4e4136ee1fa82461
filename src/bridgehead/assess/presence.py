"""Presence: whether there is anything to judge. Nothing described is nothing known, and passes nowhere (M5.1, M5.2; design rule 1)."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import counting, few
from bridgehead.assess.scope import Scope
from bridgehead.model.finding import Finding, Origin, Severity

DESCRIBE_NODES = "describe the nodes of each site (bridgehead collect and discover)"
DESCRIBE_WORK = "list what runs at the source (squeue, kubectl get pods, and the owners)"


def _nodes(scope: Scope) -> Iterator[Finding]:
    for site in scope.sites:
        case = Case(NODES, site.id)
        count = len(site.nodes) + (len(scope.incoming) if site is scope.target else 0)
        case.take("nodes", count, "", f"sites.{site.id}.nodes", origin=Origin.DERIVED)
        if count:
            yield case.holds(True, f"{site.id} has {counting(count, 'node')} to judge", remedy="", value=count)
        else:
            yield case.unknown(f"no node of {site.id} is described, so that nothing can be said of it", measurement=DESCRIBE_NODES)


def _workloads(scope: Scope) -> Iterator[Finding]:
    if scope.source is None:
        return
    case = Case(WORKLOADS, scope.source.id)
    count = sum(workload.site == scope.source.id for workload in scope.estate.workloads)
    case.take("workloads", count, "", "workloads", origin=Origin.DERIVED)
    if count:
        yield case.holds(
            True, f"{counting(count, 'workload')} at {scope.source.id} {'has' if count == 1 else 'have'} to go over", remedy="", value=count
        )
    else:
        yield case.unknown(
            f"no workload at {scope.source.id} is described, so that nobody knows what has to go over", measurement=DESCRIBE_WORK
        )


def _elsewhere(scope: Scope) -> Iterator[Finding]:
    judged = {site.id for site in scope.sites}
    for site in scope.estate.sites:
        runs: list[str] = [one.id for one in scope.estate.workloads if one.site == site.id]
        runs += [one.id for one in scope.estate.services if site.id in one.sites]
        if site.id in judged or not runs:
            continue
        case = Case(ELSEWHERE, site.id)
        case.take("runs there", few(runs), "", "workloads", origin=Origin.DERIVED)
        described = bool(site.nodes or site.racks)
        case.take("equipment described", described, "", f"sites.{site.id}", origin=Origin.DERIVED)
        if described:
            yield case.holds(True, f"{few(runs)} at {site.id} stays there, and the site is described", remedy="")
        else:
            text = f"{few(runs)} runs at {site.id}, of which nobody described anything: a shadow cloud is in no plan, backup or budget"
            yield case.holds(False, text, remedy="find its owner and what depends on it; describe the site, or bring the work home")


ELSEWHERE = Check(
    "EST-SHADOW",
    "Does nothing run at a site of which nobody knows anything?",
    ("P23",),
    "each site with workloads or services has nodes or racks (P23: shadow clouds)",
    _elsewhere,
    Severity.WARNING,
)
NODES = Check("EST-NODES", "Are there nodes to judge?", ("M5.1",), "nodes of the site, and those that come, > 0 (M5.1)", _nodes)
WORKLOADS = Check("EST-WORKLOADS", "Is it known what has to go over?", ("M5.2",), "workloads at the source > 0 (M5.2)", _workloads)
CHECKS: tuple[Check, ...] = (NODES, WORKLOADS, ELSEWHERE)
