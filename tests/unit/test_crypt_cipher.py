"""XAES-256-GCM against the vectors of its specification, and what a seal promises."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from bridgehead.vault.crypt.cipher import Xaes
from bridgehead.vault.crypt.ring import DataKey, KeyRing, RingCipher, new_root
from bridgehead.vault.sealing import BadSeal

NONCE = b"ABCDEFGHIJKLMNOPQRSTUVWX"


@pytest.mark.parametrize(
    ("key", "additional", "sealed"),
    [
        (b"\1" * 32, b"", "ce546ef63c9cc60765923609b33a9a1974e96e52daf2fcf7075e2271"),
        (b"\3" * 32, b"c2sp.org/XAES-256-GCM", "986ec1832593df5443a179437fd083bf3fdb41abd740a21f71eb769d"),
    ],
)
def test_vectors_of_the_specification(key: bytes, additional: bytes, sealed: str) -> None:
    assert Xaes(key).encrypt(NONCE, b"XAES-256-GCM", additional).hex() == sealed
    assert Xaes(key).open(NONCE + bytes.fromhex(sealed), label=additional.decode()) == b"XAES-256-GCM"


def test_derived_key_of_the_specification() -> None:
    key = bytes.fromhex("c8612c9ed53fe43e8e005b828a1631a0bbcb6ab2f46514ec4f439fcfd0fa969b")
    assert Xaes(b"\1" * 32).encrypt(NONCE, b"x", b"") == AESGCM(key).encrypt(NONCE[12:], b"x", b"")


def test_accumulated_vectors_of_the_specification() -> None:
    stream = memoryview(hashlib.shake_128(b"").digest(10_000 * (32 + 24 + 2 + 510)))
    at = 0

    def take(size: int) -> bytes:
        nonlocal at
        at += size
        return bytes(stream[at - size : at])

    found = hashlib.shake_128()
    for _ in range(10_000):
        key, nonce = take(32), take(24)
        plain = take(take(1)[0])
        found.update(Xaes(key).encrypt(nonce, plain, take(take(1)[0])))
    assert found.hexdigest(32) == "e6b9edf2df6cec60c8cbd864e2211b597fb69a529160cd040d56c0c210081939"


@pytest.mark.parametrize("size", [0, 1, 31, 4096])
def test_every_flipped_bit_and_every_cut_is_noticed(size: int) -> None:
    cipher = RingCipher(KeyRing([new_root(now_s=1.0)]), "blocks")
    sealed = cipher.seal(b"\xa5" * size, label="here")
    assert len(sealed) == size + cipher.overhead_bytes
    assert cipher.open(memoryview(sealed), label="here") == b"\xa5" * size
    for at in range(0, len(sealed) * 8, 1 if size < 100 else 97):
        bad = bytearray(sealed)
        bad[at // 8] ^= 1 << at % 8
        with pytest.raises(BadSeal):
            cipher.open(bytes(bad), label="here")
    for end in range(0, len(sealed), 1 if size < 100 else 97):
        with pytest.raises(BadSeal):
            cipher.open(sealed[:end], label="here")


def test_a_seal_is_bound_to_place_purpose_and_key() -> None:
    ring = KeyRing([new_root(now_s=1.0)])
    sealed = RingCipher(ring, "blocks").seal(b"weights", label="here")
    assert RingCipher(ring, "blocks").seal(b"weights", label="here") != sealed
    for other, label in ((ring, "there"), (KeyRing([new_root(now_s=1.0)]), "here")):
        with pytest.raises(BadSeal):
            RingCipher(other, "blocks").open(sealed, label=label)
    with pytest.raises(BadSeal):
        RingCipher(ring, "records").open(sealed, label="here")


def test_older_pieces_open_after_a_new_key_and_news_are_asked_for_once() -> None:
    root = new_root(now_s=1.0)
    asked = []
    writer = KeyRing([root])
    new = writer.draw(now_s=2.0)
    later = KeyRing([root, new])

    def news() -> tuple[tuple[DataKey, ...], DataKey]:
        asked.append(1)
        return later.keys, later.active

    reader = RingCipher(KeyRing([root], news=news), "blocks")
    old = RingCipher(writer, "blocks").seal(b"old", label="")
    fresh = RingCipher(later, "blocks").seal(b"fresh", label="")
    assert old[:4] != fresh[:4]
    assert [reader.open(old, label=""), asked] == [b"old", []]
    assert [reader.open(fresh, label=""), reader.open(fresh, label=""), asked] == [b"fresh", b"fresh", [1]]
    assert reader.seal(b"", label="")[:4] == fresh[:4]


def test_a_key_shows_nothing_of_itself() -> None:
    key = new_root(now_s=1.0)
    assert key.key.hex() not in repr(key) + str(key)
    assert repr(key.key) not in repr((key,))
