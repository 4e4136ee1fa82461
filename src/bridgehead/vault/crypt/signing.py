"""Signing: who says that a snapshot's record is his, and a hash over its blocks by which a part can be proved to belong to it.

A signature is an object of its own, ``signatures/<key of the record>``, create-only like the record, and copied with it. It speaks of the
plain record, so that it holds in every vault that has the snapshot, encrypted or not.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

import msgspec

from bridgehead.kernel.encoding import canonical
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, NotFound
from bridgehead.kernel.ids import SnapshotId, WorkloadId
from bridgehead.model.snapshot import Snapshot
from bridgehead.vault.crypt import merkle
from bridgehead.vault.layout import SNAPSHOTS_PREFIX, snapshot_name, snapshot_name_of_key
from bridgehead.vault.objects import Objects, parallel
from bridgehead.vault.records import Damaged, damaged
from bridgehead.vault.snapshots import decode_snapshot

SIGNATURES_PREFIX: Final = "signatures/"
_CONTEXT: Final = b"bridgehead snapshot signature 1\n"
_BAD: Final = "Find out who wrote it; replicate the snapshot anew from a vault where its signature is right."


class Signer(Protocol):
    """Signs; ``runbook.ledger.KeyFolder`` is one."""

    @property
    def public_key(self) -> str:
        """64 hex digits."""
        ...

    def sign(self, data: bytes) -> bytes:
        """A detached Ed25519 signature."""
        ...


class Signature(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The record of a signature.

    Attributes:
        record: SHA-256 of the snapshot's canonical record, as it stands in its envelope.
        merkle_root: over ``leaves_of`` the snapshot.
        leaves: how many.
        public_key: the signer's Ed25519 key, 64 hex digits.
        signature: over ``statement``, 128 hex digits.
    """

    snapshot: SnapshotId
    record: str
    merkle_root: str
    leaves: int
    signed_s: float
    public_key: str
    signature: str = ""

    @property
    def statement(self) -> bytes:
        """What is signed."""
        return _CONTEXT + canonical(msgspec.structs.replace(self, signature=""))


class Standing(enum.StrEnum):
    """What can be said of a snapshot's signature by somebody who trusts certain keys."""

    TRUSTED = "trusted"
    UNSIGNED = "unsigned"
    UNKNOWN = "unknown-signer"
    BAD = "bad-signature"


class Finding(msgspec.Struct, frozen=True):
    """One snapshot's standing. ``signer``: the name in the trust list, else the public key."""

    snapshot: str
    standing: Standing
    signer: str = ""
    happened: str = ""


class _Hash(msgspec.Struct, frozen=True):
    hash: str


def signature_key(snapshot: SnapshotId) -> str:
    """Where the signature of a snapshot lies."""
    return SIGNATURES_PREFIX + snapshot_name(snapshot).key


def leaves_of(snapshot: Snapshot) -> list[bytes]:
    """One for each piece of each file, in the order of the record: path, offset, size, block."""
    return [canonical([file.path, ref.offset_bytes, ref.size_bytes, ref.block]) for file in snapshot.files for ref in file.blocks]


def sign(objects: Objects, snapshot: SnapshotId, *, signer: Signer, now_s: float) -> bool:
    """Sign a committed snapshot; False when it has a signature, right or not.

    Raises NotFound and Damaged for its record, and the signer's errors.
    """
    key = signature_key(snapshot)
    if objects.blobs.size(key) is not None:
        return False  # a bad one is evidence: it is not replaced by a better one
    data, found = _record(objects, snapshot)
    leaves = leaves_of(found)
    unsigned = Signature(snapshot, _hash_of(data), merkle.root(leaves).hex(), len(leaves), now_s, signer.public_key)
    return objects.add(key, msgspec.structs.replace(unsigned, signature=signer.sign(unsigned.statement).hex()))


def read(objects: Objects, snapshot: SnapshotId) -> Signature:
    """A right signature. Raises NotFound (of it, or of the record), Damaged: it is not right."""
    key = signature_key(snapshot)
    signature = objects.record(key, Signature)
    _judge(signature, *_record(objects, snapshot), key)
    return signature


def check(objects: Objects, key: str) -> None:
    """See that a listed signature is right. That of a snapshot that was forgotten, or is damaged itself, is passed over. Raises Damaged."""
    folder, _, _ = key.removeprefix(SIGNATURES_PREFIX + SNAPSHOTS_PREFIX).partition("/")
    name = snapshot_name_of_key(WorkloadId(folder), key.removeprefix(SIGNATURES_PREFIX)) if folder.isascii() and "~" not in folder else None
    if name is None:
        raise damaged(key, "the name is not that of a signature", remedy=_BAD)
    signature = objects.record(key, Signature)
    try:
        data, found = _record(objects, name.id)
    except (NotFound, Damaged):
        return
    _judge(signature, data, found, key)


