"""Holds: a snapshot that must not go, whoever asks (legal hold; R6, R12).

    holds/<snapshot id>/<hold>.json         the hold: who, why, until when
    holds/<snapshot id>/<hold>.released     who released it, and why; written before the hold is deleted
    state/forgetting/<snapshot id>/<any>    somebody is about to forget it: he looks for holds then, and who holds looks for this

A hold whose record cannot be read holds for ever: damage must not free what somebody wanted kept.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from bridgehead.host.identity import is_alive, this_driver
from bridgehead.kernel.errors import Conflict, NotFound
from bridgehead.kernel.ids import Person, SnapshotId
from bridgehead.ports.journal import DriverIdentity
from bridgehead.vault.layout import snapshot_name
from bridgehead.vault.objects import Objects, refuse
from bridgehead.vault.records import Damaged, damaged

HOLDS_PREFIX: Final = "holds/"
FORGETTING_PREFIX: Final = "state/forgetting/"
_PATIENCE_S: Final = 10.0
_POLL_S: Final = 0.1
_HOLD: Final = ".json"
_RELEASE: Final = ".released"


class Hold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Times in seconds since 1970-01-01 UTC; ``until_s`` None: until it is released."""

    snapshot: SnapshotId
    by: Person
    reason: str
    since_s: float
    until_s: float | None = None


class Release(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Ends a hold, and says what it was."""

    hold: Hold
    by: Person
    reason: str
    at_s: float


class Held(msgspec.Struct, frozen=True):
    """A hold that is there. ``hold`` None: its record cannot be read."""

    key: str
    snapshot: SnapshotId
    hold: Hold | None

    def in_force(self, now_s: float) -> bool:
        """Whether it holds now."""
        return self.hold is None or self.hold.until_s is None or now_s < self.hold.until_s


def place_hold(objects: Objects, hold: Hold) -> str:
    """Record a hold; one snapshot may have several. Returns its key.

    Raises Permanent for an end that is past, NotFound when the snapshot is not there, Conflict when somebody forgets it just now.
    """
    if hold.until_s is not None and hold.until_s <= hold.since_s:
        raise refuse("its end is past", tried="hold a snapshot", subject=hold.snapshot, remedy="Give a date that is to come, or none.")
    key = f"{_prefix(hold.snapshot)}{secrets.token_hex(8)}{_HOLD}"
    objects.add(key, hold)
    _wait_for_forgetting(objects, hold.snapshot, key)
    if objects.blobs.size(snapshot_name(hold.snapshot).key) is None:
        objects.blobs.delete(key)
        raise NotFound("there is no such snapshot", tried="hold a snapshot", subject=hold.snapshot)
    return key


def forget_unless_held(objects: Objects, snapshot: SnapshotId, *, now_s: float, before: Callable[[], None]) -> None:
    """Delete a snapshot's record, after ``before``. Raises Conflict when a hold is in force, NotFound when there is no such snapshot."""
    name = snapshot_name(snapshot)
    mark = f"{FORGETTING_PREFIX}{name.id}/{secrets.token_hex(8)}"
    if objects.blobs.size(name.key) is None:
        raise NotFound("there is no such snapshot", tried="forget a snapshot", subject=snapshot)
    objects.add(mark, this_driver())
    try:
        if is_held(objects, snapshot, now_s=now_s):
            raise Conflict(
                "a hold is on it",
                tried="forget a snapshot",
                subject=snapshot,
                remedy="`bridgehead vault hold VAULT` lists holds with their reasons; whoever placed it may release it.",
            )
        before()
        objects.blobs.delete(name.key)
    finally:
        objects.blobs.delete(mark)


def release_holds(objects: Objects, snapshot: SnapshotId, *, by: Person, reason: str, now_s: float) -> tuple[Release, ...]:
    """End all holds of a snapshot. Raises NotFound when there is none, Damaged when one cannot be read (it then stays)."""
    found = list(_held_under(objects, _prefix(snapshot)))
    if not found:
        raise NotFound("no hold is on it", tried="release a hold", subject=snapshot, remedy="`bridgehead vault hold VAULT` lists all.")
    releases = []
    for held in found:
        hold = held.hold or objects.record(held.key, Hold)  # raises, and says what is wrong with it
        release = Release(hold, by, reason, now_s)
        objects.add(held.key.removesuffix(_HOLD) + _RELEASE, release)  # there already: an earlier release was killed before the delete
        objects.blobs.delete(held.key)
        releases.append(release)
    return tuple(releases)


def list_holds(objects: Objects) -> tuple[Held, ...]:
    """All holds that were not released, in force or expired."""
    return tuple(_held_under(objects, HOLDS_PREFIX))


def list_releases(objects: Objects) -> tuple[Release, ...]:
    """What was released, oldest first. Raises Damaged."""
    keys = [key for key in objects.blobs.list(HOLDS_PREFIX) if key.endswith(_RELEASE)]
    return tuple(sorted((objects.record(key, Release) for key in keys), key=lambda release: release.at_s))


def held_snapshots(objects: Objects, *, now_s: float) -> frozenset[SnapshotId]:
    """Every snapshot on which a hold is in force. One listing, and one read a hold."""
    return frozenset(held.snapshot for held in list_holds(objects) if held.in_force(now_s))


def is_held(objects: Objects, snapshot: SnapshotId, *, now_s: float) -> bool:
    """Whether a hold is in force on this one."""
    return any(held.in_force(now_s) for held in _held_under(objects, _prefix(snapshot)))


def read_hold(objects: Objects, key: str) -> Hold | Release:
    """The hold or release at a listed key. Raises NotFound, Damaged."""
    found = objects.record(key, Release) if key.endswith(_RELEASE) else objects.record(key, Hold)
    snapshot = found.hold.snapshot if isinstance(found, Release) else found.snapshot
    if not key.startswith(_prefix(snapshot)) or not key.endswith((_HOLD, _RELEASE)):
        raise damaged(key, f"the record is about {snapshot}")
    return found


def _held_under(objects: Objects, prefix: str) -> Iterator[Held]:
    for key in objects.blobs.list(prefix):
        parts = key.split("/")
        if len(parts) != 3 or not key.endswith(_HOLD):
            continue
        snapshot = SnapshotId(parts[1])
        try:
            hold = objects.record(key, Hold)
        except NotFound:  # released meanwhile
            continue
        except Damaged:
            yield Held(key, snapshot, None)
            continue
        yield Held(key, snapshot, hold if hold.snapshot == snapshot else None)


def _wait_for_forgetting(objects: Objects, snapshot: SnapshotId, hold: str) -> None:
    deadline_s = time.monotonic() + _PATIENCE_S
    while marks := list(objects.blobs.list(f"{FORGETTING_PREFIX}{snapshot_name(snapshot).id}/")):
        for mark in marks:
            with contextlib.suppress(NotFound, Damaged):
                if not is_alive(objects.record(mark, DriverIdentity)):
                    objects.blobs.delete(mark)
        if time.monotonic() >= deadline_s:
            objects.blobs.delete(hold)
            raise Conflict(
                "somebody is about to forget it; no hold was placed",
                tried="hold a snapshot",
                subject=snapshot,
                remedy="Hold it again in a moment, if it is still there.",
            )
        time.sleep(_POLL_S)


def _prefix(snapshot: SnapshotId) -> str:
    return f"{HOLDS_PREFIX}{snapshot_name(snapshot).id}/"
