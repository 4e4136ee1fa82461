"""Presence: whether there is anything to judge. Nothing described is nothing known, and passes nowhere (M5.1, M5.2; design rule 1)."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.scope import Scope
from bridgehead.model.finding import Finding, Origin

DESCRIBE_NODES = "describe the nodes of each site (bridgehead collect and discover)"
DESCRIBE_WORK = "list what runs at the source (squeue, kubectl get pods, and the owners)"


def _nodes(scope: Scope) -> Iterator[Finding]:
    for site in scope.sites:
        case = Case(NODES, site.id)
        count = len(site.nodes) + (len(scope.incoming) if site is scope.target else 0)
        case.take("nodes", count, "", f"sites.{site.id}.nodes", origin=Origin.DERIVED)
        if count:
            yield case.holds(True, f"{site.id} has {count} nodes to judge", remedy="", value=count)
        else:
            yield case.unknown(f"no node of {site.id} is described, so that nothing can be said of it", measurement=DESCRIBE_NODES)


def _workloads(scope: Scope) -> Iterator[Finding]:
    if scope.source is None:
        return
    case = Case(WORKLOADS, scope.source.id)
    count = sum(workload.site == scope.source.id for workload in scope.estate.workloads)
    case.take("workloads", count, "", "workloads", origin=Origin.DERIVED)
    if count:
        yield case.holds(True, f"{count} workloads have to go over", remedy="", value=count)
    else:
        yield case.unknown(
            f"no workload at {scope.source.id} is described, so that nobody knows what has to go over", measurement=DESCRIBE_WORK
        )


NODES = Check("EST-NODES", "Are there nodes to judge?", ("M5.1",), "nodes of the site, and those that come, > 0", _nodes)
WORKLOADS = Check("EST-WORKLOADS", "Is it known what has to go over?", ("M5.2",), "workloads at the source > 0", _workloads)
CHECKS: tuple[Check, ...] = (NODES, WORKLOADS)
