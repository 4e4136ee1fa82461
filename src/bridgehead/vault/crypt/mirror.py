"""Mirror: a copy of a vault made by somebody who cannot read it. Opaque objects, as a set union; later it opens with a key like the source.

What can be checked without a key is checked before it is stored: a pack against its name, a wrapped key against its name. Nothing is
replaced and nothing is removed: what was forgotten, or whose key was removed, at the source stays in the mirror.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.crypt import keys
from bridgehead.vault.layout import DATA_PREFIX, INDEX_PREFIX, KEYS_PREFIX, SNAPSHOTS_PREFIX, VAULT_KEY, pack_of_key
from bridgehead.vault.objects import parallel, refuse
from bridgehead.vault.records import Damaged, damaged

OWN_PREFIXES: Final = ("state/",)
"""Sessions, marks and measurements belong to the store in which they lie."""
_ORDER: Final = (DATA_PREFIX, INDEX_PREFIX, KEYS_PREFIX)
_WORKERS: Final = 4
_ROUNDS: Final = 10
"""Where somebody goes on saving, it ends some time; the next call goes on."""


class NotMirrored(msgspec.Struct, frozen=True):
    """An object of the source that was not copied, and why."""

    key: str
    happened: str


class Mirrored(msgspec.Struct, frozen=True):
    """What was copied now, and what could not be."""

    objects: int
    sent_bytes: int
    present: int
    failed: tuple[NotMirrored, ...]


def mirror(source: Blobs, target: Blobs, *, said: Callable[[str], None] = lambda _: None) -> Mirrored:
    """Copy what the target lacks: packs, index, keys, all other records, the records of snapshots last. Broken off, it goes on.

    Args:
        said: told the key of each object that was copied.

    Raises:
        NotFound: the source holds no vault.
        Permanent: the target holds another vault.
        Transient, Unknown: a store does not answer. Records that need what is missing have not been copied then.
    """
    file = source.get(VAULT_KEY)
    target.put_new(VAULT_KEY, file)
    if target.get(VAULT_KEY) != file:
        raise refuse(
            "it holds another vault; without a key only a copy of the same vault can be made",
            tried="mirror a vault",
            subject=VAULT_KEY,
            remedy="Name an empty place, or replicate with the key.",
        )
    there = {key for key in target.list("") if not key.startswith(OWN_PREFIXES)}
    copying, present = _Copying(source, target, said), 0
    for number in range(_ROUNDS):
        # The records first: what they need was there before them, and is in the second listing.
        records = list(source.list(SNAPSHOTS_PREFIX))
        others = [key for key in source.list("") if not key.startswith((*OWN_PREFIXES, SNAPSHOTS_PREFIX, VAULT_KEY))]
        lacking = [key for key in (*others, *records) if key not in there]
        if number == 0:
            present = len(others) + len(records) - len(lacking)
        for prefix in (*_ORDER, "", SNAPSHOTS_PREFIX):
            parallel(copying.copy, [key for key in lacking if _kind(key) == prefix], workers=_WORKERS)
        there.update(lacking)
        if not lacking:  # else somebody may have saved meanwhile, or a collection may have moved blocks into other packs
            break
    return Mirrored(copying.objects, copying.sent_bytes, present, tuple(copying.failed))


def _kind(key: str) -> str:
    return next((prefix for prefix in (*_ORDER, SNAPSHOTS_PREFIX) if key.startswith(prefix)), "")


class _Copying:
    def __init__(self, source: Blobs, target: Blobs, said: Callable[[str], None]) -> None:
        self._source, self._target, self._said = source, target, said
        self._lock = threading.Lock()
        self.objects = self.sent_bytes = 0
        self.failed: list[NotMirrored] = []

    def copy(self, key: str) -> None:
        """One object. Raises port errors of the stores."""
        try:
            data = self._source.get(key)
            _check(self._source, key, data)
        except NotFound:
            return  # forgotten or collected since it was listed
        except Damaged as fault:
            with self._lock:
                self.failed.append(NotMirrored(key, fault.happened))
            return
        written = self._target.put_new(key, data)
        with self._lock:
            self.objects += written
            self.sent_bytes += len(data) if written else 0
        if written:
            self._said(key)


def _check(source: Blobs, key: str, data: bytes) -> None:
    pack = pack_of_key(key)
    if pack is not None and block_hash(data) != pack:
        raise damaged(key, "the pack does not match its hash")
    if key.startswith(KEYS_PREFIX):
        keys.check(source, key)
