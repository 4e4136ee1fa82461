"""Detect: what a file is, seen in its bytes, not in its name (V08).

A file that does not parse is opaque: stored as it is, never refused.
"""

from __future__ import annotations

from typing import Final

import msgspec

from bridgehead.vault.formats.contents import CUT_OFF, OPAQUE, Contents, FileFormat, Reader
from bridgehead.vault.formats.numpyfile import MAGIC as NPY_MAGIC
from bridgehead.vault.formats.numpyfile import examine_npy
from bridgehead.vault.formats.safetensors import examine_safetensors
from bridgehead.vault.formats.torchzip import examine_archives
from bridgehead.vault.formats.zipdirectory import LOCAL_MAGIC, read_archives

_NEVER_EMPTY: Final = (".pt", ".pth", ".ckpt", ".npz", ".npy")
"""Formats that have no empty file. A ``.distcp`` may be empty: its rank had nothing to write (V04)."""
_ARCHIVES: Final = (".pt", ".pth", ".ckpt", ".npz", ".distcp", ".bin", ".zip")
_PICKLE_HEAD_BYTES: Final = 256
_DCP_METADATA: Final = (b"torch.distributed.checkpoint.metadata", b"Metadata")


def examine(path: str, size_bytes: int, read: Reader) -> Contents:
    """Look into a file of ``size_bytes``. ``path`` names a tensor that has no name of its own, and tells of a file that shows no format
    whether it is incomplete: an empty ``.pt`` was cut off, an empty file of another name may be meant so."""
    head = read(0, min(size_bytes, 8))
    if head.startswith(NPY_MAGIC):
        return examine_npy(path, size_bytes, read)
    if head.startswith(LOCAL_MAGIC):
        archives = read_archives(size_bytes, read)
        if archives is not None:
            contents = examine_archives(path, archives, read)
            return msgspec.structs.replace(contents, cut_off_at=-1) if archives.unfinished and path.endswith(_ARCHIVES) else contents
    contents = examine_safetensors(path, size_bytes, read)
    if contents != OPAQUE:
        return contents
    if path.endswith(_ARCHIVES) and head.startswith(LOCAL_MAGIC):
        return CUT_OFF  # a zip without its directory, which is written last
    if path.endswith(_NEVER_EMPTY) and not head.strip(b"\0"):
        return CUT_OFF  # space that was reserved and never written
    if head[:1] == b"\x80":
        begin = read(0, min(size_bytes, _PICKLE_HEAD_BYTES))
        if all(word in begin for word in _DCP_METADATA):
            return Contents(format=FileFormat.DCP_METADATA)
    return OPAQUE
