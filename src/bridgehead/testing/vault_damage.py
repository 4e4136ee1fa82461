"""Damage to a vault in a directory, as a failing disk does it: to one block inside a pack, or to a whole pack."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import BlockId
from bridgehead.vault.layout import pack_key
from bridgehead.vault.packindex import PackIndex, Place


def places_of(folder: Path, block: BlockId) -> tuple[Place, ...]:
    """Where the vault's index says that a block lies; at least one place."""
    index = PackIndex(LocalBlobs(LocalBlobsOptions(str(folder))))
    index.refresh()
    found = index.places(block)
    assert found, f"{block} is in no pack of {folder}"
    return found


def pack_file(folder: Path, block: BlockId) -> Path:
    """The file of the pack that holds a block."""
    return folder / pack_key(places_of(folder, block)[0].pack)


def flip_in_block(folder: Path, block: BlockId, *, at: int = 0) -> Path:
    """Flip a bit of byte ``at`` of the block, in every place that it has. Returns the file of the last one."""
    path = folder
    for place in places_of(folder, block):
        path = folder / pack_key(place.pack)
        data = bytearray(path.read_bytes())
        data[place.offset_bytes + at] ^= 1
        path.write_bytes(data)
    return path


def rewrite(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Put something else in the place of a file's content."""
    path.write_bytes(change(path.read_bytes()))
