"""Sharing: which files of a folder or snapshot are the share of which shard. The same on every node that sees the same listing."""

from __future__ import annotations

import enum
import heapq
from collections.abc import Sequence
from typing import Final, Protocol, TypeVar

import msgspec
from msgspec import UnsetType

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

MAX_SHARDS: Final = 999_999


class Share(enum.StrEnum):
    """How the files of a save are shared out."""

    DEALT = "dealt"
    """All shards see the same folder, and each takes its share of the files: about the same number of bytes each."""
    OWN = "own"
    """Each shard saves all that it sees; together they are the snapshot."""


class Shard(msgspec.Struct, frozen=True):
    """One of several ranks or nodes, counted from 1. Raises BridgeheadError (BAD_USAGE) when there is no such shard."""

    number: int
    count: int

    def __post_init__(self) -> None:
        if not 1 <= self.number <= self.count <= MAX_SHARDS:
            raise _no_shard(str(self))

    def __str__(self) -> str:
        return f"{self.number}/{self.count}"

    @classmethod
    def parse(cls, text: str) -> Shard:
        """Read ``2/8``. Raises BridgeheadError (BAD_USAGE)."""
        number, slash, count = text.partition("/")
        if not (slash and number.isdecimal() and count.isdecimal() and len(text) < 16):
            raise _no_shard(text)
        return cls(int(number), int(count))


class Named(Protocol):
    """A file that can be dealt: its path, its size, and the path of the file of which it is another name, if it is one."""

    @property
    def path(self) -> str:
        """Its path."""
        ...

    @property
    def size_bytes(self) -> int:
        """Its size."""
        ...

    @property
    def same_as(self) -> str | UnsetType:
        """Not set or empty: it is a file of its own."""
        ...


T = TypeVar("T", bound=Named)


def deal(files: Sequence[T], shard: Shard) -> list[T]:
    """The share of ``shard``: the largest file first, each to whoever has the fewest bytes, then the fewest files, so far.

    Names of one file stay together. The order of ``files`` is kept, and means nothing otherwise.
    """
    groups: dict[str, list[T]] = {}
    for file in files:
        groups.setdefault(file.same_as or file.path, []).append(file)
    hands = [(0, 0, number) for number in range(1, shard.count + 1)]
    mine: set[str] = set()
    for name, group in sorted(groups.items(), key=lambda item: (-item[1][0].size_bytes, item[0])):
        size_bytes, count, number = heapq.heappop(hands)
        heapq.heappush(hands, (size_bytes + group[0].size_bytes, count + len(group), number))
        if number == shard.number:
            mine.update(file.path for file in groups[name])
    return [file for file in files if file.path in mine]


def _no_shard(text: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="share out work",
        subject=f"shard {text}",
        happened=f"there is no such shard; they are counted from 1, up to {MAX_SHARDS}",
        remedy="Write I/N: 1/4 is the first of four.",
    )
