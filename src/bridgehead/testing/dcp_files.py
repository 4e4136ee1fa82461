"""Distributed checkpoints as torch writes them, made without torch: ``.metadata``, opcode by opcode, with the classes that it names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bridgehead.testing.torch_files import Raw, Tensor, pickled, torch_file

_MODULE = "torch.distributed.checkpoint.metadata"
_STORAGE_MODULE = "torch.distributed.checkpoint.filesystem"


def metadata_file(items: Mapping[str, tuple[str, int, int]]) -> bytes:
    """``.metadata`` that puts each name at (file, offset, size)."""
    storage = {
        _object(_MODULE, "MetadataIndex", {"fqn": name, "offset": None, "index": None}): _object(
            _STORAGE_MODULE, "_StorageInfo", {"relative_path": file, "offset": offset, "length": size}
        )
        for name, (file, offset, size) in items.items()
    }
    table = {name: _object(_MODULE, "BytesStorageMetadata", {}) for name in items}
    return pickled(_object(_MODULE, "Metadata", {"state_dict_metadata": table, "planner_data": None, "storage_data": storage}))


def checkpoint_files(rows: Sequence[int], *, width: int = 5) -> dict[str, bytes]:
    """A tensor of ``width`` columns whose rows are spread over as many ranks as ``rows`` has; a rank without rows has an empty shard."""
    files: dict[str, bytes] = {}
    items = {}
    for rank, count in enumerate(rows):
        name = f"__{rank}_0.distcp"
        cells = bytes(cell % 251 + 1 for cell in range(4 * width * count))
        files[name] = torch_file(Tensor("0", "F32", (count, width)), {"0": cells}) if count else b""
        if count:
            items[f"w.{rank}"] = (name, 0, len(files[name]))
    return {".metadata": metadata_file(items), **files}


def _object(module: str, name: str, state: Mapping[object, object]) -> Raw:
    """What pickle writes for an object of a class that is made without arguments and then gets its attributes."""
    made = b"c" + module.encode() + b"\n" + name.encode() + b"\n)\x81"
    return Raw(made + pickled(dict(state))[2:-1] + b"b")
