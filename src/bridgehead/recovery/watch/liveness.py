"""Liveness: is a site alive, silent, lost, or can nobody tell? (J01, J03; design rule 7)

"Cannot see it" is not "it failed": silence, however long and whoever notes it, makes a site SILENT and never LOST. LOST takes positive
evidence of the loss, and no sign of life that is younger than the grace.

- Each site has one clock: its last sign of life, and the first look after it in vain. Any observer's sign of life sets it back.
- Grace counts from that first loss. The clock is kept across restarts, so that a restart neither shortens nor lengthens it.
- A sign of life counts from when it was made, not from when it was read: what was written before the loss and read after it says nothing
  about now, and neither begins the grace anew nor ends it.
- An observer that saw nothing at all in a look is blind, and its silence says nothing about one site.

All times are those of one observer's own clock; what others say reaches it as ages (see ``board``), so that clocks need not agree.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from typing import Annotated, Final

import msgspec

from bridgehead.kernel.ids import SiteId

Positive = Annotated[float, msgspec.Meta(gt=0)]


class SiteState(enum.StrEnum):
    """What is known of a site."""

    ALIVE = "alive"
    """A sign of life that is fresh."""
    SILENT = "silent"
    """Most observers that see other places get no answer from it. It may well be alive."""
    LOST = "lost"
    """There is evidence of the loss, and no sign of life against it."""
    UNKNOWN = "unknown"
    """Nobody who could tell has looked lately."""


class EvidenceKind(enum.StrEnum):
    """Where evidence of a loss comes from. That nothing answers is none."""

    DECLARED = "declared"
    """A person who answers for it says so."""
    POWER = "power"
    """Read out of band: the supply is off (BMC, PDU, the utility)."""


class Evidence(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Positive evidence that a site is lost; ``at_s``: since when. A later sign of life refutes it."""

    site: SiteId
    kind: EvidenceKind
    by: str
    reason: str
    at_s: float


class Limits(msgspec.Struct, frozen=True):
    """How patient the judgement is.

    Attributes:
        every_s: time between two looks.
        stale_s: what was seen longer ago is no longer known.
        grace_s: how long a site may be silent, counted from the first loss, before a failover may begin.
        misses: looks in a row that must go unanswered, so that one lost packet after a long pause decides nothing.
        observers: how many independent observers must find a site silent before a failover may be proposed without other evidence. One
            alone cannot tell the site's death from that of its own path.
    """

    every_s: Positive = 30.0
    stale_s: Positive = 90.0
    grace_s: Positive = 300.0
    misses: Annotated[int, msgspec.Meta(ge=1)] = 3
    observers: Annotated[int, msgspec.Meta(ge=1)] = 2


class Look(msgspec.Struct, frozen=True):
    """What one observer got from one site in one look.

    Attributes:
        life: which probes answered, each in words ("the scheduler answered").
        silence: which did not, and why.
        alive_s: when the newest of these signs of life was made; None: at this look. From ahead it counts as made now.
    """

    site: SiteId
    at_s: float
    life: tuple[str, ...] = ()
    silence: tuple[str, ...] = ()
    alive_s: float | None = None


class SiteClock(msgspec.Struct, frozen=True):
    """The liveness clock of a site. Kept by each observer, merged from all.

    Attributes:
        contact_s: the last sign of life; None: never seen.
        first_loss_s: the first look after it that went unanswered; None while it answers.
        misses: looks in a row that went unanswered while the observer saw other places.
        looked_s: the last look that could have seen it; None: none yet.
        words: of the last look.
    """

    site: SiteId
    contact_s: float | None = None
    first_loss_s: float | None = None
    misses: int = 0
    looked_s: float | None = None
    words: tuple[str, ...] = ()


def is_blind(looks: Iterable[Look]) -> bool:
    """Whether an observer saw nothing anywhere: then the fault is more likely on its side."""
    return not any(look.life for look in looks)


