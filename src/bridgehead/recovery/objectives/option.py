"""Options: each way in which one thing could be kept ready elsewhere, with its times and what it takes (R8, R11).

interval   = RPO / 2: a snapshot is as old as the interval when the next is made, and takes as long to travel
rate       = 8 * delta / interval          (snapshots; delta = delta share * state)
           = change * 1.3                  (a stream; 30 % as M8.3 has it)
           = 8 * delta / wait              (synchronously; wait = step * slowdown / (1 - slowdown) of each step)
RTO        = detect + shift                                             (runs at both sites)
           = detect + decide + provision + restore + warm-up            (else)
copies     = state * (1 + (copies - 1) * delta share)
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Final

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.model.objective import DAY_S, Part
from bridgehead.model.recovery import Pattern
from bridgehead.model.tariff import CLOUDS, HOURS_A_MONTH
from bridgehead.recovery.objectives.book import Book
from bridgehead.recovery.objectives.thing import Change, Thing

CLOUD: Final = SiteId("(cloud)")
"""Where the patterns of a cloud recover; no site of an estate can have this name."""
HEADROOM: Final = 1.3
"""M8.3: plus 30 %."""


class Line(msgspec.Struct, frozen=True):
    """A part of a price: what for, and money for a month."""

    what: str
    month: float


class Option(msgspec.Struct, frozen=True, kw_only=True):
    """One way to keep one thing ready.

    Attributes:
        thing: its name.
        site: where it recovers; ``CLOUD`` for a cloud.
        rpo_s: how much is lost at most.
        sync: whether each write waits for the other site.
        rto_s: how long it takes; None: not known.
        stands: GPUs at the site that run for it all the time, shared with things of other sites.
        needs: GPUs at the site that must be there after ``provision``, shared likewise; at least ``stands``.
        own: GPUs at the site that work for it all the time, shared with nobody.
        rate_bps: from its home to the site, all the time.
        lines: what it costs by itself; shared GPUs and lines come on top.
        gaps: what is not known and would make it dearer.
    """

    thing: str
    part: Part
    pattern: Pattern
    site: SiteId
    rpo_s: float
    sync: bool
    rto_s: float | None
    stands: int = 0
    needs: int = 0
    own: int = 0
    rate_bps: float = 0.0
    lines: tuple[Line, ...] = ()
    gaps: tuple[str, ...] = ()

    def meets(self, rto_s: float | None) -> bool:
        """Whether it is quick enough; what is not known is not."""
        return rto_s is None or (self.rto_s is not None and self.rto_s <= rto_s)


def options_of(thing: Thing, book: Book, sites: Iterable[SiteId]) -> list[Option]:
    """All of them, cheapest kind of copy each: of one pattern at one site, an older copy never costs more than a newer one."""
    elsewhere = sorted(site for site in sites if site != thing.home)
    asked_s = thing.rpo.value_s if thing.rpo is not None else book.seconds("unset_rpo")
    found = []
    for pattern in patterns_of(thing):
        places = [CLOUD] if pattern in CLOUDS else elsewhere
        for sync in kinds_of_copy(thing, asked_s, book):
            found += [_option(thing, pattern, site, 0.0 if sync else asked_s, sync, book) for site in places]
    return found


def patterns_of(thing: Thing) -> tuple[Pattern, ...]:
    """Those that make sense: what writes a state runs once, so that two of it would be two writers; a data set only lies there."""
    if thing.part is Part.DATASET:
        offered: tuple[Pattern, ...] = (Pattern.PILOT_LIGHT, Pattern.CLOUD_BURST)
    elif thing.change is Change.SNAPSHOTS:
        offered = (Pattern.ACTIVE_PASSIVE, Pattern.PILOT_LIGHT, Pattern.CLOUD_BURST, Pattern.CROSS_CLOUD)
    else:
        offered = tuple(Pattern)
    return offered if thing.need.cloud else tuple(one for one in offered if one not in CLOUDS)


def kinds_of_copy(thing: Thing, rpo_s: float, book: Book) -> tuple[bool, ...]:
    """Whether copies may be made in the background (False), at each write (True), or either."""
    if thing.change is Change.NONE:
        return (False,)
    if rpo_s <= 0:
        return (True,)
    if thing.change is Change.STREAM:
        return (False,)
    if thing.change is Change.SNAPSHOTS and rpo_s / 2 < book.seconds("step"):
        return (True,)  # no snapshot is younger than a step
    return (False, True)


def rate_bps(thing: Thing, rpo_s: float, *, sync: bool, book: Book) -> float | None:
    """What has to travel all the time; None: not known."""
    if thing.change is Change.NONE:
        return 0.0
    if thing.change is Change.STREAM:
        return None if thing.change_bps is None else thing.change_bps * HEADROOM
    if thing.state_bytes is None:
        return None
    delta_bits = 8 * thing.state_bytes * book.plain("delta_share")
    if not sync:
        return delta_bits / (rpo_s / 2)
    slowdown = book.plain("sync_slowdown")
    return math.inf if slowdown == 0 and delta_bits else delta_bits / max(book.seconds("step") * slowdown / (1 - slowdown), 1e-9)


def rto_s(thing: Thing, pattern: Pattern, book: Book) -> float | None:
    """How long it takes until it serves again; None: not known."""
    if thing.part is Part.DATASET:
        return book.seconds("detect") + book.seconds("decide")  # it lies there
    if pattern is Pattern.ACTIVE_ACTIVE:
        return book.seconds("detect") + book.seconds("shift")
    restore_s = thing.restore_s
    if restore_s is None and thing.state_bytes is not None:
        restore_s = 8 * thing.state_bytes / book.rate_bps("restore") if thing.state_bytes else 0.0
    if restore_s is None:
        return None
    provision_s = book.term(pattern, "provision") if thing.gpus else 0.0
    return book.seconds("detect") + book.seconds("decide") + provision_s + restore_s + thing.warm_up_s


def _option(thing: Thing, pattern: Pattern, site: SiteId, rpo_s: float, sync: bool, book: Book) -> Option:
    rate = rate_bps(thing, rpo_s, sync=sync, book=book)
    takes_s = rto_s(thing, pattern, book)
    both = pattern is Pattern.ACTIVE_ACTIVE
    here = pattern not in CLOUDS
    stands = math.ceil(book.term(pattern, "standby") * thing.least_gpus) if thing.least_gpus and not both else 0
    gaps = list(thing.gaps)
    if takes_s is None and thing.state_bytes is None:
        gaps.append(f"{thing.id}: how long a restore takes")
    return Option(
        thing=thing.id,
        part=thing.part,
        pattern=pattern,
        site=site,
        rpo_s=0.0 if thing.change is Change.NONE else rpo_s,
        sync=sync,
        rto_s=takes_s,
        stands=stands if here else 0,
        needs=thing.least_gpus if here and not both else 0,
        own=thing.gpus if both else 0,
        rate_bps=rate or 0.0,
        lines=_lines(thing, pattern, rpo_s, sync=sync, stands=stands, book=book),
        gaps=tuple(gaps),
    )


def _lines(thing: Thing, pattern: Pattern, rpo_s: float, *, sync: bool, stands: int, book: Book) -> tuple[Line, ...]:
    lines = [Line("labour", book.term(pattern, "hours") * book.price("labour_hour"))]
    if thing.state_bytes:
        kept = thing.state_bytes
        if thing.change is Change.SNAPSHOTS:
            kept = round(kept * (1 + (book.plain("copies") - 1) * book.plain("delta_share")))
        lines.append(Line("copies", kept / 1e12 * book.price("store_tb_month")))
    if sync and thing.change is Change.SNAPSHOTS and thing.gpus:
        lines.append(Line("slower training", book.plain("sync_slowdown") * thing.gpus * book.price("gpu_month")))
    elif thing.change is Change.SNAPSHOTS and thing.save_s and thing.every_s and thing.gpus:
        more = max(0.0, min(1.0, thing.save_s / (rpo_s / 2)) - thing.save_s / thing.every_s)
        lines.append(Line("more saving", more * thing.gpus * book.price("gpu_month")))
    if pattern in CLOUDS:
        lines += _cloud_lines(thing, pattern, stands, book)
        overhead = book.term(pattern, "overhead")
        if overhead:
            lines.append(Line("complexity", overhead * sum(line.month for line in lines)))
    return tuple(line for line in lines if line.month > 0)


def _cloud_lines(thing: Thing, pattern: Pattern, stands: int, book: Book) -> list[Line]:
    """GPUs that are rented while a disaster lasts, those that run before, the right to them, and the way back."""
    lines = []
    if thing.least_gpus:
        events = book.plain("events_a_year") / 12
        hours = book.seconds("event_lasts") / DAY_S * 24
        lines.append(Line("rented GPUs", events * hours * thing.least_gpus * book.price("cloud_gpu_hour")))
        lines.append(Line("standby", stands * HOURS_A_MONTH * book.price("cloud_gpu_hour")))
        if pattern is Pattern.CROSS_CLOUD:
            lines.append(Line("on call", (thing.least_gpus - stands) * book.price("on_call_gpu_month")))
    if thing.state_bytes:
        lines.append(Line("egress", book.plain("events_a_year") / 12 * thing.state_bytes / 1e9 * book.price("egress_gb")))
    return lines
