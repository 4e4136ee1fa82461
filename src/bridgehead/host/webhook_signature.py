"""Signatures of web hooks, as "Standard Webhooks" 1.0 has them: HMAC-SHA256 over id, time and body, so that receivers need no code of ours.

``webhook-id`` is the same for each repetition of a message; ``webhook-timestamp`` is when it was sent, in seconds since 1970;
``webhook-signature`` holds ``v1,<base64>`` for each secret in use, so that secrets can be changed without a gap.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Final

ID: Final = "webhook-id"
TIMESTAMP: Final = "webhook-timestamp"
SIGNATURE: Final = "webhook-signature"
WINDOW_S: Final = 300.0
"""A message that was sent longer ago, or later from now, counts as replayed."""
MIN_SECRET_BYTES: Final = 24
_PREFIX: Final = "whsec_"


class Forged(Exception):
    """The message is not from who it says, or is a replay. The text says why, for logs of the receiver."""


def secret_bytes(text: str) -> bytes:
    """The secret: base64 behind ``whsec_``, else the text itself. Raises ValueError for one that is too short; it does not name it."""
    if text.startswith(_PREFIX):
        try:
            found = base64.b64decode(text.removeprefix(_PREFIX), validate=True)
        except binascii.Error:
            raise ValueError("what follows whsec_ is not base64") from None
    else:
        found = text.encode()
    if len(found) < MIN_SECRET_BYTES:
        raise ValueError(f"it has {len(found)} bytes; {MIN_SECRET_BYTES} are needed")
    return found


def signed(secrets: Sequence[bytes], *, message: str, at_s: float, body: bytes) -> dict[str, str]:
    """The three headers of a message."""
    stamp = str(int(at_s))
    return {ID: message, TIMESTAMP: stamp, SIGNATURE: " ".join(f"v1,{_mac(secret, message, stamp, body)}" for secret in secrets)}


def check(secrets: Sequence[bytes], headers: Mapping[str, str], *, body: bytes, now_s: float) -> str:
    """The id of a message that is what it says. ``headers`` have names in lower case. Raises Forged."""
    message, stamp, given = (headers.get(name, "") for name in (ID, TIMESTAMP, SIGNATURE))
    if not (message and stamp and given):
        raise Forged("it is not signed")
    if not (stamp.isascii() and stamp.isdigit() and len(stamp) <= 12):
        raise Forged("its time is no time")
    right = [_mac(secret, message, stamp, body).encode() for secret in secrets]
    words = [word.partition(",")[2].encode() for word in given.split() if word.startswith("v1,")]
    # All are compared, and each in constant time: how long it takes says nothing.
    if not any([hmac.compare_digest(one, word) for one in right for word in words]):
        raise Forged("its signature is wrong")
    if abs(now_s - int(stamp)) > WINDOW_S:
        raise Forged(
            f"it was sent {abs(now_s - int(stamp)):.0f} s {'ago' if int(stamp) < now_s else 'from now'}: a replay, or a wrong clock"
        )
    return message


def _mac(secret: bytes, message: str, stamp: str, body: bytes) -> str:
    return base64.b64encode(hmac.new(secret, f"{message}.{stamp}.".encode() + body, hashlib.sha256).digest()).decode()