def advance(clock: SiteClock, look: Look, *, blind: bool) -> SiteClock:
    """The clock after one look of its own observer."""
    if look.life:
        made_s = look.at_s if look.alive_s is None else min(look.alive_s, look.at_s)
        contact_s = made_s if clock.contact_s is None else max(made_s, clock.contact_s)
        if clock.looked_s is None or made_s >= clock.looked_s:
            return SiteClock(clock.site, contact_s=contact_s, looked_s=look.at_s, words=look.life)
        return _late(clock, look, made_s=made_s, contact_s=contact_s)
    if blind or not look.silence:  # nothing was asked, or nothing can be concluded; the grace neither begins nor ends
        return msgspec.structs.replace(clock, misses=0, words=look.silence)
    return SiteClock(
        clock.site,
        contact_s=clock.contact_s,
        first_loss_s=look.at_s if clock.first_loss_s is None else clock.first_loss_s,
        misses=clock.misses + 1,
        looked_s=look.at_s,
        words=look.silence,
    )


def _late(clock: SiteClock, look: Look, *, made_s: float, contact_s: float) -> SiteClock:
    """The clock after a look that read what is older than the look before: it brought nothing of now, so that it was in vain. Looks in vain
    from before the sign are refuted; the last one came after it."""
    refuted = clock.first_loss_s is not None and made_s > clock.first_loss_s
    first_loss_s = clock.looked_s if refuted else clock.first_loss_s
    return SiteClock(
        clock.site,
        contact_s=contact_s,
        first_loss_s=look.at_s if first_loss_s is None else first_loss_s,
        misses=1 if refuted else clock.misses + 1,
        looked_s=look.at_s,
        words=(*(f"{word} before the last look" for word in look.life), *look.silence),
    )


def resumed(clock: SiteClock, *, now_s: float) -> SiteClock:
    """A kept clock in a new process: it goes on. Times that lie ahead (the wall clock was set back) are taken for now, so that nothing
    counts as fresh for longer than it is."""

    def past(time_s: float | None) -> float | None:
        return None if time_s is None else min(time_s, now_s)

    return msgspec.structs.replace(
        clock, contact_s=past(clock.contact_s), first_loss_s=past(clock.first_loss_s), looked_s=past(clock.looked_s)
    )


class Sight(msgspec.Struct, frozen=True):
    """What one observer knows of one site, in the time of whoever judges.

    ``sure``: its times are right. Otherwise they are the latest that they can be: enough to doubt a loss for the length of the grace, and
    not to refute evidence of it.
    """

    observer: str
    clock: SiteClock
    sure: bool = True


class SiteVerdict(msgspec.Struct, frozen=True):
    """What all observers together know of a site.

    Attributes:
        site: which.
        state: what it is taken for.
        judged_s: when.
        contact_s: the last sign of life that anybody had.
        first_loss_s: since when it is missed; None while it is not.
        grace_left_s: until silence has lasted as long as it may; 0 when it has; None while it is not missed.
        silent_for: observers that look, see other places, and get no answer from it.
        overdue: the grace is over, and enough observers still find it silent.
        reasons: in words.
    """

    site: SiteId
    state: SiteState
    judged_s: float
    contact_s: float | None
    first_loss_s: float | None
    grace_left_s: float | None
    silent_for: tuple[str, ...]
    overdue: bool
    reasons: tuple[str, ...]

    @property
    def may_fail_over(self) -> bool:
        """Whether a failover may be proposed: the site is lost, or silent beyond its grace. It still fences first, and needs its approvals:
        a silent site may be alive (J01, J05)."""
        return self.state is SiteState.LOST or (self.state is SiteState.SILENT and self.overdue)


MAX_REASONS: Final = 6


