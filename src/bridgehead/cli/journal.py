"""``bridgehead journal``: copies of the journal, so that it survives the loss of its site."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from cyclopts import App

from bridgehead.cli.options import HomeOption, JsonOption
from bridgehead.kernel.errors import ExitCode

if TYPE_CHECKING:
    from bridgehead.app.journal_copies import Copied

app = App(name="journal", help="Copy the journal of all runs elsewhere, and take it back from there.")


@app.command
def export(file: Path, /, *, home: HomeOption = None, json: JsonOption = False) -> int:
    """Write every entry of every run into FILE, as it was sealed. It may be read by its owner alone: it holds environments of jobs."""
    from bridgehead.app import journal_copies
    from bridgehead.app.home import Home

    return _said(journal_copies.export(Home(home), file), "wrote", json=json)


@app.command(name="import")
def import_(file: Path, /, *, keys: Path | None = None, home: HomeOption = None, json: JsonOption = False) -> int:
    """Take from FILE what this journal lacks. Entries that are here are never changed; what does not verify is not taken.

    Args:
        keys: folder with public keys (*.pub) of the homes that wrote it; default this home's own.
    """
    from bridgehead.app import journal_copies
    from bridgehead.app.home import Home

    return _said(journal_copies.take(Home(home), file, keys=keys), "took", json=json)


@app.command
def copy(vault: str, /, *, home: HomeOption = None, json: JsonOption = False) -> int:
    """Bring what the copy in VAULT lacks there; best often, and to the witness. Only what is new travels."""
    from bridgehead.app import journal_copies
    from bridgehead.app.home import Home

    return _said(journal_copies.copy(Home(home), vault), "copied", json=json)


@app.command
def restore(vault: str, /, *, keys: Path | None = None, home: HomeOption = None, json: JsonOption = False) -> int:
    """Take from the copy in VAULT what this journal lacks. A run that went on since the copy waits for a person before it does anything.

    Args:
        keys: folder with public keys (*.pub) of the homes that wrote it; default this home's own.
    """
    from bridgehead.app import journal_copies
    from bridgehead.app.home import Home

    return _said(journal_copies.restore(Home(home), vault, keys=keys), "took", json=json)


def _said(copied: Copied, verb: str, *, json: bool) -> int:
    if json:
        print(msgspec.json.encode(copied).decode())
    else:
        entries = sum(copied.entries.values())
        print(f"{verb} {entries} entries of {len(copied.entries)} runs")
        for run, why in copied.refused.items():
            print(f"refused {run}: {why}")
    return ExitCode.NEGATIVE if copied.refused else ExitCode.DONE
