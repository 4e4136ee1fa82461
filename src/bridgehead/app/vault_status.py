"""Status: what a vault holds of each workload, how old, where else it is, and what is wrong with it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from bridgehead.app.vault_contents import stored_bytes
from bridgehead.app.vault_tiers import TierStatus, last_tiered
from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import Fence, Snapshot, SnapshotInfo
from bridgehead.vault import Damaged, PassedOver, Vault
from bridgehead.vault.fences import counting
from bridgehead.vault.layout import SnapshotName, snapshot_name_of_key
from bridgehead.vault.receipts import LostRecord, lost_records
from bridgehead.vault.snapshots import blocks_of


class PassedOverSnapshot(msgspec.Struct, frozen=True):
    """One that is not used, and why. Without ``snapshot`` its record cannot be read."""

    workload: WorkloadId
    key: str
    reason: str
    snapshot: SnapshotInfo | None


class Listing(msgspec.Struct, frozen=True):
    """The usable snapshots, by workload, newest first; and all others."""

    vault: str
    snapshots: tuple[SnapshotInfo, ...]
    passed_over: tuple[PassedOverSnapshot, ...]


class ReplicaStatus(msgspec.Struct, frozen=True):
    """The newest usable snapshot for which a site has given a receipt, and how far that is behind the newest here.

    ``lag_s`` is between the times at which both were saved; ``lag_bytes`` is what would have to be sent for the newest. Both are of what is
    usable here: ``unusable_newer`` snapshots are newer than the one that the site has, and lost or damaged here.
    """

    site: SiteId
    snapshot: SnapshotId
    step: int
    verified_s: float | None
    lag_steps: int
    lag_s: float
    lag_bytes: int
    unusable_newer: int = 0


class WorkloadStatus(msgspec.Struct, frozen=True):
    """One workload.

    ``raw_bytes`` and ``stored_bytes`` are of all snapshots whose record can be read; ``age_s`` of the newest usable one.
    """

    workload: WorkloadId
    newest: SnapshotInfo | None
    age_s: float | None
    usable: int
    passed_over: int
    raw_bytes: int
    stored_bytes: int
    fence: Fence | None
    receipts: tuple[ReplicaStatus, ...]
    damage: tuple[str, ...]


class VaultStatus(msgspec.Struct, frozen=True):
    """The whole vault. Contents of blocks are not read: that is for ``verify``. ``tiers``: as they were when snapshots moved last."""

    vault: str
    id: str
    created_s: float
    raw_bytes: int
    stored_bytes: int
    workloads: tuple[WorkloadStatus, ...]
    tiers: tuple[TierStatus, ...]

    @property
    def damaged(self) -> bool:
        """Whether damage shows anywhere."""
        return any(one.damage for one in self.workloads)


def listing(vault: Vault, workloads: Sequence[WorkloadId], *, place: str) -> Listing:
    """All snapshots of these workloads. Raises VAULT_DAMAGED when a fence cannot be read: then nothing can be said of what counts."""
    surveys = [vault.survey(workload) for workload in workloads]
    return Listing(
        vault=place,
        snapshots=tuple(info for survey in surveys for info in survey.usable),
        passed_over=tuple(
            PassedOverSnapshot(survey.workload, one.key, one.reason, one.info) for survey in surveys for one in survey.passed_over
        ),
    )


def status(vault: Vault, *, place: str, now_s: float) -> VaultStatus:
    """Everything but the contents of blocks."""
    receipts, lost = vault.receipt_names(), lost_records(vault.place.objects)
    read: list[Snapshot] = []
    known = sorted({*vault.workloads(), *(one.name.workload for one in lost)})
    workloads = [_workload(vault, workload, receipts, lost, now_s=now_s, read=read) for workload in known]
    tiered = last_tiered(vault)
    return VaultStatus(
        vault=place,
        id=vault.file.id,
        created_s=vault.file.created_s,
        raw_bytes=sum(snapshot.raw_bytes for snapshot in read),
        stored_bytes=stored_bytes(read),
        workloads=tuple(workloads),
        tiers=tiered.tiers if tiered else (),
    )


def _workload(
    vault: Vault,
    workload: WorkloadId,
    receipts: Iterable[tuple[SiteId, SnapshotId]],
    lost_anywhere: Iterable[LostRecord],
    *,
    now_s: float,
    read: list[Snapshot],
) -> WorkloadStatus:
    damage: list[str] = []
    try:
        survey = vault.survey(workload)
        fence, usable, passed = survey.fence, survey.usable, survey.passed_over
    except Damaged as fault:  # of the fence: nothing can be said about what counts
        damage.append(f"{fault.subject}: {fault.happened}")
        fence, usable, passed = None, (), ()
    bad = [one for one in passed if _is_damage(one)]
    lost = [one for one in lost_anywhere if one.name.workload == workload]
    damage += [f"{one.key}: {one.reason}" for one in bad] + [f"{one.name.key}: {one.happened}" for one in lost]
    named = [name for one in bad if (name := snapshot_name_of_key(workload, one.key)) is not None]
    unusable = [name for name in (*named, *(one.name for one in lost)) if counting(fence)(name)]
    records = _records(vault, vault.names(workload))
    read += records
    newest = usable[0] if usable else None
    return WorkloadStatus(
        workload=workload,
        newest=newest,
        age_s=max(0.0, now_s - newest.created_s) if newest else None,
        usable=len(usable),
        passed_over=len(passed),
        raw_bytes=sum(snapshot.raw_bytes for snapshot in records),
        stored_bytes=stored_bytes(records),
        fence=fence,
        receipts=tuple(_replicas(vault, usable, unusable, receipts, damage)),
        damage=tuple(damage),
    )


def _replicas(
    vault: Vault,
    usable: Sequence[SnapshotInfo],
    unusable: Sequence[SnapshotName],
    receipts: Iterable[tuple[SiteId, SnapshotId]],
    damage: list[str],
) -> Iterable[ReplicaStatus]:
    order = {info.id: number for number, info in enumerate(usable)}
    newest_at: dict[SiteId, int] = {}
    for site, snapshot in receipts:
        if snapshot in order:
            newest_at[site] = min(order[snapshot], newest_at.get(site, len(order)))
    for site, number in sorted(newest_at.items()):
        newest, held = usable[0], usable[number]
        there = {ref.block for ref in blocks_of(vault.snapshot(held.id))}
        to_send = {ref.block: ref.size_bytes for ref in blocks_of(vault.snapshot(newest.id)) if ref.block not in there}
        verified_s = None
        try:
            verified_s = vault.read_receipt(held.id, site=site).verified_s
        except (Damaged, NotFound) as fault:
            damage.append(f"{fault.subject}: {fault.happened}")
        lag_s = max(0.0, newest.created_s - held.created_s)
        newer = sum((name.epoch, name.step) > (held.epoch, held.step) for name in unusable)
        yield ReplicaStatus(site, held.id, held.step, verified_s, newest.step - held.step, lag_s, sum(to_send.values()), newer)


def _records(vault: Vault, names: Iterable[SnapshotName]) -> list[Snapshot]:
    records = []
    for name in names:
        try:
            records.append(vault.snapshot(name.id))
        except (Damaged, NotFound):
            continue  # told of as passed over
    return records


def _is_damage(one: PassedOver) -> bool:
    """Not what a closed epoch wrote, which is as it should be."""
    return one.info is None or (one.info.counts and not one.info.verified)
