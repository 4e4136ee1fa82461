"""Programs of PostgreSQL on this machine: the newest pg_dump can read every older server."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

from bridgehead.kernel.errors import Permanent

_DEBIAN: Final = Path("/usr/lib/postgresql")


def program(name: str) -> str:
    """Where ``name`` is: the newest of Debian's versions, else on the path. Raises Permanent when it is nowhere."""
    versions = [path for path in _DEBIAN.glob(f"*/bin/{name}") if path.parts[4].replace(".", "").isdigit()]
    found = str(max(versions, key=lambda path: float(path.parts[4]))) if versions else shutil.which(name)
    if found is None:
        raise Permanent(
            "it is not installed here",
            tried="find a program of PostgreSQL",
            subject=name,
            remedy="Install PostgreSQL's client programs, of the server's version or newer.",
        )
    return found
