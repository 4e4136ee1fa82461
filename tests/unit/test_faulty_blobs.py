"""The planned faults of a store look as they say (V20, V21), and a vault is not made in a store that ignores the condition of a write."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.ports.blobs import Blobs
from bridgehead.testing.faulty_blobs import Fault, FaultKind, FaultyBlobs, Operation
from bridgehead.vault import Vault
from bridgehead.vault.layout import VAULT_KEY


@pytest.fixture
def store(tmp_path: Path) -> LocalBlobs:
    store = LocalBlobs(LocalBlobsOptions(str(tmp_path)))
    store.put_new("old", b"old value")
    return store


def faulty(store: Blobs, kind: FaultKind, at: int = 1, operation: Operation | None = None) -> FaultyBlobs:
    return FaultyBlobs(store, [Fault(kind, at, operation)])


def test_no_space_is_for_writes_alone(store: LocalBlobs) -> None:
    blobs = faulty(store, FaultKind.NO_SPACE, operation=Operation.PUT)
    assert blobs.get("old") == b"old value"
    with pytest.raises(Permanent, match="no space"):
        blobs.put_new("new", b"x")
    assert store.size("new") is None


def test_V20_torn_write_says_that_all_is_well_and_short_write_does_not(store: LocalBlobs) -> None:
    assert faulty(store, FaultKind.TORN_WRITE).put_new("torn", b"123456") is True
    with pytest.raises(Transient):
        faulty(store, FaultKind.SHORT_WRITE).put_new("short", b"123456")
    assert store.get("torn") == store.get("short") == b"123"


@pytest.mark.parametrize("operation", [Operation.GET, Operation.DIGEST, Operation.SIZE, Operation.LIST])
def test_V21_stale_read_does_not_see_what_was_written_and_the_next_one_does(store: LocalBlobs, operation: Operation) -> None:
    blobs = faulty(store, FaultKind.STALE_READ, operation=operation)
    assert blobs.put_new("new", b"value")
    ask = {
        Operation.GET: lambda: blobs.get_range("new", 0, 5),
        Operation.DIGEST: lambda: blobs.digest("new").size_bytes,
        Operation.SIZE: lambda: blobs.size("new"),
        Operation.LIST: lambda: list(blobs.list("")),
    }[operation]
    if operation in (Operation.GET, Operation.DIGEST):
        with pytest.raises(NotFound):
            ask()
    else:
        assert ask() in (None, ["old"])
    assert ask() in (b"value", 5, ["new", "old"])
    assert blobs.missed == []


def test_stale_read_is_no_fault_of_a_write(store: LocalBlobs) -> None:
    blobs = faulty(store, FaultKind.STALE_READ)
    assert blobs.put_new("new", b"value")
    assert len(blobs.missed) == 1


def test_lying_put_replaces_and_says_that_it_created(store: LocalBlobs) -> None:
    blobs = faulty(store, FaultKind.LYING_PUT)
    assert blobs.put_new("old", b"new value") is True
    assert store.get("old") == b"new value"
    assert blobs.put_new("old", b"third") is False


class Overwriting:
    """A store that knows no condition: each write replaces, and it says what it likes."""

    def __init__(self, inner: Blobs, answers: bool) -> None:
        self._inner, self._answers = inner, answers

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        new = self._inner.size(key) is None
        self._inner.delete(key)
        self._inner.put_new(key, data)
        return new or self._answers

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


@pytest.mark.parametrize("answers", [True, False])
def test_vault_is_not_made_in_a_store_that_ignores_the_condition(store: LocalBlobs, answers: bool) -> None:
    with pytest.raises(Permanent, match="overwrites a value that exists") as refused:
        Vault.init(Overwriting(store, answers))
    assert "create-only" in refused.value.remedy
    assert list(store.list("")) == ["old"]


def test_vault_is_not_made_in_a_store_that_lies_once(store: LocalBlobs) -> None:
    blobs = faulty(store, FaultKind.LYING_PUT, at=2, operation=Operation.PUT)
    with pytest.raises(Permanent, match="overwrites"):
        Vault.init(blobs)
    assert blobs.missed == []
    assert store.size(VAULT_KEY) is None


def test_V21_vault_is_made_although_a_read_comes_too_early(store: LocalBlobs) -> None:
    """Either it is made, or it is said that it was not; then it is made by the next try."""
    blobs = FaultyBlobs(store)
    Vault.init(blobs)
    reads = blobs.calls
    for at in range(1, reads + 1):
        for key in list(store.list("")):
            store.delete(key)
        late = faulty(store, FaultKind.STALE_READ, at=at)
        try:
            Vault.init(late)
        except (NotFound, Permanent):
            assert late.missed == []
            if store.size(VAULT_KEY) is None:
                Vault.init(store)
        assert Vault.open(store).file.id
