"""Scratch: a folder that one process has to itself, inside one that several use one after the other."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.host.identity import is_alive, this_driver
from bridgehead.ports.journal import DriverIdentity

OWNER: Final = "owner.json"
_PREFIX: Final = "copy-"


def scratch_folder(parent: Path) -> Path:
    """A new one, in which no child of a process that was killed still writes. Those of dead processes are removed. Raises OSError."""
    parent.mkdir(parents=True, exist_ok=True)
    for old in parent.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            if not is_alive(msgspec.json.decode((old / OWNER).read_bytes(), type=DriverIdentity)):
                shutil.rmtree(old)
    made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
    (made / OWNER).write_bytes(msgspec.json.encode(this_driver()))
    return made


def remove_scratch(folder: Path) -> None:
    """Remove it, with all that is in it."""
    shutil.rmtree(folder, ignore_errors=True)
