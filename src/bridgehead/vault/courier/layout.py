"""What lies on the drives of a courier set, and its hash tree. Pure; docs/formats/vault.md is the description for others.

    set.json               what the set is, and which of its drives this one is; written before any share
    objects/<hash>         parts of the list of objects: key, size and BLAKE3 of each, in the order of the stream
    shares/<stripe>        this drive's share of each stripe
    hashes/<chunk>         BLAKE3 of all shares of 64 stripes; written when these are on all drives
    manifest.json          the root of the hashes, signed; written last: without it the set is not finished
    custody/<number>.json  who had the drive, signed and chained
    arrival/<vault>.json   that the set arrived, signed; the drive carries it back

The stream is all objects one after the other: packs, index, other records, snapshots last. A stripe is a piece of it, all of one size but
the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from bridgehead.kernel.encoding import canonical
from bridgehead.kernel.hashing import block_hash, document_hash
from bridgehead.vault.courier.erasure import MAX_SHARES
from bridgehead.vault.layout import DATA_PREFIX, INDEX_PREFIX, SNAPSHOTS_PREFIX, VAULT_KEY
from bridgehead.vault.records import damaged

FORMAT: Final = 1
SET_KEY: Final = "set.json"
MANIFEST_KEY: Final = "manifest.json"
CUSTODY_PREFIX: Final = "custody/"
CHUNK_STRIPES: Final = 64
HASH_BYTES: Final = 32
SHARE_BYTES: Final = 16 << 20
"""A stripe is so much for each data drive: large enough that a sync a share costs nothing, small enough for memory."""
_LISTED: Final = 10_000
_LEFT_OUT: Final = ("keys/", "state/")
"""Keys travel by another path, or the drives would bring what opens them. What is under way here means nothing elsewhere."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One object of the set."""

    key: str
    size_bytes: int
    blake3: str


class SetHead(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What all drives of a set say alike.

    Attributes:
        id: 32 hex digits, drawn when the set was begun.
        vault: id of the vault that it is from; ``family`` and ``features`` as in its ``vault.json``.
        data, parity: numbers of drives; drive n (from 1) holds share n - 1.
        stripe_bytes: size of every stripe but the last.
        parts: BLAKE3 of the parts of the list of objects, in order.
    """

    format: int
    id: str
    vault: str
    family: str
    features: tuple[str, ...]
    created_s: float
    data: int
    parity: int
    stripe_bytes: int
    objects: int
    total_bytes: int
    parts: tuple[str, ...]

    @property
    def drives(self) -> int:
        """How many there are."""
        return self.data + self.parity

    @property
    def stripes(self) -> int:
        """How many there are."""
        return -(-self.total_bytes // self.stripe_bytes)

    @property
    def chunks(self) -> int:
        """How many groups of stripes have their hashes in one object."""
        return -(-self.stripes // CHUNK_STRIPES)

    def stripe_size(self, stripe: int) -> int:
        """Bytes of the stream in it."""
        return min(self.stripe_bytes, self.total_bytes - stripe * self.stripe_bytes)

    def stripes_of(self, chunk: int) -> range:
        """The stripes whose hashes this chunk holds."""
        return range(chunk * CHUNK_STRIPES, min(self.stripes, (chunk + 1) * CHUNK_STRIPES))


class DriveLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``set.json``: ``number`` from 1."""

    head: SetHead
    number: int


class Manifest(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``manifest.json``: seals the set.

    Attributes:
        head: SHA-256 of the canonical encoding of the head.
        chunks: BLAKE3 of each object of hashes.
        root: BLAKE3 of these, as bytes, one after the other.
        signature: Ed25519 over the text ``<head> <root>``, by ``public_key``, both in hex.
    """

    head: str
    chunks: tuple[str, ...]
    root: str
    public_key: str
    signature: str

    @property
    def statement(self) -> bytes:
        """What is signed."""
        return f"{self.head} {self.root}".encode("ascii")


def head_hash(head: SetHead) -> str:
    """What the manifest and the custody chain name the set by."""
    return document_hash(head)


def is_possible(label: DriveLabel) -> bool:
    """Whether what a label says can be: whoever writes to a drive can make its hash right."""
    head = label.head
    numbers = head.data >= 1 and head.parity >= 0 and head.stripe_bytes >= 1 and head.total_bytes >= 0 and head.objects >= 0
    return numbers and head.drives <= MAX_SHARES and 1 <= label.number <= head.drives


def root_of(chunks: Iterable[str]) -> str:
    """The root of the hash tree. Raises ValueError for hashes that are none."""
    return block_hash(b"".join(bytes.fromhex(chunk) for chunk in chunks))


def share_key(stripe: int) -> str:
    """Key of a share."""
    return f"shares/{stripe:09d}"


def hashes_key(chunk: int) -> str:
    """Key of the hashes of a chunk."""
    return f"hashes/{chunk:07d}"


def part_key(part: str) -> str:
    """Key of a part of the list of objects."""
    return f"objects/{part}"


def hash_of_share(hashes: bytes, head: SetHead, stripe: int, share: int) -> str:
    """The hash of a share in the hashes of its chunk: stripe by stripe, in each drive by drive."""
    at = ((stripe % CHUNK_STRIPES) * head.drives + share) * HASH_BYTES
    return hashes[at : at + HASH_BYTES].hex()


def list_parts(entries: Sequence[Entry]) -> list[bytes]:
    """The list of objects, in parts of bounded size."""
    return [canonical(entries[at : at + _LISTED]) for at in range(0, len(entries), _LISTED)]


def read_part(data: bytes) -> list[Entry]:
    """One part back. Raises Damaged."""
    try:
        entries = msgspec.json.decode(data, type=list[Entry])
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise damaged(part_key(block_hash(data)), f"the list of objects cannot be read ({error})") from error
    if any(entry.size_bytes < 0 for entry in entries):
        raise damaged(part_key(block_hash(data)), "the list of objects names one of less than no bytes")
    return entries


def travels(key: str) -> bool:
    """Whether an object of a vault goes into a set."""
    return key != VAULT_KEY and not key.startswith(_LEFT_OUT)


def order_of(key: str) -> tuple[int, str]:
    """The order of the stream, and so of arrival: a snapshot comes after all that it needs."""
    for place, prefix in ((0, DATA_PREFIX), (1, INDEX_PREFIX), (3, SNAPSHOTS_PREFIX)):
        if key.startswith(prefix):
            return place, key
    return 2, key


def is_snapshot(key: str) -> bool:
    """Whether it is a commit point."""
    return key.startswith(SNAPSHOTS_PREFIX)


def ranges(entries: Iterable[Entry]) -> Iterator[tuple[Entry, int]]:
    """Each object with its offset in the stream."""
    at = 0
    for entry in entries:
        yield entry, at
        at += entry.size_bytes