def copy_signature(source: Objects, target: Objects, snapshot: SnapshotId) -> int:
    """Bring a signature over, byte for byte. Returns the bytes written."""
    key = signature_key(snapshot)
    try:
        data = source.blobs.get(key)
    except (NotFound, Damaged):
        return 0  # a damaged one is a finding of verify at the source, and no reason to stop
    return len(data) if target.blobs.put_new(key, data) else 0


def share_signatures(source: Objects, target: Objects) -> int:
    """Bring over what was signed after it was replicated. Two listings. Returns the bytes written."""
    there = set(target.blobs.list(SIGNATURES_PREFIX))
    committed = set(target.blobs.list(SNAPSHOTS_PREFIX))
    written = 0
    for key in source.blobs.list(SIGNATURES_PREFIX):
        record = key.removeprefix(SIGNATURES_PREFIX)
        name = snapshot_name_of_key(WorkloadId(record.split("/")[1]), record) if key not in there and record in committed else None
        if name is not None:
            written += copy_signature(source, target, name.id)
    return written


def judge(objects: Objects, trusted: Mapping[str, str]) -> list[Finding]:
    """The standing of every snapshot whose record is intact. ``trusted``: names by public key."""
    names = []
    for key in objects.blobs.list(SNAPSHOTS_PREFIX):
        folder = key.split("/")[1]
        name = snapshot_name_of_key(WorkloadId(folder), key) if "~" not in folder else None
        names += [] if name is None else [name.id]
    return [found for found in parallel(lambda snapshot: _standing(objects, snapshot, trusted), names) if found is not None]


def read_trust(file: Path) -> dict[str, str]:
    """A list of trusted keys: on each line 64 hex digits and a name; ``#`` begins a comment. Raises BAD_INPUT."""
    try:
        lines = file.read_text().splitlines()
    except OSError as error:
        raise _bad_list(f"{file}", "there is no such file" if isinstance(error, FileNotFoundError) else f"{error.strerror}") from error
    except UnicodeDecodeError as error:
        raise _bad_list(f"{file}", "it is no text") from error
    trusted = {}
    for number, line in enumerate(lines, 1):
        text = line.partition("#")[0].strip()
        if not text:
            continue
        public, _, name = text.partition(" ")
        if len(public) != 64 or not set(public.lower()) <= set("0123456789abcdef"):
            raise _bad_list(f"{file}:{number}", "a line begins with a public key of 64 hexadecimal digits")
        trusted[public.lower()] = name.strip() or public[:16].lower()
    if not trusted:
        raise _bad_list(str(file), "it names no key, so that everything would be untrusted")
    return trusted


def _standing(objects: Objects, snapshot: SnapshotId, trusted: Mapping[str, str]) -> Finding | None:
    try:
        data, found = _record(objects, snapshot)
    except (NotFound, Damaged):
        return None
    key = signature_key(snapshot)
    try:
        signature = objects.record(key, Signature)
        _judge(signature, data, found, key)
    except NotFound:
        return Finding(snapshot, Standing.UNSIGNED)
    except Damaged as fault:
        return Finding(snapshot, Standing.BAD, happened=fault.happened)
    name = trusted.get(signature.public_key)
    return Finding(snapshot, Standing.UNKNOWN if name is None else Standing.TRUSTED, name or signature.public_key)


def _record(objects: Objects, snapshot: SnapshotId) -> tuple[bytes, Snapshot]:
    name = snapshot_name(snapshot)
    data = objects.blobs.get(name.key)
    return data, decode_snapshot(data, name)


def _hash_of(record: bytes) -> str:
    return msgspec.json.decode(record, type=_Hash).hash


def _judge(signature: Signature, record: bytes, snapshot: Snapshot, key: str) -> None:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    if (signature.snapshot, signature.record) != (snapshot.id, _hash_of(record)):
        raise damaged(key, "it was given for another record", remedy=_BAD)
    leaves = leaves_of(snapshot)
    if (signature.merkle_root, signature.leaves) != (merkle.root(leaves).hex(), len(leaves)):
        raise damaged(key, "its hash over the blocks is another one", remedy=_BAD)
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(signature.public_key)).verify(
            bytes.fromhex(signature.signature), signature.statement
        )
    except (InvalidSignature, ValueError):
        raise damaged(key, f"it was not made with the key {signature.public_key[:16]} that it names", remedy=_BAD) from None


def _bad_list(subject: str, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_INPUT,
        tried="read a list of trusted keys",
        subject=subject,
        happened=happened,
        remedy="Write one key a line, and who has it: `bridgehead vault keys signer` prints that of a machine.",
    )
