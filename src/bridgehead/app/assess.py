"""Assess: run all checks over a scope and judge (M5.3): verdict, findings, and what would settle what is not known."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app.checks import checks
from bridgehead.app.runbook_files import read_text
from bridgehead.app.wiring import driver_options
from bridgehead.assess.calendar import Calendar, calendar
from bridgehead.assess.risks import Risk, register
from bridgehead.assess.scope import Scope
from bridgehead.assess.verdict import Measurement, binding_first, measurements, verdict
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import MEASURES, Dimension
from bridgehead.model.estate import Estate, Site
from bridgehead.model.estatefile import read_estate_with_places
from bridgehead.model.finding import Finding, FindingStatus, Input, Origin, Severity, Value, Verdict
from bridgehead.model.policy import Policy, read_policy_with_places


class Place(msgspec.Struct, frozen=True):
    """Where a value stands in a file that a person wrote or discovery made; lines count from 1."""

    file: str
    line: int


class Given(msgspec.Struct, frozen=True):
    """Estate and policy as read. ``places``: by the paths that findings name (``sites.b.circuits.a1.continuous``, ``policy.margin``)."""

    estate: Estate
    policy: Policy | None
    places: dict[str, Place]


class Assessment(msgspec.Struct, frozen=True):
    """What came out.

    Attributes:
        source: the site that is left; empty when one site was assessed as it stands.
        target: the site that was judged.
        findings: the binding one first.
        needed: the shortest list of what would settle the unknown ones.
        risks: the register that is drawn from the findings.
        calendar: the schedule of the assessment.
        currency: of the costs in the register.
    """

    verdict: Verdict
    source: str
    target: str
    findings: tuple[Finding, ...]
    needed: tuple[Measurement, ...]
    risks: tuple[Risk, ...]
    calendar: Calendar
    currency: str

    @property
    def binding(self) -> Finding | None:
        """What decides the verdict: the worst blocking finding that fails, or that is not known; None for go, or without findings."""
        decides = {Verdict.NO_GO: FindingStatus.FAIL, Verdict.CANNOT_TELL: FindingStatus.UNKNOWN}.get(self.verdict)
        return next((one for one in self.findings if one.status is decides and one.severity is Severity.BLOCKING), None)


def assess(estate: Estate, *, policy: Policy | None = None, source: str = "", target: str = "", now_s: float | None = None) -> Assessment:
    """Judge the target of a move, or a site as it stands.

    Args:
        policy: names source and target, margins and objectives.
        source, target: ids of sites instead; with one site in the estate both may be left out.
        now_s: now, for what is late in the calendar; the clock's when not given.

    Raises BAD_INPUT when the estate has no such site, or when it cannot be told which one is meant.
    """
    left, judged = _ends(estate, policy, source, target)
    used = policy or Policy(name="assessment", source=SiteId(source or "-"), target=judged.id)
    scope = Scope(estate, used, source=left, target=judged)
    found = binding_first(finding for check in checks() for finding in check.run(scope))
    now = time.time() if now_s is None else now_s
    return Assessment(
        verdict(found),
        left.id if left else "",
        judged.id,
        found,
        measurements(found),
        register(found, estimates=used.risks, hardware=bool(scope.incoming)),
        calendar(found, windows=used.windows, blackouts=used.blackouts, now_s=now),
        used.currency,
    )


def read(estate: Path, policy: Path | None = None) -> Given:
    """Read the files, each checked against the other. Raises BAD_INPUT with every fault."""
    rules: Policy | None = None
    places: dict[str, Place] = {}
    if policy is not None:
        rules, lines = read_policy_with_places(read_text(policy, what="policy"), file=str(policy))
        places = {".".join(("policy", *path)): Place(str(policy), mark.line) for path, mark in lines.items()}
    objectives = {objective.id for objective in rules.objectives} if rules is not None else None
    found, marks = read_estate_with_places(
        read_text(estate, what="estate"), file=str(estate), drivers=driver_options(), objectives=objectives
    )
    places |= {".".join(path): Place(str(estate), mark.line) for path, mark in marks.items()}
    return Given(found, rules, places)


def document(found: Assessment, *, places: Mapping[str, Place], before: Assessment | None = None) -> dict[str, Any]:
    """The JSON document of an assessment; inputs carry ``file`` and ``line`` where they stand in one."""
    data: dict[str, Any] = {
        "verdict": found.verdict.value,
        "source": found.source,
        "target": found.target,
        "findings": [_finding_data(one, places) for one in found.findings],
        "measurements_needed": msgspec.to_builtins(found.needed),
        "risks": [msgspec.to_builtins(risk) | {"exposure": risk.exposure} for risk in found.risks],
        "currency": found.currency,
        "calendar": msgspec.to_builtins(found.calendar.stages),
        "calendar_advice": list(found.calendar.advice),
    }
    if before is not None:
        data["before"] = {"verdict": before.verdict.value, "findings": [_finding_data(one, places) for one in before.findings]}
    return data


def _finding_data(finding: Finding, places: Mapping[str, Place]) -> dict[str, Any]:
    data: dict[str, Any] = msgspec.to_builtins(finding)
    for one in data["inputs"]:
        place = _place(one["source"], places)
        if place is not None:
            one |= {"file": place.file, "line": place.line}
    return data


def _place(source: str, places: Mapping[str, Place]) -> Place | None:
    """Where an input stands; of one that is drawn from many (``sites.b.nodes.*.gpus``), where these begin."""
    return places.get(source) or places.get(source.partition(".*")[0])


def input_line(one: Input, places: Mapping[str, Place]) -> str:
    """An input in words: its value, where it comes from, and how far it can be trusted."""
    place = _place(one.source, places)
    where = f"{place.file}:{place.line}" if place is not None else one.source
    if one.origin is Origin.MISSING:
        return f"missing: nobody gave {one.source}"
    return f"{quantity(one.value, one.unit)}  ({one.origin.value}, {where})"


def quantity(value: Value, unit: str) -> str:
    """A value as people read it."""
    dimension = _BY_BASE.get(unit)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if dimension is not None:
            return format_quantity(value, dimension, digits=4)
        if unit == "1":
            return f"{value}" if isinstance(value, int) else format_quantity(value, Dimension.SHARE, digits=4)
        return f"{value} {unit}".rstrip() if isinstance(value, int) else f"{value:.4g} {unit}".rstrip()
    return "-" if value is None else f"{value} {unit}".rstrip()


def margin_words(margin: float | None) -> str:
    """Room to the limit as a share of it, for people; nothing where there is none."""
    if margin is None:
        return ""
    if abs(margin) >= 10:
        return ">999 %" if margin > 0 else "<-999 %"
    return f"{margin * 100:+.0f} %" if abs(margin) >= 1 else f"{margin * 100:+.1f} %"


_BY_BASE = {measure.base: dimension for dimension, measure in MEASURES.items() if dimension not in (Dimension.SHARE, Dimension.TEMPERATURE)}
"""A temperature comes in °C and is shown as it is; K is a difference."""


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
            there = f"there is no site '{site}'; there are {', '.join(by_id)}"
            if policy is not None and site in (policy.source, policy.target):
                raise _bad(estate, f"{there}; policy '{policy.name}' names it", "Name one of them there, or by --source and --target.")
            raise _bad(estate, there, "Name one of them.")
    if source == target:
        raise _bad(estate, f"source and target are both '{source}'", "Name two sites, or give only --target.")
    return (by_id[source] if source else None, by_id[target])


def _bad(estate: Estate, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_INPUT, tried="assess", subject=f"estate '{estate.name}'", happened=happened, remedy=remedy)
