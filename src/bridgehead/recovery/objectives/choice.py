"""Choice: the cheapest set of options that meets every need, found with CP-SAT, and how far from the best it can be at most (R3).

What is shared makes this more than picking the cheapest option of each thing:

- Sites are lost one at a time. GPUs that stand by at a site for things of two other sites are needed by one of them only.
- A line is bought in steps, for all that travels over it.
- A pattern has a fixed price (its runbooks and drills), however many things use it.
- A workload recovers only where its data sets are.

Money is counted in whole hundredths, bandwidth in whole Mb/s (rounded up), so that the answer is exact and the same each time.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
from ortools.sat.python import cp_model

from bridgehead.kernel.ids import SiteId
from bridgehead.model.objective import Part
from bridgehead.model.recovery import Pattern
from bridgehead.recovery.objectives.book import Book
from bridgehead.recovery.objectives.capacity import Capacity, Room, Way
from bridgehead.recovery.objectives.option import Option
from bridgehead.recovery.objectives.thing import Thing

EFFORT: Final = 30.0
"""Deterministic time of the solver: the same on every machine, about seconds."""
MBPS: Final = 1e6
MOST_BPS: Final = 1e18


class Bought(msgspec.Struct, frozen=True, kw_only=True):
    """Something that several things share.

    Attributes:
        what: ``standby GPUs``, ``GPUs on call``, ``line`` or ``pattern``.
        where: a site and GPU model, two sites, or a pattern.
        need: how much is needed at the worst, GPUs or bit/s.
        free: how much is there anyway.
        amount: how much is bought.
        month: money for it.
        users: the things that need it.
    """

    what: str
    where: str
    need: float
    free: float
    amount: float
    month: float
    users: tuple[str, ...]


class Chosen(msgspec.Struct, frozen=True, kw_only=True):
    """A set of options.

    Attributes:
        options: one for each thing, some data sets several times; by part, name and site.
        bought: what they share.
        month: money for all of it.
        bound: no set is cheaper.
        unmet: things that no option meets; they are in no price.
    """

    options: tuple[Option, ...]
    bought: tuple[Bought, ...]
    month: float
    bound: float
    unmet: tuple[str, ...] = ()

    @property
    def gap(self) -> float:
        """By what share of its price a cheaper set might exist; 0: none does."""
        return 0.0 if self.month <= self.bound else (self.month - self.bound) / self.month

    @property
    def gaps(self) -> tuple[str, ...]:
        """What is not known and would make it dearer."""
        return tuple(sorted({gap for option in self.options for gap in option.gaps}))


class _Model:
    """The question to the solver."""

    def __init__(self, things: Sequence[Thing], options: Mapping[str, Sequence[Option]], capacity: Capacity, book: Book) -> None:
        self.model = cp_model.CpModel()
        self.things, self.capacity, self.book = things, capacity, book
        self.picks: list[tuple[Thing, Option, cp_model.IntVar]] = []
        self.money: list[cp_model.LinearExprT] = []
        for thing in things:
            of_thing = []
            for option in options[thing.id]:
                pick = self.model.new_bool_var(f"{thing.id} {option.pattern.value} {option.site} {option.sync}")
                self.picks.append((thing, option, pick))
                self.money.append(_hundredths(sum(line.month for line in option.lines)) * pick)
                of_thing.append(pick)
            if thing.part is Part.DATASET:
                self.model.add_at_least_one(of_thing)
            else:
                self.model.add_exactly_one(of_thing)
        self._data_is_there()
        self._rooms()
        self._lines()
        self._patterns()
        self.model.minimize(sum(self.money))

    def _data_is_there(self) -> None:
        for data in self.things:
            for thing, option, pick in self.picks:
                if thing.id in data.users and option.site != data.home:
                    copies = [other for one, held, other in self.picks if one is data and held.site == option.site]
                    self.model.add_bool_or([pick.negated(), *copies])

    def _rooms(self) -> None:
        stands_at: defaultdict[Room, list[tuple[Thing, Option, cp_model.IntVar]]] = defaultdict(list)
        for thing, option, pick in self.picks:
            if option.needs or option.own:
                stands_at[self.capacity.room(option.site, thing.gpu_model)].append((thing, option, pick))
        running, waiting = _hundredths(self.book.price("gpu_month")), _hundredths(self.book.price("on_call_gpu_month"))
        for room in sorted(stands_at):
            picks = stands_at[room]
            most = sum(option.needs + option.own for _, option, _ in picks)
            buys = self.model.new_int_var(0, most, f"buys {room}")
            calls = self.model.new_int_var(0, most, f"calls {room}")
            idle, yielding = self.capacity.idle.get(room, 0), self.capacity.yielding.get(room, 0)
            own = sum(option.own * pick for _, option, pick in picks)
            for lost in sorted({thing.home for thing, _, _ in picks}):
                of_lost = [(option, pick) for thing, option, pick in picks if thing.home == lost]
                self.model.add(buys + idle >= own + sum(option.stands * pick for option, pick in of_lost))
                self.model.add(buys + calls + idle + yielding >= own + sum(option.needs * pick for option, pick in of_lost))
            self.money += [running * buys, waiting * calls]

    def _lines(self) -> None:
        by_way: defaultdict[Way, list[cp_model.LinearExprT]] = defaultdict(list)
        most: defaultdict[Way, int] = defaultdict(int)
        for thing, option, pick in self.picks:
            if option.rate_bps:
                rate = math.ceil(min(option.rate_bps, MOST_BPS) / MBPS)
                by_way[thing.home, option.site].append(rate * pick)
                most[thing.home, option.site] += rate
        step = max(1, math.ceil(self.book.rate_bps("link_step") / MBPS))
        price = _hundredths(self.book.price("link_gbps_month") * step * MBPS / 1e9)
        for way in sorted(by_way):
            free = math.floor(self.capacity.free_bps.get(way, 0.0) / MBPS)
            steps = self.model.new_int_var(0, -(-most[way] // step), f"steps {way}")
            self.model.add(step * steps + free >= sum(by_way[way]))
            self.money.append(price * steps)

    def _patterns(self) -> None:
        by_pattern: defaultdict[Pattern, list[cp_model.IntVar]] = defaultdict(list)
        for _, option, pick in self.picks:
            by_pattern[option.pattern].append(pick)
        for pattern in sorted(by_pattern):
            has = self.model.new_bool_var(f"has {pattern.value}")
            for pick in by_pattern[pattern]:
                self.model.add_implication(pick, has)
            self.money.append(_hundredths(self.book.term(pattern, "fixed_hours") * self.book.price("labour_hour")) * has)


def cheapest(
    things: Iterable[Thing], options: Mapping[str, Sequence[Option]], capacity: Capacity, book: Book, *, ask_times: bool = True
) -> Chosen:
    """The cheapest set; the same for the same input in any order.

    Args:
        options: of each thing, by name.
        ask_times: whether recovery times must be met; without it, each thing has any of its options.
    """
    given = sorted(things, key=lambda thing: (thing.part, thing.id))
    usable = {thing.id: [one for one in options[thing.id] if not ask_times or one.meets(_asked_s(thing))] for thing in given}
    unmet = _unmet(given, usable)
    met = [thing for thing in given if thing.id not in unmet]
    if not met:
        return Chosen(options=(), bought=(), month=0.0, bound=0.0, unmet=unmet)
    question = _Model(met, usable, capacity, book)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1  # with several, which of two equally cheap sets comes first would be chance
    solver.parameters.random_seed = 1
    solver.parameters.linearization_level = 2  # shared capacity is what its relaxation sees: 250 workloads in 0.6 s, without it not in 40
    solver.parameters.max_deterministic_time = EFFORT
    status = solver.solve(question.model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise AssertionError(f"a set exists, and the solver says {solver.status_name(status)}")
    chosen = [(thing, option) for thing, option, pick in question.picks if solver.boolean_value(pick)]
    bought = bought_for(chosen, capacity, book)
    month = _total([option for _, option in chosen], bought)
    bound = month if status == cp_model.OPTIMAL else solver.best_objective_bound / 100
    return Chosen(options=tuple(option for _, option in chosen), bought=bought, month=month, bound=min(month, bound), unmet=unmet)


def bought_for(chosen: Sequence[tuple[Thing, Option]], capacity: Capacity, book: Book) -> tuple[Bought, ...]:
    """What a set shares, counted anew from the set: the solver's own sums are not taken on trust."""
    return (*_gpus(chosen, capacity, book), *_ways(chosen, capacity, book), *_fixed(chosen, book))


