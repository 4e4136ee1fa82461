"""Credentials: what a person or a job has to open a vault: a passphrase, age identities, a raw key."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

PASSPHRASE_VARIABLE: Final = "BRIDGEHEAD_PASSPHRASE"
KEY_FILE_VARIABLE: Final = "BRIDGEHEAD_KEY_FILE"
RAW_KEY_BYTES: Final = 32
_HEX_KEY: Final = re.compile(rb"\s*([0-9A-Fa-f]{64})\s*")
_LARGEST_FILE_BYTES: Final = 1 << 20


class Credentials:
    """All of it is tried. Shows nothing of itself in logs and tracebacks."""

    def __init__(self, *, passphrase: str | None = None, identities: tuple[str, ...] = (), raw_key: bytes | None = None) -> None:
        self.passphrase = passphrase
        self.identities = identities
        self.raw_key = raw_key

    def __bool__(self) -> bool:
        return bool(self.passphrase or self.identities or self.raw_key)

    def __repr__(self) -> str:
        return f"Credentials({self.words})"

    @property
    def words(self) -> str:
        """What there is, for messages: kinds and numbers only."""
        kinds = ["a passphrase"] if self.passphrase else []
        kinds += [f"{len(self.identities)} age {'identity' if len(self.identities) == 1 else 'identities'}"] if self.identities else []
        kinds += ["a raw key"] if self.raw_key else []
        return " and ".join(kinds) or "no key"


def credentials(environ: Mapping[str, str], *, fetch: Callable[[str], bytes] | None = None) -> Credentials:
    """From BRIDGEHEAD_PASSPHRASE and what BRIDGEHEAD_KEY_FILE names. Raises BAD_USAGE: one is empty, or the file is no key.

    Args:
        fetch: gets what a reference names (``openbao:...``, in place of a file); None where there is no server of secrets.
    """
    file = environ.get(KEY_FILE_VARIABLE)
    passphrase = passphrase_of(environ, PASSPHRASE_VARIABLE)
    if file and is_reference(file):
        if fetch is None:
            raise _refused(file, "secrets are not fetched here")
        found = _key_in(fetch(file), subject=file) if "@" in file else key_of(fetch(file))  # wrapped: what a key file would hold
    else:
        found = read_key_file(Path(file)) if file else Credentials()
    return Credentials(passphrase=passphrase or found.passphrase, identities=found.identities, raw_key=found.raw_key)


def is_reference(text: str) -> bool:
    """Whether this names a secret on a server, and no file."""
    return text.startswith("openbao:")


def key_of(data: bytes) -> Credentials:
    """A secret as a key: age identities or a raw key when it looks like that, else a passphrase."""
    text = data.decode(errors="replace").strip()
    if (digits := _HEX_KEY.fullmatch(data)) is not None:
        return Credentials(raw_key=bytes.fromhex(digits[1].decode()))
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]
    if lines and all(line.startswith("AGE-SECRET-KEY-") for line in lines) and all(map(_is_identity, lines)):
        return Credentials(identities=tuple(lines))
    if not text:
        raise _refused("the secret", "it is empty: a passphrase that got lost on its way would leave everything in clear")
    return Credentials(passphrase=text)


def passphrase_of(environ: Mapping[str, str], variable: str) -> str | None:
    """The passphrase in a variable, None when it is not set. Raises BAD_USAGE for an empty one."""
    text = environ.get(variable)
    if text == "":
        raise _refused(variable, "it is set, and empty: a passphrase that got lost on its way would leave everything in clear")
    return text


def read_key_file(file: Path) -> Credentials:
    """A file of age identities (X25519), or a raw key: 32 bytes, or 64 hexadecimal digits. Raises BAD_USAGE."""
    try:
        with file.open("rb") as stream:
            data = stream.read(_LARGEST_FILE_BYTES)
    except OSError as error:
        raise _refused(str(file), error.strerror or str(error)) from error
    return _key_in(data, subject=str(file))


def _key_in(data: bytes, *, subject: str) -> Credentials:
    if len(data) == RAW_KEY_BYTES:
        return Credentials(raw_key=data)
    if (digits := _HEX_KEY.fullmatch(data)) is not None:
        return Credentials(raw_key=bytes.fromhex(digits[1].decode()))
    if data.startswith((b"age-encryption.org/", b"-----BEGIN AGE")):
        raise _refused(subject, "it is encrypted itself: decrypt it first")
    lines = [line.strip() for line in data.decode(errors="replace").splitlines()]
    lines = [line for line in lines if line and not line.startswith("#")]
    if not lines or not all(_is_identity(line) for line in lines):
        raise _refused(subject, "it holds neither age identities (AGE-SECRET-KEY-1...) nor a raw key (32 bytes, or 64 hexadecimal digits)")
    return Credentials(identities=tuple(lines))


def _is_identity(text: str) -> bool:
    import pyrage  # only where there is such a file

    try:
        return bool(pyrage.x25519.Identity.from_str(text))
    except pyrage.IdentityError:
        return False


def _refused(subject: str, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="read a key",
        subject=subject,
        happened=happened,
        remedy=f"{PASSPHRASE_VARIABLE} holds a passphrase; {KEY_FILE_VARIABLE} or --key-file names a file with a key (or openbao:...).",
    )
