"""Cost lines: every product of inputs that a move costs, that staying would have cost, and that the target saves (M11, P22). Pure."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Final

import msgspec

from bridgehead.model.estate import Site
from bridgehead.model.finding import Input, Origin
from bridgehead.planning import consumption as used
from bridgehead.planning.cost_math import HOURS_OF_YEAR
from bridgehead.planning.course import Course

GPU_HOUR: Final = 2.0
PUE: Final = 1.5
PER_KWH: Final = 0.15
TEAM_DAY: Final = 3000.0
PLANNING_HOUR: Final = 100.0
INSURANCE: Final = 0.005
"""Guesses for what nobody gave, in the policy's currency: an order of magnitude, to be replaced by an offer."""


class Group(enum.StrEnum):
    """What an entry belongs to."""

    MOVE = "move"
    """Paid while the plan runs."""
    OTHERWISE = "otherwise"
    """Would have been paid in the same time by who stays."""
    SAVING = "saving"
    """Of each year after the move."""


class Entry(msgspec.Struct, frozen=True):
    """One amount: the product of its inputs.

    Attributes:
        sign: -1 where it is taken off.
        note: what a reader has to know of it.
    """

    id: str
    title: str
    group: Group
    inputs: tuple[Input, ...]
    sign: int = 1
    note: str = ""


def entries_of(course: Course) -> tuple[Entry, ...]:
    """All entries of a plan, in the order in which they are shown."""
    return (*_sites(course), *_energy(course), *_compute(course), *_carrying(course), *_lines(course), *_reserves(course), *_saving(course))


def _taken(name: str, value: float | None, unit: str, source: str, *, otherwise: float | None = None) -> Input:
    """An input of a person; ``otherwise`` stands in for it as a guess."""
    if value is not None:
        return Input(name, value, unit, Origin.DECLARED, source)
    return Input(name, otherwise, unit, Origin.MISSING if otherwise is None else Origin.GUESS, source)


def _counted(name: str, counted: used.Counted | float, unit: str, source: str) -> Input:
    if isinstance(counted, used.Counted):
        return Input(name, counted.value, unit, counted.origin, source)
    return Input(name, counted, unit, Origin.DERIVED, source)


def _price(course: Course, field: str, name: str, per: str, *, otherwise: float | None = None) -> Input:
    value = getattr(course.policy.prices, field)
    return _taken(name, value, f"{course.policy.currency}{per}", f"policy.prices.{field}", otherwise=otherwise)


def _days(course: Course) -> Input:
    return _counted("days both sites run", used.days_of(course), "d", "plan.ends - plan.begins")


def _sites(course: Course) -> Iterator[Entry]:
    days = _days(course)
    source = _price(course, "source_site_day", "a day of the source", "/d")
    target = _price(course, "target_site_day", "a day of the target", "/d")
    yield Entry("site-source", "The source, while both sites run", Group.MOVE, (days, source))
    yield Entry("site-target", "The target, while both sites run", Group.MOVE, (days, target))
    yield Entry("otherwise-site", "The source in that time, without a move", Group.OTHERWISE, (days, source))


def _energy(course: Course) -> Iterator[Entry]:
    energy = used.energy_of(course)
    note = "at full load: an upper bound; the losses of UPS and PDU are in the PUE"
    for end, site, hours in (("source", course.source, energy.source_h), ("target", course.target, energy.target_h)):
        counted = _counted(f"hours at full power at the {end}", hours, "h", "plan.waves.*: out, burn-in")
        inputs = (_power(course, energy), counted, *_tariff(course, end, site))
        yield Entry(f"energy-{end}", f"Energy of the {end}", Group.MOVE, inputs, note=note)
    counted = _counted("hours at full power, had it stayed", energy.otherwise_h, "h", "plan.ends - plan.begins")
    inputs = (_power(course, energy), counted, *_tariff(course, "source", course.source))
    yield Entry("otherwise-energy", "Energy of the source in that time, without a move", Group.OTHERWISE, inputs)


def _power(course: Course, energy: used.Energy) -> Input:
    site = course.source if course.source.nodes else course.target
    return _counted("kW of equipment", energy.kw, "kW", f"sites.{site.id}.nodes.*.power")


def _tariff(course: Course, end: str, site: Site) -> tuple[Input, Input]:
    pue = _taken(f"PUE of the {end}", site.pue, "1", f"sites.{site.id}.pue", otherwise=PUE)
    unit, path = f"{course.policy.currency}/kWh", f"sites.{site.id}.energy_price"
    price = site.energy_price
    if price is not None and price.currency != course.policy.currency:
        return pue, Input(f"tariff of the {end}", None, unit, Origin.MISSING, f"{path}, which is in {price.currency}")
    return pue, _taken(f"tariff of the {end}", None if price is None else price.per_kwh, unit, path, otherwise=PER_KWH)


def _compute(course: Course) -> Iterator[Entry]:
    hour = _price(course, "gpu_hour", "a GPU-hour", "/GPU-h", otherwise=GPU_HOUR)
    lost = _counted("GPU-hours lost", course.plan.score.lost_gpu_hours, "GPU-h", "plan.score.lost_gpu_hours")
    yield Entry("lost", "Lost compute: workloads that stand still or run on fewer GPUs", Group.MOVE, (lost, hour))
    transit = used.gpu_hours_in_transit(course)
    if transit:
        counted = _counted("GPU-hours in transit", transit, "GPU-h", "plan.waves.*: joins - out, less plan.shrinks")
        yield Entry("idle-transit", "Idle GPUs: on their way, at the dock, in burn-in", Group.MOVE, (counted, hour))
    reserve = _taken("reserve", course.policy.reserve, "1", "policy.reserve")
    run = _counted("GPU-hours that workloads run", used.gpu_hours_run(course), "GPU-h", "workloads.*.gpus over plan.swings")
    yield Entry("idle-reserve", "Idle GPUs: the reserve at both sites", Group.MOVE, (reserve, run, hour))


