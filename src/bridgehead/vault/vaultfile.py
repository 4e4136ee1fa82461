"""vault.json: what a vault is, and what a program must understand to touch it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.kernel.errors import Conflict, ErrorCode, NotFound
from bridgehead.kernel.ids import WorkloadId
from bridgehead.ports.blobs import Blobs
from bridgehead.vault.layout import (
    DATA_PREFIX,
    KEYS_PREFIX,
    RESERVE_BYTES,
    RESERVE_KEY,
    SNAPSHOTS_PREFIX,
    VAULT_KEY,
    is_name,
    pack_of_key,
    snapshot_name_of_key,
)
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
BOUND: Final = "bound-1"
"""The table of each pack is sealed for the blocks before it. Sealed vaults of before have none so; a family is of one kind."""
KNOWN_FEATURES: Final = frozenset({PACKS, CODEC, SEALED, BOUND})


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
        replica_of: id of the vault that this one is the replica of: it collects nothing that the other still needs. Empty for a writer.
    """

    format: int
    features: tuple[str, ...]
    id: str
    created_s: float
    pack_bytes: int = PACK_BYTES
    family: str = ""
    replica_of: str = ""

    @property
    def encodes(self) -> bool:
        """Whether new blocks are encoded."""
        return CODEC in self.features

    @property
    def sealed(self) -> bool:
        """Whether it opens with a key only."""
        return SEALED in self.features

    @property
    def bound(self) -> bool:
        """Whether the tables of packs are bound to them."""
        return BOUND in self.features


def create(
    blobs: Blobs,
    *,
    now_s: float,
    codec: bool = False,
    pack_bytes: int = PACK_BYTES,
    family: str = "",
    replica_of: str = "",
    bound: bool = True,
    before: Callable[[], None] = lambda: None,
) -> VaultFile:
    """Make a vault in an empty place; a sealed one with a ``family``, whose keys ``before`` puts there; ``bound`` as the family is.

    Raises Conflict when there is one, Permanent when the store overwrites what exists.
    """
    _probe(blobs)
    before()
    features = (PACKS, *((CODEC,) if codec else ()), *((SEALED,) if family else ()), *((BOUND,) if family and bound else ()))
    file = VaultFile(FORMAT, features, secrets.token_hex(16), now_s, pack_bytes=pack_bytes, family=family, replica_of=replica_of)
    if not family:  # in a sealed vault it has a sealed name
        blobs.put_new(RESERVE_KEY, bytes(RESERVE_BYTES))
    if not blobs.put_new(VAULT_KEY, encode(file)):
        raise Conflict("there is a vault already", tried="make a vault", subject=VAULT_KEY, remedy="Open it, or take another place.")
    return read(blobs)


def remake(blobs: Blobs, *, like: VaultFile | None, now_s: float) -> VaultFile:
    """Write ``vault.json`` anew where it was lost, or is damaged. The vault gets a new id; ``like`` is another vault of its family, and
    needed when it is sealed: only there it stands which family that is.

    Raises Permanent when it is sealed and ``like`` is None, or another family's.
    """
    sealed = next(iter(blobs.list(KEYS_PREFIX)), None) is not None
    if sealed != bool(like is not None and like.sealed):
        raise refuse(
            "it is encrypted, and what its vault.json said is needed" if sealed else "it is not encrypted, and the other vault is",
            tried="make vault.json anew",
            subject=VAULT_KEY,
            remedy="Give --like with a vault of the same family, such as its replica." if sealed else "Leave out --like.",
        )
    blobs.delete(VAULT_KEY)
    family, pack_bytes = (like.family, like.pack_bytes) if like is not None else ("", PACK_BYTES)
    bound = like is None or like.bound
    return create(blobs, now_s=now_s, codec=like is None or like.encodes, pack_bytes=pack_bytes, family=family, bound=bound)


def is_headless(blobs: Blobs) -> bool:
    """Whether there is no ``vault.json``, and all the same what only a vault holds."""
    if blobs.size(VAULT_KEY) is not None:
        return False
    pack, record = (next(iter(blobs.list(prefix)), "") for prefix in (DATA_PREFIX, SNAPSHOTS_PREFIX))
    folder = record.split("/")[1] if record.count("/") == 2 else ""
    return pack_of_key(pack) is not None or (is_name(folder) and snapshot_name_of_key(WorkloadId(folder), record) is not None)


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
