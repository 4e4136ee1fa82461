"""Names and values in a sealed store: found again, told apart, and telling nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import BlobDigest
from bridgehead.vault.crypt.names import SealedNames
from bridgehead.vault.crypt.ring import KeyRing, RingCipher, new_root
from bridgehead.vault.crypt.sealed import SealedBlobs
from bridgehead.vault.records import Damaged

ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789@._+-"
SEGMENT = st.text(ALPHABET, min_size=1, max_size=200).filter(lambda text: text not in (".", ".."))
KEYS = st.tuples(
    st.sampled_from(["snapshots", "receipts", "fences", "state", "index", "holds"]), st.lists(SEGMENT, min_size=1, max_size=3)
).map(lambda parts: "/".join([parts[0], *parts[1]]))
RING = KeyRing([new_root(now_s=1.0)])


class Shelf:
    """A store in memory."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        new = key not in self.values
        self.values.setdefault(key, bytes(data))
        return new

    def get(self, key: str) -> bytes:
        if key not in self.values:
            raise NotFound("no such key", tried="read a value", subject=key)
        return self.values[key]

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        return self.get(key)[offset_bytes : offset_bytes + size_bytes]

    def digest(self, key: str) -> BlobDigest:
        return BlobDigest(block_hash(self.get(key)), len(self.get(key)))

    def size(self, key: str) -> int | None:
        return len(self.values[key]) if key in self.values else None

    def list(self, prefix: str) -> Iterator[str]:
        return iter(sorted(key for key in self.values if key.startswith(prefix)))

    def delete(self, key: str) -> None:
        self.values.pop(key, None)


def sealed(shelf: Shelf) -> SealedBlobs:
    return SealedBlobs(shelf, cipher=RingCipher(RING, "records"), names_key=RING.names_key)


@given(st.lists(KEYS, min_size=1, max_size=8, unique=True))
@settings(max_examples=60)
def test_keys_are_found_again_and_fit_into_any_file_system(keys: list[str]) -> None:
    shelf = Shelf()
    store = sealed(shelf)
    for key in keys:
        assert store.put_new(key, key.encode())
    assert list(store.list("")) == sorted(keys)
    for key in keys:
        assert store.get(key) == key.encode()
        folder = key.rsplit("/", 1)[0] + "/"
        assert list(store.list(folder)) == sorted(one for one in keys if one.startswith(folder))
    for stored in shelf.values:
        first, *rest = stored.split("/")
        assert first in ("snapshots", "receipts", "fences", "state", "index", "holds")
        assert all(re.fullmatch(r"[a-z2-7]{1,240}\+?", segment) for segment in rest)


@given(st.text(ALPHABET, min_size=1, max_size=31), st.text(ALPHABET, min_size=1, max_size=31))
def test_names_show_neither_their_length_nor_that_they_are_the_same_elsewhere(one: str, other: str) -> None:
    names = SealedNames(RING.names_key)
    if {one, other} & {".", ".."}:
        return
    here, there = names.seal(f"snapshots/{one}"), names.seal(f"fences/{one}")
    assert here.split("/")[1] != there.split("/")[1]
    assert len(here) == len(names.seal(f"snapshots/{other}"))


@given(st.binary(max_size=20_000))
@settings(max_examples=60)
def test_values_show_little_of_their_size(value: bytes) -> None:
    shelf = Shelf()
    sealed(shelf).put_new("state/x", value)
    (stored,) = shelf.values.values()
    assert len(stored) == 4096 if len(value) <= 4000 else len(stored) <= (len(value) + 60) * 1.125
    assert sealed(shelf).get("state/x") == value


def test_sizes_fall_into_few_classes() -> None:
    sizes = set()
    for length in range(0, 1 << 17, 61):
        shelf = Shelf()
        sealed(shelf).put_new("state/x", bytes(length))
        sizes.add(len(next(iter(shelf.values.values()))))
    assert len(sizes) < 100  # of 2149


def test_V31_each_flipped_bit_of_a_value_is_noticed_and_its_object_named() -> None:
    shelf = Shelf()
    sealed(shelf).put_new("fences/train/00000001.json", b"epoch 1")
    (stored,) = shelf.values
    good = shelf.values[stored]
    for at in [*range(600), *range(600, len(good) * 8, 101)]:
        bad = bytearray(good)
        bad[at // 8] ^= 1 << at % 8
        shelf.values[stored] = bytes(bad)
        with pytest.raises(Damaged, match="fences/train/00000001"):
            sealed(shelf).get("fences/train/00000001.json")


def test_two_values_that_changed_places_are_both_noticed() -> None:
    shelf = Shelf()
    keys = ("snapshots/train/1", "snapshots/train/2")
    for key in keys:
        sealed(shelf).put_new(key, key.encode())
    one, two = shelf.values
    shelf.values[one], shelf.values[two] = shelf.values[two], shelf.values[one]
    for key in keys:
        with pytest.raises(Damaged, match=key):
            sealed(shelf).get(key)


def test_a_name_that_is_not_ours_is_reported_and_taken_for_nothing() -> None:
    shelf = Shelf()
    store = sealed(shelf)
    store.put_new("receipts/site/train@1.0-0123456789abcdef.json", b"x")
    (good,) = shelf.values
    folder, name = good.rsplit("/", 1)
    forged = [
        f"{folder}/train@9.0-0123456789abcdef.json",  # in clear
        f"{folder}/{name.upper()}",  # another spelling of the same bytes
        f"{folder}/{name[:-1]}{'a' if name[-1] != 'a' else 'b'}",
        f"receipts/{name}/{name}",
        f"{folder}/{name}+",
    ]
    for key in forged:
        shelf.values[key] = shelf.values[good]
    found = list(store.list(""))
    assert len(found) == 6
    assert [key for key in found if "~" not in key] == ["receipts/site/train@1.0-0123456789abcdef.json"]
    assert "receipts/site/~train@9.0-0123456789abcdef.json" in found
    for key in found:
        if "~" in key:
            assert store.size(key) == 4096
            with pytest.raises(Damaged, match="not sealed"):
                store.get(key)
            with pytest.raises(Permanent):
                store.put_new(key, b"")
            store.delete(key)
    assert list(shelf.values) == [good]


def test_what_must_be_read_without_a_key_passes_through() -> None:
    shelf = Shelf()
    store = sealed(shelf)
    for key in ("vault.json", "data/aa/aabb", "keys/0123456789abcdef/recipient.json"):
        store.put_new(key, b"plain")
        assert shelf.values[key] == b"plain"
        assert [store.get(key), store.get_range(key, 1, 2), store.size(key)] == [b"plain", b"la", 5]
        assert store.digest(key) == shelf.digest(key)
    assert list(store.list("data/")) == ["data/aa/aabb"]
    store.delete("data/aa/aabb")
    assert len(shelf.values) == 2
