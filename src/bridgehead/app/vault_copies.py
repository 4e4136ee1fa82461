"""Copies: bring everything that counts in one vault to another, with receipts (R4, R6). Stops anywhere, and goes on from there."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from bridgehead.app.vaults import folder_of, space_named, usage
from bridgehead.kernel.errors import BridgeheadError, Conflict
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import Snapshot
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.crypt.signing import share_signatures
from bridgehead.vault.fences import counting, read_fence
from bridgehead.vault.healing import heal_records
from bridgehead.vault.layout import receipt_key, snapshot_name
from bridgehead.vault.replicate import Pace, check_families, replicate
from bridgehead.vault.snapshots import blocks_of

Say = Callable[[str], None]


class NotCopied(msgspec.Struct, frozen=True):
    """A snapshot, or a workload, that did not arrive, and why."""

    what: str
    reason: str


class Copied(msgspec.Struct, frozen=True):
    """What a replication came to.

    Attributes:
        site: in whose name the receipts are.
        copied: snapshots that were committed at the target now.
        present: snapshots that were there already.
        sent_bytes: what was written at the target: blocks, records.
        raw_bytes: sum of the file sizes of the copied snapshots: what plain copies would have sent.
        receipts: how many were given now, after reading back at the target.
        healed: snapshots of which damaged blocks at the target were replaced; ``healed_records``: keys of records that were.
        failed: what could not be copied or proved; the rest was.
        skipped: snapshots that count here and not at the target, because a newer fence is known there.
    """

    site: SiteId
    copied: tuple[SnapshotId, ...]
    present: int
    sent_bytes: int
    raw_bytes: int
    receipts: int
    healed: int
    failed: tuple[NotCopied, ...]
    skipped: tuple[NotCopied, ...]
    healed_records: tuple[str, ...] = ()


class Replication:
    """One replication from ``source`` to ``target``: first ``plan``, then ``run``, once.

    Args:
        site: in whose name receipts are given; default ``vault-`` and the begin of the target's id.
        heal: read back also what has a receipt already, and put right the records that are damaged at the target.
        places: where source and target are, for messages.
    """

    def __init__(
        self, source: Vault, target: Vault, *, site: SiteId | None = None, heal: bool = False, places: tuple[str, str] = ("", "")
    ) -> None:
        self.site = site or SiteId(f"vault-{target.file.id[:8]}")
        self._at_source, self._at_target = (
            f"the {what} {place}".rstrip() for what, place in zip(("source", "target"), places, strict=True)
        )
        self._source = source
        self._target = target
        self._heal = heal
        self._failed: list[NotCopied] = []
        self._skipped: list[NotCopied] = []
        self._lock = threading.Lock()
        self._sent_bytes = 0

    def plan(self, workloads: Sequence[WorkloadId]) -> tuple[list[Snapshot], int]:
        """Bring the fences over; then the snapshots to copy, newest first, and how many bytes of blocks the target lacks."""
        wanted: list[Snapshot] = []
        check_families(self._source.place, self._target.place, subject=self.site)  # before the first fence is copied
        for workload in workloads:
            try:
                with space_named():
                    self._copy_fences(workload)
                wanted += self._wanted(workload)
            except _DamagedAt as fault:
                self._failed.append(NotCopied(workload, str(fault)))
            except (Damaged, Conflict) as fault:
                self._failed.append(NotCopied(workload, f"{fault.subject}: {fault.happened}"))
        blocks = {ref.block: ref for snapshot in wanted for ref in blocks_of(snapshot)}
        return wanted, sum(ref.size_bytes for ref in self._target.place.objects.lacking(blocks.values()))

    def run(self, wanted: Sequence[Snapshot], *, say: Say) -> Copied:
        """Copy, prove, record. A damaged object fails its snapshot alone; a store that fails ends it with the port's error."""
        receipts = dict.fromkeys(self._target.receipt_names())
        copied, present, given, healed = [], 0, 0, 0
        with space_named():
            records = heal_records(self._source.place.objects, self._target.place.objects) if self._heal else []
        for snapshot in wanted:
            try:
                with space_named():
                    brought = self._bring(snapshot)
                    if brought:
                        copied.append(snapshot)
                        say(f"{snapshot.id} copied")
                    else:
                        present += 1
                    if self._heal or brought or (self.site, snapshot.id) not in receipts:
                        healed += self._prove(snapshot)
                        given += (self.site, snapshot.id) not in receipts
            except _DamagedAt as fault:
                self._failed.append(NotCopied(snapshot.id, str(fault)))
        with space_named():
            self._written(share_signatures(self._source.place.objects, self._target.place.objects))
        return Copied(
            site=self.site,
            copied=tuple(snapshot.id for snapshot in copied),
            present=present,
            sent_bytes=self._sent_bytes,
            raw_bytes=sum(snapshot.raw_bytes for snapshot in copied),
            receipts=given,
            healed=healed,
            healed_records=tuple(records),
            failed=tuple(self._failed),
            skipped=tuple(self._skipped),
        )

    def _copy_fences(self, workload: WorkloadId) -> None:
        """Before the snapshots: a target must not take for valid what the source knows to be fenced off (rule 8, J05)."""
        with _naming(self._at_source):
            newest = self._source.newest_fence(workload)
        with _naming(self._at_target):
            there = self._target.newest_fence(workload)
        for epoch in range((there.epoch if there else 0) + 1, (newest.epoch if newest else 0) + 1):
            self._target.fence(read_fence(self._source.place.objects, workload, Epoch(epoch)))
        if newest and there and there.epoch >= newest.epoch:
            known = read_fence(self._target.place.objects, workload, newest.epoch)
            if known != newest:
                raise Conflict(
                    f"at the source it was opened for {newest.holder} by {newest.opened_by}, "
                    f"at the target for {known.holder} by {known.opened_by}: two sites may have written at once",
                    tried="replicate",
                    subject=f"epoch {newest.epoch} of {workload}",
                    remedy="Find out which one is right before you copy anything.",
                )

    def _wanted(self, workload: WorkloadId) -> list[Snapshot]:
        with _naming(self._at_source):
            survey = self._source.survey(workload)
        infos = [*survey.usable, *(one.info for one in survey.passed_over if one.info is not None and one.info.counts)]
        names = {snapshot_name(info.id) for info in infos}
        valid_here = counting(survey.fence)
        # A record that cannot be read must be told: nobody may believe that it was copied.
        for one in survey.passed_over:
            if one.info is None and any(name.key == one.key and valid_here(name) for name in self._source.names(workload)):
                self._failed.append(NotCopied(one.key, f"at {self._at_source}: {one.reason}"))
        fence = self._target.newest_fence(workload)
        valid_there = counting(fence)
        for name in sorted(names):
            if not valid_there(name):
                self._skipped.append(NotCopied(name.id, f"the target knows a newer fence, of epoch {fence.epoch if fence else 0}"))
        return [self._source.snapshot(name.id) for name in sorted(names, reverse=True) if valid_there(name)]

    def _bring(self, snapshot: Snapshot) -> bool:
        """False when it was there, whole."""
        with _naming(self._at_target):
            found = self._target.find(snapshot.id)
        if found is not None and not self._target.place.objects.lacking(blocks_of(snapshot)):
            return False
        pace = Pace(budget_s=math.inf, monotonic_s=time.monotonic, written=self._written)
        with _naming(self._at_source):
            replicate(snapshot, source=self._source.place, target=self._target.place, pace=pace)
        return True

    def _prove(self, snapshot: Snapshot) -> bool:
        """Read back at the target. True: damaged blocks were found there and sent again (V15, V22)."""
        healed = False
        try:
            receipt = self._target.receipt(snapshot.id, site=self.site)
        except Damaged:
            healed = self._bring(snapshot)  # what was found damaged counts as absent now
            with _naming(self._at_target):
                receipt = self._target.receipt(snapshot.id, site=self.site)
        try:  # known here too, so that the lag is seen without reaching the target
            self._source.place.objects.add(receipt_key(receipt.site, receipt.snapshot), receipt)
        except BridgeheadError as error:
            self._failed.append(NotCopied(f"receipt for {snapshot.id} at the source", error.happened))
        return healed

    def _written(self, size_bytes: int) -> None:
        with self._lock:
            self._sent_bytes += size_bytes


class _DamagedAt(Exception):
    """Damage, with the vault that has it."""


@contextmanager
def _naming(vault: str) -> Iterator[None]:
    try:
        yield
    except Damaged as damage:
        raise _DamagedAt(f"at {vault}: {damage.subject}: {damage.happened}") from damage


def refuse_same(source: str, target: str) -> None:
    """Raises BAD_USAGE when both are one directory."""
    folders = folder_of(source), folder_of(target)
    same = source == target if None in folders else Path(str(folders[0])).resolve() == Path(str(folders[1])).resolve()
    if same:
        raise usage("replicate", subject=target, happened="source and target are the same vault", remedy="Name another target.")
