"""Coverage: who has an objective, and whether objectives, classes, regulations and dependencies contradict each other (R1, R2, R5)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import msgspec

from bridgehead.model.estate import Estate
from bridgehead.model.finding import Origin, Severity
from bridgehead.model.objective import (
    CLASSES,
    REGULATIONS,
    YEAR_S,
    Bound,
    Need,
    Objective,
    Part,
    class_bound,
    law_bounds,
    strictest,
)  # fmt: skip
from bridgehead.model.objectivefile import Continuity
from bridgehead.recovery.objectives.judge import Check, Judge, ObjectiveFinding, Price, time_words
from bridgehead.recovery.objectives.pricing import Market
from bridgehead.recovery.objectives.thing import Thing, direct_needs

COVERED = Check(
    "OBJ-COVERED", "Has it an objective?", ("R1",), "named in the estate, or covered by an objective; defaults count when they are accepted"
)
TIMES = Check("OBJ-TIMES", "Does its objective say both times?", ("R1", "R2"), "RPO and RTO of the objective, its class or a regulation")
LAW = Check("OBJ-LAW", "Is its objective at least as strict as each regulation?", ("R5",), "objective <= regulation, RPO and RTO each")
CLASS = Check("OBJ-CLASS", "Is its objective at least as strict as its class?", ("R1", "R2"), "objective <= class, RPO and RTO each",
              Severity.WARNING)  # fmt: skip
ORDER = Check("OBJ-ORDER", "Is what it needs back as soon as itself?", ("R2", "R14"), "RTO of what is needed <= RTO of what needs it")
YEAR = Check("OBJ-YEAR", "Does one loss a year leave its availability?", ("R2",), "losses a year · RTO <= 1 year · (1 - availability)")
AGAIN = Check(
    "OBJ-AGAIN", "Can it be brought back at all, as a regulation asks?", ("R5", "R13"), "at least one way to have a copy elsewhere"
)
CHECKS = (COVERED, TIMES, LAW, CLASS, ORDER, YEAR, AGAIN)


class Question(msgspec.Struct, frozen=True):
    """What the checks look at; prices come from the market."""

    estate: Estate
    continuity: Continuity
    needs: tuple[Need, ...]
    things: tuple[Thing, ...]
    market: Market

    def thing(self, name: str) -> Thing | None:
        """The thing of that name; None for a service that is there with its workload."""
        return next((one for one in self.things if one.id == name), None)

    def price_of(self, name: str, *, rpo_s: float | None = None, rto_s: float | None = None) -> Price:
        """What it costs to meet these times for one thing alone, beyond what the times of its own objective cost."""
        currency = self.continuity.currency
        served = next((one.workload for one in self.estate.services if one.id == name and one.workload is not None), None)
        thing = self.thing(served or name)
        if thing is None:
            return Price(None, currency, "it is in no price")
        bounds = {"rpo": rpo_s, "rto": rto_s}
        changed = {which: Bound(value, Origin.DERIVED, "asked") for which, value in bounds.items() if value is not None}
        own = next(need for need in self.needs if need.id == name)
        now = msgspec.structs.replace(thing, rpo=own.own_rpo, rto=own.own_rto)
        before, after = self.market.month([now]), self.market.month([msgspec.structs.replace(now, **changed)])
        asked = " and ".join(f"{which.upper()} {time_words(value)}" for which, value in bounds.items() if value is not None)
        if after is None:
            return Price(None, currency, f"no pattern is sure to meet {asked}")
        more = after - (before or 0.0)
        return Price(round(max(0.0, more), 2), currency, f"{asked} for {thing.id} alone", guess=bool(self.market.book.guesses), more=True)


def coverage(asked: Question) -> Iterator[ObjectiveFinding]:
    """All findings of this file."""
    for need in asked.needs:
        subject = f"{need.part.value}:{need.id}"
        yield _covered(need, subject, asked)
        if need.objective is not None:
            yield _times(need, subject)
            yield from _laws(need, subject, need.objective, asked)
            yield from _classes(need, subject, need.objective, asked)
            yield from _year(need, subject, need.objective, asked)
        if need.recoverable:
            yield _again(need, subject, asked)
    yield from _orders(asked)


def _covered(need: Need, subject: str, asked: Question) -> ObjectiveFinding:
    judge = Judge(COVERED, subject)
    remedy = f"name '{need.id}' in 'covers' of an objective, or give it 'objective' in the estate"
    if need.objective is not None:
        judge.take("objective", need.objective.id, "", f"objectives.{need.objective.id}")
        return judge.holds(True, f"it has the objective {need.objective.id}", remedy="")
    said = [bound for bound in (need.rpo, need.rto) if bound is not None]
    if said and asked.continuity.accept_defaults:
        judge.take("default", said[0].source, "", "accept_defaults")
        return judge.holds(True, f"it has the default of {said[0].source}: {_both(need)}", remedy="")
    default = f"; {said[0].source} would ask {_both(need)}" if said else "; nothing says what its kind needs"
    offer = Price(None, asked.continuity.currency, "`objectives price` shows what the defaults cost")
    return judge.holds(False, f"nobody gave it an objective{default}", remedy=remedy, price=(lambda: offer) if said else None)


def _both(need: Need) -> str:
    return ", ".join(
        f"{which} {'no time' if bound is None else time_words(bound.value_s)}" for which, bound in (("RPO", need.rpo), ("RTO", need.rto))
    )


def _times(need: Need, subject: str) -> ObjectiveFinding:
    judge = Judge(TIMES, subject).bound("RPO", need.rpo, "rpo").bound("RTO", need.rto, "rto")
    lacking = [which for which, bound in (("RPO", need.rpo), ("RTO", need.rto)) if bound is None]
    if need.part is Part.DATASET and lacking == ["RTO"]:
        judge = Judge(TIMES, subject).bound("RPO", need.rpo, "rpo")
        return judge.holds(need.rpo is not None, f"{_both(need)}; it is back with what uses it", remedy="")
    if lacking and need.recoverable:
        judge = Judge(TIMES, subject).take("recoverable", True, "", "regulations")
        return judge.holds(True, f"{_both(need)}: a regulation asks for recovery and sets none", remedy="")
    if lacking:
        asks = f"ask who answers for {need.id} how much may be lost, and how long it may be gone"
        return judge.unknown(f"nobody set {' and '.join(lacking)}", measurement=asks)
    return Judge(TIMES, subject).take("objective", _both(need), "", "objectives").holds(True, _both(need), remedy="")


def _laws(need: Need, subject: str, objective: Objective, asked: Question) -> Iterator[ObjectiveFinding]:
    known = [*asked.continuity.regulations, *REGULATIONS]
    laws = [next(law for law in known if law.id == name) for name in objective.regulations]
    for which, own in (("rpo", need.own_rpo), ("rto", need.own_rto)):
        law = strictest(law_bounds(which, objective, laws))
        if law is None:
            continue
        judge = Judge(LAW, subject, state=which.upper()).bound(which.upper(), own, f"objectives.{objective.id}.{which}")
        judge.bound("law", law, "regulations")
        offer = partial(asked.price_of, need.id, **{f"{which}_s": law.value_s})
        remedy = f"tighten {which} of {objective.id} to {time_words(law.value_s)}"
        if own is None:
            yield judge.holds(True, f"{law.source} asks {time_words(law.value_s)}, which counts", remedy="")
            continue
        text = f"{which.upper()} {time_words(own.value_s)}; {law.source} asks {time_words(law.value_s)}"
        yield judge.at_most(own.value_s, law.value_s, "s", text, remedy=remedy, price=offer)


def _classes(need: Need, subject: str, objective: Objective, asked: Question) -> Iterator[ObjectiveFinding]:
    kinds = [*asked.continuity.classes, *CLASSES]
    kind = next((one for one in kinds if one.id == objective.data_class), None)
    if kind is None:
        return
    for which, own in (("rpo", need.own_rpo), ("rto", need.own_rto)):
        limit = class_bound(which, kind)
        if limit is None or own is None or own.source == limit.source:
            continue
        judge = Judge(CLASS, subject, state=which.upper()).bound(which.upper(), own, "").bound("class", limit, "")
        text = f"{which.upper()} {time_words(own.value_s)}; {limit.source} asks {time_words(limit.value_s)}"
        offer = partial(asked.price_of, need.id, **{f"{which}_s": limit.value_s})
        yield judge.at_most(own.value_s, limit.value_s, "s", text, remedy="tighten it, or give another class", price=offer)


def _year(need: Need, subject: str, objective: Objective, asked: Question) -> Iterator[ObjectiveFinding]:
    if objective.availability is None:
        return
    judge = Judge(YEAR, subject).take("availability", objective.availability, "", f"objectives.{objective.id}.availability")
    judge.bound("RTO", need.rto, f"objectives.{objective.id}.rto")
    if need.rto is None:
        yield judge.unknown("without an RTO nobody can say what a loss costs", measurement=f"give 'rto' of {objective.id}")
        return
    losses = max(1.0, asked.market.book.plain("events_a_year"))
    judge.take("losses a year", losses, "", "at least one, or assumptions.events_a_year", origin=Origin.DEFAULT)
    allowed = YEAR_S * (1 - objective.availability)
    text = f"{losses:g} of {time_words(need.rto.value_s)} a year; {objective.availability * 100:.6g} % allows {time_words(allowed)}"
    offer = partial(asked.price_of, need.id, rto_s=allowed / losses)
    yield judge.at_most(losses * need.rto.value_s, allowed, "s", text, remedy="shorten RTO, or promise less", price=offer)


def _again(need: Need, subject: str, asked: Question) -> ObjectiveFinding:
    served = next((one.workload for one in asked.estate.services if one.id == need.id), None)
    thing = asked.thing(served or need.id)
    judge = Judge(AGAIN, subject).take("sites", len(asked.market.capacity.sites), "", "sites.*")
    ways = asked.market.options([thing])[thing.id] if thing is not None else []
    text = f"there are {len(ways)} ways to have it elsewhere; that one works is for drills to show"
    if not ways:
        text = "no other site is there, and its data may not be in a cloud"
    return judge.holds(bool(ways), text, remedy="add a site, or allow its class in a cloud")


def _orders(asked: Question) -> Iterator[ObjectiveFinding]:
    by_id = {one.id: one for one in asked.needs}
    for name, below in sorted(direct_needs(asked.estate).items()):
        upper = by_id[name]
        for other in sorted(set(below)):
            lower = by_id[other]
            if upper.rto is None or (lower.part is Part.DATASET and lower.rto is None):
                continue  # nothing is asked of the upper one; a data set without a time is back with what uses it
            judge = Judge(ORDER, f"{upper.part.value}:{name}", state=f"needs {other}")
            judge.bound(f"RTO of {name}", upper.rto, "").bound(f"RTO of {other}", lower.rto, f"RTO of {other}")
            if lower.rto is None:
                yield judge.unknown(f"it needs {other}, of which nobody said how long it may be gone", measurement=f"give {other} an RTO")
                continue
            text = f"back after {time_words(upper.rto.value_s)}, and needs {other}, which may take {time_words(lower.rto.value_s)}"
            offer = partial(asked.price_of, other, rto_s=upper.rto.value_s)
            yield judge.at_most(lower.rto.value_s, upper.rto.value_s, "s", text, price=offer,
                                remedy=f"give {other} an RTO of at most {time_words(upper.rto.value_s)}")  # fmt: skip
