"""Connections that hold a database, and PostgreSQL's errors as those of ports."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from bridgehead.kernel.errors import BridgeheadError, ErrorCode, NotFound, Permanent, Transient
from bridgehead.model.recovery import Database

if TYPE_CHECKING:
    import psycopg

_CONNECTION: Final[dict[str, Any]] = {
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 3,
    "keepalives_interval": 1,
    "keepalives_count": 3,
    "tcp_user_timeout": 6_000,
    "target_session_attrs": "read-write",  # a standby server cannot make writers wait
    "application_name": "bridgehead point",
}
_SETTINGS: Final = {"tcp_keepalives_idle": "3", "tcp_keepalives_interval": "1", "tcp_keepalives_count": "3", "client_encoding": "UTF8"}
_NO_DATABASE: Final = "3D000"
_REFUSED: Final = ("authentication failed", "no password supplied", "no pg_hba.conf entry")
_NO_RIGHT: Final = "42501"


def connect(database: Database, *, password: str) -> psycopg.Connection[Any]:
    """A connection, each statement of which is for itself. Raises as ``errors``."""
    import psycopg

    options = " ".join(f"-c {name}={value}" for name, value in _SETTINGS.items())
    more: dict[str, Any] = {"password": password} if password else {}
    db: psycopg.Connection[Any] = psycopg.connect(database.location, autocommit=True, options=options, **_CONNECTION, **more)
    db.prepare_threshold = None
    return db


def limit_idle(db: psycopg.Connection[Any], idle_s: float) -> None:
    """The server ends its transactions, and with them its locks, after so long without a word from here."""
    db.execute(f"SET idle_in_transaction_session_timeout = {max(1, round(idle_s * 1000))}")


@contextmanager
def errors(tried: str, database: Database) -> Iterator[None]:
    """Map what PostgreSQL says to NotFound, Permanent or Transient; nothing of these calls changes data, so nothing is Unknown."""
    try:
        import psycopg
    except ImportError as error:
        raise BridgeheadError(
            ErrorCode.SERVER_MISSING,
            tried=tried,
            subject=database.id,
            happened="the package psycopg is not installed",
            remedy="pip install 'bridgehead[postgres]'",
        ) from error
    try:
        yield
    except psycopg.ProgrammingError as error:
        text, code = line(error), error.sqlstate or ""
        if code == _NO_RIGHT:
            remedy = "Grant UPDATE on its tables (PostgreSQL 17: MAINTAIN) to this user, or let the owner of the tables do it."
            raise Permanent(text, tried=tried, subject=database.id, remedy=remedy) from error
        if code == "42P01":  # a table was dropped between two statements
            raise Transient(text, tried=tried, subject=database.id) from error
        raise Permanent(text, tried=tried, subject=database.id, remedy="Check the 'location' of the database.") from error
    except psycopg.Error as error:
        text, code = line(error), error.sqlstate or ""
        if code == _NO_DATABASE or ('database "' in text and "does not exist" in text):
            raise NotFound(text, tried=tried, subject=database.id, remedy="Check the 'location' of the database.") from error
        if code.startswith("28") or any(
            words in text for words in ("authentication failed", "no password supplied", "no pg_hba.conf entry")
        ):
            remedy = "Check the user; the password comes from PGPASSWORD, ~/.pgpass or 'password' in the recovery file."
            raise Permanent(text, tried=tried, subject=database.id, remedy=remedy) from error
        remedy = "Is the server up, and its primary? `SELECT * FROM pg_stat_activity` shows who writes for long."
        raise Transient(text, tried=tried, subject=database.id, remedy=remedy) from error


def line(error: Exception) -> str:
    """The first line of what was said; libpq never names the password."""
    lines = [part.strip() for part in str(error).splitlines() if part.strip()]
    return lines[0] if lines else type(error).__name__