def _carrying(course: Course) -> Iterator[Entry]:
    currency, logistics = course.policy.currency, course.policy.logistics
    trips = used.vehicle_trips(course)
    if trips:
        price = None if logistics is None else logistics.fleet.trip_cost
        per = _taken("a round trip", price, f"{currency}/trip", "policy.logistics.fleet.trip_cost")
        yield Entry("vehicles", "Vehicles", Group.MOVE, (_counted("trips of vehicles", trips, "trip", "plan.waves.*.vehicles"), per))
        share = course.policy.prices.insurance_share
        if share is not None or price is None:
            value = _counted("value carried", used.carried_value(course), currency, "plan.waves.*.vehicles.*.value")
            premium = _price(course, "insurance_share", "premium", "", otherwise=INSURANCE)
            inputs = (value, msgspec.structs.replace(premium, unit="1"))
            note = "" if price is None else "leave insurance_share out if a trip is priced with the insurance of its load"
            yield Entry("insurance", "Insurance of what is carried", Group.MOVE, inputs, note=note)
    crews = {} if logistics is None else {crew.id: crew for crew in logistics.crews}
    for name, days in used.team_days(course).items():
        counted = _counted(f"team-days of {name}", days, "d", f"plan.waves.*.tasks with crew {name}")
        cost = crews[name].day_cost if name in crews else None
        per = _taken(f"a team-day of {name}", cost, f"{currency}/d", f"policy.logistics.crews.{name}.day_cost", otherwise=TEAM_DAY)
        yield Entry(f"crew-{name}", f"Crew {name}", Group.MOVE, (counted, per))
    hours = used.execution_h(course)
    if hours:
        counted = _counted("hours of execution", hours, "h", "plan.waves.*.tasks with a crew")
        ratio = Input("hours of preparation for one", used.PREPARATION, "1", Origin.DEFAULT, "requirement M6")
        per = _price(course, "planning_hour", "an hour of preparation", "/h", otherwise=PLANNING_HOUR)
        yield Entry("preparation", "Preparation: three hours for each of execution", Group.MOVE, (ratio, counted, per))


def _lines(course: Course) -> Iterator[Entry]:
    trips = used.courier_trips(course)
    if trips:
        per = _price(course, "courier_trip", "a trip of the courier", "/trip")
        yield Entry(
            "courier", "Courier with drives", Group.MOVE, (_counted("trips of couriers", trips, "trip", "plan.transfers.*.courier"), per)
        )
    ends = {course.source.id, course.target.id}
    if any(set(link.between) == ends for link in course.estate.links):
        days = _counted("days the lines are kept", used.link_days(course), "d", "plan.begins to the end of link-kept")
        yield Entry("links", "Lines between the sites", Group.MOVE, (days, _price(course, "link_day", "a day of the lines", "/d")))


def _reserves(course: Course) -> Iterator[Entry]:
    currency, logistics = course.policy.currency, course.policy.logistics
    values = {} if logistics is None else logistics.gpu_values
    for part in course.plan.spares:
        count = _counted(f"spare {part.model}", part.count, "GPUs", "plan.spares")
        each = _taken(f"one {part.model}", values.get(part.model), f"{currency}/GPU", f"policy.logistics.gpu_values.{part.model}")
        yield Entry(
            f"spares-{part.model}", f"Spare GPUs: {part.model}", Group.MOVE, (count, each), note="they remain when the move is over"
        )
    for risk in course.policy.risks:
        chance = _taken(f"probability of {risk.id}", risk.probability, "1", f"policy.risks.{risk.id}.probability")
        cost = _taken(f"cost of {risk.id}", risk.cost, currency, f"policy.risks.{risk.id}.cost")
        yield Entry(f"risk-{risk.id}", f"Risk: {risk.id}", Group.MOVE, (chance, cost), note=risk.mitigation)


def _saving(course: Course) -> Iterator[Entry]:
    prices, currency = course.policy.prices, course.policy.currency
    if prices.saved_year is None and prices.source_site_day is not None and prices.target_site_day is not None:
        year = Input("days of a year", 365, "d", Origin.DERIVED, "")
        for end, sign in (("source", 1), ("target", -1)):
            day = _price(course, f"{end}_site_day", f"a day of the {end}", "/d")
            yield Entry(f"year-site-{end}", f"A year of the {end}", Group.SAVING, (year, day), sign=sign)
    else:
        saved = _taken("saved a year", prices.saved_year, f"{currency}/a", "policy.prices.saved_year")
        yield Entry("year-saved", "Saved a year, energy left out", Group.SAVING, (saved,))
    energy = used.energy_of(course)
    hours = Input("hours of a year", HOURS_OF_YEAR, "h/a", Origin.DERIVED, "")
    for end, site, sign in (("source", course.source, 1), ("target", course.target, -1)):
        inputs = (_power(course, energy), hours, *_tariff(course, end, site))
        yield Entry(f"year-energy-{end}", f"Energy of a year at the {end}", Group.SAVING, inputs, sign=sign)
