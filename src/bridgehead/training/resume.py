"""resume: the newest snapshot as a folder, for trainers that resume from a folder by themselves."""

from __future__ import annotations

import os
from pathlib import Path

from bridgehead.kernel.ids import WorkloadId
from bridgehead.vault import Vault


def restore_newest(vault: Vault, *, workload: WorkloadId | str, to: str | os.PathLike[str], prefix: str) -> Path | None:
    """Restore the newest usable snapshot to ``<to>/<prefix><step>``, verified; one that is there already is left as it is.

    Returns the folder; None when there is no snapshot. Raises Conflict when the folder holds something else, Damaged.
    """
    newest = vault.newest(WorkloadId(workload))
    if newest is None:
        return None
    folder = Path(to) / f"{prefix}{newest.step}"
    vault.restore(newest.id, to=folder)
    return folder
