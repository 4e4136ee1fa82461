"""Credentials of the connections whose end can be read: certificates and tokens in files that options name (R18)."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.recovery.watch.scene import Credential

_NAMES: Final = re.compile(r"cert|ca_file|ca_bundle|token|credential", re.IGNORECASE)
_JWT: Final = re.compile(r"[A-Za-z0-9_-]+\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]*")
_MAX_BYTES: Final = 1 << 20


class _Claims(msgspec.Struct):
    exp: float | None = None


def credentials_of(connections: Mapping[str, Any]) -> tuple[Credential, ...]:
    """Every certificate or token file that an option names. Without an end (a plain token), there is nothing to watch and none is named."""
    found: dict[str, Credential] = {}
    for owner, ports in sorted([*connections["sites"].items(), *connections["services"].items()]):
        for port, options in sorted(ports.items()):
            for name, value in _texts(options):
                if _NAMES.search(name) and ("/" in value or "." in value) and "\n" not in value:
                    credential = _read(Path(value), used_for=f"{port} of {owner}")
                    if credential is not None:
                        found.setdefault(credential.name, credential)
    return tuple(found.values())


def _texts(options: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in options.items():
        if isinstance(value, str):
            yield name, value
        elif isinstance(value, dict):
            yield from _texts(value)


def _read(path: Path, *, used_for: str) -> Credential | None:
    try:
        with path.open("rb") as stream:
            data = stream.read(_MAX_BYTES)
    except OSError as error:
        return Credential(str(path), used_for, None, error.strerror or str(error))
    if b"-----BEGIN CERTIFICATE-----" in data:
        from cryptography import x509

        try:
            ends = [one.not_valid_after_utc.timestamp() for one in x509.load_pem_x509_certificates(data)]
        except ValueError as error:
            return Credential(str(path), used_for, None, f"it is no certificate ({error})")
        return Credential(str(path), used_for, min(ends))
    token = _JWT.fullmatch(data.decode("utf-8", "replace").strip())
    if token is None:
        return None
    try:
        claims = msgspec.json.decode(base64.urlsafe_b64decode(token[1] + "=" * (-len(token[1]) % 4)), type=_Claims)
    except (msgspec.DecodeError, binascii.Error, ValueError):
        return None  # three words with points between them: no token that says when it ends
    return None if claims.exp is None else Credential(str(path), used_for, claims.exp)
