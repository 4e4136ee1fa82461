"""The alphabet of blob keys, which every store checks, so that a key that works in one works in all."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.kernel.errors import Permanent

_SEGMENT: Final = re.compile(r"[A-Za-z0-9@._+-]+")


def is_segment(text: str) -> bool:
    """Whether ``text`` may stand between the slashes of a key, or is the name of a file that some key names."""
    return text not in (".", "..") and _SEGMENT.fullmatch(text) is not None


def checked_key(key: str) -> str:
    """``key`` itself. Raises Permanent when it is none; nothing that passes leads out of a store."""
    if all(is_segment(segment) for segment in key.split("/")):
        return key
    raise Permanent("not a valid key", tried="use a key", subject=repr(key), remedy="Segments consist of A-Z a-z 0-9 @ . _ + - only.")


def checked_prefix(prefix: str) -> str:
    """``prefix`` itself: empty, or a folder with its slash. Raises Permanent otherwise."""
    if prefix and not prefix.endswith("/"):
        raise Permanent(
            "a prefix is empty or ends with a slash", tried="list keys", subject=prefix, remedy="This is a fault of the caller."
        )
    if prefix:
        checked_key(prefix[:-1])
    return prefix