def site_verdict(site: SiteId, *, sights: Sequence[Sight], evidence: Iterable[Evidence] = (), now_s: float, limits: Limits) -> SiteVerdict:
    """Judge one site.

    Args:
        sights: of every observer that is known, this one's own included.
        evidence: of its loss; that of other sites is passed over.
    """
    clocks = [sight.clock for sight in sights]
    contact_s = max((clock.contact_s for clock in clocks if clock.contact_s is not None), default=None)
    voters = [sight for sight in sights if _votes(sight.clock, now_s=now_s, limits=limits)]
    vain = [sight for sight in voters if sight.clock.misses and _after(sight.clock.looked_s, contact_s)]
    first_loss_s = min((_since(sight.clock, contact_s) for sight in vain), default=None)
    silent = tuple(sorted(sight.observer for sight in vain if sight.clock.misses >= limits.misses))
    proved_s = max((one.clock.contact_s for one in sights if one.sure and one.clock.contact_s is not None), default=None)
    against = [one for one in evidence if one.site == site and (proved_s is None or one.at_s >= proved_s)]
    state = _state(contact_s, proved_s, against, most=len(silent) > len(voters) // 2, now_s=now_s, limits=limits)
    left_s = None if first_loss_s is None else max(0.0, first_loss_s + limits.grace_s - now_s)
    long = left_s == 0.0 and not _younger(contact_s, limits.grace_s, now_s=now_s)
    overdue = state is SiteState.SILENT and long and len(silent) >= limits.observers
    reasons = _reasons(state, contact_s, against, silent, limits.observers, clocks, asked=bool(voters), now_s=now_s)
    return SiteVerdict(site, state, now_s, contact_s, first_loss_s, left_s, silent, overdue, reasons)


def _state(
    contact_s: float | None, proved_s: float | None, against: Sequence[Evidence], *, most: bool, now_s: float, limits: Limits
) -> SiteState:
    if against and not _younger(contact_s, limits.grace_s, now_s=now_s):
        return SiteState.LOST
    if _younger(proved_s, limits.stale_s, now_s=now_s):
        return SiteState.ALIVE
    return SiteState.SILENT if most else SiteState.UNKNOWN


def _younger(time_s: float | None, age_s: float, *, now_s: float) -> bool:
    return time_s is not None and now_s - time_s < age_s


def _votes(clock: SiteClock, *, now_s: float, limits: Limits) -> bool:
    """It has looked lately and could see. Observers that are blind, or dead (perhaps with the site), have no vote and hinder nobody."""
    return _younger(clock.looked_s, limits.stale_s, now_s=now_s)


def _after(looked_s: float | None, contact_s: float | None) -> bool:
    return looked_s is not None and (contact_s is None or looked_s > contact_s)


def _since(clock: SiteClock, contact_s: float | None) -> float:
    """Its first loss, unless somebody else had a sign of life after that."""
    first_s = clock.first_loss_s if clock.first_loss_s is not None else clock.looked_s or 0.0
    return first_s if contact_s is None else max(first_s, contact_s)


def _reasons(
    state: SiteState,
    contact_s: float | None,
    against: Sequence[Evidence],
    silent: Sequence[str],
    needed: int,
    clocks: Sequence[SiteClock],
    *,
    asked: bool,
    now_s: float,
) -> tuple[str, ...]:
    found = [f"{one.kind.value} by {one.by}: {one.reason}" for one in against]
    if contact_s is None:
        found.append("nobody has ever seen it")
    else:
        found.append(f"last sign of life {max(0.0, now_s - contact_s):.0f} s ago")
    if silent:
        found.append(f"silent for {', '.join(silent)} ({len(silent)}; a failover takes {needed})")
    elif state is SiteState.UNKNOWN and asked:
        found.append("cannot tell whether it lives: nothing of now was seen of it, and too few looks were in vain to call it silent")
    elif state is SiteState.UNKNOWN:
        found.append("cannot tell whether it lives: no observer that sees other places has looked lately")
    said = dict.fromkeys(word for clock in clocks for word in clock.words)
    return tuple([*found, *said][:MAX_REASONS])
