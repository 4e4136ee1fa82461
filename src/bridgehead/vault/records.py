"""Records: small JSON documents that carry their own hash, so that a torn or flipped one is detected and named (V20, V31)."""

from __future__ import annotations

import hashlib
from typing import Final, TypeVar

import msgspec

from bridgehead.kernel.encoding import canonical
from bridgehead.kernel.errors import ErrorCode, Permanent

T = TypeVar("T")

MAX_RECORD_BYTES: Final = 256 << 20


class Damaged(Permanent):
    """Something in the vault is not what its name or its hash says. Never retried; the object is named."""

    port_code = ErrorCode.VAULT_DAMAGED


class _Envelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    hash: str
    record: msgspec.Raw


def encode(value: object) -> bytes:
    """``{"hash":H,"record":R}``: R is the canonical encoding of ``value``, H its SHA-256."""
    body = canonical(value)
    return b'{"hash":"' + hashlib.sha256(body).hexdigest().encode("ascii") + b'","record":' + body + b"}\n"


def decode(data: bytes, as_type: type[T], *, key: str) -> T:
    """Read a record back. Raises Damaged, naming ``key`` and what is wrong with it."""
    if not data:
        raise damaged(key, "the record is empty")
    if len(data) > MAX_RECORD_BYTES:
        raise damaged(key, f"the record is larger than {MAX_RECORD_BYTES} bytes")
    try:
        envelope = msgspec.json.decode(data, type=_Envelope)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise damaged(key, f"the record cannot be read ({error})") from error
    body = bytes(envelope.record)
    if hashlib.sha256(body).hexdigest() != envelope.hash:
        raise damaged(key, "the record does not match its own hash")
    try:
        return msgspec.json.decode(body, type=as_type)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise damaged(key, f"the record is intact but not of the form that this version knows ({error})") from error


def damaged(key: str, happened: str, *, remedy: str = "") -> Damaged:
    """The error for a damaged object."""
    return Damaged(
        happened,
        tried="read the vault",
        subject=key,
        remedy=remedy or "Copy this object from a vault that holds it intact, or go back to an older snapshot.",
    )
