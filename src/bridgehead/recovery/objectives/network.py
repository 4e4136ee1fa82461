"""Network: what recovery asks of each line between sites (R8, R17). Whether lines are diverse is for the checks of assessment (M10.2)."""

from __future__ import annotations

from collections.abc import Iterator

from bridgehead.model.estate import Link
from bridgehead.model.finding import Origin, Severity
from bridgehead.recovery.objectives.coverage import Question
from bridgehead.recovery.objectives.judge import Check, Judge, ObjectiveFinding, rate_words
from bridgehead.recovery.objectives.option import rate_bps
from bridgehead.recovery.objectives.pricing import speaks
from bridgehead.recovery.objectives.reach import best_way
from bridgehead.recovery.objectives.thing import Change

RESERVED = Check("NET-RESERVED", "Is bandwidth reserved for copies?", ("R17", "M8.4"), "sum of reserved >= sum of rates of what is copied",
                 Severity.WARNING)  # fmt: skip
TLS = Check("NET-TLS", "Is what travels encrypted with TLS 1.3?", ("R17", "P14"), "version seen >= 1.3", Severity.WARNING)
GAIN = Check("NET-GAIN", "Does the line carry it with what was measured to be saved?", ("R9", "R17"),
             "bytes that change, nothing saved <= bandwidth left · measured gain", Severity.WARNING)  # fmt: skip
CHECKS = (RESERVED, TLS, GAIN)


def network(asked: Question) -> Iterator[ObjectiveFinding]:
    """All findings of this file."""
    terms = {line.id: line for line in asked.continuity.lines}
    loads = _loads(asked)
    pairs = sorted({(min(link.between), max(link.between)) for link in asked.estate.links})
    for pair in pairs:
        links = sorted((link for link in asked.estate.links if set(link.between) == set(pair)), key=lambda link: link.id)
        load = max(loads.get(pair, (0.0, 0.0)), loads.get((pair[1], pair[0]), (0.0, 0.0)))
        if load[0] > 0:
            yield _reserved(links, load[0], asked)
            yield _gain(links, load[1], asked)
        for link in links:
            seen = terms[link.id].tls if link.id in terms else None
            judge = Judge(TLS, f"link:{link.id}").take("TLS", seen, "", f"lines.{link.id}.tls")
            if seen is None:
                ask = "look at a handshake of the vault's connection over this line (openssl s_client), and write it into 'lines'"
                yield judge.unknown("which version of TLS is spoken was not seen", measurement=ask)
            else:
                yield judge.holds(seen >= "1.3", f"TLS {seen} was seen", remedy="set the least version of both ends to 1.3")


def _loads(asked: Question) -> dict[tuple[str, str], tuple[float, float]]:
    """By way: bit/s that are sent, and what they would be if nothing were saved."""
    found: dict[tuple[str, str], tuple[float, float]] = {}
    book = asked.market.book
    for thing in asked.things:
        site, _ = best_way(thing, asked)
        if site is None or not speaks(thing) or thing.change is Change.NONE:
            continue
        rpo_s = thing.rpo.value_s if thing.rpo is not None else book.seconds("unset_rpo")
        rate = rate_bps(thing, rpo_s, sync=rpo_s == 0, book=book) or 0.0
        share = book.plain("delta_share") if thing.change is Change.SNAPSHOTS else 1.0
        sent, whole = found.get((thing.home, site), (0.0, 0.0))
        found[thing.home, site] = (sent + rate, whole + (rate / share if share else rate))
    return found


def _where(links: list[Link]) -> str:
    return "+".join(sorted(links[0].between))


def _reserved(links: list[Link], load_bps: float, asked: Question) -> ObjectiveFinding:
    terms = {line.id: line.reserved_bps for line in asked.continuity.lines}
    judge = Judge(RESERVED, _where(links)).take("copies", load_bps, "bit/s", "sum of what is copied", origin=Origin.DERIVED)
    for link in links:
        judge.take(f"reserved on {link.id}", terms.get(link.id), "bit/s", f"lines.{link.id}.reserved")
    given = [rate for link in links if (rate := terms.get(link.id)) is not None]
    if not given:
        return judge.unknown("nobody said what is reserved for copies", measurement="ask the network team, and write it into 'lines'")
    text = f"{rate_words(load_bps)} are copied; {rate_words(sum(given))} are reserved"
    return judge.holds(
        load_bps <= sum(given), text, value=load_bps, limit=sum(given), unit="bit/s", remedy="reserve more, or copy less often"
    )


def _gain(links: list[Link], whole_bps: float, asked: Question) -> ObjectiveFinding:
    terms = {line.id: line.gain for line in asked.continuity.lines}
    judge = Judge(GAIN, _where(links)).take("changes", whole_bps, "bit/s", "nothing saved", origin=Origin.DERIVED)
    one, other = links[0].between
    left = asked.market.capacity.free_bps.get((one, other), 0.0)
    judge.take("bandwidth left", left, "bit/s", "links.*")
    known = [gain for link in links if (gain := terms.get(link.id)) is not None]
    judge.take("gain", min(known, default=None), "", "lines.*.gain", origin=Origin.MEASURED)
    if not known:
        ask = "copy two neighbouring checkpoints with `bridgehead vault mirror` and divide their size by the bytes sent"
        return judge.unknown(f"what deduplication and compression save here was not measured; without them {rate_words(whole_bps)} travel",
                             measurement=ask)  # fmt: skip
    carries = left * min(known)
    text = f"{rate_words(left)} carry {rate_words(carries)} with a measured gain of {min(known):g}; {rate_words(whole_bps)} change"
    return judge.at_most(whole_bps, carries, "bit/s", text, remedy="more bandwidth, or longer RPO")
