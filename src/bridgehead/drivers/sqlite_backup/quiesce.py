"""SqliteQuiesce: the quiesce port on files of SQLite, each held by a child (see ``keeper``).

What it does not give: the file must be on a local file system of this machine, as SQLite itself wants it. A write that an application
splits into two transactions is its own matter (a hook). Without WAL, writers stand still for as long as the copy takes.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Final

from bridgehead.host.scratch import remove_scratch, scratch_folder
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.model.recovery import Database
from bridgehead.ports.quiesce import Copied, Held, HoldKey, Released

ANSWER_S: Final = 5.0
"""A child that does not answer for so long, beside what it was told to wait, is ended."""
_KEEPER: Final = str(Path(__file__).with_name("keeper.py"))


class _Child:
    """The child that holds one database."""

    def __init__(self, database: Database, folder: Path) -> None:
        self._database = database
        self.evidence: dict[str, str] = {}
        try:
            self.file = scratch_folder(folder) / f"{database.id}.sqlite"
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", _KEEPER, database.location, str(self.file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                bufsize=0,
                start_new_session=True,  # what stops the controller's terminal does not stop it
            )
        except OSError as error:
            raise Transient(f"a process cannot be started: {error}", tried="hold a database", subject=database.id) from error

    def ask(self, what: str, *, within_s: float = ANSWER_S, **more: float) -> dict[str, Any]:
        """Its answer. Raises Transient when it has gone or is silent."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": what, **more}).encode() + b"\n")
            ready, _, _ = select.select([self._process.stdout], [], [], within_s)
            answer = self._process.stdout.readline() if ready else b""
        except OSError:
            answer = b""
        if not answer:
            raise Transient("the process that holds it has gone or is silent", tried=f"{what} a database", subject=self._database.id)
        found: dict[str, Any] = json.loads(answer)
        return found

    def end(self) -> None:
        """End it, and remove what it wrote."""
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        remove_scratch(self.file.parent)


class SqliteQuiesce:
    """Implements :class:`bridgehead.ports.quiesce.Quiesce`. Evidence of a copy: ``check``, what ``PRAGMA quick_check`` said of it."""

    def __init__(self) -> None:
        self._holds: dict[tuple[str, HoldKey], _Child] = {}
        self._lock = threading.Lock()

    def check(self, database: Database) -> dict[str, str]:
        """See the port."""
        import sqlite3
        from urllib.parse import quote

        path, tried = database.location, "see whether a database can be held"
        if not os.path.isfile(path):
            raise NotFound("there is no such file", tried=tried, subject=f"{database.id} ({path})", remedy="Check its 'location'.")
        if not os.access(path, os.R_OK | os.W_OK):
            remedy = "To make writers wait, this user must be able to write it."
            raise Permanent("this user may not read and write it", tried=tried, subject=f"{database.id} ({path})", remedy=remedy)
        try:
            with contextlib.closing(sqlite3.connect(f"file:{quote(path)}?mode=ro", uri=True, timeout=ANSWER_S)) as db:
                mode = str(db.execute("PRAGMA journal_mode").fetchone()[0])
                tables = db.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'table'").fetchone()[0]
        except sqlite3.Error as error:
            raise _error(str(error), getattr(error, "sqlite_errorname", ""), tried, database) from error
        size_bytes = os.path.getsize(path)
        return {"engine": f"SQLite {sqlite3.sqlite_version}", "journal": mode, "tables": str(tables), "size_bytes": str(size_bytes)}

    def hold(self, database: Database, *, key: HoldKey, folder: str, wait_s: float, lasts_s: float) -> Held:
        """See the port."""
        with self._lock:
            child = self._holds.get((database.id, key))
        if child is not None:
            try:
                now = child.ask("state")
                if now["held"]:
                    return Held(now["pinned"], child.evidence)
            except Transient:
                pass
            self.drop(database, key=key)
        if not os.path.isfile(database.location):
            raise NotFound("there is no such file", tried="hold a database", subject=f"{database.id} ({database.location})")
        child = _Child(database, Path(folder))
        try:
            said = child.ask("hold", within_s=wait_s + ANSWER_S, wait_s=wait_s, lasts_s=lasts_s)
            if "error" in said:
                raise _error(said["error"], said["name"], "hold a database", database)
        except BaseException:
            child.end()
            raise
        with self._lock:
            self._holds[database.id, key] = child
        child.evidence = said["evidence"]
        return Held(said["pinned"], child.evidence)

    def release(self, database: Database, *, key: HoldKey) -> Released:
        """See the port."""
        with self._lock:
            child = self._holds.get((database.id, key))
        if child is None:
            return Released(intact=False, held_s=0.0)
        try:
            said = child.ask("release")
        except Transient:
            self.drop(database, key=key)  # a child that is silent may hold it still: with its end, the lock goes
            return Released(intact=False, held_s=0.0)
        return Released(said["intact"], said["held_s"] if said["intact"] else 0.0)

    def copy(self, database: Database, *, key: HoldKey) -> Copied:
        """See the port."""
        with self._lock:
            child = self._holds.get((database.id, key))
        if child is None:
            remedy = "Hold it again."
            raise NotFound("its state is not pinned in this process", tried="copy a database", subject=database.id, remedy=remedy)
        said = child.ask("copy")
        if said["failed"]:
            raise Permanent(said["failed"], tried="copy a database", subject=database.id, remedy="Take the point again.")
        partial = Path(f"{child.file}.part")
        file = child.file if said["copied"] else partial
        size_bytes = file.stat().st_size if file.exists() else 0
        return Copied(said["copied"], str(child.file), size_bytes, {"check": "ok"} if said["copied"] else {})

    def drop(self, database: Database, *, key: HoldKey) -> None:
        """See the port."""
        with self._lock:
            child = self._holds.pop((database.id, key), None)
        if child is not None:
            child.end()


def _error(text: str, name: str, tried: str, database: Database) -> Transient | Permanent:
    if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED", "SQLITE_IOERR")):
        return Transient(text, tried=tried, subject=database.id, remedy="Somebody writes for long; see who has the file open.")
    return Permanent(text, tried=tried, subject=f"{database.id} ({database.location})", remedy="Is it a database of SQLite?")
