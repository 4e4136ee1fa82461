"""The index of sharded checkpoints (``model.safetensors.index.json``, ``pytorch_model.bin.index.json``): does it tell the truth? (V07)

Format: JSON with ``weight_map``: tensor name -> file name, relative to the index.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import msgspec

from bridgehead.model.snapshot import Finding, FindingKind, TensorEntry
from bridgehead.vault.formats.tree import Tree, missing

INDEX_SUFFIX: Final = ".index.json"
MAX_INDEX_BYTES: Final = 256 << 20
UNREADABLE: Final = ("the index cannot be read",)
_MAX_SERIES: Final = 100_000
_ONE_OF: Final = re.compile(r"(.*?-)([0-9]{5,9})-of-([0-9]{5,9})(\.[^/]*)?")


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
        return IndexFindings(path, stale=UNREADABLE)
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


def shard_findings(tree: Tree) -> Iterator[Finding]:
    """What every index of a checkpoint says that is not so; of shards that no index speaks for, which lack by the count in their names."""
    tensors = {path: file.tensors for path, file in tree.files.items()}
    indexed: set[str] = set()
    for path in sorted(tree.files):
        if path.endswith(INDEX_SUFFIX):
            folder, series_of = path[: path.rfind("/") + 1], _series(path)
            found = index_findings(path, tree.part(path, 0, MAX_INDEX_BYTES + 1), tensors)
            if found.stale != UNREADABLE:
                indexed |= {folder + name for name in tree.folders[folder] if series_of.fullmatch(name)}
            yield from (missing(one, f"{path} names it, and it is not there") for one in found.missing)
            yield from (Finding(FindingKind.EXTRA, one, f"{path} does not name it") for one in found.extra)
            yield from (Finding(FindingKind.STALE, path, sentence) for sentence in found.stale)
    series: dict[tuple[str, str, str], set[int]] = {}
    for path in tree.files.keys() - indexed:
        match = _ONE_OF.fullmatch(path)
        if match is not None and int(match[3]) <= _MAX_SERIES:
            series.setdefault((match[1], match[3], match[4] or ""), set()).add(int(match[2]))
    for (begin, count, end), seen in sorted(series.items()):
        first = 0 if 0 in seen else 1
        for number in sorted(set(range(first, first + int(count))) - seen):
            yield missing(f"{begin}{number:0{len(count)}d}-of-{count}{end}", f"it is one of {int(count)} by the names of the others")


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
