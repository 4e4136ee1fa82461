"""Custody: who had a drive, from packing to arrival. Each drive carries its own chain, since drives of one set travel apart.

Each entry's hash covers its predecessor and each hash is signed (Ed25519), as in the ledger of runs. The public key lies in the entry, so
that the chain is verified anywhere; whose key it is, only somebody who knows the key's id can tell.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from bridgehead.kernel.encoding import canonical
from bridgehead.kernel.errors import BridgeheadError, Conflict
from bridgehead.kernel.hashing import ZERO_HASH, chain_hash
from bridgehead.kernel.ids import Person
from bridgehead.vault.courier.drive import Drive
from bridgehead.vault.courier.layout import CUSTODY_PREFIX, DriveLabel, head_hash
from bridgehead.vault.records import decode, encode

KEY_ID_DIGITS: Final = 16


class Signer(Protocol):
    """Signs; ``runbook.ledger.KeyFolder`` is one."""

    @property
    def public_key(self) -> str:
        """64 hex digits."""
        ...

    def sign(self, data: bytes) -> bytes:
        """A detached Ed25519 signature."""
        ...


class Step(enum.StrEnum):
    """What happened to the drive."""

    PACKED = "packed"
    HANDED_OVER = "handed-over"
    RECEIVED = "received"


class Handover(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What one entry says.

    Attributes:
        set: SHA-256 of the head of the set; ``drive`` its number: an entry of another drive cannot stand in this chain.
        by: who signs: who packed it, took it over, or received it.
        at_s: seconds since 1970-01-01 UTC, by the clock of the machine that signed.
    """

    set: str
    drive: int
    step: Step
    by: Person
    note: str
    at_s: float


class CustodyEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One link of the chain. ``payload`` is the canonical encoding of a ``Handover``, as text."""

    seq: int
    payload: str
    previous: str
    hash: str
    public_key: str
    signature: str

    @property
    def key_id(self) -> str:
        """First 16 hex digits of the public key."""
        return self.public_key[:KEY_ID_DIGITS]


class Link(msgspec.Struct, frozen=True):
    """An entry as it was found: what it says (None: unreadable), by which key, and what is wrong with it (nothing: empty)."""

    seq: int
    handover: Handover | None
    key_id: str
    hash: str
    faults: tuple[str, ...]


class Chain(msgspec.Struct, frozen=True):
    """All entries of a drive. ``drive``: its name here."""

    drive: str
    links: tuple[Link, ...]

    @property
    def faults(self) -> tuple[str, ...]:
        """What is wrong, each naming drive and entry."""
        if not self.links:
            return (f"drive {self.drive}: there is no custody entry",)
        return tuple(f"drive {self.drive}, custody entry {link.seq}: {fault}" for link in self.links for fault in link.faults)


def sign(drive: Drive, label: DriveLabel, step: Step, *, by: Person, note: str, signer: Signer, now_s: float) -> CustodyEntry:
    """Append an entry. A chain that is broken is continued, and stays broken. Raises Conflict when another one was appended meanwhile."""
    entries = _read(drive)
    last_seq = max((seq for seq, _ in entries), default=0)
    last = next((entry for seq, entry in entries if seq == last_seq and entry is not None), None)
    previous = last.hash if last is not None else ZERO_HASH
    payload = canonical(Handover(head_hash(label.head), label.number, step, by, note, now_s))
    link = chain_hash(previous, payload)
    signature = signer.sign(link.encode("ascii")).hex()
    entry = CustodyEntry(last_seq + 1, payload.decode(), previous, link, signer.public_key, signature)
    with drive.named():
        if not drive.blobs.put_new(_key(entry.seq), encode(entry)):
            raise Conflict(
                "somebody else signed just now",
                tried="sign for a courier drive",
                subject=f"drive {drive.name}, entry {entry.seq}",
                remedy="Look at `bridgehead vault courier custody --show`, and sign again if it is yours to sign.",
            )
    return entry


def read_chain(drive: Drive, label: DriveLabel) -> Chain:
    """Read and verify all entries. Raises port errors."""
    links: list[Link] = []
    previous, before = ZERO_HASH, 0
    for seq, entry in _read(drive):
        missing = [f"entry {before + 1} is missing before it"] if seq != before + 1 else []
        if entry is None:
            links.append(Link(seq, None, "", "", (*missing, "it cannot be read")))
            previous, before = "", seq
            continue
        links.append(_judge(entry, label, seq=seq, previous=previous, faults=missing))
        previous, before = entry.hash, seq
    return Chain(drive.name, tuple(links))


def signature_holds(public_key: str, data: bytes, signature: str) -> bool:
    """Whether an Ed25519 signature (hex) is right."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(public_key)).verify(bytes.fromhex(signature), data)
    except (InvalidSignature, ValueError):
        return False
    return True


def _judge(entry: CustodyEntry, label: DriveLabel, *, seq: int, previous: str, faults: Sequence[str]) -> Link:
    found = list(faults)
    try:
        handover = msgspec.json.decode(entry.payload, type=Handover)
    except (msgspec.MsgspecError, UnicodeError):
        handover = None
        found.append("it does not say what happened")
    if entry.seq != seq:
        found.append(f"it says that it is entry {entry.seq}")
    if entry.previous != previous:
        found.append("it does not follow the entry before it")
    try:
        intact = chain_hash(entry.previous, entry.payload.encode()) == entry.hash
    except UnicodeError:
        intact = False
    if not intact:
        found.append("its content was changed after it was signed")
    if not signature_holds(entry.public_key, entry.hash.encode("ascii", "replace"), entry.signature):
        found.append("its signature is wrong")
    if handover is not None and (handover.set, handover.drive) != (head_hash(label.head), label.number):
        found.append("it is the entry of another drive")
    if handover is not None and seq == 1 and handover.step is not Step.PACKED:
        found.append("the chain does not begin with the packing")
    return Link(seq, handover, entry.key_id, entry.hash, tuple(found))


def _read(drive: Drive) -> list[tuple[int, CustodyEntry | None]]:
    with drive.named():
        keys = list(drive.blobs.list(CUSTODY_PREFIX))
    found: list[tuple[int, CustodyEntry | None]] = []
    for key in keys:
        name = key.removeprefix(CUSTODY_PREFIX).removesuffix(".json")
        if not name.isdecimal():
            continue
        try:
            entry = decode(drive.get(key) or b"", CustodyEntry, key=key)
        except BridgeheadError:
            entry = None
        found.append((int(name), entry))
    return found


def _key(seq: int) -> str:
    return f"{CUSTODY_PREFIX}{seq:06d}.json"
