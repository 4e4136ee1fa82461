"""Merkle trees as in RFC 9162 (2.1): one hash over many leaves, and a short proof that a leaf is one of them. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence


def leaf_hash(data: bytes) -> bytes:
    """Of a leaf. The byte in front keeps leaves and nodes apart, so that none can be shown as the other."""
    return hashlib.sha256(b"\0" + data).digest()


def root(leaves: Sequence[bytes]) -> bytes:
    """The hash over all leaves, in order; of no leaves, that of nothing."""
    return _levels([leaf_hash(leaf) for leaf in leaves])[-1][0] if leaves else hashlib.sha256(b"").digest()


def proof(leaves: Sequence[bytes], index: int) -> tuple[bytes, ...]:
    """The hashes beside the way from a leaf up to the root. Raises IndexError."""
    if not 0 <= index < len(leaves):
        raise IndexError(f"there are {len(leaves)} leaves")
    path = []
    for level in _levels([leaf_hash(leaf) for leaf in leaves])[:-1]:
        if index ^ 1 < len(level):
            path.append(level[index ^ 1])
        index //= 2
    return tuple(path)


def is_proved(leaf: bytes, index: int, *, size: int, path: Sequence[bytes], root: bytes) -> bool:
    """Whether ``path`` shows that ``leaf`` is number ``index`` of the ``size`` leaves under ``root``."""
    if not 0 <= index < size:
        return False
    found, last, waiting = leaf_hash(leaf), size - 1, list(path)
    while last > 0:
        if index ^ 1 <= last:
            if not waiting:
                return False
            beside = waiting.pop(0)
            found = _node(beside, found) if index % 2 else _node(found, beside)
        index, last = index // 2, last // 2
    return not waiting and found == root


def _levels(hashes: list[bytes]) -> list[list[bytes]]:
    """From the leaves up; one without a neighbour goes up as it is, which gives the same tree as RFC 9162's splitting."""
    levels = [hashes]
    while len(levels[-1]) > 1:
        below = levels[-1]
        level = [_node(below[at], below[at + 1]) for at in range(0, len(below) - 1, 2)]
        levels.append(level + below[len(level) * 2 :])
    return levels


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\1" + left + right).digest()
