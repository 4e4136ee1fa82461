"""Files that are zip archives: what torch saves (``.pt``, ``.pth``, ``.distcp``), numpy's ``.npz``, and any other (V01, V05, V08, V12).

Every stored member is cut at both ends, so a storage of torch is a block of its own, whatever the tensor table says or fails to say.
"""

from __future__ import annotations

from typing import Final

from bridgehead.model.snapshot import TensorEntry
from bridgehead.vault.formats.contents import Contents, Extent, FileFormat, Reader, by_place
from bridgehead.vault.formats.npz import npz_tables
from bridgehead.vault.formats.numpyfile import stem
from bridgehead.vault.formats.pickleshape import MAX_PICKLE_BYTES, Unreadable
from bridgehead.vault.formats.torchtable import TorchTable, TorchTensor, reached_bytes, read_torch_table
from bridgehead.vault.formats.zipdirectory import Archive, Archives

_TABLE: Final = "data.pkl"


class _Found:
    """Tables of the archives of one file, put together."""

    def __init__(self) -> None:
        self.tensors: list[TensorEntry] = []
        self.views: list[TensorEntry] = []
        self.unreached: int | None = 0
        self.pickle_bytes_left = MAX_PICKLE_BYTES

    def add(self, table: TorchTable, storages: dict[str, Extent], *, prefix: str, nameless: str) -> None:
        for name, tensor in table.named:
            storage = storages.get(tensor.storage)
            if storage is None or tensor.end > storage.size_bytes:
                continue  # on no device, or in a member that is not stored as it is
            name = prefix + name if name else nameless
            begin = storage.offset_bytes + tensor.begin
            entry = TensorEntry(name, tensor.dtype, tensor.shape, begin, tensor.end - tensor.begin)
            (self.tensors if tensor.row_major else self.views).append(entry)
        if self.unreached is not None:
            self.unreached += _unreached(table, storages)


def examine_archives(path: str, archives: Archives, read: Reader) -> Contents:
    """The contents of a file that ends with a zip directory.

    Of several archives in one file (``.distcp``) each is one tensor without a name: it is named by the file and its number in it, and by
    its own path after that where it has one.
    """
    members = [member for archive in archives.archives for member in archive.members]
    extents = tuple(member.place for member in members if member.place is not None and member.place.size_bytes > 0)
    first = min((extent.offset_bytes for extent in extents), default=0)
    torch = [archive for archive in archives.archives if _table_name(archive) is not None]
    if torch:
        found = _Found()
        for index, archive in enumerate(archives.archives):
            several = f"{stem(path)}#{index}" if len(archives.archives) > 1 else ""
            _add_archive(found, archive, read, prefix=f"{several}." if several else "", nameless=several or stem(path))
        return Contents(
            header_bytes=first,
            tensors=by_place(found.tensors),
            format=FileFormat.TORCH,
            extents=extents,
            views=by_place(found.views),
            unreached_bytes=found.unreached,
        )
    arrays, views = npz_tables(members, read)
    is_npz = any(member.name.endswith(".npy") for member in members)
    kind = FileFormat.NPZ if is_npz else FileFormat.ZIP
    array_extents = tuple(Extent(entry.offset_bytes, entry.size_bytes) for entry in views)
    return Contents(first, by_place(arrays), format=kind, extents=extents + array_extents, views=by_place(views))


def _table_name(archive: Archive) -> str | None:
    """The member that holds the tensor table: ``data.pkl`` in the one folder of the archive."""
    for member in archive.members:
        if member.name.rpartition("/")[2] == _TABLE and member.name.count("/") <= 1:
            return member.name
    return None


def _add_archive(found: _Found, archive: Archive, read: Reader, *, prefix: str, nameless: str) -> None:
    table_name = _table_name(archive)
    if table_name is None:
        found.unreached = None
        return
    root = table_name.removesuffix(_TABLE)
    places = {member.name: member.place for member in archive.members if member.place is not None}
    folder = f"{root}data/"
    storages = {name.removeprefix(folder): place for name, place in places.items() if name.startswith(folder)}
    place = places.get(table_name)
    order = places.get(f"{root}byteorder")
    big_endian = order is not None and read(order.offset_bytes, min(order.size_bytes, 8)) == b"big"
    if place is None or place.size_bytes > found.pickle_bytes_left or big_endian:  # no dtype of the table means big-endian numbers
        found.unreached = None
        return
    found.pickle_bytes_left -= place.size_bytes
    try:
        table = read_torch_table(read(place.offset_bytes, place.size_bytes))
    except Unreadable:
        found.unreached = None
        return
    found.add(table, storages, prefix=prefix, nameless=nameless)


def _unreached(table: TorchTable, storages: dict[str, Extent]) -> int:
    """Bytes of storages that no tensor reaches. A view that leaves gaps counts with all that it spans."""
    by_storage: dict[str, list[TorchTensor]] = {}
    for tensor in table.tensors:
        by_storage.setdefault(tensor.storage, []).append(tensor)
    total = 0
    for key, storage in storages.items():
        if key not in table.whole:
            ranges = [(tensor.begin, min(tensor.end, storage.size_bytes)) for tensor in by_storage.get(key, ())]
            total += storage.size_bytes - reached_bytes(ranges)
    return total
