"""vault.json: what a vault is, and what a program must understand to touch it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.kernel.errors import Conflict, ErrorCode, NotFound
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.layout import RESERVE_BYTES, RESERVE_KEY, VAULT_KEY
from bridgehead.vault.objects import PACK_BYTES, refuse
from bridgehead.vault.records import damaged, decode, encode

FORMAT: Final = 1
PACKS: Final = "packs-1"
"""Blocks lie in packs, and an index says where."""
MAX_PACK_BYTES: Final = 256 << 20
CODEC: Final = "codec-1"
"""Blocks may be encoded, also with other blocks as bases; snapshot records say how."""
SEALED: Final = "sealed-1"
"""Everything but this file, ``keys/`` and the frame of packs is encrypted."""
KNOWN_FEATURES: Final = frozenset({PACKS, CODEC, SEALED})


class NoVault(NotFound):
    """The store can be read and holds no vault."""

    port_code = ErrorCode.VAULT_NOT_FOUND


class VaultFile(msgspec.Struct, frozen=True):
    """The record at ``vault.json``. Fields that are not known are ignored; mandatory features that are not known are refused.

    Attributes:
        format: version of the layout.
        features: names of all that a reader must understand.
        id: 32 hex digits, drawn when the vault was made.
        pack_bytes: a pack is closed when it has so many bytes.
        family: vaults of one family can read each other's packs; empty for those that are not sealed.
    """

    format: int
    features: tuple[str, ...]
    id: str
    created_s: float
    pack_bytes: int = PACK_BYTES
    family: str = ""

    @property
    def encodes(self) -> bool:
        """Whether new blocks are encoded."""
        return CODEC in self.features

    @property
    def sealed(self) -> bool:
        """Whether it opens with a key only."""
        return SEALED in self.features


def create(
    blobs: Blobs,
    *,
    now_s: float,
    codec: bool = False,
    pack_bytes: int = PACK_BYTES,
    family: str = "",
    before: Callable[[], None] = lambda: None,
) -> VaultFile:
    """Make a vault in an empty place; a sealed one with a ``family``, whose keys ``before`` puts there.

    Raises Conflict when there is one, Permanent when the store overwrites what exists.
    """
    _probe(blobs)
    before()
    features = (PACKS, *((CODEC,) if codec else ()), *((SEALED,) if family else ()))
    file = VaultFile(FORMAT, features, secrets.token_hex(16), now_s, pack_bytes=pack_bytes, family=family)
    if not family:  # in a sealed vault it has a sealed name
        blobs.put_new(RESERVE_KEY, bytes(RESERVE_BYTES))
    if not blobs.put_new(VAULT_KEY, encode(file)):
        raise Conflict("there is a vault already", tried="make a vault", subject=VAULT_KEY, remedy="Open it, or take another place.")
    return read(blobs)


def read(blobs: Blobs) -> VaultFile:
    """Read and judge ``vault.json``. Raises NoVault, Damaged, Permanent (not understood)."""
    try:
        data = blobs.get(VAULT_KEY)
    except NotFound as error:
        raise NoVault(
            "there is no vault",
            tried="open a vault",
            subject=error.subject,
            remedy="Check the place, or make a vault there first.",
        ) from error
    file = decode(data, VaultFile, key=VAULT_KEY)
    unknown = sorted(set(file.features) - KNOWN_FEATURES)
    if not 1 <= file.pack_bytes <= MAX_PACK_BYTES:
        raise damaged(VAULT_KEY, f"it says that packs have {file.pack_bytes} bytes")
    if file.format != FORMAT or unknown:
        what = f"format {file.format}" if file.format != FORMAT else f"the feature {', '.join(unknown)}"
        raise refuse(
            f"this version does not know {what}",
            tried="open a vault",
            subject=VAULT_KEY,
            remedy="Use the version of Bridgehead that wrote it.",
        )
    return file


def _probe(blobs: Blobs) -> None:
    """Everything rests on create-only writes: see that the store honours them before trusting it."""
    key = f"state/probe-{secrets.token_hex(8)}"
    blobs.put_new(key, b"first")
    second = blobs.put_new(key, b"second")
    found = blobs.get(key)
    blobs.delete(key)
    if second or found != b"first":
        raise refuse(
            "it overwrites a value that exists",
            tried="make a vault in this store",
            subject=key,
            remedy="Use a store with create-only writes.",
        )
