"""KeyRing: the data keys of a vault. The first, the root, makes the family; new pieces are sealed with the newest that all recipients have.

Every key that encrypts or authenticates is derived from a data key for one purpose (HKDF-SHA256, RFC 5869).
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from bridgehead.vault.crypt.cipher import KEY_BYTES, Xaes
from bridgehead.vault.sealing import BadSeal, Parts

KEY_ID_BYTES: Final = 4
_NAMES_KEY_BYTES: Final = 64
_INFO: Final = "bridgehead vault 1 "


class DataKey(msgspec.Struct, frozen=True):
    """32 random bytes, when they were drawn, and for all but the root the root's proof that they are of the family."""

    key: bytes
    made_s: float
    proof: bytes = b""

    def __repr__(self) -> str:
        return f"DataKey({self.id})"  # never the key itself: it would end in a traceback or a log

    @property
    def id(self) -> str:
        """8 hex digits, derived from the key."""
        return derived(self.key, "id", KEY_ID_BYTES).hex()

    @property
    def family(self) -> str:
        """32 hex digits: the family whose root this key is, or would be."""
        return derived(self.key, "family", 16).hex()


def derived(key: bytes, purpose: str, size_bytes: int = KEY_BYTES) -> bytes:
    """The key for one purpose."""
    return HKDF(algorithm=SHA256(), length=size_bytes, salt=None, info=(_INFO + purpose).encode()).derive(key)


class KeyRing:
    """Data keys of one vault, as this process knows them. Safe for threads.

    Args:
        keys: the root first.
        active: the key for what is new.
        news: called when a piece names a key that is not known: keys and active key anew, or None when there is nothing new.
    """

    def __init__(
        self,
        keys: Sequence[DataKey],
        *,
        active: DataKey | None = None,
        news: Callable[[], tuple[Sequence[DataKey], DataKey] | None] = lambda: None,
    ) -> None:
        self._keys = {key.id: key for key in keys}
        self.root = keys[0]
        self.active = active or keys[-1]
        self._news = news
        self._lock = threading.Lock()

    @property
    def keys(self) -> tuple[DataKey, ...]:
        """All, the root first."""
        return tuple(self._keys.values())

    @property
    def family(self) -> str:
        """Vaults of one family can read each other's packs."""
        return self.root.family

    @property
    def names_key(self) -> bytes:
        """Encrypts the names of objects; of the root for ever, since a name must be found again."""
        return derived(self.root.key, "names", _NAMES_KEY_BYTES)

    def find(self, key_id: str) -> DataKey | None:
        """The data key of that id; asks for news when it is not known."""
        with self._lock:
            if key_id not in self._keys:
                self._learn()
            return self._keys.get(key_id)

    def renew(self) -> None:
        """Look whether there is a new key for what is new: a process that only writes would seal with the old one for ever."""
        with self._lock:
            self._learn()

    def _learn(self) -> None:
        news = self._news()
        if news is not None:
            keys, self.active = news
            self._keys |= {key.id: key for key in keys}

    def draw(self, *, now_s: float) -> DataKey:
        """A new data key of this family. It is not in the ring yet."""
        key = secrets.token_bytes(KEY_BYTES)
        return DataKey(key, now_s, self._proof(key))

    def is_of_family(self, key: DataKey) -> bool:
        """Whether somebody who knew the root drew it: anybody can encrypt a key of his own to our recipients."""
        return key == self.root or hmac.compare_digest(key.proof, self._proof(key.key))

    def vouch(self, statement: bytes) -> str:
        """64 hex digits by which the holders of the root know a statement as their own."""
        return hmac.digest(derived(self.root.key, "statements"), statement, hashlib.sha256).hex()

    def _proof(self, key: bytes) -> bytes:
        return hmac.digest(derived(self.root.key, "proofs"), key, hashlib.sha256)


def new_root(*, now_s: float) -> DataKey:
    """The first key of a new family."""
    return DataKey(secrets.token_bytes(KEY_BYTES), now_s)


class RingCipher:
    """A ``sealing.Cipher`` for one purpose: a sealed piece begins with the id of its data key (4 bytes), then as ``Xaes``."""

    overhead_bytes = KEY_ID_BYTES + Xaes.overhead_bytes

    def __init__(self, ring: KeyRing, purpose: str, *, binds_tables: bool = False) -> None:
        self.binds_tables = binds_tables
        self._ring = ring
        self._purpose = purpose
        self._ciphers: dict[str, Xaes] = {}

    def seal(self, data: bytes | memoryview, *, label: str) -> bytes:
        """See the Protocol."""
        key = self._ring.active
        return self._cipher(key).seal(data, label=label, head=bytes.fromhex(key.id))

    def seal_parts(self, parts: Parts, *, label: str) -> Parts:
        """See the Protocol."""
        key = self._ring.active
        return (bytes.fromhex(key.id), *self._cipher(key).sealed(b"".join(parts), label=label))

    def open(self, data: bytes | memoryview, *, label: str) -> bytes:
        """See the Protocol."""
        whole = memoryview(data)
        key_id = bytes(whole[:KEY_ID_BYTES]).hex()
        cipher = self._ciphers.get(key_id)
        if cipher is None:
            key = self._ring.find(key_id)
            if key is None:
                raise BadSeal("it names a key that this vault does not have")
            cipher = self._cipher(key)
        return cipher.open(whole[KEY_ID_BYTES:], label=label)

    def _cipher(self, key: DataKey) -> Xaes:
        key_id = key.id
        if key_id not in self._ciphers:
            self._ciphers[key_id] = Xaes(derived(key.key, self._purpose))
        return self._ciphers[key_id]
