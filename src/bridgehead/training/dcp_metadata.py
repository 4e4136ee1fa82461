"""dcp_metadata: the table of a DCP checkpoint, which is a pickle. Only what DCP itself writes is unpickled; anything else is refused."""

from __future__ import annotations

import io
import pickle
from typing import Any, Final

from torch.distributed.checkpoint.metadata import Metadata

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

_CLASSES: Final = frozenset(
    {
        *(
            ("torch.distributed.checkpoint.metadata", name)
            for name in (
                "Metadata",
                "MetadataIndex",
                "StorageMeta",
                "BytesStorageMetadata",
                "TensorStorageMetadata",
                "ChunkStorageMetadata",
                "TensorProperties",
                "_MEM_FORMAT_ENCODING",
            )
        ),
        ("torch.distributed.checkpoint.filesystem", "_StorageInfo"),
        ("torch.serialization", "_get_layout"),
        ("torch", "Size"),
        ("torch", "device"),
        ("collections", "OrderedDict"),
        ("pathlib", "Path"),
        ("pathlib", "PosixPath"),
    }
)


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Raises UnpicklingError for what DCP does not write."""
        if (module, name) not in _CLASSES and not (module == "torch" and _is_dtype(name)):
            raise pickle.UnpicklingError(f"{module}.{name} has no place in it")
        return super().find_class(module, name)


def read_metadata(data: bytes, *, subject: str) -> Metadata:
    """Raises BridgeheadError (BAD_INPUT) for what is no such table, or holds more than one."""
    try:
        found = _Unpickler(io.BytesIO(data)).load()
    except Exception as error:  # a pickle can fail in any way
        raise _not_one(subject, str(error)) from error
    if not isinstance(found, Metadata):
        raise _not_one(subject, f"it is a {type(found).__name__}")
    return found


def _is_dtype(name: str) -> bool:
    import torch

    return isinstance(getattr(torch, name, None), torch.dtype)


def _not_one(subject: str, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_INPUT,
        tried="read the table of a distributed checkpoint",
        subject=f".metadata of {subject}",
        happened=happened,
        remedy="Restore the snapshot to a folder, and read it there with the tool that wrote it.",
    )
