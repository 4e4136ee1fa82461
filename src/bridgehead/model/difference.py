"""Differences between two estates: by identity, never by the order in which things are written (M5.1)."""

from __future__ import annotations

from typing import Any

import msgspec


class Difference(msgspec.Struct, frozen=True):
    """One thing that differs.

    Attributes:
        path: the field, such as ``sites.site-a.racks.r1.max_weight``.
        before: as files write it; None when it was added.
        after: as files write it; None when it was removed.
    """

    path: str
    before: Any
    after: Any

    @property
    def word(self) -> str:
        """added, removed or changed."""
        if self.before is None:
            return "added"
        return "removed" if self.after is None else "changed"


def differences(before: dict[str, Any], after: dict[str, Any]) -> list[Difference]:
    """What differs between two documents as files write them (``estatefile.estate_data``).

    Mappings are compared key by key. A list of words is a set here, since every list of an estate is one (needs, circuits, sites).
    """
    return _compare(before, after, "")


def _compare(before: Any, after: Any, path: str) -> list[Difference]:
    if isinstance(before, dict) and isinstance(after, dict):
        found = []
        for key in [*before, *(key for key in after if key not in before)]:
            found += _compare(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
        return found
    return [] if _unordered(before) == _unordered(after) else [Difference(path, before, after)]


def _unordered(value: Any) -> Any:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return sorted(value)
    return value
