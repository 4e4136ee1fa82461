"""Summary: what stands in the way, in the words of a manager: what, where, what to do, by when, who, and what it may cost (M5.3, M5.4)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from bridgehead.app.assess import Assessment
from bridgehead.app.assess_report.marks import anchor
from bridgehead.app.checks import checks
from bridgehead.assess.fleet import few
from bridgehead.kernel.moment import format_moment
from bridgehead.model.finding import Finding, FindingStatus, Severity


class Hurdle(msgspec.Struct, frozen=True):
    """Findings of one check that do not pass.

    Attributes:
        question: what the check asks.
        worst: the finding of it that comes first.
        count: how many there are.
        where: the worst one's subject in words.
        also: the subjects of the others, few of them by name; empty where there are none.
        href: the evidence of the worst one.
        owner: who answers for it; empty where nobody does.
        cost: what it would cost, in the policy's currency; None where nobody estimated it.
        probability: of that cost.
        due: the date by which its stage of the assessment ends, or how many days before the move.
    """

    question: str
    worst: Finding
    count: int
    where: str
    also: str
    href: str
    owner: str
    cost: float | None
    probability: float | None
    due: str

    @property
    def decides(self) -> bool:
        """Whether it stands in the way of a go."""
        return self.worst.severity is Severity.BLOCKING

    @property
    def fills(self) -> float | None:
        """The value as a share of the limit, for a bar; None where that says nothing."""
        value, limit = self.worst.value, self.worst.limit
        numbers = isinstance(value, int | float) and isinstance(limit, int | float) and not isinstance(value, bool)
        return float(value) / float(limit) if numbers and limit and self.worst.margin is not None else None  # type: ignore[arg-type]  # numbers

    @property
    def falls_short(self) -> bool:
        """Whether the value should be at least the limit, and not at most."""
        fills, margin = self.fills, self.worst.margin
        return fills is not None and margin is not None and (fills > 1) == (margin > 0)


def hurdles(found: Assessment) -> tuple[Hurdle, ...]:
    """By check, the binding one first; what decides before warnings."""
    questions = {check.code: check.title for check in checks()}
    held: dict[str, list[tuple[int, Finding]]] = {}
    for number, one in enumerate(found.findings):
        # What others wait for stands in the list of what to measure.
        asks = one.code.endswith("-INPUTS") and one is not found.binding
        if one.status is not FindingStatus.PASS and not asks:
            held.setdefault(one.code, []).append((number, one))
    risks = {risk.id: risk for risk in found.risks}
    due = dict(_due(found))
    made = []
    for code, group in held.items():
        number, worst = group[0]
        others = {subject_words(one.subject) for _, one in group} - {subject_words(worst.subject)}
        risk = risks[code]
        made.append(
            Hurdle(
                questions[code],
                worst,
                len(group),
                subject_words(worst.subject),
                few(others),
                anchor(number),
                risk.owner,
                risk.cost,
                risk.probability,
                due.get(code, ""),
            )
        )
    return tuple(made)


def _due(found: Assessment) -> Iterator[tuple[str, str]]:
    for stage in found.calendar.stages:
        for task in stage.tasks:
            for code in task.settles:
                late = "" if stage.late_days is None else ", late"
                day = f"{stage.ends_days} days before the move" if stage.ends_s is None else f"{format_moment(stage.ends_s)[:10]}{late}"
                yield code, day


def subject_words(subject: str) -> str:
    """A subject as people say it: ``b/node:n1`` is "node n1 of b"."""
    *above, last = subject.split("/")
    kind, colon, name = last.partition(":")
    match kind:
        case "gpus" if colon:
            said = f"{name} GPUs"
        case "acceptance" if colon:
            said = f"acceptance test {name}"
        case "incoming" if colon:
            return " ".join([f"placing {name}", *(f"at {one}" for one in above)])
        case _:
            said = f"{kind} {name}" if colon else " and ".join(last.split("+"))
    return " of ".join([said, *(subject_words(one) for one in reversed(above))])
