"""Home: where runs, keys and the journal of this machine live. The journal may be one that several machines share."""

from __future__ import annotations

import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.drivers.system import is_alive
from bridgehead.host.identity import is_surely_dead
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.runbook.ledger import KeyFolder

if TYPE_CHECKING:
    from bridgehead.drivers.postgres import PostgresJournal

JOURNAL_VARIABLE: Final = "BRIDGEHEAD_JOURNAL"
SETTINGS_FILE: Final = "home.yaml"


class HomeSettings(msgspec.Struct, frozen=True):
    """``home.yaml`` in the home folder.

    Attributes:
        journal: ``postgresql://user@host/database`` of a journal that several machines share; "" for the file ``journal.db``.
    """

    journal: str = ""


class Home:
    """A folder: ``journal.db``, ``keys/``, and ``home.yaml`` when something is not as by default.

    Args:
        folder: None takes BRIDGEHEAD_HOME, else ``$XDG_STATE_HOME/bridgehead``, else ``~/.local/state/bridgehead``.

    Attributes:
        option: what a command that is printed for people needs so that it finds this home: `` --home FOLDER``, "" for the default.
        database: address of the shared journal, from BRIDGEHEAD_JOURNAL or ``home.yaml``; "" when it is a file here. Raises BAD_INPUT,
            BAD_USAGE at construction when it is none.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or _default()).absolute()
        self.keys = KeyFolder(self.folder / "keys")
        self.option = "" if self.folder == _default().absolute() else f" --home {shlex.quote(str(self.folder))}"
        self.database = _database(self.folder)

    @property
    def is_new(self) -> bool:
        """Nothing was ever begun here: there is no journal, and who only looks makes none."""
        if self.database:
            return False
        return not self.folder.exists() or (self.folder.is_dir() and not (self.folder / "journal.db").exists())

    @property
    def place(self) -> str:
        """Where the journal is, for people; without user and password."""
        if not self.database:
            return str(self.folder / "journal.db")
        from bridgehead.drivers.postgres import shown

        return shown(self.database)

    def journal(self) -> SqliteJournal | PostgresJournal:
        """Open the journal, for one thread; a file is made when absent. Raises BAD_USAGE when the folder cannot be one."""
        if self.database:
            from bridgehead.drivers.postgres import PostgresJournal

            return PostgresJournal(self.database, signer=self.keys, surely_dead=is_surely_dead)
        try:
            if not self.folder.is_dir():
                self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                self.folder.chmod(0o700)  # whatever the umask: the journal holds environments of jobs
        except OSError as error:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="open the home",
                subject=str(self.folder),
                happened="it is not a folder" if isinstance(error, FileExistsError) else error.strerror or str(error),
                remedy="Name a folder that you may write to, by --home or BRIDGEHEAD_HOME.",
            ) from error
        return SqliteJournal(self.folder / "journal.db", signer=self.keys, alive=is_alive)


def _default() -> Path:
    named = os.environ.get("BRIDGEHEAD_HOME")
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "bridgehead"


def _database(folder: Path) -> str:
    """Raises BAD_USAGE for an address that is none, BAD_INPUT for settings that cannot be read."""
    named, source = os.environ.get(JOURNAL_VARIABLE, ""), JOURNAL_VARIABLE
    if not named and (folder / SETTINGS_FILE).is_file():
        from bridgehead.kernel.document import read_document

        source = str(folder / SETTINGS_FILE)
        try:
            text = (folder / SETTINGS_FILE).read_text(encoding="utf-8")
            named = read_document(text, HomeSettings, file=source, what="settings of the home")[0].journal
        except (OSError, UnicodeDecodeError) as error:
            raise BridgeheadError(
                ErrorCode.BAD_INPUT,
                tried="read the settings of the home",
                subject=source,
                happened=str(error),
                remedy="It has one line: `journal: postgresql://user@host/database`.",
            ) from error
    if named and named.partition("://")[0] not in ("postgresql", "postgres"):
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="find the journal",
            subject=source,
            happened="it does not name a PostgreSQL database",
            remedy="Write postgresql://user@host:port/database; without it, the journal is a file in the home folder.",
        )
    return named
