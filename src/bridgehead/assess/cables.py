"""Cables: does each medium reach, and what do longer routes cost (M3; rules section 5, FB5 and FB6)?"""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fabric_math import FEC_DELAY_S, cable_delay_s, medium_for, reach_m, ring_delay_s, tree_delay_s
from bridgehead.assess.fleet import PURPOSES, counting, fabric_subject, fabrics_for, few, shown
from bridgehead.assess.scope import Scope
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import Site, WorkloadKind
from bridgehead.model.fabric import FabricId, FabricPurpose, Medium
from bridgehead.model.finding import Finding, Origin, Severity

_ROUTES = "measure the route of each cable (up, tray, down, slack) and read its medium from its label"
_PARTS = "read fibre grade and reach of the transceivers from their data sheets"

_TABLE_BPS = 400e9


class Cable(msgspec.Struct, frozen=True):
    """A cable, or several alike between two switches: which, how fast, of what, how long. ``low`` ends at a node."""

    name: str
    rate_bps: float
    medium: Medium | None
    length_m: float | None
    low: bool


def cables_of(site: Site, fabrics: frozenset[FabricId]) -> tuple[Cable, ...]:
    """All cables of these fabrics, by name."""
    found = [
        Cable(f"{node.id}/{nic.id}", nic.rate_bps, nic.medium, nic.length_m, low=True)
        for node in site.nodes
        for nic in node.nics
        if nic.fabric in fabrics
    ]
    found += [
        Cable(f"{switch.id}/{uplink.id}", uplink.rate_bps, uplink.medium, uplink.length_m, low=False)
        for switch in site.switches
        if switch.fabric in fabrics
        for uplink in switch.uplinks
    ]
    return tuple(sorted(found, key=lambda cable: cable.name))


def _of_purpose(site: Site, purpose: FabricPurpose) -> tuple[Cable, ...]:
    return cables_of(site, frozenset(fabric.id for fabric in fabrics_for(site, purpose)))


def _reach(scope: Scope) -> Iterator[Finding]:
    for purpose in PURPOSES:
        cables = _of_purpose(scope.target, purpose)
        if not cables:
            continue
        case = Case(REACH, fabric_subject(scope.target, fabrics_for(scope.target, purpose)))
        case.take("cables", len(cables), "", f"sites.{scope.target.id}.nodes.*.nics.*", origin=Origin.DERIVED)
        vague: list[str] = []
        unsure: list[str] = []
        worst: tuple[float, Cable, float] | None = None
        too_long = 0
        for cable in cables:
            if cable.medium is None or cable.length_m is None:
                vague.append(cable.name)
                continue
            sure, best = reach_m(cable.medium)
            if cable.rate_bps < _TABLE_BPS:
                best = math.inf  # slower parts reach further, and the table does not say how far
            if sure < cable.length_m <= best:
                unsure.append(cable.name)
                continue
            limit = sure if cable.length_m <= sure else best
            too_long += cable.length_m > limit
            if worst is None or cable.length_m / limit > worst[0]:
                worst = (cable.length_m / limit, cable, limit)
        yield _reach_finding(case, worst, too_long=too_long, vague=vague, unsure=unsure)


def _reach_finding(case: Case, worst: tuple[float, Cable, float] | None, *, too_long: int, vague: list[str], unsure: list[str]) -> Finding:
    if worst is not None and worst[0] > 1:
        _, cable, limit = worst
        assert cable.length_m is not None
        better = medium_for(cable.length_m)
        remedy = f"use {better.value}" if better else "move the racks nearer to each other"
        case.take("reach", limit, "m", "rules section 5", origin=Origin.DEFAULT)
        text = f"the route of {cable.name} is {cable.length_m:g} m, and {cable.medium} reaches {limit:g} m"
        text += f"; {counting(too_long, 'cable')} in all do not reach" if too_long > 1 else ""
        return case.at_most(cable.length_m, limit, "m", text, remedy=remedy)
    if vague:
        return case.unknown(f"route or medium is not known of {counting(len(vague), 'cable')}: {few(vague)}", measurement=_ROUTES)
    if unsure:
        return case.unknown(f"whether these reach depends on their parts: {few(unsure)}", measurement=_PARTS)
    assert worst is not None, "a cable that is neither vague nor unsure was compared"
    _, cable, limit = worst
    case.take("reach", limit, "m", "rules section 5", origin=Origin.DEFAULT)
    return case.at_most(cable.length_m or 0.0, limit, "m", f"all cables reach; the nearest to its limit is {cable.name}", remedy="")


def _longest(site: Site, purpose: FabricPurpose) -> tuple[float | None, int]:
    """Longest route from node to node: twice the longest cable at a node plus the longest above; None when one is not known."""
    cables = _of_purpose(site, purpose)
    if not cables or any(cable.length_m is None for cable in cables):
        return None, 0
    low = max((cable.length_m or 0.0 for cable in cables if cable.low), default=0.0)
    high = max((cable.length_m or 0.0 for cable in cables if not cable.low), default=0.0)
    return 2 * (low + high), 4 if high else 2


def _latency(scope: Scope) -> Iterator[Finding]:
    fabrics = fabrics_for(scope.target, FabricPurpose.COMPUTE)
    if scope.source is None or not fabrics or not fabrics_for(scope.source, FabricPurpose.COMPUTE):
        return
    case = Case(LATENCY, fabric_subject(scope.target, fabrics))
    (has, hops), (had, hops_before) = (_longest(site, FabricPurpose.COMPUTE) for site in (scope.target, scope.source))
    case.take("longest route", has, "m", f"sites.{scope.target.id}.switches.*", origin=Origin.DERIVED)
    case.take("longest route before", had, "m", f"sites.{scope.source.id}.switches.*", origin=Origin.DERIVED)
    if has is None or had is None:
        yield case.unknown("the longest routes of both sites are not known", measurement=_ROUTES)
        return
    delay, before = cable_delay_s(has) + hops * FEC_DELAY_S, cable_delay_s(had) + hops_before * FEC_DELAY_S
    case.take("FEC at each link", FEC_DELAY_S, "s", "rules section 5", origin=Origin.DEFAULT)
    ranks = max((one.gpus for one in scope.workloads if one.kind is WorkloadKind.TRAINING), default=0)
    added = max(0.0, delay - before)
    text = f"the longest way takes {shown(delay, Dimension.DURATION)}, at the source {shown(before, Dimension.DURATION)}"
    if added and ranks > 1:
        ring, tree = ring_delay_s(added, ranks=ranks), tree_delay_s(added, ranks=ranks)
        text += (
            f"; round trips are {shown(2 * added, Dimension.DURATION)} longer, and an all-reduce of {ranks} GPUs takes"
            f" {shown(tree, Dimension.DURATION)} more as a tree and {shown(ring, Dimension.DURATION)} more as a ring"
        )
    yield case.at_most(delay, before, "s", text, remedy="place racks so that no route is longer than at the source, or measure its effect")


REACH = Check(
    "CAB-REACH",
    "Does each cable reach?",
    ("M3",),
    "route = up + tray + down + slack <= reach of the medium at 400 and 800G, two junctions (rules section 5)",
    _reach,
)
LATENCY = Check(
    "CAB-LATENCY",
    "Do routes grow longer?",
    ("M3",),
    "2·(longest cable at a node + longest above)·5 ns/m + 120 ns a link; ring 2(n-1), tree 2·ceil(log2 n) times the rest (rules section 5)",
    _latency,
    Severity.WARNING,
)
CHECKS = (REACH, LATENCY)
