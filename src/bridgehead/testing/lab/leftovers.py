"""Leftovers: what is still there of a lab that should be gone."""

from __future__ import annotations

from pathlib import Path

from bridgehead.testing.lab.lab import DATA_OUTSIDE
from bridgehead.testing.lab.namespaces import NAMED, run


def leftovers(lab_id: str) -> list[str]:
    """Namespaces, devices, folders and processes that carry the lab's id, each in words; empty when nothing is left."""
    name = f"bh{lab_id}"
    found = [f"namespace {path.name}" for path in NAMED.glob(f"{name}*")] if NAMED.is_dir() else []
    found += [f"device {line.strip()}" for line in run("ip", "-o", "link").splitlines() if name in line]
    found += [str(path) for path in [Path(DATA_OUTSIDE.format(id=lab_id))] if path.exists()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue  # gone meanwhile
        if name.encode() in text:
            found.append(f"process {process.name}: {text[:200].decode(errors='replace')}")
    return found
