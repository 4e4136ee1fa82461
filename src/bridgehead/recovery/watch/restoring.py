"""Restoring: how long it would take, from measured speeds, and whether it was ever tried (R2, R13)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from bridgehead.model.finding import FindingStatus
from bridgehead.recovery.watch.facts import VaultFacts
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.scene import DAY_S, Code, Draft, Protected, Scene, shown_age, shown_s

RTO: Final = Code(
    "WCH-RTO",
    "Would it work again in time?",
    "detection + bytes of the newest copy / measured speed of restores at the recovery site + warm-up <= RTO",
    ("R2", "R7"),
    "keep a restored standby warm, restore in parallel, or keep the copy in a faster tier",
)
DRILL: Final = Code(
    "WCH-DRILL",
    "Was a restore at the recovery site tested lately, and did it pass?",
    "now - last passed drill <= 7 days (R13)",
    ("R13",),
    "`bridgehead vault drill` at the recovery site; mend what it finds",
)
_SPEED: Final = "restore once at the recovery site (`bridgehead vault drill`)"


def restore_s(known: VaultFacts | None, *, now_s: float, keeps_s: float) -> float | None:
    """How long the newest proved copy takes to restore at the measured speed; None when there is none, or the measurement is too old."""
    if known is None or not known.copies or not known.bytes_per_s or not _holds(known.speed_s, now_s=now_s, keeps_s=keeps_s):
        return None
    return known.copies[0].point.raw_bytes / known.bytes_per_s


def _holds(speed_s: float | None, *, now_s: float, keeps_s: float) -> bool:
    return speed_s is not None and abs(now_s - speed_s) <= keeps_s


def recovery_s(scene: Scene, one: Protected) -> tuple[float, bool]:
    """The known parts of the time until it works again, and whether those are all of them."""
    restore = restore_s(scene.known(scene.vault(one.kept, one.refuge)), now_s=scene.now_s, keeps_s=scene.terms.speed_keeps_s)
    warm_up = one.workload.warm_up_s
    return scene.terms.detect_s + (restore or 0.0) + (warm_up or 0.0), restore is not None and warm_up is not None


def times(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-RTO of each workload with a recovery site."""
    for one in scene.protected:
        if one.refuge is None:
            continue
        seen = scene.vault(one.kept, one.refuge)
        known = scene.known(seen)
        draft = Draft(RTO, f"{one.id}@{one.refuge}", workload=one.id, site=one.refuge)
        draft.measured(seen)
        draft.given("detection", scene.terms.detect_s, "s", "limits.grace")
        draft.given("warm-up", one.workload.warm_up_s, "s", f"workloads.{one.id}.warm_up")
        draft.given("RTO", one.rto_s, "s", f"objectives.{one.objective or '?'}.rto")
        if one.rto_s is None and one.objective:
            yield draft.passes(f"'{one.objective}' sets no time")
            continue
        if one.rto_s is None:
            yield draft.unknown("nobody said how soon it must work again", measurement="give it an objective")
            continue
        if known is None:
            yield draft.unseen(f"the vault of {one.refuge}", seen, now_s=scene.now_s)
            continue
        yield _time(draft, scene, one, known, one.rto_s)


def _time(draft: Draft, scene: Scene, one: Protected, known: VaultFacts, rto_s: float) -> WatchFinding:
    draft.dated(known.speed_s)
    draft.take("speed", known.bytes_per_s, "B/s", f"restores and drills at {one.refuge}")
    if not known.copies:
        return draft.fails(f"{one.refuge} has nothing to restore from")
    total, complete = recovery_s(scene, one)
    text = f"it would work again after {shown_s(total)}, {shown_s(rto_s)} are allowed"
    if total > rto_s:
        return draft.fails(text, value=total, limit=rto_s, unit="s")
    if complete:
        return draft.passes(text, value=total, limit=rto_s, unit="s")
    lacking = [] if one.workload.warm_up_s is not None else ["its warm-up was not measured"]
    if known.bytes_per_s is None or known.speed_s is None:
        lacking.insert(0, f"no restore was ever measured at {one.refuge}")
    elif not _holds(known.speed_s, now_s=scene.now_s, keeps_s=scene.terms.speed_keeps_s):
        lacking.insert(0, f"the last restore at {one.refuge} was measured {shown_age(scene.now_s, known.speed_s)} ago")
    return draft.unknown(f"at least {shown_s(total)}, and {' and '.join(lacking)}", measurement=_SPEED)


def drills(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-DRILL of each workload with a recovery site."""
    for one in scene.protected:
        if one.refuge is None:
            continue
        seen = scene.vault(one.kept, one.refuge)
        draft = Draft(DRILL, f"{one.id}@{one.refuge}", workload=one.id, site=one.refuge)
        draft.measured(seen)
        known = scene.known(seen)
        if known is None:
            yield draft.unseen(f"the vault of {one.refuge}", seen, now_s=scene.now_s)
            continue
        drill, every_s = known.drill, scene.terms.drill_every_s
        if drill is None:
            yield draft.fails(f"no restore was ever tested at {one.refuge}")
            continue
        if drill.at_s > scene.now_s + scene.terms.skew_s:
            ahead = f"the last restore test at {one.refuge} is dated {shown_s(drill.at_s - scene.now_s)} in our future"
            yield draft.unknown(ahead, measurement="set the clocks by one source (NTP), and test again")
            continue
        age_s = max(0.0, scene.now_s - drill.at_s)
        draft.take("drill", drill.snapshot, "", f"drills at {one.refuge}")
        text = f"the last one was {shown_s(age_s)} ago ({drill.snapshot})"
        if not drill.passed:
            yield draft.fails(f"{text} and failed: {drill.happened}", value=age_s, limit=every_s, unit="s")
        elif age_s > every_s:
            yield draft.fails(f"{text}; one is due every {shown_s(every_s)}", value=age_s, limit=every_s, unit="s")
        else:
            soon = every_s - age_s < DAY_S
            text += f" and passed in {shown_s(drill.took_s)}" + ("; the next is due within a day" if soon else "")
            due_s = drill.at_s + every_s
            yield draft.made(FindingStatus.PASS, text, value=age_s, limit=every_s, unit="s", foreseen=soon, breaks_s=due_s)