def _gpus(chosen: Sequence[tuple[Thing, Option]], capacity: Capacity, book: Book) -> list[Bought]:
    found = []
    rooms: defaultdict[Room, list[tuple[Thing, Option]]] = defaultdict(list)
    for thing, option in chosen:
        if option.needs or option.own:
            rooms[capacity.room(option.site, thing.gpu_model)].append((thing, option))
    for room, held in sorted(rooms.items()):
        own = sum(option.own for _, option in held)
        homes = sorted({thing.home for thing, _ in held})
        stands = own + max(sum(option.stands for thing, option in held if thing.home == home) for home in homes)
        needs = own + max(sum(option.needs for thing, option in held if thing.home == home) for home in homes)
        idle, yielding = capacity.idle.get(room, 0), capacity.yielding.get(room, 0)
        buys = max(0, stands - idle)
        calls = max(0, needs - idle - yielding - buys)
        where = " ".join(part for part in room if part)
        names = tuple(sorted({thing.id for thing, _ in held}))
        for what, need, free, amount, price in (
            ("standby GPUs", stands, idle, buys, "gpu_month"),
            ("GPUs on call", needs, idle + yielding + buys, calls, "on_call_gpu_month"),
        ):
            if need:
                month = amount * _hundredths(book.price(price)) / 100
                found.append(Bought(what=what, where=where, need=need, free=free, amount=amount, month=month, users=names))
    return found


