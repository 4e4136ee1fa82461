"""Drills: restore snapshots in isolation, read them back, and record what it took (R13)."""

from __future__ import annotations

import math
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import msgspec

from bridgehead.app.vaults import space_named, usage
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Person, SnapshotId, WorkloadId
from bridgehead.vault import Vault
from bridgehead.vault.access import Reading, note_reading, predicted_s, speed_bytes_per_s
from bridgehead.vault.drills import Drill, Scored, last_drills, record_drill, score


class Drilled(msgspec.Struct, frozen=True):
    """What was tried. ``left_out``: snapshots that wanted to be tested too, and the budget did not suffice for."""

    drills: tuple[Drill, ...]
    left_out: tuple[SnapshotId, ...]

    @property
    def passed(self) -> bool:
        """No test failed."""
        return all(drill.passed for drill in self.drills)


def rank(vault: Vault, workloads: Sequence[WorkloadId], weights: Mapping[WorkloadId, float], *, now_s: float) -> tuple[Scored, ...]:
    """All usable snapshots, those first that want to be tested most. Raises BAD_USAGE for a weight of a workload that is not there."""
    unknown = sorted(set(weights) - set(vault.workloads()))
    if unknown:
        known = ", ".join(vault.workloads()) or "none"
        raise usage("drill", subject=f"--weight {unknown[0]}", happened="there is no such workload", remedy=f"There is {known}.")
    usable = [info for workload in workloads for info in vault.list(workload)]
    return score(usable, last_drills(vault.place.objects), weights, now_s=now_s)


def drill(
    vault: Vault,
    ranked: Sequence[Scored],
    *,
    count: int,
    budget_s: float = math.inf,
    scratch: Path | None,
    by: Person,
    say: Callable[[str], None],
) -> Drilled:
    """Restore the first ``count`` of ``ranked``, one after the other, each into a folder of its own that is removed again.

    A test is not begun when it would, at the speed measured so far, end after ``budget_s``; the first one always is.

    Raises port errors of the store and of the scratch folder: that is not the same as a backup that cannot be restored.
    """
    began_s = time.monotonic()
    done: list[Drill] = []
    left_out: list[SnapshotId] = []
    for one in ranked[:count]:
        needs_s = predicted_s(one.info.raw_bytes, speed_bytes_per_s(vault.place.objects)) or 0.0
        if done and time.monotonic() - began_s + needs_s > budget_s:
            left_out.append(one.info.id)
            continue
        tried = _try(vault, one, scratch=scratch, by=by)
        with space_named():
            record_drill(vault.place.objects, tried)
        done.append(tried)
        say(f"{tried.snapshot}: {'restored' if tried.passed else 'FAILED'}")
    return Drilled(tuple(done), tuple(left_out))


def _try(vault: Vault, one: Scored, *, scratch: Path | None, by: Person) -> Drill:
    snapshot, at_s, began_s = one.info.id, time.time(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="bridgehead-drill-", dir=scratch, ignore_cleanup_errors=True) as folder:
        _check_space(Path(folder), one.info.raw_bytes)
        to = Path(folder) / "restored"
        try:
            with space_named():
                vault.restore(snapshot, to=to)
                took_s = time.monotonic() - began_s
                vault.restore(snapshot, to=to)  # a folder that is there is read back and compared with the hashes
        except BridgeheadError as error:
            if error.code not in (ErrorCode.VAULT_DAMAGED, ErrorCode.PORT_CONFLICT):
                raise
            happened = f"{error.subject}: {error.happened}"
            return Drill(snapshot, at_s, time.monotonic() - began_s, 0.0, 0, passed=False, happened=happened, by=by)
        verified_s = time.monotonic() - began_s - took_s
    note_reading(vault.place.objects, Reading(at_s, one.info.raw_bytes, took_s))
    return Drill(snapshot, at_s, took_s, verified_s, one.info.raw_bytes, passed=True, happened="", by=by)


def _check_space(folder: Path, raw_bytes: int) -> None:
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < raw_bytes:
        raise BridgeheadError(
            ErrorCode.VAULT_FULL,
            tried="restore a snapshot for a test",
            subject=str(folder.parent),
            happened=f"it has {free_bytes} bytes free, and {raw_bytes} are needed",
            remedy="Name a roomier folder with --scratch.",
        )
