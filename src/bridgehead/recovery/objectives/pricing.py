"""Pricing: what meeting the objectives costs, what each tightening adds, what each pattern would cost, and what decides it (R3, R11).

Every price is that of the cheapest set (``choice.cheapest``), so tightening never lowers one and a further option never raises one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

import msgspec

from bridgehead.model.estate import Estate
from bridgehead.model.finding import Input, Origin
from bridgehead.model.objective import Bound, Objective
from bridgehead.model.objectivefile import Continuity
from bridgehead.model.recovery import Pattern
from bridgehead.recovery.objectives.book import Book
from bridgehead.recovery.objectives.capacity import Capacity, capacity_of
from bridgehead.recovery.objectives.choice import Chosen, cheapest
from bridgehead.recovery.objectives.option import Option, options_of
from bridgehead.recovery.objectives.thing import Change, Thing, things_of


class Rung(msgspec.Struct, frozen=True):
    """The estate with one time for everything.

    Attributes:
        value_s: the time.
        month: money; None when something cannot meet it.
        unmet: what cannot.
    """

    value_s: float
    month: float | None
    unmet: tuple[str, ...]


class PatternPrice(msgspec.Struct, frozen=True, kw_only=True):
    """The estate with one pattern wherever it can be used.

    Attributes:
        month: money, the cheapest other pattern included where this one cannot be used.
        share: of what the protected GPUs cost anyway; None when there are none.
        used: things that it is used for.
        others: things for which it makes no sense, or whose data may not be there.
        late: things that it recovers too slowly, or nobody knows how fast.
    """

    pattern: Pattern
    month: float
    share: float | None
    used: tuple[str, ...]
    others: tuple[str, ...]
    late: tuple[str, ...]


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One objective a rung tighter or looser, all others as they are.

    Attributes:
        objective: its name.
        which: ``rpo`` or ``rto``.
        from_s: the time as it is.
        to_s: the rung.
        more: money a month more, negative for less; None when something cannot meet it.
    """

    objective: str
    which: str
    from_s: float
    to_s: float
    more: float | None


class Pricing(msgspec.Struct, frozen=True, kw_only=True):
    """All of it.

    Attributes:
        things: what has to be there again.
        without: what has no objective, nor a class that says a time; it is in no price.
        assumed: things that nobody gave an objective; they are priced as their kind's class says.
        chosen: the cheapest set that meets every need.
        anyway: what the GPUs of the things cost a month, disaster or not.
        binds: what decides the price, in words.
        inputs: every number that went in, with its origin.
    """

    currency: str
    things: tuple[Thing, ...]
    without: tuple[str, ...]
    assumed: tuple[str, ...]
    chosen: Chosen
    anyway: float
    patterns: tuple[PatternPrice, ...]
    rpo: tuple[Rung, ...]
    rto: tuple[Rung, ...]
    steps: tuple[Step, ...]
    binds: tuple[str, ...]
    inputs: tuple[Input, ...]

    @property
    def guesses(self) -> tuple[Input, ...]:
        """The numbers that nobody gave."""
        return tuple(one for one in self.inputs if one.origin is Origin.GUESS)


class Market:
    """What the options of things cost, with one tariff and one capacity."""

    def __init__(self, estate: Estate, continuity: Continuity) -> None:
        self.book = Book(continuity)
        self.capacity: Capacity = capacity_of(estate, continuity, self.book)

    def options(self, things: Iterable[Thing]) -> dict[str, list[Option]]:
        """Of each thing, by name."""
        return {thing.id: options_of(thing, self.book, self.capacity.sites) for thing in things}

    def cheapest(self, things: Sequence[Thing]) -> Chosen:
        """The cheapest set that meets them."""
        return cheapest(things, self.options(things), self.capacity, self.book)

    def month(self, things: Sequence[Thing]) -> float | None:
        """Money for it; None when something cannot be met."""
        found = self.cheapest(things)
        return None if found.unmet else found.month

    def pattern(self, pattern: Pattern, things: Sequence[Thing], *, anyway: float) -> PatternPrice:
        """The estate with one pattern wherever it can be used, however long it takes."""
        options = self.options(things)
        can = {name: [one for one in held if one.pattern is pattern] for name, held in options.items()}
        found = cheapest(things, {name: can[name] or held for name, held in options.items()}, self.capacity, self.book, ask_times=False)
        asked = {thing.id: None if thing.rto is None else thing.rto.value_s for thing in things}
        return PatternPrice(
            pattern=pattern,
            month=found.month,
            share=found.month / anyway if anyway else None,
            used=tuple(sorted(name for name, held in can.items() if held)),
            others=tuple(sorted(name for name, held in can.items() if not held)),
            late=tuple(sorted({one.thing for one in found.options if not one.meets(asked[one.thing])} | set(found.unmet))),
        )


