"""Home: where runs, keys and the journal of this machine live."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.drivers.system import is_alive
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.runbook.ledger import KeyFolder


class Home:
    """A folder: ``journal.db`` and ``keys/``.

    Args:
        folder: None takes BRIDGEHEAD_HOME, else ``$XDG_STATE_HOME/bridgehead``, else ``~/.local/state/bridgehead``.

    Attributes:
        option: what a command that is printed for people needs so that it finds this home: `` --home FOLDER``, "" for the default.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or _default()).absolute()
        self.keys = KeyFolder(self.folder / "keys")
        self.option = "" if self.folder == _default().absolute() else f" --home {shlex.quote(str(self.folder))}"

    @property
    def is_new(self) -> bool:
        """Nothing was ever begun here: there is no journal, and who only looks makes none."""
        return not self.folder.exists() or (self.folder.is_dir() and not (self.folder / "journal.db").exists())

    def journal(self) -> SqliteJournal:
        """Open the journal; it is made when absent. Raises BAD_USAGE when the folder cannot be one."""
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
