"""torch's distributed checkpoints: what ``.metadata`` names, read without unpickling; and whether it is there (V04, V07, V11).

Format: a pickle of ``torch.distributed.checkpoint.metadata.Metadata``, whose ``storage_data`` maps each item to a ``_StorageInfo``: the
name of a ``.distcp`` file beside it, offset and length. It is written last, when all ranks have written their files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from bridgehead.model.snapshot import Finding, FindingKind
from bridgehead.vault.formats.contents import is_length
from bridgehead.vault.formats.pickleshape import MAX_PICKLE_BYTES, Call, Global, Table, Unreadable, read_pickle
from bridgehead.vault.formats.tree import Tree, missing
from bridgehead.vault.paths import path_fault

METADATA: Final = ".metadata"
MAX_METADATA_BYTES: Final = 256 << 20
_SHARD: Final = re.compile(r"__[0-9]+_[0-9]+\.distcp")
_SHARD_BYTES: Final = re.compile(rb"__[0-9]{1,9}_[0-9]{1,9}\.distcp")


class Item(NamedTuple):
    """The bytes [offset, offset + size) of a file hold one tensor, a part of one, or an object."""

    file: str
    offset_bytes: int
    size_bytes: int


def read_metadata(data: bytes) -> tuple[Item, ...] | None:
    """What a ``.metadata`` names; None when it is none, or does more than the reader of pickles follows.

    Of one that is too large to be followed, the names of the files alone, as torch forms them, with empty ranges.
    """
    if len(data) > MAX_PICKLE_BYTES:
        return tuple(Item(name.decode(), 0, 0) for name in sorted(set(_SHARD_BYTES.findall(data))))
    try:
        root = read_pickle(data, persistent=lambda _: None, call=lambda call: call)
    except Unreadable:
        return None
    storage = _attributes(root, "Metadata").get("storage_data")
    if not isinstance(storage, Table):
        return None
    items = []
    for _, value in storage.pairs:
        found = _attributes(value, "_StorageInfo")
        match found.get("relative_path"), found.get("offset"), found.get("length"):
            case str(file), int(offset), int(size) if is_length(offset) and is_length(size) and not path_fault([file]):
                items.append(Item(file, offset, size))
            case _:
                return None
    return tuple(items)


def _attributes(value: object, name: str) -> dict[str, object]:
    match value:
        case Call(function=Global(name=found), state=Table(pairs=pairs)) if found == name:
            return {key: attribute for key, attribute in pairs if isinstance(key, str)}
        case _:
            return {}


def dcp_findings(tree: Tree) -> Iterator[Finding]:
    """Files that ``.metadata`` names and that are not there or too short, shards that it does not name, and shards without it."""
    for folder, names in sorted(tree.folders.items()):
        shards = {name for name in names if _SHARD.fullmatch(name)}
        if METADATA not in names:
            if shards:
                yield missing(folder + METADATA, "it is written last, and the shards beside it are useless without it")
            continue
        if tree.files[folder + METADATA].size_bytes > MAX_METADATA_BYTES:
            continue
        items = read_metadata(tree.part(folder + METADATA, 0, MAX_METADATA_BYTES))
        if items is not None:
            yield from _compare(tree, folder, shards, items)


def _compare(tree: Tree, folder: str, shards: set[str], items: tuple[Item, ...]) -> Iterator[Finding]:
    ends: dict[str, int] = {}
    for item in items:
        ends[item.file] = max(ends.get(item.file, 0), item.offset_bytes + item.size_bytes)
    for name, end in sorted(ends.items()):
        file = tree.files.get(folder + name)
        if file is None:
            yield missing(folder + name, f"{folder}{METADATA} names it, and it is not there")
        elif file.is_file and file.size_bytes < end:
            yield Finding(FindingKind.CUT_OFF, folder + name, f"{folder}{METADATA} says that it has {end} bytes, not {file.size_bytes}")
    for name in sorted(shards - ends.keys()):
        if tree.files[folder + name].size_bytes:  # an empty one: its rank had nothing to write (V04)
            yield Finding(FindingKind.EXTRA, folder + name, f"{folder}{METADATA} does not name it")
