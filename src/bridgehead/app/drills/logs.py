"""Logs: what the jobs of a drill said, kept when it fails, because the bubble is thrown away with all that they wrote."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Final

TAIL_BYTES: Final = 64 << 10
_NAMES: Final = frozenset({"log", "output"})
"""As the schedulers' drivers call what a job prints."""


def keep_logs(jobs: Path, to: Path) -> tuple[str, ...]:
    """Copy the end of what each execution of a job printed into the folder ``to``, and name the files; what cannot be read is left out."""
    kept: list[str] = []
    for path in sorted(jobs.rglob("*")) if jobs.is_dir() else ():
        if path.name not in _NAMES:
            continue
        job = path.relative_to(jobs).parts[0]
        with contextlib.suppress(OSError):
            text = path.read_bytes()[-TAIL_BYTES:]
            to.mkdir(mode=0o750, parents=True, exist_ok=True)
            name = f"{job}-{sum(one.startswith(f'{job}-') for one in kept) + 1}.txt"
            (to / name).write_bytes(text)
            kept.append(name)
    return tuple(kept)
