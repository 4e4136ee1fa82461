"""Board: what observers tell each other, without a common clock (J01, J03).

An observer posts ages, not times. A reader notes, by its own clock, when a new bulletin came in, and reckons from there. A bulletin that
does not change grows old; a clock that is wrong at another machine changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.recovery.watch.liveness import Sight, SiteClock


class Posted(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One site's clock, as ages in seconds at the time of posting."""

    site: SiteId
    contact_age_s: float | None
    first_loss_age_s: float | None
    looked_age_s: float | None
    misses: int


class Bulletin(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one observer posts after each look. ``number`` differs from that of its last one; ``written_s`` is for people."""

    observer: str
    number: int
    written_s: float
    sites: tuple[Posted, ...]


class Heard(msgspec.Struct, frozen=True):
    """A bulletin, and when it was new to whoever read it, by his clock.

    ``news``: it replaced an earlier one that he had read. Of the first one nobody can tell how long it has hung there: its
    signs of life are taken for as fresh as they may be, its silence for nothing.
    """

    bulletin: Bulletin
    heard_s: float
    news: bool


def post(observer: str, clocks: Iterable[SiteClock], *, number: int, now_s: float) -> Bulletin:
    """What to post."""

    def age_s(time_s: float | None) -> float | None:
        return None if time_s is None else max(0.0, now_s - time_s)

    sites = tuple(
        Posted(clock.site, age_s(clock.contact_s), age_s(clock.first_loss_s), age_s(clock.looked_s), clock.misses) for clock in clocks
    )
    return Bulletin(observer, number, now_s, sites)


def hear(known: Mapping[str, Heard], bulletins: Iterable[Bulletin], *, now_s: float, forget_s: float) -> dict[str, Heard]:
    """What is known of the other observers after reading the board. Those from whom nothing new came for ``forget_s`` are dropped."""
    found = dict(known)
    for bulletin in bulletins:
        before = known.get(bulletin.observer)
        if before is None or (before.bulletin.number, before.bulletin.written_s) != (bulletin.number, bulletin.written_s):
            found[bulletin.observer] = Heard(bulletin, now_s, news=before is not None)
    return {name: heard for name, heard in found.items() if now_s - heard.heard_s < forget_s}


def sights(heard: Iterable[Heard], site: SiteId) -> list[Sight]:
    """What the others know of a site, in the reader's time."""
    found = []
    for one in heard:
        for posted in one.bulletin.sites:
            if posted.site == site:
                found.append(Sight(one.bulletin.observer, _clock(posted, one), sure=one.news))
    return found


def _clock(posted: Posted, heard: Heard) -> SiteClock:
    def at_s(age_s: float | None) -> float | None:
        return None if age_s is None else heard.heard_s - age_s

    return SiteClock(
        posted.site,
        contact_s=at_s(posted.contact_age_s),
        first_loss_s=at_s(posted.first_loss_age_s),
        looked_s=at_s(posted.looked_age_s) if heard.news else None,
        misses=posted.misses,
    )
