"""Gate: one process alone with a vault. Writers end first, or are set aside; new ones wait (V17, V18)."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from bridgehead.kernel.errors import Conflict, NotFound, PortError
from bridgehead.vault.layout import CLOSING_PREFIX, COLLECTION_PREFIX, EVICTED_PREFIX, RESERVE_BYTES, RESERVE_KEY, SESSIONS_PREFIX
from bridgehead.vault.objects import Objects
from bridgehead.vault.records import Damaged
from bridgehead.vault.sessions import DONE, GATE_KEY, GATE_POLL_S, SessionRecord, collections_in, open_gate, session_record

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
        _close_gate(objects, mine)
        try:
            set_aside = _wait_for_writers(objects, what, evict=evict, wait_s=wait_s)
            objects.seen_collections(-1)  # what is known from before is not good enough to remove anything by
            yield set_aside
        except Exception:
            with suppress(PortError):  # the first error is the one to be told
                open_gate(objects)
            raise
        open_gate(objects)
    objects.blobs.put_new(RESERVE_KEY, bytes(RESERVE_BYTES))


def note_removal(objects: Objects) -> None:
    """Something is going to be removed: what others know of the vault is worth nothing from now on."""
    marks = [key for key in objects.blobs.list(COLLECTION_PREFIX) if key.startswith(DONE)]
    objects.blobs.put_new(f"{DONE}{collections_in(set(marks)) + 1:08d}", b"done")
    for key in marks:
        objects.blobs.delete(key)


def _close_gate(objects: Objects, mine: SessionRecord) -> None:
    for _ in range(2):
        if objects.add(GATE_KEY, mine):
            return
        try:
            other = objects.record(GATE_KEY, SessionRecord)
        except NotFound:
            continue
        if not other.is_over:
            raise Conflict(
                f"somebody is alone with the vault: {_who(other)}",
                tried=mine.what,
                subject=GATE_KEY,
                remedy=f"Wait for it. When that process is surely dead, delete {GATE_KEY} from the vault and try again.",
            )
        open_gate(objects)
    raise Conflict("somebody else came first", tried=mine.what, subject=GATE_KEY, remedy="Wait for it.")


def _wait_for_writers(objects: Objects, what: str, *, evict: bool, wait_s: float) -> tuple[str, ...]:
    deadline_s = time.monotonic() + wait_s
    while True:
        writing = _writers(objects)
        if not writing or time.monotonic() >= deadline_s:
            break
        time.sleep(GATE_POLL_S)
    left = {session: who for session, who in writing.items() if not (evict and _evicted(objects, session))}
    if left:
        raise Conflict(
            f"still writing: {'; '.join(left.values())}",
            tried=what,
            subject=SESSIONS_PREFIX,
            remedy="Wait until they have ended. --evict sets those aside that will never end: they are refused at their commit.",
        )
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
            found[session] = _who(record)
        else:
            for prefix in (CLOSING_PREFIX, EVICTED_PREFIX, SESSIONS_PREFIX):
                objects.blobs.delete(f"{prefix}{session}")
    return found


def _evicted(objects: Objects, session: str) -> bool:
    """False when it is just about to commit: then it has to be waited for."""
    objects.blobs.put_new(f"{EVICTED_PREFIX}{session}", b"evicted")
    if objects.blobs.size(f"{CLOSING_PREFIX}{session}") is not None:
        return False
    objects.blobs.delete(f"{SESSIONS_PREFIX}{session}")
    return True


def _who(record: SessionRecord) -> str:
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(record.since_s))
    return f"process {record.writer.pid} on {record.writer.host}, since {since} ({record.what})"
