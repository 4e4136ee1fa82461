"""Conformance suite of the vaults port (R4, R6, R8; J05, J06, J13, V16). A driver inherits the class and fills in the hooks.

Usable under real and under virtual time: the suite never sleeps by itself, it calls :meth:`VaultsSuite.pass_time`.
Call ``pytest.register_assert_rewrite("bridgehead.testing.vaults_suite")`` in a ``conftest.py`` to see values in failed assertions.
"""

from __future__ import annotations

import pytest

from bridgehead.kernel.errors import Conflict, NotFound, Permanent
from bridgehead.kernel.ids import Epoch, RunId, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import Fence, TransferProgress
from bridgehead.model.stamp import Stamp
from bridgehead.ports.vaults import Vaults

NOBODY = SiteId("nobody-knows-this-site")
MAX_SLICES = 10_000


def stamp(*, run: str = "run-1", step: str = "copy", attempt: int = 1, epoch: int = 1) -> Stamp:
    """A stamp for the suite's effects."""
    return Stamp(run=RunId(run), step=StepId(step), attempt=attempt, epoch=Epoch(epoch))


class VaultsSuite:
    """What every driver of the vaults port must do. ``source`` and ``target`` are two sites with a vault each."""

    source = SiteId("site-a")
    target = SiteId("site-b")
    workload = WorkloadId("train")

    @pytest.fixture
    def vaults(self) -> Vaults:
        """Both vaults empty."""
        raise NotImplementedError

    def write(self, vaults: Vaults, site: SiteId, *, step: int, epoch: int) -> SnapshotId:
        """Commit a snapshot of ``self.workload`` at ``site``, as a trainer does. Different steps have different content."""
        raise NotImplementedError

    def pass_time(self, vaults: Vaults, seconds: float) -> None:
        """Let time pass between two slices of a replication; nothing to do under real time."""

    def damage(self, vaults: Vaults, snapshot: SnapshotId, site: SiteId) -> bool:
        """Flip a bit in a block of the snapshot at ``site``; False where that cannot be done, and the test is skipped."""
        return False

    def fence_of(self, epoch: int, *counts: SnapshotId, by: str = "run-1", opened_s: float = 1.0) -> Fence:
        """A fence that gives the workload to the target."""
        return Fence(self.workload, Epoch(epoch), self.target, counts, by, opened_s)

    def copy(self, vaults: Vaults, snapshot: SnapshotId, *, budget_s: float = 5.0, by: Stamp | None = None) -> list[TransferProgress]:
        """Replicate to the end, slice by slice."""
        slices: list[TransferProgress] = []
        while not slices or not slices[-1].done:
            assert len(slices) < MAX_SLICES, "the replication does not end"
            if slices:
                self.pass_time(vaults, 0.5)
            slices.append(vaults.replicate(snapshot, source=self.source, target=self.target, budget_s=budget_s, stamp=by or stamp()))
        return slices

    def newest_id(self, vaults: Vaults, site: SiteId) -> SnapshotId | None:
        """Id of the newest usable snapshot."""
        newest = vaults.newest(self.workload, site=site)
        return newest.id if newest else None

    def test_empty_vault_has_nothing(self, vaults: Vaults) -> None:
        """None, not an error."""
        for site in (self.source, self.target):
            assert vaults.newest(self.workload, site=site) is None
            assert vaults.newest_fence(self.workload, site=site) is None

    def test_unknown_site_is_not_found(self, vaults: Vaults) -> None:
        """Every method."""
        known = self.write(vaults, self.source, step=1, epoch=0)
        with pytest.raises(NotFound):
            vaults.newest(self.workload, site=NOBODY)
        with pytest.raises(NotFound):
            vaults.find(known, site=NOBODY)
        with pytest.raises(NotFound):
            vaults.replicate(known, source=self.source, target=NOBODY, budget_s=1.0, stamp=stamp())
        with pytest.raises(NotFound):
            vaults.replicate(known, source=NOBODY, target=self.target, budget_s=1.0, stamp=stamp())
        with pytest.raises(NotFound):
            vaults.receipt(known, site=NOBODY, stamp=stamp())
        with pytest.raises(NotFound):
            vaults.fence(self.fence_of(1), site=NOBODY, stamp=stamp())
        with pytest.raises(NotFound):
            vaults.newest_fence(self.workload, site=NOBODY)
        with pytest.raises(NotFound):
            vaults.fences(self.workload, site=NOBODY)
        with pytest.raises(NotFound):
            vaults.cast(Ballot(self.workload, Epoch(1), 1, "nobody", None), site=NOBODY, stamp=stamp())

    def test_newest_is_the_highest_step_whatever_was_written_last(self, vaults: Vaults) -> None:
        """And it says what it is."""
        for step in (20, 100, 30):
            self.write(vaults, self.source, step=step, epoch=0)
        newest = vaults.newest(self.workload, site=self.source)
        assert newest is not None
        assert (newest.step, newest.epoch, newest.site, newest.workload) == (100, 0, self.source, self.workload)
        assert newest.verified
        assert newest.counts
        assert newest.raw_bytes > 0
        assert vaults.find(newest.id, site=self.source) == newest

    def test_snapshot_is_at_the_target_only_after_the_copy(self, vaults: Vaults) -> None:
        """The record comes last."""
        snapshot = self.write(vaults, self.source, step=7, epoch=0)
        assert vaults.find(snapshot, site=self.target) is None
        with pytest.raises(NotFound):
            vaults.receipt(snapshot, site=self.target, stamp=stamp())
        slices = self.copy(vaults, snapshot)
        assert slices[-1].left_bytes == 0
        assert slices[-1].sent_bytes > 0
        assert self.newest_id(vaults, self.target) == snapshot

    def test_copy_in_small_slices_gets_ahead_and_commits_last(self, vaults: Vaults) -> None:
        """What is left shrinks, and nothing is committed before it is 0."""
        snapshot = self.write(vaults, self.source, step=7, epoch=0)
        progress = vaults.replicate(snapshot, source=self.source, target=self.target, budget_s=0.0, stamp=stamp())
        left = [progress.left_bytes]
        while not progress.done:
            assert vaults.find(snapshot, site=self.target) is None
            assert len(left) < MAX_SLICES
            self.pass_time(vaults, 0.5)
            progress = vaults.replicate(snapshot, source=self.source, target=self.target, budget_s=0.0, stamp=stamp())
            left.append(progress.left_bytes)
        assert left == sorted(left, reverse=True)
        assert left[-1] == 0
        assert self.newest_id(vaults, self.target) == snapshot

    def test_repeated_copy_sends_nothing_more(self, vaults: Vaults) -> None:
        """Idempotent."""
        snapshot = self.write(vaults, self.source, step=7, epoch=0)
        sent = self.copy(vaults, snapshot)[-1].sent_bytes
        again = self.copy(vaults, snapshot)
        assert len(again) == 1
        assert again[0].sent_bytes in (0, sent)

    def test_copy_of_what_the_source_lacks_is_not_found(self, vaults: Vaults) -> None:
        """Also when the target has it."""
        snapshot = self.write(vaults, self.target, step=7, epoch=0)
        with pytest.raises(NotFound):
            vaults.replicate(snapshot, source=self.source, target=self.target, budget_s=1.0, stamp=stamp())

    def test_receipt_says_what_was_read_back(self, vaults: Vaults) -> None:
        """R6."""
        snapshot = self.write(vaults, self.source, step=7, epoch=0)
        self.copy(vaults, snapshot)
        receipt = vaults.receipt(snapshot, site=self.target, stamp=stamp(step="receipt"))
        newest = vaults.newest(self.workload, site=self.target)
        assert newest is not None
        assert (receipt.snapshot, receipt.site, receipt.raw_bytes) == (snapshot, self.target, newest.raw_bytes)
        assert receipt.blocks > 0
        assert vaults.receipt(snapshot, site=self.target, stamp=stamp(step="receipt")).snapshot == snapshot

    def test_V31_damaged_block_gets_no_receipt_and_is_not_copied(self, vaults: Vaults) -> None:
        """Named at the source, and the target never commits it."""
        snapshot = self.write(vaults, self.source, step=7, epoch=0)
        if not self.damage(vaults, snapshot, self.source):
            pytest.skip("this driver cannot damage a block")
        with pytest.raises(Permanent):
            self.copy(vaults, snapshot)
        with pytest.raises(Permanent):
            vaults.receipt(snapshot, site=self.source, stamp=stamp())
        assert vaults.find(snapshot, site=self.target) is None

    def test_J05_fence_names_what_counts(self, vaults: Vaults) -> None:
        """Named snapshots stay; what the old epoch wrote besides, before or after, never counts; the new epoch's counts."""
        named = self.write(vaults, self.source, step=10, epoch=0)
        unnamed = self.write(vaults, self.source, step=11, epoch=0)
        vaults.fence(self.fence_of(1, named), site=self.source, stamp=stamp())
        zombie = self.write(vaults, self.source, step=12, epoch=0)
        assert self.newest_id(vaults, self.source) == named
        for snapshot in (unnamed, zombie):
            found = vaults.find(snapshot, site=self.source)
            assert found is not None
            assert not found.counts
        new = self.write(vaults, self.source, step=11, epoch=1)
        assert self.newest_id(vaults, self.source) == new

    def test_J06_snapshot_of_a_closed_epoch_does_not_count_at_the_target_either(self, vaults: Vaults) -> None:
        """It may be copied, as evidence."""
        named = self.write(vaults, self.source, step=10, epoch=0)
        self.copy(vaults, named)
        vaults.fence(self.fence_of(1, named), site=self.target, stamp=stamp())
        zombie = self.write(vaults, self.source, step=99, epoch=0)
        self.copy(vaults, zombie)
        assert self.newest_id(vaults, self.target) == named
        found = vaults.find(zombie, site=self.target)
        assert found is not None
        assert not found.counts

    def test_epoch_that_nobody_opened_does_not_count(self, vaults: Vaults) -> None:
        """Before its fence, at that site."""
        early = self.write(vaults, self.source, step=10, epoch=1)
        assert vaults.newest(self.workload, site=self.source) is None
        vaults.fence(self.fence_of(1), site=self.source, stamp=stamp())
        assert self.newest_id(vaults, self.source) == early

    def test_newest_fence_decides_alone(self, vaults: Vaults) -> None:
        """What an older fence named and the newest does not, no longer counts."""
        first = self.write(vaults, self.source, step=10, epoch=0)
        vaults.fence(self.fence_of(1, first), site=self.source, stamp=stamp())
        second = self.write(vaults, self.source, step=11, epoch=1)
        vaults.fence(self.fence_of(2, first), site=self.source, stamp=stamp())
        assert self.newest_id(vaults, self.source) == first
        found = vaults.find(second, site=self.source)
        assert found is not None
        assert not found.counts

    def test_fence_is_recorded_once(self, vaults: Vaults) -> None:
        """A repeat by the same opener gets the first record, whatever it asks for; another opener gets Conflict."""
        snapshot = self.write(vaults, self.source, step=10, epoch=0)
        first = vaults.fence(self.fence_of(1, snapshot, opened_s=1.0), site=self.source, stamp=stamp())
        assert vaults.fence(self.fence_of(1, opened_s=2.0), site=self.source, stamp=stamp(attempt=2)) == first
        assert vaults.newest_fence(self.workload, site=self.source) == first
        with pytest.raises(Conflict):
            vaults.fence(self.fence_of(1, snapshot, by="run-2"), site=self.source, stamp=stamp(run="run-2"))
        assert vaults.newest_fence(self.workload, site=self.source) == first
        assert vaults.newest_fence(self.workload, site=self.target) is None

    def test_fence_is_newer_by_exactly_one(self, vaults: Vaults) -> None:
        """No gap, no way back."""
        with pytest.raises(Conflict):
            vaults.fence(self.fence_of(2), site=self.source, stamp=stamp())
        vaults.fence(self.fence_of(1, by="run-1"), site=self.source, stamp=stamp())
        vaults.fence(self.fence_of(2, by="run-2"), site=self.source, stamp=stamp(run="run-2"))
        with pytest.raises(Conflict):
            vaults.fence(self.fence_of(4, by="run-3"), site=self.source, stamp=stamp(run="run-3"))
        with pytest.raises(Conflict):
            vaults.fence(self.fence_of(1, by="run-3"), site=self.source, stamp=stamp(run="run-3"))
        assert vaults.fence(self.fence_of(1, by="run-1"), site=self.source, stamp=stamp()).epoch == 1
        newest = vaults.newest_fence(self.workload, site=self.source)
        assert newest is not None
        assert newest.epoch == 2

    def test_all_fences_are_read_oldest_first(self, vaults: Vaults) -> None:
        """Of this workload alone."""
        assert vaults.fences(self.workload, site=self.source) == ()
        first = vaults.fence(self.fence_of(1), site=self.source, stamp=stamp())
        second = vaults.fence(self.fence_of(2, by="run-2"), site=self.source, stamp=stamp(run="run-2"))
        assert vaults.fences(self.workload, site=self.source) == (first, second)
        assert vaults.fences(self.workload, site=self.target) == ()
        assert vaults.fences(WorkloadId("other"), site=self.source) == ()

    def test_R16_files_are_kept_beside_what_is_trained(self, vaults: Vaults) -> None:
        """The same again is the same snapshot, other content at the same step is another one; a replaced driver keeps nothing."""
        self.write(vaults, self.source, step=10, epoch=0)
        name, step, note = WorkloadId("train.point"), 1_700_000_000, {"model": "m"}

        def keep(content: bytes, by: Stamp) -> SnapshotId:
            return vaults.keep({"point.json": content}, workload=name, step=step, site=self.source, context=note, stamp=by).id

        first = keep(b"{}", stamp(epoch=2))
        assert keep(b"{}", stamp(epoch=2, attempt=2)) == first
        info = vaults.find(first, site=self.source)
        assert info is not None
        assert (info.workload, info.step, info.epoch, info.verified, info.counts) == (name, step, 0, True, True)
        assert keep(b"{ }", stamp(epoch=2)) != first
        assert vaults.receipt(first, site=self.source, stamp=stamp(epoch=2)).raw_bytes == 2
        with pytest.raises(Conflict):
            keep(b"late", stamp(epoch=1))
        with pytest.raises(NotFound):
            vaults.keep({"a": b""}, workload=name, step=step, site=SiteId("nowhere"), context={}, stamp=stamp())

    def test_J05_who_casts_a_ballot_sees_all_that_were_cast_before(self, vaults: Vaults) -> None:
        """Its own among them; each epoch for itself; a repeat adds nothing, and nothing is judged."""
        bid = Ballot(self.workload, Epoch(1), 1, "controller-1", None)
        vote = Ballot(self.workload, Epoch(1), 1, "controller-1", self.fence_of(1))
        other = Ballot(self.workload, Epoch(1), 1, "controller-2", self.fence_of(1, by="run-2"))
        later = Ballot(self.workload, Epoch(2), 7, "controller-1", None)
        seen: set[Ballot] = set()
        for ballot in (bid, vote, other, vote):
            seen.add(ballot)
            assert sorted(vaults.cast(ballot, site=self.source, stamp=stamp()), key=repr) == sorted(seen, key=repr)
        assert vaults.cast(later, site=self.source, stamp=stamp()) == (later,)
        assert vaults.cast(other, site=self.target, stamp=stamp()) == (other,)
        assert vaults.newest_fence(self.workload, site=self.source) is None

    def test_J13_driver_that_was_replaced_is_refused(self, vaults: Vaults) -> None:
        """Every effect, at a site that has seen the new driver; the new one and other runs go on."""
        snapshot = self.write(vaults, self.source, step=10, epoch=0)
        new, old = stamp(epoch=2), stamp(epoch=1)
        assert vaults.newest_driver(new.run, site=self.target) == 0
        self.copy(vaults, snapshot, by=new)
        assert vaults.newest_driver(new.run, site=self.target) == 2
        assert vaults.newest_driver(RunId("run-2"), site=self.target) == 0
        with pytest.raises(Conflict):
            vaults.replicate(snapshot, source=self.source, target=self.target, budget_s=1.0, stamp=old)
        with pytest.raises(Conflict):
            vaults.receipt(snapshot, site=self.target, stamp=old)
        with pytest.raises(Conflict):
            vaults.fence(self.fence_of(1, snapshot), site=self.target, stamp=old)
        with pytest.raises(Conflict):
            vaults.cast(Ballot(self.workload, Epoch(1), 1, "old", None), site=self.target, stamp=old)
        assert vaults.newest_fence(self.workload, site=self.target) is None
        vaults.receipt(snapshot, site=self.target, stamp=new)
        vaults.receipt(snapshot, site=self.target, stamp=stamp(run="run-2", epoch=1))
