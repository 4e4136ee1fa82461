"""Alarms of a vault: the tensor ledger of its workloads (V14, V15)."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.kernel.ids import SnapshotId, WorkloadId
from bridgehead.model.snapshot import FileEntry, Snapshot
from bridgehead.vault import Damaged, Vault
from bridgehead.vault.fences import counting
from bridgehead.vault.tensor_alarm import Alarm, AlarmCode, Severity
from bridgehead.vault.tensor_ledger import alarms

MAX_CHAIN: Final = 1000
"""So many snapshots are looked back at most."""
AFTER_SAVE: Final = 32
"""The same for the note after a save, which must be cheap."""


class Alarms(msgspec.Struct, frozen=True):
    """What was judged, and what was found. ``judged``: snapshots with at least one before them, or read."""

    judged: int
    alarms: tuple[Alarm, ...]

    @property
    def certain(self) -> tuple[Alarm, ...]:
        """Without what could not be judged."""
        return tuple(one for one in self.alarms if one.severity is not Severity.UNKNOWN)


def chain_to(vault: Vault, workload: WorkloadId, *, last: SnapshotId | None = None, limit: int = MAX_CHAIN) -> list[Snapshot]:
    """The snapshots of a workload that count, oldest first, one for each step, up to ``last`` or the newest.

    Records that are damaged, and incomplete snapshots before the last, are left out: `vault list` names them. Only records are read.
    """
    counts = counting(vault.newest_fence(workload))
    chain: list[Snapshot] = []
    names = [name for name in vault.names(workload) if counts(name)]
    if last is not None:
        names = names[next((number for number, name in enumerate(names) if name.id == last), len(names)) :]
    for (_, step), group in groupby(names, key=lambda name: (name.epoch, name.step)):
        if len(chain) >= limit:
            break
        if chain and step >= chain[-1].step:
            continue  # of an epoch that went on from an earlier step
        found = []
        for name in group:
            with contextlib.suppress(Damaged, NotFound):
                found.append(vault.snapshot(name.id))
        whole = [one for one in found if not (chain and one.incomplete)]
        if whole:
            chain.append(next((one for one in whole if one.id == last), max(whole, key=lambda one: one.created_s)))
    return chain[::-1]


def alarms_of(vault: Vault, workloads: Sequence[WorkloadId], *, read_data: bool, every: bool = False) -> Alarms:
    """Judge the newest snapshot of each workload, or every one. With ``read_data`` also what is in the tensors; raises Damaged then."""
    found: list[Alarm] = []
    judged = 0
    for workload in workloads:
        chain = chain_to(vault, workload)
        ends = range(1, len(chain) + 1) if every else range(len(chain), len(chain) + bool(chain))
        for end in ends:
            judged += 1
            found += alarms(chain[:end])
            if read_data:
                from bridgehead.vault.tensor_health import read_alarms  # brings numpy

                found += read_alarms(chain[:end], lambda *where: _pieces(vault, *where))
    return Alarms(judged, tuple(found))


def alarms_after_save(vault: Vault, snapshot: Snapshot) -> tuple[Alarm, ...]:
    """What the tensor ledger says of a snapshot that was just saved, besides what a save says itself. Nothing is read but records."""
    chain = chain_to(vault, snapshot.workload, last=snapshot.id, limit=AFTER_SAVE)
    found = alarms(chain if chain and chain[-1].id == snapshot.id else [snapshot])
    if len(chain) == AFTER_SAVE and any(one.since_step == chain[0].step for one in found):
        found = alarms(chain_to(vault, snapshot.workload, last=snapshot.id))  # it began earlier
    return tuple(one for one in found if one.code is not AlarmCode.FILE_CUT_OFF)


def _pieces(vault: Vault, snapshot: Snapshot, file: FileEntry, offset_bytes: int, size_bytes: int) -> Iterator[memoryview]:
    return vault.read(snapshot, file, offset_bytes=offset_bytes, size_bytes=size_bytes)
