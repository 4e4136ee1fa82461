"""How retention, holds, tiers and drills look in a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.app.vault_drills import Drilled
from bridgehead.app.vault_policy import Judged, Retained
from bridgehead.app.vault_tiers import Tiered
from bridgehead.cli.vault_display import clean, clock, counted, duration, print_columns, print_tiers, size
from bridgehead.vault.drills import Drill, Scored
from bridgehead.vault.holds import Held


def print_retained(done: Retained, *, place: str) -> None:
    """A row a snapshot with the reasons, then what it came to."""
    print_columns([("", "snapshot", "saved", "size", "why"), *(_row(one, dry_run=done.dry_run) for one in done.snapshots)])
    going = [one for one in done.snapshots if not one.stays]
    if done.dry_run:
        raw = sum(one.raw_bytes for one in going)
        print(f"{counted(len(going), 'snapshot')} of {size(raw)} would go, {done.stayed} stay; nothing was changed")
    else:
        print(f"{counted(done.forgotten, 'snapshot')} of {size(done.forgotten_bytes)} forgotten, {done.stayed} stay")
        if done.forgotten:
            print(f"`bridgehead vault collect {place}` frees what only they needed")


def _row(one: Judged, *, dry_run: bool) -> tuple[str, ...]:
    mark = "stays" if one.stays else "would go" if dry_run else "gone" if one.forgotten else "held just now"
    return (
        mark,
        one.snapshot or one.key,
        clock(one.created_s) if one.created_s else "-",
        size(one.raw_bytes),
        clean("; ".join(one.reasons)),
    )


def until_text(until_s: float | None) -> str:
    """How long."""
    return "until it is released" if until_s is None else f"until {clock(until_s)}"


def print_holds(found: Sequence[Held], *, now_s: float) -> None:
    """One line a hold."""
    if not found:
        print("nothing is held")
        return
    rows = [("snapshot", "by", "since", "ends", "reason")]
    for one in found:
        if one.hold is None:
            rows.append((one.snapshot, "?", "?", "never: its record is damaged", one.key))
            continue
        ends = "released only" if one.hold.until_s is None else clock(one.hold.until_s)
        ends += "" if one.in_force(now_s) else " (over)"
        rows.append((one.snapshot, clean(one.hold.by), clock(one.hold.since_s), ends, clean(one.hold.reason) or "-"))
    print_columns(rows)


def print_tiered(done: Tiered) -> None:
    """What moved, then the tiers."""
    for move in done.moves:
        if move.failed:
            print(f"FAILED {move.snapshot}: {clean(move.failed)}")
        elif done.dry_run:
            print(f"would go {move.kind.value} to {move.to}: {move.snapshot}")
        else:
            gone = f", forgotten in {', '.join(move.forgotten)}" if move.forgotten else ""
            print(f"{move.kind.value} to {move.to}: {move.snapshot}, {size(move.sent_bytes)} sent{gone}")
    if not done.moves:
        print("every snapshot is where it belongs")
    print_tiers(done.tiers)


def print_drilled(done: Drilled) -> None:
    """One line a test, and what is hurt."""
    for one in done.drills:
        if one.passed:
            speed = f", {size(int(one.bytes_per_s))}/s" if one.bytes_per_s else ""
            print(f"passed {one.snapshot}: {size(one.restored_bytes)} restored and read back in {duration(one.took_s)}{speed}, by {one.by}")
        else:
            print(f"FAILED {one.snapshot}: {clean(one.happened)}")
    for snapshot in done.left_out:
        print(f"not tested for want of time: {snapshot}")


def print_ranked(ranked: Sequence[Scored], *, now_s: float) -> None:
    """The last test of each snapshot; those that are due most come first."""
    if not ranked:
        print("there is no usable snapshot")
        return
    rows = [("snapshot", "last test", "result", "took", "speed", "by")]
    rows += [(one.info.id, *_last(one.last, now_s=now_s)) for one in ranked]
    print_columns(rows)


def _last(drill: Drill | None, *, now_s: float) -> tuple[str, str, str, str, str]:
    if drill is None:
        return "never", "-", "-", "-", "-"
    ago = f"{duration(max(0.0, now_s - drill.at_s))} ago"
    if not drill.passed:
        return ago, "FAILED", "-", "-", drill.by
    return ago, "passed", duration(drill.took_s), f"{size(int(drill.bytes_per_s or 0))}/s", drill.by
