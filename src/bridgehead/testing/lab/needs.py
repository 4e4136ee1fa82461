"""Needs: what a lab wants of the machine, said before anything is made."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.testing.lab.namespaces import PATH
from bridgehead.testing.lab.record import needs_root

POSTGRES: Final = "postgres"
PROGRAMS: Final = {
    "ip": "iproute2",
    "tc": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "munged": "munge",
    "slurmctld": "slurm-wlm",
    "slurmd": "slurm-wlm",
    "haproxy": "haproxy",
    "prometheus": "prometheus",
    POSTGRES: "postgresql",
}
"""Programs and the Debian packages that bring them."""


def require() -> None:
    """Raises SERVER_MISSING, with one command that installs everything missing; BAD_USAGE without root."""
    missing = sorted({package for program, package in PROGRAMS.items() if not found(program)})
    if missing:
        raise BridgeheadError(
            ErrorCode.SERVER_MISSING,
            tried="set the lab up",
            subject=", ".join(program for program in PROGRAMS if not found(program)),
            happened="not installed",
            remedy=f"On Debian or Ubuntu: apt-get install {' '.join(missing)}",
        )
    if os.geteuid() != 0:
        raise needs_root("set the lab up")
    if not Path("/dev/net/tun").exists():
        raise BridgeheadError(
            ErrorCode.SERVER_MISSING,
            tried="set the lab up",
            subject="/dev/net/tun",
            happened="there are no TUN devices here",
            remedy="In a container, start it with --device /dev/net/tun and the capability NET_ADMIN; or use a virtual machine.",
        )


def found(program: str) -> str | None:
    """Where a program is; Debian keeps PostgreSQL's apart, by version."""
    if program in (POSTGRES, "initdb", "pg_isready"):
        versions = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{program}"), key=lambda path: float(path.parts[4]))
        if versions:
            return str(versions[-1])
    return shutil.which(program, path=PATH)
