"""Gate: one process alone with a vault. Writers end first, or are set aside; new ones wait (V17, V18)."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from bridgehead.kernel.errors import Conflict, NotFound, PortError
from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.snapshot import BlockRef
from bridgehead.vault.layout import (
    CLOSING_PREFIX,
    COLLECTION_PREFIX,
    EVICTED_PREFIX,
    RESERVE_BYTES,
    RESERVE_KEY,
    SESSIONS_PREFIX,
    SNAPSHOTS_PREFIX,
    snapshot_name_of_key,
)
from bridgehead.vault.objects import Objects
from bridgehead.vault.records import Damaged
from bridgehead.vault.sessions import DONE, GATE, GATE_POLL_S, SessionRecord, gate_holder, removals_in, session_record, who
from bridgehead.vault.snapshots import blocks_of, decode_snapshot

WAIT_S: Final = 10.0


@contextmanager
def alone(objects: Objects, what: str, *, evict: bool = False, wait_s: float = WAIT_S) -> Iterator[tuple[str, ...]]:
    """Nobody else writes inside. Gives the writers that were set aside, in words.

    Args:
        what: what is going to be done, in words.
        evict: set writers aside that do not end within ``wait_s``: they are refused at their commit, and have to save again.

    Raises:
        Conflict: somebody is writing and does not end, or is alone already; he is named.
    """
    objects.blobs.delete(RESERVE_KEY)  # on a full disk, this is what makes the first write possible
    with session_record(what) as mine:
        gate = f"{GATE}{mine.id}"
        try:
            _close_gate(objects, gate, mine)
            set_aside = _wait_for_writers(objects, what, evict=evict, wait_s=wait_s)
            objects.seen_collections(None)  # what is known from before is not good enough to remove anything by
            yield set_aside
        except Exception:
            with suppress(PortError):  # the first error is the one to be told
                objects.blobs.delete(gate)
                objects.blobs.put_new(RESERVE_KEY, bytes(RESERVE_BYTES))
            raise
        objects.blobs.delete(gate)
    objects.blobs.put_new(RESERVE_KEY, bytes(RESERVE_BYTES))


def note_removal(objects: Objects) -> None:
    """Something is going to be removed: what others know of the vault is worth nothing from now on."""
    older = removals_in(objects.blobs.list(COLLECTION_PREFIX))
    objects.blobs.put_new(f"{DONE}{secrets.token_hex(16)}", b"done")
    for key in older:
        objects.blobs.delete(key)


def _close_gate(objects: Objects, gate: str, mine: SessionRecord) -> None:
    """One's own first, then a look for others: of two that come at once, at least one sees the other and withdraws."""
    objects.add(gate, mine)
    others = [found for key in objects.blobs.list(COLLECTION_PREFIX) if key != gate and (found := gate_holder(objects, key)) is not None]
    if others:
        raise Conflict(
            f"somebody is alone with the vault: {'; '.join(others)}",
            tried=mine.what,
            subject=COLLECTION_PREFIX,
            remedy=f"Wait for it. When that process is surely dead, delete its {GATE}... from the vault and try again.",
        )


def _wait_for_writers(objects: Objects, what: str, *, evict: bool, wait_s: float) -> tuple[str, ...]:
    deadline_s = time.monotonic() + wait_s
    while True:
        writing = _writers(objects)
        if not writing or time.monotonic() >= deadline_s:
            break
        time.sleep(GATE_POLL_S)
    if writing and not evict:
        raise Conflict(
            f"still writing: {'; '.join(writing.values())}",
            tried=what,
            subject=SESSIONS_PREFIX,
            remedy="Wait until they have ended. --evict sets those aside that will never end: they are refused at their commit.",
        )
    for session in writing:
        # Noted first: one that looks later is refused, and what one commits that has looked before stands in its closing mark.
        objects.blobs.put_new(f"{EVICTED_PREFIX}{session}", b"evicted")
        objects.blobs.delete(f"{SESSIONS_PREFIX}{session}")
    return tuple(writing.values())


def _writers(objects: Objects) -> dict[str, str]:
    """Sessions that are open, and whose. Those of processes that are surely dead are removed."""
    found: dict[str, str] = {}
    for key in objects.blobs.list(SESSIONS_PREFIX):
        session = key.removeprefix(SESSIONS_PREFIX)
        try:
            record = objects.record(key, SessionRecord)
        except NotFound:
            continue
        except Damaged:
            found[session] = f"somebody whose record {key} cannot be read"
            continue
        if not record.is_over:
            found[session] = who(record)
        else:
            for prefix in (CLOSING_PREFIX, EVICTED_PREFIX, SESSIONS_PREFIX):
                objects.blobs.delete(f"{prefix}{session}")
    return found


def about_to_be_committed(objects: Objects) -> Iterator[BlockRef]:
    """What writers need that were set aside at the very moment of their commit: it may still happen, and must find all of it.

    Raises Conflict for a mark that says nothing of the kind.
    """
    for mark in objects.blobs.list(CLOSING_PREFIX):
        try:
            key, _, record = objects.blobs.get(mark).partition(b"\n")
        except NotFound:
            continue
        text = key.decode("utf-8", "replace")
        name = snapshot_name_of_key(WorkloadId(text.split("/")[1]), text) if text.startswith(SNAPSHOTS_PREFIX) else None
        if name is None:
            raise Conflict(
                "somebody is committing something else than a snapshot",
                tried="collect what no snapshot needs",
                subject=mark,
                remedy=f"Wait for it. When that process is surely dead, delete {mark} from the vault and try again.",
            )
        yield from blocks_of(decode_snapshot(record, name))
