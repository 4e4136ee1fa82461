"""Names that promise a format which the bytes do not keep (V08, V12): the file is kept as it is, and it is said."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from bridgehead.model.snapshot import FileEntry, Finding, FindingKind, TensorEntry
from bridgehead.vault.formats.contents import OPAQUE
from bridgehead.vault.formats.numpyfile import MAGIC as NPY_MAGIC
from bridgehead.vault.formats.safetensors import examine_safetensors
from bridgehead.vault.formats.tree import Tree
from bridgehead.vault.formats.zipdirectory import LOCAL_MAGIC

_PICKLE: Final = b"\x80"
_EMPTY_ZIP: Final = b"PK\x05\x06"
_TAR_PLACE: Final = 257
_TAR: Final = b"ustar"
_BEGINS: Final = {
    ".npy": (NPY_MAGIC,),
    ".npz": (LOCAL_MAGIC, _EMPTY_ZIP),
    ".pt": (LOCAL_MAGIC, _EMPTY_ZIP, _PICKLE),
    ".pth": (LOCAL_MAGIC, _EMPTY_ZIP, _PICKLE),
}


def named_findings(tree: Tree) -> Iterator[Finding]:
    """Files whose names say safetensors, numpy or torch, and that no reader of these would take. Of a file that is cut off the finding
    is another one, which the caller has."""
    for path, file in tree.files.items():
        happened = _fault(tree, path, file) if file.is_file and file.size_bytes else ""
        if happened:
            yield Finding(FindingKind.UNREADABLE, path, f"{happened}; it is kept just as it is")


def _fault(tree: Tree, path: str, file: FileEntry) -> str:
    read = partial(tree.part, path)
    if path.endswith(".safetensors"):
        if file.tensors:
            return _overlap(file.tensors)
        return "it is named as safetensors, and has no header of that" if examine_safetensors(path, file.size_bytes, read) == OPAQUE else ""
    if file.tensors:
        return ""
    for ending, begins in _BEGINS.items():
        if path.endswith(ending):
            head = read(0, 8)
            other = head.startswith(begins) or not head.strip(b"\0") or read(_TAR_PLACE, len(_TAR)) == _TAR
            return "" if other else f"it is named {ending}, and does not begin as such a file does"
    return ""


def _overlap(tensors: Sequence[TensorEntry]) -> str:
    """Two that overlap in part. One that has just the place of another is meant so: it is tied (V01)."""
    last: TensorEntry | None = None
    for tensor in tensors:
        if last is not None and (last.offset_bytes, last.size_bytes) == (tensor.offset_bytes, tensor.size_bytes):
            continue
        if last is not None and tensor.size_bytes and tensor.offset_bytes < last.offset_bytes + last.size_bytes:
            return f"its tensors {last.name} and {tensor.name} overlap, which readers of safetensors refuse"
        if tensor.size_bytes:
            last = tensor
    return ""
