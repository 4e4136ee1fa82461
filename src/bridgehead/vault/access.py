"""Access: when a snapshot was restored last, and how quickly this vault gives bytes back: what tiers and predictions rest on (R7).

    state/access/<snapshot id>/<milliseconds>   the last restore of that snapshot
    state/speed/<milliseconds>                  the last few readings: restores, drills, samples

Notes, not evidence: they may be lost, and a restore never fails because its note cannot be written.
"""

from __future__ import annotations

import contextlib
import time
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound, PortError
from bridgehead.kernel.ids import SnapshotId
from bridgehead.model.snapshot import Snapshot
from bridgehead.vault.layout import snapshot_name
from bridgehead.vault.objects import Objects
from bridgehead.vault.reader import Reader
from bridgehead.vault.records import Damaged

ACCESS_PREFIX: Final = "state/access/"
SPEED_PREFIX: Final = "state/speed/"
_KEPT: Final = 5
_TELLING_BYTES: Final = 1_000_000
SAMPLE_BYTES: Final = 64 << 20
SAMPLE_S: Final = 5.0


class Reading(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """So many plain bytes came out of the vault in so many seconds; ``at_s`` since 1970-01-01 UTC."""

    at_s: float
    read_bytes: int
    took_s: float


def note_restore(objects: Objects, snapshot: SnapshotId, reading: Reading) -> None:
    """Remember a restore. Never raises a port error: the restore itself went well."""
    prefix = f"{ACCESS_PREFIX}{snapshot_name(snapshot).id}/"
    with contextlib.suppress(PortError):
        key = f"{prefix}{_milliseconds(reading.at_s)}"
        objects.add(key, reading)
        for older in list(objects.blobs.list(prefix)):
            if older < key:
                objects.blobs.delete(older)
    note_reading(objects, reading)


def note_reading(objects: Objects, reading: Reading) -> None:
    """Remember how quick it was; the last few are kept. Never raises a port error."""
    with contextlib.suppress(PortError):
        objects.add(f"{SPEED_PREFIX}{_milliseconds(reading.at_s)}", reading)
        for older in list(objects.blobs.list(SPEED_PREFIX))[:-_KEPT]:
            objects.blobs.delete(older)


def last_access(objects: Objects) -> dict[SnapshotId, float]:
    """When each snapshot was restored last; those that never were are not in it. One listing."""
    found: dict[SnapshotId, float] = {}
    for key in objects.blobs.list(ACCESS_PREFIX):
        parts = key.removeprefix(ACCESS_PREFIX).split("/")
        if len(parts) == 2 and parts[1].isdecimal():
            snapshot = SnapshotId(parts[0])
            found[snapshot] = max(found.get(snapshot, 0.0), int(parts[1]) / 1000)
    return found


def readings(objects: Objects) -> tuple[Reading, ...]:
    """The last few, oldest first."""
    found = []
    for key in objects.blobs.list(SPEED_PREFIX):
        with contextlib.suppress(NotFound, Damaged):
            found.append(objects.record(key, Reading))
    return tuple(found)


def speed_bytes_per_s(objects: Objects) -> float | None:
    """Bytes over seconds of the last readings together, of the large ones when there are any: a small restore is all overhead.

    None when nothing was read yet."""
    found = readings(objects)
    telling = [reading for reading in found if reading.read_bytes >= _TELLING_BYTES] or found
    took_s = sum(reading.took_s for reading in telling)
    return sum(reading.read_bytes for reading in telling) / took_s if took_s > 0 else None


def sample(objects: Objects, snapshot: Snapshot, *, now_s: float) -> Reading:
    """Read and verify some of a snapshot (at most ``SAMPLE_BYTES`` or ``SAMPLE_S``, at least one block), and note the speed.

    One block after the other, so that a restore is rather quicker than what follows from it. Raises Damaged, port errors.
    """
    reader = Reader(objects, snapshot)
    began_s, read_bytes = time.monotonic(), 0
    for ref in (ref for file in snapshot.files for ref in file.blocks):
        read_bytes += len(reader.read(ref))
        if read_bytes >= SAMPLE_BYTES or time.monotonic() - began_s >= SAMPLE_S:
            break
    reading = Reading(now_s, read_bytes, time.monotonic() - began_s)
    if read_bytes:
        note_reading(objects, reading)
    return reading


def predicted_s(raw_bytes: int, bytes_per_s: float | None) -> float | None:
    """How long a restore will take: bytes over speed. None when the speed is not known."""
    return raw_bytes / bytes_per_s if bytes_per_s else None


def _milliseconds(at_s: float) -> str:
    return f"{round(at_s * 1000):015d}"
