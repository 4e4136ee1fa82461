"""Assess: run all checks over a scope and judge (M5; issue contract: verdict, findings, measurements)."""

from __future__ import annotations

import msgspec

from bridgehead.app.checks import checks
from bridgehead.assess.scope import Scope
from bridgehead.assess.verdict import Measurement, binding_first, measurements, verdict
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import SiteId
from bridgehead.model.estate import Estate, Site
from bridgehead.model.finding import Finding, Verdict
from bridgehead.model.policy import Policy


class Assessment(msgspec.Struct, frozen=True):
    """What came out.

    Attributes:
        source: the site that is left; empty when one site was assessed as it stands.
        target: the site that was judged.
        findings: the binding one first.
        needed: the shortest list of what would settle the unknown ones.
    """

    verdict: Verdict
    source: str
    target: str
    findings: tuple[Finding, ...]
    needed: tuple[Measurement, ...]


def assess(estate: Estate, *, policy: Policy | None = None, source: str = "", target: str = "") -> Assessment:
    """Judge the target of a move, or a site as it stands.

    Args:
        policy: names source and target, margins and objectives.
        source, target: ids of sites instead; with one site in the estate both may be left out.

    Raises BAD_INPUT when the estate has no such site, or when it cannot be told which one is meant.
    """
    left, judged = _ends(estate, policy, source, target)
    used = policy or Policy(name="assessment", source=SiteId(source or "-"), target=judged.id)
    scope = Scope(estate, used, source=left, target=judged)
    found = binding_first(finding for check in checks() for finding in check.run(scope))
    return Assessment(verdict(found), left.id if left else "", judged.id, found, measurements(found))


def _ends(estate: Estate, policy: Policy | None, source: str, target: str) -> tuple[Site | None, Site]:
    by_id: dict[str, Site] = {site.id: site for site in estate.sites}
    source = source or (policy.source if policy else "")
    target = target or (policy.target if policy else "")
    if not target and len(by_id) == 1:
        target = next(iter(by_id))
    if not source and not target and len(by_id) == 2:
        # Work runs at the site that is left; with work at both, or at none, only a person knows.
        homes = {workload.site for workload in estate.workloads}
        if len(homes) == 1:
            source = next(iter(homes))
            target = next(site for site in by_id if site != source)
    if not target:
        raise _bad(estate, "several sites, and nothing says which one is the target", "Give --policy, or --source and --target.")
    for site in filter(None, (source, target)):
        if site not in by_id:
            raise _bad(estate, f"there is no site '{site}'; there are {', '.join(by_id)}", "Name one of them.")
    if source == target:
        raise _bad(estate, f"source and target are both '{source}'", "Name two sites, or give only --target.")
    return (by_id[source] if source else None, by_id[target])


def _bad(estate: Estate, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_INPUT, tried="assess", subject=f"estate '{estate.name}'", happened=happened, remedy=remedy)
