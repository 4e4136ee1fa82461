"""Tiers: move snapshots between vaults by age and access, and say how long each takes to restore (R7, M9.2)."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import msgspec

from bridgehead.app.vault_copies import Replication, refuse_same
from bridgehead.app.vault_policy import bound_to_hot
from bridgehead.app.vaults import usage
from bridgehead.kernel.errors import BridgeheadError, Conflict, NotFound
from bridgehead.kernel.ids import SnapshotId, WorkloadId
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.access import Reading, last_access, predicted_s, readings, sample, speed_bytes_per_s
from bridgehead.vault.objects import Objects
from bridgehead.vault.tiers import Move, MoveKind, Placed, moves

NAMES = ("hot", "warm", "cold")
TIERS_PREFIX = "state/tiers/"
_KEPT = 3


class Tier(msgspec.Struct, frozen=True):
    """One vault. ``limit_s``: what was not used for longer goes down; None for the last."""

    name: str
    place: str
    vault: Vault
    limit_s: float | None


class Moved(msgspec.Struct, frozen=True):
    """A snapshot that moved. ``failed``: why it did not, or not wholly."""

    snapshot: SnapshotId
    kind: MoveKind
    to: str
    sent_bytes: int
    forgotten: tuple[str, ...]
    failed: str = ""


class SnapshotTier(msgspec.Struct, frozen=True):
    """Where a snapshot is, hottest first, and how long a restore from there is predicted to take."""

    snapshot: SnapshotId
    tiers: tuple[str, ...]
    raw_bytes: int
    used_s: float
    bound: str
    restore_s: float | None


class TierStatus(msgspec.Struct, frozen=True):
    """A tier after the moves.

    Attributes:
        bytes_per_s: measured, on restores, drills, or a sample when there were none.
        newest_restore_s: predicted for the newest snapshot that it holds.
        last: the last measurement there.
    """

    name: str
    place: str
    snapshots: int
    raw_bytes: int
    bytes_per_s: float | None
    newest: SnapshotId | None
    newest_restore_s: float | None
    last: Reading | None


class Tiered(msgspec.Struct, frozen=True):
    """What there was to move, what was done, and how it looks now. ``at_s``: seconds since 1970-01-01 UTC."""

    at_s: float
    dry_run: bool
    moves: tuple[Moved, ...]
    tiers: tuple[TierStatus, ...]
    snapshots: tuple[SnapshotTier, ...]


def tiers_of(place: str, vault: Vault, *, colder: Sequence[tuple[str, Vault]], limits_s: Sequence[float]) -> tuple[Tier, ...]:
    """The hot tier and the colder ones. Raises BAD_USAGE unless each but the last has a limit, growing, and no vault is named twice."""
    if len(colder) >= len(NAMES) or not colder:
        raise usage("tier", subject="--to", happened=f"{len(colder)} places were given", remedy="Give one (warm) or two (warm, cold).")
    if len(limits_s) != len(colder) or list(limits_s) != sorted(limits_s):
        remedy = "Give --hot, and --warm too when there are two --to; the second one is the longer."
        raise usage("tier", subject="the limits", happened="they do not fit the places", remedy=remedy)
    places = [(place, vault), *colder]
    for number, (other, _) in enumerate(places):
        for earlier, _ in places[:number]:
            refuse_same(earlier, other)
    limits = [*limits_s, None]
    return tuple(Tier(name, where, opened, limit) for name, (where, opened), limit in zip(NAMES, places, limits, strict=False))


def tier(tiers: Sequence[Tier], workloads: Sequence[WorkloadId], *, dry_run: bool, now_s: float) -> Tiered:
    """Move what there is to move. Broken off, it goes on: each move is a copy, its proof, and only then the forgetting.

    Raises port errors of a vault that cannot be reached; a snapshot that is damaged fails its own move alone.
    """
    done: list[Moved] = []
    for workload in workloads:
        limits_s = [tier.limit_s for tier in tiers if tier.limit_s is not None]
        for move in moves(_placed(tiers, workload, now_s=now_s), limits_s, now_s=now_s):
            done.append(_preview(tiers, move) if dry_run else _carry_out(tiers, workload, move))
    shown = Tiered(now_s, dry_run, tuple(done), *_statuses(tiers, workloads, now_s=now_s))
    if not dry_run:
        _note(tiers[0].vault.place.objects, shown)
    return shown


def last_tiered(vault: Vault) -> Tiered | None:
    """How the tiers looked when snapshots were moved last; None when there are none, or the note cannot be read."""
    objects = vault.place.objects
    for key in reversed(list(objects.blobs.list(TIERS_PREFIX))):
        with contextlib.suppress(NotFound, Damaged):
            return objects.record(key, Tiered)
    return None


def _placed(tiers: Sequence[Tier], workload: WorkloadId, *, now_s: float) -> list[Placed]:
    bound = bound_to_hot(tiers[0].vault, workload, now_s=now_s)
    infos: dict[SnapshotId, SnapshotInfo] = {}
    at: dict[SnapshotId, set[int]] = {}
    used_s: dict[SnapshotId, float] = {}
    for number, tier in enumerate(tiers):
        for info in tier.vault.list(workload):
            infos.setdefault(info.id, info)
            at.setdefault(info.id, set()).add(number)
        for snapshot, access_s in last_access(tier.vault.place.objects).items():
            used_s[snapshot] = max(used_s.get(snapshot, 0.0), access_s)
    return [
        Placed(info.id, info.raw_bytes, max(info.created_s, used_s.get(info.id, 0.0)), frozenset(at[info.id]), bound.get(info.id, ""))
        for info in infos.values()
    ]


def _preview(tiers: Sequence[Tier], move: Move) -> Moved:
    return Moved(move.placed.snapshot, move.kind, tiers[move.to].name, 0, tuple(tiers[number].name for number in move.forget_at))


def _carry_out(tiers: Sequence[Tier], workload: WorkloadId, move: Move) -> Moved:
    snapshot, goal = move.placed.snapshot, tiers[move.to]
    source = tiers[move.copy_from if move.copy_from is not None else move.forget_at[0]]
    # What lies at the goal already is read back too: nothing is forgotten on the word of an old receipt.
    replication = Replication(source.vault, goal.vault, heal=True, places=(source.place, goal.place))
    wanted = [one for one in replication.plan([workload])[0] if one.id == snapshot]
    copied = replication.run(wanted, say=lambda _: None)
    faults = [one.reason for one in (*copied.failed, *copied.skipped) if one.what in (snapshot, workload)]
    if faults or not wanted:
        failed = f"stays in {source.name}: {'; '.join(faults) or 'it does not count there'}"
        return Moved(snapshot, move.kind, goal.name, copied.sent_bytes, (), failed)
    forgotten, kept = [], ""
    for number in move.forget_at:
        try:
            tiers[number].vault.forget(snapshot)
            forgotten.append(tiers[number].name)
        except NotFound:
            continue
        except Conflict as error:  # held
            kept = f"stays in {tiers[number].name} too: {error.happened}"
    return Moved(snapshot, move.kind, goal.name, copied.sent_bytes, tuple(forgotten), kept)


def _statuses(
    tiers: Sequence[Tier], workloads: Sequence[WorkloadId], *, now_s: float
) -> tuple[tuple[TierStatus, ...], tuple[SnapshotTier, ...]]:
    speeds = [_speed(tier, workloads, now_s=now_s) for tier in tiers]
    placed = [one for workload in workloads for one in _placed(tiers, workload, now_s=now_s) if one.at]
    placed.sort(key=lambda one: (-one.used_s, one.snapshot))
    statuses = []
    for number, tier in enumerate(tiers):
        here = [one for one in placed if number in one.at]
        newest = next((info for workload in workloads for info in tier.vault.list(workload)[:1]), None)
        statuses.append(
            TierStatus(
                name=tier.name,
                place=tier.place,
                snapshots=len(here),
                raw_bytes=sum(one.raw_bytes for one in here),
                bytes_per_s=speeds[number],
                newest=newest.id if newest else None,
                newest_restore_s=predicted_s(newest.raw_bytes, speeds[number]) if newest else None,
                last=max(readings(tier.vault.place.objects), key=lambda reading: reading.at_s, default=None),
            )
        )
    snapshots = [
        SnapshotTier(
            snapshot=one.snapshot,
            tiers=tuple(tiers[number].name for number in sorted(one.at)),
            raw_bytes=one.raw_bytes,
            used_s=one.used_s,
            bound=one.bound,
            restore_s=predicted_s(one.raw_bytes, speeds[min(one.at)]),
        )
        for one in placed
    ]
    return tuple(statuses), tuple(snapshots)


def _speed(tier: Tier, workloads: Sequence[WorkloadId], *, now_s: float) -> float | None:
    """Measured; on a sample when nothing was restored from this tier yet."""
    objects = tier.vault.place.objects
    known = speed_bytes_per_s(objects)
    if known is not None:
        return known
    for workload in workloads:
        for info in tier.vault.list(workload)[:1]:
            with contextlib.suppress(Damaged):
                sample(objects, tier.vault.snapshot(info.id), now_s=now_s)
                return speed_bytes_per_s(objects)
    return None


def _note(objects: Objects, shown: Tiered) -> None:
    with contextlib.suppress(BridgeheadError):  # a note for `status`; the moves are done
        objects.add(f"{TIERS_PREFIX}{round(shown.at_s * 1000):015d}", shown)
        for older in list(objects.blobs.list(TIERS_PREFIX))[:-_KEPT]:
            objects.blobs.delete(older)