def _ways(chosen: Sequence[tuple[Thing, Option]], capacity: Capacity, book: Book) -> list[Bought]:
    rates: defaultdict[Way, int] = defaultdict(int)
    users: defaultdict[Way, set[str]] = defaultdict(set)
    for thing, option in chosen:
        if option.rate_bps:
            rates[thing.home, option.site] += math.ceil(min(option.rate_bps, MOST_BPS) / MBPS)
            users[thing.home, option.site].add(thing.id)
    step = max(1, math.ceil(book.rate_bps("link_step") / MBPS))
    price = _hundredths(book.price("link_gbps_month") * step * MBPS / 1e9)
    found = []
    for way, rate in sorted(rates.items()):
        free = math.floor(capacity.free_bps.get(way, 0.0) / MBPS)
        steps = max(0, -(-(rate - free) // step))
        found.append(Bought(what="line", where=f"{way[0]} to {_place(way[1])}", need=rate * MBPS, free=free * MBPS,
                            amount=steps * step * MBPS, month=steps * price / 100, users=tuple(sorted(users[way]))))  # fmt: skip
    return found


def _fixed(chosen: Sequence[tuple[Thing, Option]], book: Book) -> list[Bought]:
    found = []
    for pattern in sorted({option.pattern for _, option in chosen}):
        hours = book.term(pattern, "fixed_hours")
        month = _hundredths(hours * book.price("labour_hour")) / 100
        users = tuple(sorted({thing.id for thing, option in chosen if option.pattern is pattern}))
        found.append(Bought(what="pattern", where=pattern.value, need=hours, free=0, amount=hours, month=month, users=users))
    return found


def _total(options: Iterable[Option], bought: Iterable[Bought]) -> float:
    own = sum(_hundredths(sum(line.month for line in option.lines)) for option in options)
    return (own + sum(round(one.month * 100) for one in bought)) / 100


def _unmet(things: Sequence[Thing], usable: dict[str, list[Option]]) -> tuple[str, ...]:
    """Things without an option, and those that would have to recover where a data set of theirs cannot be."""
    places: dict[str, set[SiteId]] = {thing.id: {one.site for one in usable[thing.id]} | {thing.home} for thing in things}
    for data in things:
        for user in data.users:
            if user in usable:
                usable[user] = [one for one in usable[user] if one.site in places[data.id]]
    return tuple(thing.id for thing in things if not usable[thing.id])


def _asked_s(thing: Thing) -> float | None:
    return None if thing.rto is None else thing.rto.value_s


def _place(site: SiteId) -> str:
    return site.strip("()")


def _hundredths(money: float) -> int:
    return math.floor(money * 100 + 0.5)
