"""Risks: the register of what may fail, drawn from the findings, with what is done about each (M5.4). Pure.

Probability, cost and owner are a person's to say (``risks`` of the policy): nothing here invents them, and what nobody estimated is shown
as not estimated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from bridgehead.kernel.ids import Person
from bridgehead.model.finding import Finding, FindingStatus, Severity
from bridgehead.model.policy import RiskEstimate

_MOST_SUBJECTS: Final = 5


class Risk(msgspec.Struct, frozen=True):
    """One entry.

    Attributes:
        id: the code of the findings that it is drawn from, or the name of a risk that every move has.
        what: what may happen.
        because: where it comes from: findings that fail or are unknown, or the kind of move.
        mitigation: what makes it less likely or less bad.
        decides: whether it stands in the way of a go.
        probability: share of moves like this one in which it happens; None where nobody estimated it.
        cost: what it would cost, in the policy's currency; None where nobody estimated it.
        owner: who answers for it; empty where nobody does yet.
    """

    id: str
    what: str
    because: str
    mitigation: str
    decides: bool
    probability: float | None = None
    cost: float | None = None
    owner: Person = Person("")

    @property
    def exposure(self) -> float | None:
        """Probability times cost (rules section 10); None while one of them is not estimated."""
        return None if self.probability is None or self.cost is None else self.probability * self.cost


_STANDING: Final = (
    ("network-misconfiguration", "the network of the target is set up wrongly", "stage the configurations, compare both sites, and test"
     " failover every week before the move (M8, M10.2)", False),
    ("power-instability", "the power of the target fails or sags while it takes load", "temporary UPS and generators with a battery bridge,"
     " power quality watched (M10.3)", False),
    ("thermal-event", "cooling does not carry the load when it comes", "commission and load-test the cooling before the equipment comes"
     " (M12)", False),
    ("transport-damage", "equipment is damaged on its way", "spare equipment placed ahead, packs with sensors, never both halves of a"
     " redundant pair in one vehicle (M10.1)", True),
)  # fmt: skip
"""Risks that every move has (M5.4): name, what, mitigation, and whether only a move of hardware has it."""


def register(findings: Iterable[Finding], *, estimates: Sequence[RiskEstimate] = (), hardware: bool) -> tuple[Risk, ...]:
    """The register: what decides first, then by exposure.

    Args:
        findings: of an assessment.
        estimates: what people said, by the id of the risk.
        hardware: whether equipment is carried.
    """
    by_code: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        if finding.status is not FindingStatus.PASS:
            by_code[finding.code].append(finding)
    risks = [_of(code, held) for code, held in by_code.items()]
    risks += [
        Risk(name, what, "every move" if not carried else "equipment is carried", mitigation, decides=False)
        for name, what, mitigation, carried in _STANDING
        if hardware or not carried
    ]
    said = {estimate.id: estimate for estimate in estimates}
    return tuple(sorted((_estimated(risk, said.get(risk.id)) for risk in risks), key=_key))


def _of(code: str, held: Sequence[Finding]) -> Risk:
    worst = min(held, key=lambda one: (one.status is not FindingStatus.FAIL, one.severity is not Severity.BLOCKING))
    subjects = list(dict.fromkeys(one.subject for one in held))
    more = f" and {len(subjects) - _MOST_SUBJECTS} more" if len(subjects) > _MOST_SUBJECTS else ""
    state = "it fails" if worst.status is FindingStatus.FAIL else "it is not known"
    mitigation = worst.remedy if worst.status is FindingStatus.FAIL else worst.measurement
    decides = any(one.severity is Severity.BLOCKING for one in held)
    return Risk(code, f"{worst.subject}: {worst.text}", f"{state} at {', '.join(subjects[:_MOST_SUBJECTS])}{more}", mitigation, decides)


def _estimated(risk: Risk, estimate: RiskEstimate | None) -> Risk:
    if estimate is None:
        return risk
    mitigation = estimate.mitigation or risk.mitigation
    return msgspec.structs.replace(risk, probability=estimate.probability, cost=estimate.cost, owner=estimate.owner, mitigation=mitigation)


def _key(risk: Risk) -> tuple[bool, float, str]:
    return (not risk.decides, -(risk.exposure or 0.0), risk.id)
