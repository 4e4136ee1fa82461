"""Objectives: read an estate and its objectives file, say what contradicts, what lacks, what it costs (R1 to R3, R5, R8, R11, R17)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app.estate_files import load_estate
from bridgehead.app.runbook_files import read_text
from bridgehead.assess.scope import Scope
from bridgehead.assess.wan import CHECKS as WAN
from bridgehead.model.estate import Estate
from bridgehead.model.finding import Finding, FindingStatus, Severity, Verdict
from bridgehead.model.objectivefile import Continuity, read_objectives
from bridgehead.model.policy import Policy
from bridgehead.recovery.objectives.coverage import Question, coverage
from bridgehead.recovery.objectives.figures import Figure, figures
from bridgehead.recovery.objectives.judge import verdict_of
from bridgehead.recovery.objectives.network import network
from bridgehead.recovery.objectives.pricing import Market, Pricing, price
from bridgehead.recovery.objectives.reach import reach
from bridgehead.recovery.objectives.thing import things_of

SCHEMA = 1


class Checked(msgspec.Struct, frozen=True):
    """What the checks say.

    Attributes:
        findings: what fails first, then what is not known, then what passes; blocking before warnings.
        verdict: all of them together.
    """

    findings: tuple[Finding, ...]
    verdict: Verdict


def load(estate: Path, objectives: Path) -> tuple[Estate, Continuity]:
    """Read both files, each held against the other. Raises BAD_INPUT with every fault."""
    given = load_estate(estate)
    return given, read_objectives(read_text(objectives, what="objectives"), file=str(objectives), estate=given)


def check(estate: Estate, continuity: Continuity) -> Checked:
    """Every workload, service and data set has an objective; none contradicts another, the law or what lines and restores can do."""
    asked = Question(estate, continuity, continuity.needs(estate), things_of(estate, continuity), Market(estate, continuity))
    findings = [*coverage(asked), *reach(asked), *network(asked)]
    return Checked(tuple(sorted([*findings, *_diversity(estate)], key=_order)), verdict_of((*findings, *_diversity(estate))))


def price_of(estate: Estate, continuity: Continuity) -> tuple[Pricing, tuple[Figure, ...]]:
    """What the objectives cost, and the printed figures of the requirements worked out with the same numbers."""
    return price(estate, continuity), figures(Market(estate, continuity).book)


def check_document(found: Checked, *, estate: Estate, continuity: Continuity) -> dict[str, Any]:
    """The findings as JSON."""
    counts = {status.value: sum(one.status is status for one in found.findings) for status in FindingStatus}
    head = {"schema": SCHEMA, "estate": estate.name, "objectives": continuity.name, "verdict": found.verdict.value, "counts": counts}
    return head | {"findings": [msgspec.to_builtins(one) for one in found.findings]}


def price_document(found: Pricing, worked: Iterable[Figure], *, estate: Estate, continuity: Continuity) -> dict[str, Any]:
    """The prices as JSON; money is for a month, in ``currency``."""
    chosen = found.chosen
    head = {"schema": SCHEMA, "estate": estate.name, "objectives": continuity.name, "currency": found.currency}
    body: dict[str, Any] = msgspec.to_builtins(found, str_keys=True)
    del body["things"]
    body["things"] = [
        {"id": one.id, "part": one.part.value, "home": one.home, "rpo_s": _s(one.rpo), "rto_s": _s(one.rto), "because": one.because}
        for one in found.things
    ]
    body["chosen"] |= {"gap": chosen.gap, "gaps": chosen.gaps}
    body["guesses"] = [one.name for one in found.guesses]
    body["figures"] = [msgspec.to_builtins(one) for one in worked]
    return head | body


def _s(bound: Any) -> float | None:
    return None if bound is None else bound.value_s


def _diversity(estate: Estate) -> list[Finding]:
    """Carriers, paths, rates and failover of the lines of each two sites that have one, judged as for a move (M10.2, R17)."""
    sites = {site.id: site for site in estate.sites}
    found: dict[tuple[str, str], Finding] = {}
    for one, other in sorted({(min(link.between), max(link.between)) for link in estate.links}):
        scope = Scope(estate, Policy("objectives", one, other), source=sites[one], target=sites[other])
        for check in WAN:
            for finding in check.run(scope):
                found[finding.code, finding.subject] = msgspec.structs.replace(finding, severity=Severity.WARNING)
    return list(found.values())


def _order(one: Finding) -> tuple[int, bool, str, str, str]:
    rank = {FindingStatus.FAIL: 0, FindingStatus.UNKNOWN: 1, FindingStatus.PASS: 2}
    return rank[one.status], one.severity is Severity.WARNING, one.code, one.subject, one.state