def price(estate: Estate, continuity: Continuity) -> Pricing:
    """Price the objectives of an estate. Deterministic: the order of anything in the files changes nothing."""
    market = Market(estate, continuity)
    everything = things_of(estate, continuity)
    things = tuple(one for one in everything if speaks(one))
    anyway = sum(thing.gpus for thing in things) * market.book.price("gpu_month")
    chosen = market.cheapest(things)
    met = {thing.id for thing in things if thing.id not in chosen.unmet}
    steps = tuple(_steps(market, estate, continuity, met, chosen.month))
    return Pricing(
        currency=continuity.currency,
        things=things,
        without=tuple(one.id for one in everything if not speaks(one)),
        assumed=() if continuity.accept_defaults else tuple(one.id for one in things if one.need.objective is None),
        chosen=chosen,
        anyway=anyway,
        patterns=tuple(market.pattern(pattern, things, anyway=anyway) for pattern in Pattern),
        rpo=tuple(_rung(market, things, "rpo", value) for value in continuity.ladder.rpo),
        rto=tuple(_rung(market, things, "rto", value) for value in continuity.ladder.rto),
        steps=steps,
        binds=tuple(_binds(chosen, steps, things, continuity.currency)),
        inputs=market.book.used,
    )


def speaks(thing: Thing) -> bool:
    """Whether anything is asked of it."""
    return thing.need.objective is not None or thing.rpo is not None or thing.rto is not None


def with_time(thing: Thing, which: str, value_s: float) -> Thing:
    """The thing with another time; ``which`` is ``rpo`` or ``rto``."""
    bound = Bound(value_s, Origin.DERIVED, "ladder")
    return msgspec.structs.replace(thing, **{which: bound})


def _rung(market: Market, things: Sequence[Thing], which: str, value_s: float) -> Rung:
    found = market.cheapest([with_time(thing, which, value_s) for thing in things])
    return Rung(value_s, None if found.unmet else found.month, found.unmet)


def _steps(market: Market, estate: Estate, continuity: Continuity, met: Collection[str], month: float) -> list[Step]:
    """One rung up and down for each objective that something has. What others need is tightened with them."""
    things = [thing for thing in things_of(estate, continuity) if thing.id in met]
    found = []
    for objective in sorted(continuity.objectives, key=lambda one: one.id):
        held = [thing for thing in things if thing.need.objective == objective]
        for which, rungs in (("rpo", continuity.ladder.rpo), ("rto", continuity.ladder.rto)):
            said = [bound.value_s for thing in held if (bound := getattr(thing.need, which)) is not None]
            if not said or (which == "rpo" and all(thing.change is Change.NONE for thing in held)):
                continue
            tighter = max((rung for rung in rungs if rung < min(said)), default=None)
            looser = min((rung for rung in rungs if rung > max(said)), default=None)
            for to_s in (tighter, looser):
                if to_s is not None:
                    other = [thing for thing in things_of(estate, tightened(continuity, objective, which, to_s)) if thing.id in met]
                    then = market.month(other)
                    more = None if then is None else round(then - month, 2)
                    found.append(Step(objective=objective.id, which=which, from_s=min(said), to_s=to_s, more=more))
    return found


def tightened(continuity: Continuity, objective: Objective, which: str, value_s: float) -> Continuity:
    """The file with another time of one objective; regulations go on to count."""
    other = msgspec.structs.replace(objective, **{f"{which}_s": value_s})
    return msgspec.structs.replace(continuity, objectives=tuple(other if one is objective else one for one in continuity.objectives))


def _binds(chosen: Chosen, steps: Iterable[Step], things: Sequence[Thing], currency: str) -> list[str]:
    """What decides the price: times whose loosening saves money, capacity that had to be bought, things that inherit a time."""
    found = [
        f"{step.which.upper()} of {step.objective}: a rung looser saves {-step.more:,.0f} {currency} a month"
        for step in steps
        if step.more is not None and step.more < 0 and step.to_s > step.from_s
    ]
    for one in chosen.bought:
        if one.what != "pattern" and one.amount:
            found.append(f"{one.what} {one.where}: {_amount(one.what, one.need)} needed, {_amount(one.what, one.free)} there anyway")
    found += [f"only a pattern without restore is sure for {thing.id}, since nobody knows how long its restore takes"
              for thing in things if thing.rto is not None and thing.restore_s is None and thing.state_bytes is None]  # fmt: skip
    found += [f"{thing.id} must be back as soon as {thing.because}, which needs it" for thing in things if thing.because]
    return found


def _amount(what: str, number: float) -> str:
    return f"{number / 1e9:,.3g} Gb/s" if what == "line" else f"{number:,.0f}"
