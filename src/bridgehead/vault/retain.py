"""Retain: which snapshots may go, and why each of the others stays (R6, R12). Pure; ``Vault.forget`` carries it out.

A snapshot stays for any one reason. What cannot be judged stays: retention is the wrong place to be bold.
"""

from __future__ import annotations

import datetime
import enum
from collections.abc import Callable, Collection, Sequence

import msgspec

from bridgehead.kernel.ids import Epoch, SnapshotId
from bridgehead.model.snapshot import Fence


class Standing(enum.StrEnum):
    """What a snapshot is good for."""

    USABLE = "usable"
    """It counts, its record is intact, nothing was cut off, every block is present."""
    SPOILED = "spoiled"
    """It counts, and is damaged or incomplete: never one of those that a policy asks for."""
    EVIDENCE = "evidence"
    """It does not count: its epoch is closed, or nobody opened it (J05)."""
    UNREADABLE = "unreadable"
    """Its record cannot be read: nothing can be said about it."""


class Candidate(msgspec.Struct, frozen=True):
    """A snapshot as retention sees it.

    Attributes:
        key: its record, which names it also when ``id`` could not be read out of it.
        created_s: seconds since 1970-01-01 UTC; 0 when the record cannot be read.
        held: a hold is in force on it (``holds``).
        pinned: its writer noted ``pin`` in its context.
        elsewhere: other sites that have given a receipt for it.
    """

    key: str
    id: SnapshotId | None
    epoch: Epoch
    step: int
    created_s: float
    raw_bytes: int
    standing: Standing
    held: bool = False
    pinned: str = ""
    elsewhere: tuple[str, ...] = ()


class Policy(msgspec.Struct, frozen=True):
    """How many to keep: the newest ``last``; and the newest of each of so many hours, days and weeks (ISO, UTC), of those that have any."""

    last: int = 0
    hourly: int = 0
    daily: int = 0
    weekly: int = 0

    @property
    def is_empty(self) -> bool:
        """It asks for nothing: no policy at all rather than one that deletes everything."""
        return not (self.last or self.hourly or self.daily or self.weekly)


class Verdict(msgspec.Struct, frozen=True):
    """What becomes of one snapshot. ``reasons``: why it stays; or, of one that goes, the single reason why."""

    candidate: Candidate
    stays: bool
    reasons: tuple[str, ...]


def decide(candidates: Collection[Candidate], policy: Policy, *, fence: Fence | None) -> tuple[Verdict, ...]:
    """Judge all snapshots of one workload, newest first. Two calls with the same input say the same.

    Args:
        fence: the one in force; None when there is none.
    """
    ordered = in_order(candidates)
    usable = [one for one in ordered if one.standing is Standing.USABLE]
    reasons: dict[str, list[str]] = {one.key: [] for one in ordered}

    def keep(these: Sequence[Candidate], why: str) -> None:
        for one in these:
            reasons[one.key].append(why)

    for one, why in protected(ordered, fence=fence):
        keep([one], why)
    keep(usable[: policy.last], f"one of the last {policy.last}")
    for name, count, bucket in (("hour", policy.hourly, _hour), ("day", policy.daily, _day), ("week", policy.weekly, _week)):
        for one in newest_of_each(usable, bucket)[:count]:
            keep([one], f"newest of its {name} {bucket(one.created_s)}")
    oldest_kept = max((place for place, one in enumerate(ordered) if one.standing is Standing.USABLE and reasons[one.key]), default=-1)
    spoiled = [one for place, one in enumerate(ordered) if one.standing is Standing.SPOILED and (place < oldest_kept or not usable)]
    keep(spoiled, "spoiled, but newer than the oldest that is kept: another vault may heal it")
    return tuple(Verdict(one, bool(reasons[one.key]), tuple(reasons[one.key]) or (_why_it_goes(one),)) for one in ordered)


def protected(ordered: Sequence[Candidate], *, fence: Fence | None) -> list[tuple[Candidate, str]]:
    """What no policy may take, with the reason (one entry for each). ``ordered``: newest first.

    The newest usable one; the newest that another site has; what the fence in force names, until a snapshot of the new epoch replaces it;
    what is held or pinned; evidence; what cannot be read.
    """
    usable = [one for one in ordered if one.standing is Standing.USABLE]
    found = [(one, "newest usable") for one in usable[:1]]
    received = next((one for one in usable if one.elsewhere), None)
    if received is not None:
        found.append((received, f"newest that another site holds ({', '.join(received.elsewhere)})"))
    if fence is not None and not any(one.epoch == fence.epoch for one in usable):
        named = frozenset(fence.counts)
        found += [(one, f"named by the fence of epoch {fence.epoch}, and not replaced yet") for one in ordered if one.id in named]
    for one in ordered:
        if one.held:
            found.append((one, "held"))
        if one.pinned:
            found.append((one, f"pinned: {one.pinned}"))
        match one.standing:
            case Standing.EVIDENCE:
                found.append((one, "evidence of a closed epoch"))
            case Standing.UNREADABLE:
                found.append((one, "its record cannot be read"))
            case Standing.USABLE | Standing.SPOILED:
                pass
    return found


def in_order(candidates: Collection[Candidate]) -> list[Candidate]:
    """Newest first, as the catalog orders them: epoch, step, time. The key decides between equals."""
    return sorted(candidates, key=lambda one: (one.epoch, one.step, one.created_s, one.key), reverse=True)


def newest_of_each(ordered: Sequence[Candidate], bucket: Callable[[float], str]) -> list[Candidate]:
    """Of each bucket of time the one that was saved last, the newest bucket first."""
    latest: dict[str, Candidate] = {}
    for one in sorted(reversed(ordered), key=lambda one: one.created_s):  # of equal times, the newer one comes last
        latest[bucket(one.created_s)] = one
    return sorted(latest.values(), key=lambda one: one.created_s, reverse=True)


def _why_it_goes(one: Candidate) -> str:
    return "spoiled, and newer ones are kept" if one.standing is Standing.SPOILED else "nothing asks for it"


def _hour(at_s: float) -> str:
    return f"{_moment(at_s):%Y-%m-%d %H}h"


def _day(at_s: float) -> str:
    return f"{_moment(at_s):%Y-%m-%d}"


def _week(at_s: float) -> str:
    year, week, _ = _moment(at_s).isocalendar()
    return f"{year}-W{week:02d}"


def _moment(at_s: float) -> datetime.datetime:
    try:
        return datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC)
    except (OverflowError, ValueError, OSError):  # a writer's clock that was wrong by millennia
        return datetime.datetime.fromtimestamp(0, tz=datetime.UTC)
