"""Outbox: notices that were decided on and are not told yet, in a file that survives kill -9 and power cuts.

A notice is in it before anybody is told, and a delivery is struck out after the receiver took it: what dies in between is told again,
with the same key. Several processes may use one outbox.
"""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.model.notice import Delivery, Notice, NoticeKind, NoticeState

KEEP_S: Final = 90 * 86_400.0
"""So long, a thread that is over is remembered."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS notices (
    number INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, thread TEXT NOT NULL, state TEXT NOT NULL, body BLOB NOT NULL,
    posted_s REAL NOT NULL
);
CREATE INDEX IF NOT EXISTS threads ON notices (thread, number);
CREATE TABLE IF NOT EXISTS deliveries (
    number INTEGER NOT NULL REFERENCES notices (number) ON DELETE CASCADE, channel TEXT NOT NULL, receiver TEXT NOT NULL,
    attempts INTEGER NOT NULL DEFAULT 0, next_s REAL NOT NULL DEFAULT 0, ended_s REAL, outcome TEXT NOT NULL DEFAULT '',
    trouble TEXT NOT NULL DEFAULT '', PRIMARY KEY (number, channel, receiver)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS pending ON deliveries (channel) WHERE ended_s IS NULL;
"""
_DELIVERIES: Final = """
            SELECT d.number, channel, receiver, key, thread, body, posted_s, attempts, next_s, ended_s, outcome, trouble
            FROM deliveries d JOIN notices n USING (number)"""
_FIRST_OF_THREAD: Final = """NOT EXISTS (
                SELECT 1 FROM deliveries e JOIN notices m USING (number) WHERE e.channel = d.channel AND e.receiver = d.receiver
                AND e.ended_s IS NULL AND m.thread = n.thread AND m.number < n.number)"""
LONGEST_REST_S: Final = 4000.0
"""Longer than any pause between two attempts."""
_TRIED: Final = "use the outbox of notices"


