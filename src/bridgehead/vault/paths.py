"""Paths: names on a disk are bytes, names in a record are text. Each has exactly one form in the other.

A byte that is no part of UTF-8 is written as NUL and two hex digits: no name on a disk can hold a NUL, so that nothing else is ever
written so. Python's own form for such bytes (lone surrogates, ``surrogateescape``) has no place in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import pairwise
from typing import Final

MAX_PATH_BYTES: Final = 4096
_ESCAPED: Final = re.compile("\0([89a-f][0-9a-f])")
_SURROGATE: Final = re.compile("[\udc80-\udcff]")


def recorded(path: str) -> str:
    """A path as Python has it from the disk, as a record has it. Raises UnicodeEncodeError for text that no disk gives."""
    written = _SURROGATE.sub(lambda match: f"\0{ord(match[0]) - 0xDC00:02x}", path)
    written.encode()
    return written


def on_disk(path: str) -> str:
    """A path of a record, as Python's calls take it."""
    return _ESCAPED.sub(lambda match: chr(0xDC00 + int(match[1], 16)), path) if "\0" in path else path


def shown(path: str) -> str:
    r"""A path for people: ``\xff`` for a byte that is not UTF-8."""
    return _ESCAPED.sub(r"\\x\1", path)


def text_fault(path: str) -> str:
    """Why this is not the recorded form of any bytes of a bearable length; empty when it is."""
    try:
        raw = on_disk(path).encode("utf-8", "surrogateescape")
        exact = b"\0" not in raw and recorded(raw.decode("utf-8", "surrogateescape")) == path
    except UnicodeEncodeError:
        exact = False
    if not exact:
        return f"{path!r} is not written as the name of a file is"
    if len(raw) > MAX_PATH_BYTES:
        return f"{path[:80]!r}... is longer than {MAX_PATH_BYTES} bytes"
    return ""


def path_fault(paths: Iterable[str], *, folders: frozenset[str] = frozenset()) -> str:
    """Why these paths cannot be the entries of one folder; empty when they can. Nothing lies below what is not one of ``folders``."""
    segmented = sorted(path.split("/") for path in paths)
    for segments in segmented:
        path = "/".join(segments)
        if any(segment in ("", ".", "..") for segment in segments):
            return f"{path!r} is not a relative path inside the folder"
        fault = text_fault(path)
        if fault:
            return fault
    for earlier, later in pairwise(segmented):
        if later[: len(earlier)] == earlier and (later == earlier or "/".join(earlier) not in folders):
            return f"{'/'.join(earlier)!r} is there twice, or both as a file or link and as a folder"
    return ""


def leads_out(path: str, target: str) -> bool:
    """Whether a link at ``path`` with this target leads out of the folder, by the words alone. An absolute one always does: the folder
    will be restored to another place."""
    if target.startswith("/"):
        return True
    depth = path.count("/")
    for segment in target.split("/"):
        depth += {"..": -1, ".": 0, "": 0}.get(segment, 1)
        if depth < 0:
            return True
    return False
