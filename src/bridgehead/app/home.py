"""Home: where runs, keys and the journal of this machine live."""

from __future__ import annotations

import os
from pathlib import Path

from bridgehead.drivers.sqlite import SqliteJournal
from bridgehead.drivers.system import is_alive
from bridgehead.runbook.ledger import KeyFolder


class Home:
    """A folder: ``journal.db`` and ``keys/``.

    Args:
        folder: None takes BRIDGEHEAD_HOME, else ``$XDG_STATE_HOME/bridgehead``, else ``~/.local/state/bridgehead``.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = (folder or _default()).absolute()
        self.keys = KeyFolder(self.folder / "keys")

    def journal(self) -> SqliteJournal:
        """Open the journal; it is made when absent."""
        return SqliteJournal(self.folder / "journal.db", signer=self.keys, alive=is_alive)


def _default() -> Path:
    named = os.environ.get("BRIDGEHEAD_HOME")
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "bridgehead"
