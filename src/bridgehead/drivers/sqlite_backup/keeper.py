"""Keeper: the child that holds one SQLite database. It lets go by itself when its time is over, or nobody is there to ask it any more.

A process of its own, because a lock of SQLite belongs to a process: if the controller itself held it and were frozen, the database would
be frozen with it. It is started with only the standard library, and answers each line of JSON with one.

In WAL mode the state is pinned by a read transaction, so that writers go on while it is copied. In other modes a reader keeps writers
from committing: the copy is made while they wait, and the hold is not *pinned* before it is done.
"""

from __future__ import annotations

import json
import os
import select
import sqlite3
import sys
import time
from typing import Any, Final

PAGES: Final = 256
"""Pages copied between two looks at the clock and the parent."""


class Gone(Exception):
    """Nobody is there any more, or the time is over."""


class Keeper:
    """One database, from ``hold`` to the end of the process."""

    def __init__(self, path: str, copy_to: str) -> None:
        self._path, self._copy_to = path, copy_to
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._ends_s = self._began_s = 0.0
        self._wal = self._copied = False
        self._asked_to_copy = False
        self._failed = ""
        self._input = b""

    def run(self) -> None:
        """Answer until the parent has gone."""
        try:
            while True:
                self._listen(self._left_s())
                if self._reader is not None and not self._copied and not self._failed and (not self._wal or self._asked_to_copy):
                    self._copy()
        except Gone:
            return

    def _left_s(self) -> float | None:
        """Seconds until the hold ends; None when there is none."""
        return None if self._writer is None else max(0.0, self._ends_s - time.monotonic())

    def _listen(self, timeout_s: float | None) -> None:
        busy = self._reader is not None and not self._copied and not self._failed and (not self._wal or self._asked_to_copy)
        ready, _, _ = select.select([0], [], [], 0 if busy else timeout_s)
        if ready:
            data = os.read(0, 65536)
            if not data:
                raise Gone
            self._input += data
            *lines, self._input = self._input.split(b"\n")
            for text in lines:
                self._answer(json.loads(text))
        if self._writer is not None and time.monotonic() >= self._ends_s:
            self._let_go()

    def _answer(self, asked: dict[str, Any]) -> None:
        match asked["do"]:
            case "hold":
                answer = self._hold(asked["wait_s"], asked["lasts_s"])
            case "release":
                intact = self._writer is not None and (self._wal or self._copied)
                held_s = time.monotonic() - self._began_s
                self._let_go()
                answer = {"intact": intact, "held_s": held_s}
            case "copy":
                self._asked_to_copy = True
                answer = {"copied": self._copied, "failed": self._failed}
            case _:
                answer = {"held": self._writer is not None, "pinned": self._wal or self._copied, "failed": self._failed}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()

    def _hold(self, wait_s: float, lasts_s: float) -> dict[str, Any]:
        try:
            self._began_s = time.monotonic()
            self._writer = self._open("rw", wait_s)
            mode = str(self._writer.execute("PRAGMA journal_mode").fetchone()[0]).lower()
            self._began_s = time.monotonic()
            self._writer.execute("BEGIN IMMEDIATE")
            self._ends_s = time.monotonic() + lasts_s
            self._reader = self._open("ro", wait_s)
            self._wal = mode == "wal"
            if self._wal:
                self._reader.execute("BEGIN")
            version = self._reader.execute("PRAGMA schema_version").fetchone()[0]
            tables = self._reader.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").fetchone()[0]
            page_bytes = self._reader.execute("PRAGMA page_size").fetchone()[0]
            pages = self._reader.execute("PRAGMA page_count").fetchone()[0]
        except sqlite3.Error as error:
            self._let_go()
            return {"error": str(error), "name": error.sqlite_errorname if hasattr(error, "sqlite_errorname") else ""}
        evidence = {"engine": f"SQLite {sqlite3.sqlite_version}", "journal": mode, "schema": str(version), "tables": str(tables)}
        return {"pinned": self._wal, "evidence": {**evidence, "size_bytes": str(page_bytes * pages)}}

    def _open(self, mode: str, wait_s: float) -> sqlite3.Connection:
        from urllib.parse import quote

        return sqlite3.connect(f"file:{quote(self._path)}?mode={mode}", uri=True, timeout=wait_s, isolation_level=None)

    def _let_go(self) -> None:
        if self._writer is not None:
            self._writer.close()  # rolls back: nothing was written
            self._writer = None
        if not self._wal and not self._copied and self._reader is not None:
            self._failed = "the hold ended before the copy was made"
            self._reader.close()
            self._reader = None

    def _copy(self) -> None:
        def between(_status: int, _left: int, _total: int) -> None:
            self._listen(0)
            if self._failed:
                raise sqlite3.OperationalError(self._failed)

        assert self._reader is not None
        partial = self._copy_to + ".part"
        try:
            target = sqlite3.connect(partial, isolation_level=None)
            try:
                self._reader.backup(target, pages=PAGES, progress=between)
                # One file that is whole by itself, whatever the mode of the original.
                target.execute("PRAGMA journal_mode = DELETE")
                found = target.execute("PRAGMA quick_check(1)").fetchone()[0]
            finally:
                target.close()
            if found != "ok":
                raise sqlite3.DatabaseError(f"the copy is damaged: {found}")
            with open(partial, "rb") as file:
                os.fsync(file.fileno())
            os.rename(partial, self._copy_to)
            self._copied = True
        except (sqlite3.Error, OSError) as error:
            self._failed = self._failed or str(error)
        if self._reader is not None:
            self._reader.close()
            self._reader = None


def main() -> None:
    """Entry of the child: the database and the file of its copy."""
    Keeper(sys.argv[1], sys.argv[2]).run()


if __name__ == "__main__":
    main()
