"""One connection to PostgreSQL that comes back by itself, and PostgreSQL's errors as those of ports.

A connection that is lost is opened anew at the next call. What was under way then was not done, except a commit whose answer was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from bridgehead.drivers.postgres.schema import make_tables
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Permanent, Transient, Unknown

if TYPE_CHECKING:
    import psycopg

CALL_LIMIT_S: Final = 15
"""No statement takes longer; then it is Transient."""
LOCK_LIMIT_S: Final = 5
"""How long a call waits for another one that writes to the same run."""
IDLE_LIMIT_S: Final = 3
"""The server ends a transaction whose process was stopped in the middle of it: nobody else could take its run over otherwise."""
_CONNECTION: Final = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 6_000,
    "target_session_attrs": "read-write",  # of several hosts, the one that is not a standby server
    "application_name": "bridgehead",
}
_SETTINGS: Final = {
    "synchronous_commit": "on",
    "statement_timeout": f"{CALL_LIMIT_S}s",
    "lock_timeout": f"{LOCK_LIMIT_S}s",
    "idle_in_transaction_session_timeout": f"{IDLE_LIMIT_S}s",
    "tcp_keepalives_idle": "3",
    "tcp_keepalives_interval": "1",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "6s",
    "client_encoding": "UTF8",
}
_NOT_NOW: Final = ("57P01", "57P02", "57P03", "57P05", "57014", "53300", "53200", "55P03", "40001", "40P01", "25006", "25P03")
"""Shutdowns, too many connections, no memory, limits of time, deadlocks, a server that became a standby."""


class Session:
    """The connection. Use it from one thread.

    Args:
        url: ``postgresql://user@host:port/database``; a password is better kept in ``~/.pgpass`` or PGPASSWORD, and appears in no message.
        opened: called with each new connection, before anything else uses it.
    """

    def __init__(self, url: str, *, opened: Callable[[psycopg.Connection[Any]], None] = lambda db: None) -> None:
        self._url = url
        self._opened = opened
        self._db: psycopg.Connection[Any] | None = None
        self.subject = shown(url)

    def close(self) -> None:
        """End the connection; with it, the locks that it holds."""
        if self._db is not None:
            self._db.close()
            self._db = None

    @contextmanager
    def reading(self, tried: str) -> Iterator[psycopg.Connection[Any]]:
        """The connection, each statement for itself."""
        with self._errors(tried):
            yield self._connection()

    @contextmanager
    def writing(self, tried: str) -> Iterator[psycopg.Connection[Any]]:
        """The connection inside a transaction, which is durable after the block. Raises Unknown when the commit's answer was lost."""
        with self._errors(tried):
            db = self._connection()
            db.execute("BEGIN")
            try:
                yield db
            except BaseException:
                with suppress(Exception):
                    db.execute("ROLLBACK")
                raise
            try:
                db.execute("COMMIT")
            except Exception as error:
                if not self._is_broken(error):
                    raise
                self.close()
                raise Unknown(
                    f"the connection was lost while it was written: {_line(error)}",
                    tried=tried,
                    subject=self.subject,
                    remedy="Look whether it was written, then go on; the same call again writes nothing twice.",
                ) from error

    def _connection(self) -> psycopg.Connection[Any]:
        if self._db is not None and not self._db.closed:
            return self._db
        library = _psycopg()
        options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
        db: psycopg.Connection[Any] = library.connect(self._url, autocommit=True, options=options, **_CONNECTION)
        try:
            db.prepare_threshold = None
            make_tables(db, subject=self.subject)
            self._opened(db)
        except BaseException:
            db.close()
            raise
        self._db = db
        return db

    def _is_broken(self, error: Exception) -> bool:
        return isinstance(error, _psycopg().Error) and (self._db is None or self._db.closed or self._db.broken)

    @contextmanager
    def _errors(self, tried: str) -> Iterator[None]:
        """Map PostgreSQL's errors to the port's."""
        library = _psycopg()
        try:
            yield
        except library.Error as error:
            broken, code = self._is_broken(error), error.sqlstate or ""
            if self._db is not None and self._db.closed:
                self._db = None
            text = _line(error)
            if code in ("53100", "53400"):
                raise Permanent(
                    f"no space: {text}",
                    tried=tried,
                    subject=self.subject,
                    remedy="Free disk space at the server, then give the command again; nothing that was written is lost.",
                ) from error
            if (
                code in _NOT_NOW
                or code.startswith("08")
                or (not code and isinstance(error, library.OperationalError) and not _refused(text))
            ):
                raise Transient(text, tried=tried, subject=self.subject, remedy="Is the server up, and can it be reached?") from error
            if code.startswith(("28", "3D", "42501")) or _refused(text):
                raise Permanent(
                    text,
                    tried=tried,
                    subject=self.subject,
                    remedy="Check user, password and database; the user needs CREATE on the database once, or the tables made by another.",
                ) from error
            if broken:
                raise Transient(text, tried=tried, subject=self.subject) from error
            raise BridgeheadError(
                ErrorCode.JOURNAL_DAMAGED,
                tried=tried,
                subject=self.subject,
                happened=f"{code or type(error).__name__}: {text}",
                remedy="Check the server's log; restore the database from a copy if it is damaged.",
            ) from error


def _refused(text: str) -> bool:
    """What libpq says without a code when the server refused a connection for good."""
    return any(words in text for words in ("authentication failed", "no password supplied", "does not exist", "no pg_hba.conf entry"))


def _line(error: Exception) -> str:
    """The last line of what was said: libpq repeats itself for every address; it never names the password."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def shown(url: str) -> str:
    """The address without user, password and options."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _psycopg() -> Any:
    try:
        import psycopg
    except ImportError as error:
        raise BridgeheadError(
            ErrorCode.SERVER_MISSING,
            tried="reach the journal",
            subject="PostgreSQL",
            happened="the package psycopg is not installed",
            remedy="pip install 'bridgehead[postgres]'",
        ) from error
    return psycopg
