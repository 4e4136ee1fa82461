"""Packing: facts in little memory, by the thing that they are of, until all captures are read (M2). Pure.

The root of a subject is its outermost part (``node:gpu01``). Facts of different roots never meet in a merge, so that roots can be merged
one by one, and by several processes.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec

from bridgehead.model.fact import Fact

_LEVEL: Final = 1
"""Of zlib: facts of one capture repeat themselves so much that more effort gains little."""
_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(list[Fact])


def root_of(subject: str) -> str:
    """The outermost part of a subject."""
    return subject.partition("/")[0]


def pack(facts: Iterable[Fact]) -> dict[str, bytes]:
    """Facts by root, each packed."""
    by_root: defaultdict[str, list[Fact]] = defaultdict(list)
    subject = ""
    some: list[Fact] = []
    for fact in facts:
        if fact.subject != subject:  # facts of one subject stand together
            subject = fact.subject
            some = by_root[root_of(subject)]
        some.append(fact)
    return {root: zlib.compress(_ENCODER.encode(some), _LEVEL) for root, some in by_root.items()}


def unpack(parts: Sequence[bytes]) -> list[Fact]:
    """The facts of some packs."""
    return [fact for part in parts for fact in _DECODER.decode(zlib.decompress(part))]