class Outbox:
    """A SQLite file, readable for its owner alone. Safe for threads. Raises Permanent (no space, damaged), Transient (locked)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        except OSError as error:
            raise Permanent(error.strerror or str(error), tried=_TRIED, subject=str(path), remedy="Check space and rights.") from error
        with self._errors():
            self._db = sqlite3.connect(path, isolation_level=None, timeout=10.0, check_same_thread=False)
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA foreign_keys=ON")
            self._db.executescript(_SCHEMA)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._db.close()

    def post(self, notice: Notice, ways: Iterable[tuple[str, str]], *, now_s: float) -> bool:
        """Keep a notice for these (channel, receiver). False, and no effect, when its key is there already."""
        with self._transaction() as db:
            values = (notice.key, notice.thread, notice.state.value, msgspec.json.encode(notice), now_s)
            done = db.execute(
                "INSERT INTO notices (key, thread, state, body, posted_s) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", values
            )
            if done.rowcount == 0:
                return False
            db.executemany(
                "INSERT INTO deliveries (number, channel, receiver) VALUES (?, ?, ?) ON CONFLICT DO NOTHING",
                [(done.lastrowid, channel, receiver) for channel, receiver in ways],
            )
            return True

    def open_threads(self, prefix: str) -> dict[str, Notice]:
        """The last notice of each thread that begins with ``prefix`` and is open, but for those that this version cannot read."""
        rows = self._rows(
            "SELECT key, thread, body FROM notices WHERE state = ?3 AND number IN"
            " (SELECT max(number) FROM notices WHERE substr(thread, 1, ?1) = ?2 GROUP BY thread)",
            (len(prefix), prefix, NoticeState.OPEN.value),
        )
        found = [_notice(key, thread, body) for key, thread, body in rows]
        return {notice.thread: notice for notice, unreadable in found if not unreadable}

    def ways(self, thread: str) -> list[tuple[str, str]]:
        """Every (channel, receiver) that was told of a thread, or will be."""
        query = "SELECT DISTINCT channel, receiver FROM deliveries JOIN notices USING (number) WHERE thread = ? ORDER BY channel, receiver"
        return [(channel, receiver) for channel, receiver in self._rows(query, (thread,))]

    def due(self, channel: str, *, now_s: float, most: int = 100) -> list[Delivery]:
        """What a channel is to deliver now, the oldest first. A thread is told in its order: nothing overtakes to the same receiver."""
        query = f"""
            {_DELIVERIES}
            WHERE channel = ? AND ended_s IS NULL AND (next_s <= ? OR next_s > ?) AND {_FIRST_OF_THREAD}
            ORDER BY d.number LIMIT ?
        """
        # A moment that is far ahead comes of a clock that was set back.
        return [_delivery(row) for row in self._rows(query, (channel, now_s, now_s + LONGEST_REST_S, most))]

    def standing(self, channel: str) -> list[Delivery]:
        """What a channel has told of threads that are still open: the last of each, for receivers that forget."""
        query = f"""
            {_DELIVERIES}
            WHERE channel = ? AND outcome = 'told' AND state = 'open'
            AND NOT EXISTS (SELECT 1 FROM notices m WHERE m.thread = n.thread AND m.number > n.number)
        """
        return [found for row in self._rows(query, (channel,)) if not (found := _delivery(row)).unreadable]

    def told(self, delivery: Delivery, *, now_s: float) -> None:
        """The receiver has it."""
        self._end(delivery, "told", now_s=now_s, trouble="")

    def give_up(self, delivery: Delivery, *, now_s: float, trouble: str) -> None:
        """It is not tried again."""
        self._end(delivery, "given-up", now_s=now_s, trouble=trouble)

    def postpone(self, delivery: Delivery, *, next_s: float, trouble: str) -> None:
        """It failed; it is tried again at ``next_s``."""
        with self._transaction() as db:
            db.execute(
                "UPDATE deliveries SET attempts = attempts + 1, next_s = ?, trouble = ? WHERE number = ? AND channel = ? AND receiver = ?",
                (next_s, trouble, delivery.number, delivery.channel, delivery.receiver),
            )

    def pending(self) -> int:
        """How many deliveries are on their way."""
        return int(self._rows("SELECT count(*) FROM deliveries WHERE ended_s IS NULL", ())[0][0])

    def untried(self) -> int:
        """How many deliveries nobody has tried yet, though nothing is in their way."""
        query = "SELECT count(*) FROM deliveries d JOIN notices n USING (number) WHERE ended_s IS NULL AND attempts = 0"
        return int(self._rows(f"{query} AND {_FIRST_OF_THREAD}", ())[0][0])

    def deliveries(self, *, most: int = 1000) -> list[Delivery]:
        """All deliveries, the newest first."""
        query = f"""
            {_DELIVERIES} ORDER BY d.number DESC, channel, receiver LIMIT ?
        """
        return [_delivery(row) for row in self._rows(query, (most,))]

    def prune(self, *, now_s: float) -> None:
        """Forget threads that are over for longer than ``KEEP_S`` and wholly told."""
        with self._transaction() as db:
            db.execute(
                "DELETE FROM notices WHERE thread IN (SELECT thread FROM notices GROUP BY thread HAVING max(posted_s) < ?)"
                " AND thread NOT IN (SELECT thread FROM deliveries JOIN notices USING (number) WHERE ended_s IS NULL)"
                " AND thread IN (SELECT thread FROM notices WHERE state = 'resolved')",
                (now_s - KEEP_S,),
            )

    def _end(self, delivery: Delivery, outcome: str, *, now_s: float, trouble: str) -> None:
        with self._transaction() as db:
            db.execute(
                "UPDATE deliveries SET attempts = attempts + 1, ended_s = ?, outcome = ?, trouble = ?"
                " WHERE number = ? AND channel = ? AND receiver = ?",
                (now_s, outcome, trouble, delivery.number, delivery.channel, delivery.receiver),
            )

    def _rows(self, query: str, values: tuple[Any, ...]) -> list[Any]:
        with self._lock, self._errors():
            return self._db.execute(query, values).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock, self._errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):
                    self._db.execute("ROLLBACK")
                raise

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            kind = Transient if "locked" in str(error) or "busy" in str(error) else Permanent
            raise kind(str(error), tried=_TRIED, subject=str(self._path), remedy="Check the disk and its space.") from error
        except sqlite3.Error as error:
            remedy = "Move it away: what people must know is told again from the journal and the watch."
            raise Permanent(str(error), tried=_TRIED, subject=str(self._path), remedy=remedy) from error


def _delivery(row: Any) -> Delivery:
    number, channel, receiver, key, thread, body, posted_s, attempts, next_s, ended_s, outcome, trouble = row
    notice, unreadable = _notice(key, thread, body)
    return Delivery(number, channel, receiver, notice, posted_s, attempts, next_s, ended_s, outcome, trouble, unreadable)


def _notice(key: str, thread: str, body: bytes) -> tuple[Notice, str]:
    """With "", or something in its place and why it cannot be read: a newer version may have written it."""
    try:
        return msgspec.json.decode(body, type=Notice), ""
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        title = "a notice that this version cannot read"
        return Notice(key, thread, NoticeKind.TROUBLE, title, "", 0.0, 0.0), str(error)
