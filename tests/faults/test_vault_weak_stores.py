"""A vault on stores that are weaker than they say: writes that are not seen at once, and halves that stay (V20, V21)."""

from __future__ import annotations

import contextlib
import itertools
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, Transient
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.testing.faulty_blobs import Fault, FaultKind, FaultyBlobs, Operation
from bridgehead.vault import Damaged, Vault

A, TRAIN = SiteId("a"), WorkloadId("train")
OLD = {"model.bin": b"old" * 1000, "kept.bin": b"kept" * 1000}
NEW = {"model.bin": b"new" * 1000, "kept.bin": b"kept" * 1000, "more.bin": b"more" * 1000}
MAX_CALLS = 100


def store_with_a_snapshot(folder: Path) -> tuple[LocalBlobs, SnapshotId]:
    store = LocalBlobs(LocalBlobsOptions(str(folder)))
    return store, Vault.init(store).save(OLD, workload=TRAIN, step=1, epoch=Epoch(0), site=A).id


def save(vault: Vault) -> SnapshotId:
    return vault.save(NEW, workload=TRAIN, step=2, epoch=Epoch(0), site=A).id


@pytest.mark.parametrize("operation", [Operation.GET, Operation.DIGEST, Operation.SIZE, Operation.LIST])
def test_V21_what_is_not_seen_yet_never_becomes_a_snapshot_with_holes(tmp_path: Path, operation: Operation) -> None:
    """At every read of a save: it says that it failed, and goes through when repeated; or it is there to the last byte."""
    for at in itertools.count(1):
        assert at < MAX_CALLS
        store, old = store_with_a_snapshot(tmp_path / str(at))
        late = FaultyBlobs(store, [Fault(FaultKind.STALE_READ, at, operation)])
        try:
            new = save(Vault.open(late))
        except BridgeheadError:
            assert late.missed == []
            new = save(Vault.open(store))
        vault = Vault.open(store)
        assert vault.load(old) == OLD
        assert vault.load(new) == NEW
        assert vault.verify(read_data=True).damages == ()
        if late.missed:
            break
    assert at > 1 or operation in (Operation.DIGEST, Operation.SIZE), "a save gets and lists"


def test_V21_what_is_not_seen_yet_is_an_error_of_the_restore_and_not_a_hole(tmp_path: Path) -> None:
    store, old = store_with_a_snapshot(tmp_path)
    for at in itertools.count(1):
        assert at < MAX_CALLS
        late = FaultyBlobs(store, [Fault(FaultKind.STALE_READ, at, Operation.GET)])
        try:
            assert Vault.open(late).load(old) == OLD
        except BridgeheadError:
            assert late.missed == []
        if late.missed:
            break
    assert at > 2


def test_V20_half_of_a_value_that_stays_is_found_and_named(tmp_path: Path) -> None:
    """The save says that it failed. The next one goes through, if need be after a repair; a half record of the snapshot itself is named."""
    named = []
    for at in itertools.count(1):
        assert at < MAX_CALLS
        store, old = store_with_a_snapshot(tmp_path / str(at))
        weak = FaultyBlobs(store, [Fault(FaultKind.SHORT_WRITE, at, Operation.PUT)])
        with contextlib.suppress(Transient):
            save(Vault.open(weak))
            assert weak.missed
        if weak.missed:
            break
        try:
            try:
                save(Vault.open(store))
            except Damaged:
                Vault.open(store).repair()
            assert Vault.open(store).load(save(Vault.open(store))) == NEW
        except Damaged as damage:
            named.append(damage.subject.split("/")[0])
            newest = Vault.open(store).newest(TRAIN)
            assert newest is not None
            assert newest.id == old
        assert Vault.open(store).load(old) == OLD
    assert at > 3
    assert named == ["snapshots"]
