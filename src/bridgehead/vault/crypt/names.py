"""SealedNames: the names of objects, encrypted so that the same name is always found again.

AES-SIV (RFC 5297) over each segment of a key but the first, with the plain path to it as additional data: the same workload has another
name among the snapshots than among the fences, and a name cannot be moved elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import re
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESSIV

from bridgehead.kernel.errors import Permanent

STRANGE: Final = "~"
"""Stands before a segment of a listed key that is not a sealed name. It is in no alphabet of keys: nothing takes it for one of ours."""
_SEGMENT: Final = re.compile(r"[A-Za-z0-9@._+-]+")
_PAD_BYTES: Final = 32
_LONGEST: Final = 240
"""Store segments are at most this long (file systems allow 255 bytes); what is longer goes on in the next segment, marked by a plus."""


class SealedNames:
    """Plain keys to stored keys and back. Pure."""

    def __init__(self, key: bytes) -> None:
        self._siv = AESSIV(key)

    def seal(self, key: str) -> str:
        """The stored key of a plain key, or of one that ``open`` has reported as strange. Raises Permanent for what is no key."""
        segments = key.split("/")
        for segment in segments:
            plain = segment.removeprefix(STRANGE)
            if plain in (".", "..") or not _SEGMENT.fullmatch(plain) or (segment != plain and segment == segments[0]):
                remedy = "Segments consist of A-Z a-z 0-9 @ . _ + - only."
                raise Permanent("not a valid key", tried="use a key", subject=repr(key), remedy=remedy)
        stored = segments[:1]
        for index, segment in enumerate(segments[1:], 1):
            if segment.startswith(STRANGE):
                stored.append(segment[len(STRANGE) :])
            else:
                stored += self._seal(segment, "/".join(segments[:index]))
        return "/".join(stored)

    def seal_prefix(self, prefix: str) -> str:
        """The stored folder of a plain folder (with a slash at its end, or empty)."""
        return f"{self.seal(prefix[:-1])}/" if prefix.endswith("/") else prefix

    def open(self, stored: str) -> str:
        """The plain key of a stored key. A segment that is none of ours stays as it is, behind ``~``."""
        first, *segments = stored.split("/")
        plain = [first]
        while segments:
            length = next((count for count, one in enumerate(segments, 1) if not one.endswith("+")), len(segments))
            part, segments = segments[:length], segments[length:]
            opened = self._open(part, "/".join(plain))
            plain += [STRANGE + segment for segment in part] if opened is None else [opened]
        return "/".join(plain)

    def _seal(self, segment: str, parent: str) -> list[str]:
        data = segment.encode()
        padded = data + bytes(-len(data) % _PAD_BYTES)  # no name has a zero byte
        text = base64.b32encode(self._siv.encrypt(padded, [parent.encode()])).decode().rstrip("=").lower()
        parts = [text[at : at + _LONGEST] for at in range(0, len(text), _LONGEST)]
        return [part + "+" for part in parts[:-1]] + parts[-1:]

    def _open(self, parts: list[str], parent: str) -> str | None:
        text = "".join(part.removesuffix("+") for part in parts).upper()
        try:
            sealed = base64.b32decode(text + "=" * (-len(text) % 8))
            plain = self._siv.decrypt(sealed, [parent.encode()]).rstrip(b"\0").decode()
        except (binascii.Error, InvalidTag, ValueError):
            return None
        # Base32 has several spellings of the same bytes; only the one that we would look for is ours.
        return plain if self._seal(plain, parent) == parts else None
