"""The index of sharded checkpoints (``model.safetensors.index.json``, ``pytorch_model.bin.index.json``): does it tell the truth? (V07)

Format: JSON with ``weight_map``: tensor name -> file name, relative to the index.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from bridgehead.model.snapshot import TensorEntry

INDEX_SUFFIX: Final = ".index.json"
MAX_INDEX_BYTES: Final = 256 << 20


class IndexFindings(msgspec.Struct, frozen=True):
    """What is wrong with one index; all empty when it agrees with the files beside it.

    Attributes:
        index: path of the index.
        missing: paths of files that it names and that are not there. A checkpoint that lacks one is never protected.
        extra: paths of shards of the same series that it does not name.
        stale: sentences about tensors that are not where it says, or that it does not know, although the files are there.
    """

    index: str
    missing: tuple[str, ...] = ()
    extra: tuple[str, ...] = ()
    stale: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Nothing was found."""
        return not (self.missing or self.extra or self.stale)


def index_findings(path: str, document: bytes, files: Mapping[str, Sequence[TensorEntry]]) -> IndexFindings:
    """Compare an index with the files of its checkpoint.

    Args:
        path: where the index is; file names in it are relative to its folder.
        document: its bytes. What is no index of this kind is reported as stale.
        files: every file of the checkpoint with its tensors; of a file whose tensors are not known, no tensor is reported.
    """
    weight_map = _weight_map(document)
    if weight_map is None:
        return IndexFindings(path, stale=("the index cannot be read",))
    folder = path[: path.rfind("/") + 1]
    named = {folder + file for file in weight_map.values()}
    missing = sorted(named - files.keys())
    series = _series(path)
    extra = sorted(file for file in files if file not in named and file.startswith(folder) and series.fullmatch(file[len(folder) :]))
    held = {file: {tensor.name for tensor in files[file]} for file in sorted(named & files.keys())}
    stale = [
        f"{folder + file} does not hold {name!r}"
        for name, file in sorted(weight_map.items())
        if held.get(folder + file) and name not in held[folder + file]
    ]
    stale += [f"{name!r} of {file} is not in the index" for file, names in held.items() for name in sorted(names - weight_map.keys())]
    return IndexFindings(path, tuple(missing), tuple(extra), tuple(stale))


def _weight_map(document: bytes) -> dict[str, str] | None:
    if len(document) > MAX_INDEX_BYTES:
        return None
    try:
        index = json.loads(document)
    except (ValueError, RecursionError):
        return None
    match index:
        case {"weight_map": dict() as weight_map} if all(isinstance(file, str) for file in weight_map.values()):
            return weight_map
        case _:
            return None


def _series(path: str) -> re.Pattern[str]:
    """Names of the shards that belong to an index: ``model.safetensors.index.json`` -> ``model-00001-of-00003.safetensors``."""
    whole = path.rpartition("/")[2].removesuffix(INDEX_SUFFIX)
    name, _, extension = whole.rpartition(".")
    return re.compile(rf"{re.escape(name)}-[0-9]{{1,9}}-of-[0-9]{{1,9}}\.{re.escape(extension)}")
