"""Reach: whether objectives can be met by the lines, stores and jobs that are there (R1, R2, R3, R8).

possible RPO   = interval + 8 * delta / rate,  interval = the workload's own, at least the time of travel
what travels   = sum of the rates of all that protect themselves over a line
predicted RTO  = detect + decide + restore + warm-up, before anything that has to be provided
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from functools import partial

from bridgehead.kernel.ids import SiteId
from bridgehead.model.finding import Input, Origin
from bridgehead.model.objective import Part
from bridgehead.recovery.objectives.book import Book
from bridgehead.recovery.objectives.coverage import Question
from bridgehead.recovery.objectives.judge import Check, Judge, ObjectiveFinding, Price, rate_words, size_words, time_words
from bridgehead.recovery.objectives.option import rate_bps
from bridgehead.recovery.objectives.pricing import speaks
from bridgehead.recovery.objectives.thing import Change, Thing

RPO = Check(
    "OBJ-RPO", "Can the lines bring copies over as often as its RPO asks?", ("R1", "R3", "R8"),
    "max(interval, travel) + travel <= RPO, travel = 8 · delta / bandwidth left to the best other site; streams: change · 1.3 <= bandwidth",
)  # fmt: skip
SAVES = Check("OBJ-SAVES", "Does it save as often as its RPO asks?", ("R1", "R6"), "time between two checkpoints < RPO")
RTO = Check(
    "OBJ-RTO", "Is a restore quick enough for its RTO?", ("R2", "M4"),
    "detect + decide + restore + warm-up <= RTO; restore measured, else 8 · state / restore rate",
)  # fmt: skip
LINE = Check("OBJ-LINE", "Does a line carry what all that protects itself over it sends?", ("R3", "R8", "R17"),
             "sum of rates <= bandwidth that production leaves")  # fmt: skip
CHECKS = (RPO, SAVES, RTO, LINE)


def reach(asked: Question) -> Iterator[ObjectiveFinding]:
    """All findings of this file."""
    for thing in asked.things:
        if speaks(thing):
            yield from _saves(thing)
            yield from _rpo(thing, asked)
            yield from _rto(thing, asked)
    yield from _lines(asked)


def best_way(thing: Thing, asked: Question) -> tuple[SiteId | None, float]:
    """The other site to which most bandwidth is left, and how much."""
    capacity = asked.market.capacity
    ways = [(capacity.free_bps.get((thing.home, site), 0.0), site) for site in capacity.sites if site != thing.home]
    return (None, 0.0) if not ways else (max(ways)[1], max(ways)[0])


def _saves(thing: Thing) -> Iterator[ObjectiveFinding]:
    if thing.change is not Change.SNAPSHOTS or thing.rpo is None:
        return
    judge = (
        Judge(SAVES, _subject(thing))
        .bound("RPO", thing.rpo, "")
        .take("interval", thing.every_s, "s", f"workloads.{thing.id}.checkpoint_every")
    )
    if thing.every_s is None:
        yield judge.unknown("nobody said how often it saves", measurement=f"give workloads.{thing.id}.checkpoint_every")
        return
    text = f"it saves every {time_words(thing.every_s)}; RPO {time_words(thing.rpo.value_s)}"
    if thing.rpo.value_s == 0:
        yield judge.holds(
            False, f"{text}: what is computed between two saves is lost", remedy="a job that saves cannot lose nothing: raise its RPO"
        )
        return
    yield judge.at_most(thing.every_s, thing.rpo.value_s, "s", text, remedy=f"save at least every {time_words(thing.rpo.value_s / 2)}")


def _rpo(thing: Thing, asked: Question) -> Iterator[ObjectiveFinding]:
    if thing.change is Change.NONE or thing.rpo is None:
        return
    site, left = best_way(thing, asked)
    judge = Judge(RPO, _subject(thing), state=f"to {site}" if site else "").bound("RPO", thing.rpo, "")
    judge.take("bandwidth left", left if site else None, "bit/s", "links.*")
    if site is None:
        yield judge.unknown("there is no other site", measurement="describe the site where it is recovered")
        return
    if thing.change is Change.STREAM:
        yield _stream(thing, judge, site, left, asked)
        return
    judge.take("state", thing.state_bytes, "B", f"workloads.{thing.id}.checkpoint")
    if thing.state_bytes is None:
        yield judge.unknown("the size of its state is not known", measurement=f"give workloads.{thing.id}.checkpoint")
        return
    delta = thing.state_bytes * asked.market.book.plain("delta_share")
    judge.noted(asked.market.book.inputs("assumptions.delta_share"))
    travel_s = math.inf if left == 0 else 8 * delta / left
    possible_s = max(thing.every_s or 0.0, travel_s) + travel_s
    price = partial(_line_price, thing, left, asked)
    if math.isinf(travel_s):
        yield judge.holds(
            False, f"no bandwidth is left to {site}", remedy="order a line, or see whether production can leave some", price=price
        )
        return
    news = size_words(delta)
    text = f"{news} a time over {rate_words(left)}: at best {time_words(possible_s)} old; RPO {time_words(thing.rpo.value_s)}"
    yield judge.at_most(
        possible_s, thing.rpo.value_s, "s", text, remedy=f"more bandwidth to {site}, or an RPO of {time_words(possible_s)}", price=price
    )


def _stream(thing: Thing, judge: Judge, site: SiteId, left: float, asked: Question) -> ObjectiveFinding:
    judge.take("change", thing.change_bps, "bit/s", f"datasets.{thing.id}.change")
    rate = rate_bps(thing, 1.0, sync=False, book=asked.market.book)
    if rate is None:
        return judge.unknown("how much of it changes is not known", measurement=f"measure how much of {thing.id} changes in a day")
    text = f"its changes take {rate_words(rate)} with 30 % to spare; {rate_words(left)} are left to {site}"
    return judge.at_most(rate, left, "bit/s", text, remedy=f"more bandwidth to {site}", price=partial(_line_price, thing, left, asked))


def _line_price(thing: Thing, left: float, asked: Question) -> Price:
    """Of the bandwidth that is lacking for one thing."""
    book, assert_rpo = asked.market.book, thing.rpo
    assert assert_rpo is not None
    sync = assert_rpo.value_s == 0
    needed = rate_bps(thing, assert_rpo.value_s, sync=sync, book=book) or 0.0
    lacking = max(0.0, needed - left)
    steps = math.ceil(lacking / book.rate_bps("link_step"))
    month = steps * book.rate_bps("link_step") / 1e9 * book.price("link_gbps_month")
    weak = bool(_guessed(book, ("prices.link_gbps_month", "assumptions.delta_share")))
    return Price(month, book.currency, f"{rate_words(needed)} instead of {rate_words(left)}", guess=weak)


def _rto(thing: Thing, asked: Question) -> Iterator[ObjectiveFinding]:
    if thing.rto is None or thing.part is Part.DATASET or not (thing.gpus or thing.state_bytes):
        return
    book = asked.market.book
    judge = Judge(RTO, _subject(thing)).bound("RTO", thing.rto, "")
    ahead_s = book.seconds("detect") + book.seconds("decide")
    judge.noted(book.inputs("assumptions.detect", "assumptions.decide"))
    restore_s = thing.restore_s
    if restore_s is not None:
        judge.take("restore", restore_s, "s", f"workloads.{thing.id}.restore")
    elif thing.state_bytes is not None:
        restore_s = 8 * thing.state_bytes / book.rate_bps("restore")
        judge.take("state", thing.state_bytes, "B", f"workloads.{thing.id}.checkpoint").noted(book.inputs("assumptions.restore"))
    else:
        judge.take("restore", None, "s", f"workloads.{thing.id}.restore")
        yield judge.unknown(
            "how long a restore takes is not known", measurement=f"restore {thing.id} once and measure it, or give its size"
        )
        return
    takes_s = ahead_s + restore_s + thing.warm_up_s
    text = f"noticed, decided and restored after {time_words(takes_s)}; RTO {time_words(thing.rto.value_s)}"
    if thing.because:
        text += f", because of {thing.because}"
    price = partial(_pattern_price, thing, asked)
    yield judge.at_most(
        takes_s, thing.rto.value_s, "s", text, price=price, remedy="keep it running at both sites, speed its restore up, or raise its RTO"
    )


def _pattern_price(thing: Thing, asked: Question) -> Price:
    """Of the cheapest pattern that is quick enough, for one thing alone."""
    book, chosen = asked.market.book, asked.market.cheapest([thing])
    if chosen.unmet:
        return Price(None, book.currency, "no pattern is quick enough")
    ways = ", ".join(sorted({one.pattern.value for one in chosen.options}))
    return Price(chosen.month, book.currency, f"{ways} meets it", guess=bool(book.guesses))


def _lines(asked: Question) -> Iterator[ObjectiveFinding]:
    """All that leaves a site for its best other site, together."""
    book = asked.market.book
    rates: defaultdict[tuple[SiteId, SiteId], dict[str, float | None]] = defaultdict(dict)
    for thing in asked.things:
        site, _ = best_way(thing, asked)
        if site is None or not speaks(thing) or thing.change is Change.NONE:
            continue
        rpo_s = thing.rpo.value_s if thing.rpo is not None else book.seconds("unset_rpo")
        rates[thing.home, site][thing.id] = rate_bps(thing, rpo_s, sync=rpo_s == 0, book=book)
    for (home, site), held in sorted(rates.items()):
        left = asked.market.capacity.free_bps.get((home, site), 0.0)
        judge = Judge(LINE, f"{home}+{site}").take("bandwidth left", left, "bit/s", "links.*")
        for name, rate in sorted(held.items()):
            judge.take(name, rate, "bit/s", "its share", origin=Origin.DERIVED)
        judge.noted(book.inputs("assumptions.delta_share"))
        total = sum(rate or 0.0 for rate in held.values())
        steps = math.ceil(max(0.0, total - left) / book.rate_bps("link_step"))
        month = steps * book.rate_bps("link_step") / 1e9 * book.price("link_gbps_month")
        weak = bool(_guessed(book, ("prices.link_gbps_month",)))
        price = partial(Price, month, book.currency, "the bandwidth that is lacking", guess=weak)
        text = f"{len(held)} send {rate_words(total)} together; {rate_words(left)} are left by production"
        yield judge.at_most(total, left, "bit/s", text, remedy="more bandwidth, or longer RPO where the most is sent", price=price)


def _guessed(book: Book, names: tuple[str, ...]) -> tuple[Input, ...]:
    return tuple(one for one in book.guesses if one.name in names)


def _subject(thing: Thing) -> str:
    return f"{thing.part.value}:{thing.id}"
