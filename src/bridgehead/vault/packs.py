"""Packs: many blocks in one object, whose name is the hash of all its bytes (design section 5).

A pack can be proved, copied and carried by somebody who cannot read it. Layout: ``MAGIC``, the sealed blocks one after the other, the
sealed table of what lies where, the table's length in 8 bytes, little-endian, ``END``. Where the cipher binds tables, a table opens only
behind the blocks for which it was sealed: else whoever can write to the store could make a pack that claims what it does not hold.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from blake3 import blake3

from bridgehead.host.pages import pages
from bridgehead.kernel.hashing import block_hash, stream_hash
from bridgehead.kernel.ids import BlockId, PackId
from bridgehead.vault.layout import pack_key
from bridgehead.vault.records import damaged
from bridgehead.vault.sealing import BadSeal, Cipher, Parts

MAGIC: Final = b"BHPACK1\n"
END: Final = b"\nBHPACKE"
TABLE_LABEL: Final = "pack-table"
_LENGTH: Final = struct.Struct("<Q")
TAIL_BYTES: Final = _LENGTH.size + len(END)
_READ_BYTES: Final = 4 << 20
_SMALL_BYTES: Final = 1 << 20
_USUAL_BYTES: Final = 40 << 20
"""Room of a pack of usual size and its last block. Pages that are not written to take no memory."""


class Entry(msgspec.Struct, frozen=True, array_like=True):
    """One block of a pack: 32 bytes of hash, where its sealed bytes begin, and its size before sealing."""

    hash: bytes
    offset_bytes: int
    size_bytes: int

    @property
    def block(self) -> BlockId:
        """The block's id."""
        return BlockId(self.hash.hex())


class Pack(msgspec.Struct, frozen=True, array_like=True):
    """What lies in a pack."""

    hash: bytes
    size_bytes: int
    entries: tuple[Entry, ...]

    @property
    def id(self) -> PackId:
        """The pack's id."""
        return PackId(self.hash.hex())


class OpenPack:
    """A pack that is being filled."""

    def __init__(self) -> None:
        self._room = memoryview(bytearray())
        self._end = 0
        self._entries: list[Entry] = []
        self._append(MAGIC)

    @property
    def size_bytes(self) -> int:
        """So far, without the table."""
        return self._end if self._entries else 0

    def add(self, block: BlockId, size_bytes: int, sealed: Parts) -> None:
        """Put a sealed block at the end."""
        self._entries.append(Entry(bytes.fromhex(block), self._end, size_bytes))
        for part in sealed:
            self._append(part)

    def _append(self, data: bytes | memoryview) -> None:
        end = self._end + len(data)
        if end > len(self._room):
            larger = pages(_SMALL_BYTES if end <= _SMALL_BYTES else max(_USUAL_BYTES, 2 * end))
            larger[: self._end] = self._room[: self._end]
            self._room = larger
        self._room[self._end : end] = data
        self._end = end

    def close(self, cipher: Cipher) -> tuple[Pack, memoryview]:
        """What is in it, and all its bytes. Raises Damaged when a block is not any more what it was when it came: memory fails, too, and
        after this the hash of the pack would vouch for it."""
        for entry in self._entries:
            if not holds(self._room[: self._end], entry, cipher):
                raise damaged(
                    f"block {entry.block}",
                    "it changed in memory before it was stored",
                    remedy="Nothing was committed. Look at the memory of this machine before you save again.",
                )
        hasher = blake3(self._room[: self._end])
        label = table_label(hasher.hexdigest()) if cipher.binds_tables else TABLE_LABEL
        table = cipher.seal(msgspec.msgpack.encode(self._entries), label=label)
        end = table + _LENGTH.pack(len(table)) + END
        self._append(end)
        return Pack(hasher.update(end).digest(), self._end, tuple(self._entries)), self._room[: self._end]


def holds(data: bytes | memoryview, entry: Entry, cipher: Cipher) -> bool:
    """Whether the entry's bytes in a whole pack are the block that the entry names."""
    try:
        return (
            block_hash(
                cipher.open(data[entry.offset_bytes : entry.offset_bytes + entry.size_bytes + cipher.overhead_bytes], label=entry.block)
            )
            == entry.block
        )
    except BadSeal:
        return False


def table_label(contents: str) -> str:
    """The label of a table that is bound to its pack. ``contents``: BLAKE3 of all bytes before the table, 64 hex digits."""
    return f"{TABLE_LABEL} {contents}"


def read_table(pack: PackId, size_bytes: int, read: Callable[[int, int], bytes], cipher: Cipher) -> Pack:
    """The table from a pack's end. ``read`` takes offset and size. Raises Damaged.

    Where tables are bound, all of the pack is read; else the blocks are not looked at.
    """
    tail = read(max(size_bytes - TAIL_BYTES, 0), TAIL_BYTES)
    if size_bytes < len(MAGIC) + TAIL_BYTES or tail[-len(END) :] != END:
        raise damaged(pack_key(pack), "the pack has no end: it was cut off, or is none")
    (length,) = _LENGTH.unpack(tail[: _LENGTH.size])
    begin = size_bytes - TAIL_BYTES - length
    if begin < len(MAGIC):
        raise damaged(pack_key(pack), f"the pack's table is said to have {length} bytes")
    label = table_label(stream_hash(_pieces(read, begin))[0]) if cipher.binds_tables else TABLE_LABEL
    try:
        entries = msgspec.msgpack.decode(cipher.open(read(begin, length), label=label), type=tuple[Entry, ...])
    except (BadSeal, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise damaged(pack_key(pack), f"the pack's table cannot be read ({error})") from error
    for entry in entries:
        end = entry.offset_bytes + entry.size_bytes + cipher.overhead_bytes
        if len(entry.hash) != 32 or entry.size_bytes < 0 or not len(MAGIC) <= entry.offset_bytes <= end <= begin:
            raise damaged(pack_key(pack), "the pack's table names a place outside of the pack")
    return Pack(bytes.fromhex(pack), size_bytes, entries)


def _pieces(read: Callable[[int, int], bytes], end: int) -> Iterator[bytes]:
    return (read(at, min(_READ_BYTES, end - at)) for at in range(0, end, _READ_BYTES))
