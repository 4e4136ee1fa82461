"""Holds: what is held cannot be forgotten, whatever is killed or damaged (R6, R12)."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.host.identity import this_driver
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError
from bridgehead.kernel.ids import Epoch, Person, SiteId, SnapshotId, WorkloadId
from bridgehead.ports.journal import DriverIdentity
from bridgehead.testing.faulty_blobs import Crashed, Fault, FaultKind, FaultyBlobs
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.holds import FORGETTING_PREFIX, Hold, held_snapshots, list_holds, list_releases, place_hold, release_holds
from bridgehead.vault.objects import Objects
from bridgehead.vault.records import encode

TRAIN, ME = WorkloadId("train"), Person("me")


@pytest.fixture
def store(tmp_path: Path) -> LocalBlobs:
    return LocalBlobs(LocalBlobsOptions(str(tmp_path / "v")))


@pytest.fixture
def snapshot(store: LocalBlobs) -> SnapshotId:
    return Vault.init(store).save({"w": b"weights"}, workload=TRAIN, step=1, epoch=Epoch(0), site=SiteId("a")).id


def hold(store: LocalBlobs, snapshot: SnapshotId, *, until_s: float | None = None) -> str:
    return place_hold(Objects(store), Hold(snapshot, ME, "case 7", 100.0, until_s))


def test_a_held_snapshot_cannot_be_forgotten_and_a_released_one_can(store: LocalBlobs, snapshot: SnapshotId) -> None:
    hold(store, snapshot)
    hold(store, snapshot)
    vault = Vault.open(store)
    with pytest.raises(Conflict, match="a hold is on it"):
        vault.forget(snapshot)
    assert vault.load(snapshot)
    released = release_holds(Objects(store), snapshot, by=ME, reason="closed", now_s=200.0)
    assert len(released) == 2
    assert list_releases(Objects(store)) == released
    assert vault.verify().intact
    vault.forget(snapshot)
    assert vault.names(TRAIN) == ()
    with pytest.raises(NotFound, match="no hold is on it"):
        release_holds(Objects(store), snapshot, by=ME, reason="again", now_s=200.0)


def test_a_hold_ends_at_its_date(store: LocalBlobs, snapshot: SnapshotId) -> None:
    hold(store, snapshot, until_s=500.0)
    assert held_snapshots(Objects(store), now_s=499.0) == {snapshot}
    assert held_snapshots(Objects(store), now_s=500.0) == frozenset()
    with pytest.raises(Permanent, match="its end is past"):
        hold(store, snapshot, until_s=100.0)


def test_a_damaged_hold_holds(store: LocalBlobs, snapshot: SnapshotId, tmp_path: Path) -> None:
    key = hold(store, snapshot, until_s=500.0)
    (tmp_path / "v" / key).write_bytes(b"")
    with pytest.raises(Conflict):
        Vault.open(store).forget(snapshot)
    with pytest.raises(Damaged, match=key):
        release_holds(Objects(store), snapshot, by=ME, reason="", now_s=1.0)
    assert [damage.key for damage in Vault.open(store).verify().damages] == [key]


def test_what_is_not_there_cannot_be_held(store: LocalBlobs, snapshot: SnapshotId) -> None:
    Vault.open(store).forget(snapshot)
    with pytest.raises(NotFound, match="no such snapshot"):
        hold(store, snapshot)
    assert list_holds(Objects(store)) == ()


def test_who_holds_while_somebody_forgets_is_told(store: LocalBlobs, snapshot: SnapshotId, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bridgehead.vault.holds._PATIENCE_S", 0.0)
    mark = f"{FORGETTING_PREFIX}{snapshot}/1"
    store.put_new(mark, encode(this_driver()))
    with pytest.raises(Conflict, match="no hold was placed"):
        hold(store, snapshot)
    assert list_holds(Objects(store)) == ()


def test_a_mark_of_somebody_who_died_hinders_nobody(store: LocalBlobs, snapshot: SnapshotId) -> None:
    me = this_driver()
    store.put_new(f"{FORGETTING_PREFIX}{snapshot}/1", encode(DriverIdentity(host=me.host, pid=me.pid, started="another boot:1:1")))
    hold(store, snapshot)
    assert held_snapshots(Objects(store), now_s=1.0) == {snapshot}


@pytest.mark.parametrize("kind", [FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.IO_ERROR])
def test_a_release_that_is_stopped_anywhere_holds_or_is_on_record(store: LocalBlobs, snapshot: SnapshotId, kind: FaultKind) -> None:
    for at in range(1, 50):
        hold(store, snapshot)
        faulty = FaultyBlobs(store, [Fault(kind, at)])
        before = len(list_releases(Objects(store)))
        with contextlib.suppress(Crashed, PortError):
            release_holds(Objects(faulty), snapshot, by=ME, reason="closed", now_s=200.0)
        held = held_snapshots(Objects(store), now_s=1.0)
        assert held or len(list_releases(Objects(store))) > before
        if held:
            release_holds(Objects(store), snapshot, by=ME, reason="closed", now_s=300.0)
        if faulty.missed:
            assert at > 3
            break
    assert Vault.open(store).verify().intact
