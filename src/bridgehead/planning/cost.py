"""Cost: what a plan costs, line by line, what it saves, and what decides it (M11, P22; rules section 10). Pure.

Every amount is a product of inputs, and says where each comes from. What nobody gave is a guess, or, where no value would be sane, unknown:
then the line is unknown too, and the total says that it is not the whole.

The baseline is a source that goes on as it is. ``total`` is everything that is paid while the plan runs; ``extra`` is that less what the
source would have cost in the same time, and is what the payback is counted from.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from bridgehead.model.estate import Estate
from bridgehead.model.finding import Input, Origin
from bridgehead.model.logistics import HOUR_S
from bridgehead.model.plan import Plan
from bridgehead.model.policy import Policy
from bridgehead.planning.cost_lines import Entry, Group, entries_of
from bridgehead.planning.cost_math import outage_cost, payback_months
from bridgehead.planning.course import Course

SWAY: Final = 0.2
"""By how much each input is varied."""
_WEAKEST_FIRST: Final = (Origin.MISSING, Origin.GUESS, Origin.DEFAULT, Origin.DECLARED, Origin.MEASURED, Origin.DERIVED)


class CostLine(msgspec.Struct, frozen=True):
    """One amount with its evidence.

    Attributes:
        group: ``move`` is paid while the plan runs; ``otherwise`` would have been paid by who stays; ``saving`` is of each year after.
        amount: in the currency; None while one of its inputs is unknown; negative where it is taken off.
        formula: the inputs that it is the product of.
        origin: the weakest origin of its inputs.
    """

    id: str
    title: str
    group: Group
    amount: float | None
    formula: str
    inputs: tuple[Input, ...]
    origin: Origin
    note: str = ""


class Effect(msgspec.Struct, frozen=True):
    """What one input moves when it is a fifth less or a fifth more, everything else as it is.

    Attributes:
        less, more: change of ``extra`` in the currency.
        payback_less, payback_more: the payback in months then; None where it never pays.
    """

    input: str
    source: str
    origin: Origin
    less: float
    more: float
    payback_less: float | None
    payback_more: float | None


class Cost(msgspec.Struct, frozen=True):
    """A plan in money.

    Attributes:
        total: of the lines of group ``move`` that are known.
        extra: ``total`` less what staying would have cost in the same time.
        complete: whether no line of move and otherwise is unknown; else ``total`` and ``extra`` are of what is known.
        saved_year: of each year after the move; None while a line of it is unknown.
        payback_months: None while unknown, and where it never pays.
        lost_cluster_s: lost compute as seconds of the whole cluster (M1); None without GPUs.
        as_outage: what an unplanned outage of that length would cost, for comparison and in no total.
        guesses, unknown: sources of the inputs that nobody gave.
        sensitivity: the input that moves most first.
    """

    currency: str
    lines: tuple[CostLine, ...]
    total: float
    extra: float
    complete: bool
    saved_year: float | None
    payback_months: float | None
    lost_cluster_s: float | None
    as_outage: float | None
    guesses: tuple[str, ...]
    unknown: tuple[str, ...]
    sensitivity: tuple[Effect, ...]

    def group(self, group: Group) -> tuple[CostLine, ...]:
        """The lines of one group."""
        return tuple(line for line in self.lines if line.group is group)


def cost_of(plan: Plan, estate: Estate, policy: Policy) -> Cost:
    """Count a plan. The order of things in estate and policy changes no number."""
    course = Course(plan, estate, policy)
    entries = entries_of(course)
    inputs = {one for entry in entries for one in entry.inputs}
    values = {one.name: one.value for one in inputs if isinstance(one.value, int | float)}
    assert len({one.name for one in inputs}) == len(inputs), "a name stands for one input"
    lines = tuple(_line(entry, values) for entry in entries)
    totals = _totals(entries, values)
    gpus = course.source.gpus + course.target.gpus
    lost_s = plan.score.lost_gpu_hours * HOUR_S / gpus if gpus else None
    per_hour = policy.prices.outage_hour
    return Cost(
        currency=policy.currency,
        lines=lines,
        total=totals.total,
        extra=totals.extra,
        complete=all(line.amount is not None for line in lines if line.group is not Group.SAVING),
        saved_year=totals.saved_year,
        payback_months=totals.payback_months,
        lost_cluster_s=lost_s,
        as_outage=None if lost_s is None or per_hour is None else outage_cost(lost_s, per_hour=per_hour),
        guesses=_sources(entries, Origin.GUESS),
        unknown=_sources(entries, Origin.MISSING),
        sensitivity=_sensitivity(entries, values),
    )


def _line(entry: Entry, values: Mapping[str, float]) -> CostLine:
    origin = min((one.origin for one in entry.inputs), key=_WEAKEST_FIRST.index)
    formula = " × ".join(one.name for one in entry.inputs)
    return CostLine(entry.id, entry.title, entry.group, _amount(entry, values), formula, entry.inputs, origin, entry.note)


def _amount(entry: Entry, values: Mapping[str, float]) -> float | None:
    found = [values.get(one.name) for one in entry.inputs]
    known = [value for value in found if value is not None]
    return entry.sign * math.prod(known) if len(known) == len(found) else None


class _Totals(msgspec.Struct, frozen=True):
    total: float
    extra: float
    saved_year: float | None
    payback_months: float | None


def _totals(entries: Iterable[Entry], values: Mapping[str, float]) -> _Totals:
    sums = {group: 0.0 for group in Group}
    whole = {group: True for group in Group}
    for entry in entries:
        amount = _amount(entry, values)
        whole[entry.group] &= amount is not None
        sums[entry.group] += amount or 0.0
    extra = sums[Group.MOVE] - sums[Group.OTHERWISE]
    saved = sums[Group.SAVING] if whole[Group.SAVING] else None
    known = whole[Group.MOVE] and whole[Group.OTHERWISE] and saved is not None
    return _Totals(sums[Group.MOVE], extra, saved, payback_months(extra, saved_year=saved) if known and saved is not None else None)


def _sources(entries: Iterable[Entry], origin: Origin) -> tuple[str, ...]:
    return tuple(sorted({one.source for entry in entries for one in entry.inputs if one.origin is origin}))


def _sensitivity(entries: tuple[Entry, ...], values: Mapping[str, float]) -> tuple[Effect, ...]:
    """Each input a fifth less and more, within what it can be. By the payback where there is one, else by the money."""
    inputs = {one.name: one for entry in entries for one in entry.inputs if one.name in values}
    now = _totals(entries, values)
    effects = []
    for name, one in inputs.items():
        if name.startswith(("days of a year", "hours of a year")):
            continue
        less, more = (_totals(entries, {**values, name: _within(name, values[name] * factor)}) for factor in (1 - SWAY, 1 + SWAY))
        effects.append(
            Effect(name, one.source, one.origin, less.extra - now.extra, more.extra - now.extra, less.payback_months, more.payback_months)
        )

    def weight(effect: Effect) -> tuple[float, float, str]:
        money = abs(effect.more - effect.less)
        if now.payback_months is None:
            return (-money, 0.0, effect.input)
        ends = [math.inf if months is None else months for months in (effect.payback_less, effect.payback_more)]
        return (-abs(ends[1] - ends[0]) if ends[0] != ends[1] else 0.0, -money, effect.input)

    return tuple(sorted((one for one in effects if weight(one)[:2] != (0.0, 0.0)), key=weight))


def _within(name: str, value: float) -> float:
    """No PUE is below 1, no probability above it."""
    if name.startswith("PUE"):
        return max(1.0, value)
    return min(1.0, value) if name.startswith("probability") else value
