"""Folders on a disk, for tests of what is saved and restored."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import Final

_COMPARED_BYTES: Final = 64 << 20
"""Files above are sparse; what of them is data is compared by the test itself."""


def look(root: Path) -> dict[str, tuple[object, ...]]:
    """Everything below a folder: kind, mode, time, content; files with several names under the first of them."""
    found: dict[str, tuple[object, ...]] = {}
    names: dict[int, str] = {}
    for path in sorted(root.rglob("*")):
        state, name = path.lstat(), path.relative_to(root).as_posix()
        if path.is_symlink():
            found[name] = ("link", os.readlink(path), state.st_mtime_ns)
        elif path.is_dir():
            found[name] = ("folder", stat.S_IMODE(state.st_mode))
        else:
            content = path.read_bytes() if state.st_size <= _COMPARED_BYTES else b""
            first = names.setdefault(state.st_ino, name)
            found[name] = ("file", stat.S_IMODE(state.st_mode), state.st_mtime_ns, state.st_size, content, first)
    return found


def sparse(path: Path, size: int, data: dict[int, bytes]) -> None:
    """Make a file of holes, with ``data`` at these offsets."""
    with open(path, "wb") as file:
        file.truncate(size)
        for at, content in data.items():
            file.seek(at)
            file.write(content)
