"""Growth: how long the GPUs of the target last if demand goes on growing as scheduler accounting says (P18)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import counting
from bridgehead.assess.scope import Scope
from bridgehead.model.estate import Quarter
from bridgehead.model.finding import Finding, Origin, Severity

_ASK: Final = "add up the GPU-hours that jobs used in each of the last quarters (sreport, sacct, or the billing of the cluster)"
_HOURS: Final = 365.25 * 24 / 4
_LEAST: Final = 4.0
"""Quarters between a decision to buy and GPUs that work (I): order, building, delivery, acceptance take about a year."""


def number_of(quarter: Quarter) -> int:
    """Quarters since the year 0, so that gaps count."""
    year, _, part = quarter.id.partition("-Q")
    return int(year) * 4 + int(part) - 1


def growth_a_quarter(quarters: Sequence[Quarter]) -> float | None:
    """Mean growth from the first quarter to the last one, as a share: (last / first)^(1 / quarters between) - 1; None where none can be."""
    ordered = sorted(quarters, key=number_of)
    if len(ordered) < 2 or ordered[0].used_gpu_hours <= 0:
        return None
    apart = number_of(ordered[-1]) - number_of(ordered[0])
    return float((ordered[-1].used_gpu_hours / ordered[0].used_gpu_hours) ** (1 / apart) - 1)


def quarters_left(used: float, *, capacity: float, growth: float) -> float:
    """Until ``used`` GPU-hours a quarter have grown to ``capacity``: ln(capacity / used) / ln(1 + growth); infinite without growth."""
    if used >= capacity:
        return 0.0
    return math.log(capacity / used) / math.log1p(growth) if growth > 0 and used > 0 else math.inf


def _growth(scope: Scope) -> Iterator[Finding]:
    home = scope.source or scope.target
    gpus = scope.target.gpus + sum(node.gpus for node in scope.incoming)
    if not gpus:
        return
    case = Case(GROWTH, scope.target.id)
    for quarter in home.usage:
        case.take(
            quarter.id, quarter.used_gpu_hours, "GPU-hours", f"sites.{home.id}.usage.{quarter.id}.used_gpu_hours", origin=Origin.MEASURED
        )
    growth = growth_a_quarter(home.usage)
    if growth is None:
        yield case.unknown(f"nobody knows how fast the demand for the GPUs of {home.id} grows", measurement=_ASK)
        return
    reserve = case.take("reserve", scope.policy.reserve, "1", "policy.reserve") or 0.0
    capacity = gpus * _HOURS * (1 - reserve)
    case.take("capacity", capacity, "GPU-hours", f"sites.{scope.target.id}.nodes.*.gpus", origin=Origin.DERIVED)
    case.take("least", _LEAST, "quarters", "a purchase takes about a year", origin=Origin.DEFAULT)
    last = max(home.usage, key=number_of)
    left = quarters_left(last.used_gpu_hours, capacity=capacity, growth=growth)
    offered = "" if last.offered_gpu_hours is None else f", {last.used_gpu_hours / last.offered_gpu_hours:.0%} of what was offered"
    said = (
        f"jobs used {last.used_gpu_hours:,.0f} GPU-hours in {last.id}{offered}, {growth:+.1%} a quarter; {counting(gpus, 'GPU')} give "
        f"{capacity:,.0f} with the reserve kept"
    )
    if math.isinf(left):
        yield case.holds(True, f"{said}, and demand does not grow", remedy="")
        return
    remedy = "decide on the next purchase now, or on what is shrunk, shared (MIG) or run elsewhere at peaks"
    yield case.at_least(left, _LEAST, "quarters", f"{said}: enough for {left:.1f} quarters more", remedy=remedy)


GROWTH = Check(
    "RSV-GROWTH",
    "Do the GPUs of the target last until the next purchase can be there?",
    ("P18",),
    "ln(GPUs · 2,191.5 h · (1 - reserve) / used in the last quarter) / ln(1 + mean growth a quarter) >= 4 quarters (P18)",
    _growth,
    Severity.WARNING,
)
CHECKS: tuple[Check, ...] = (GROWTH,)
