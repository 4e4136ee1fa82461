"""``bridgehead ledger``: the evidence of a run."""

from __future__ import annotations

from pathlib import Path

import msgspec
from cyclopts import App

from bridgehead.cli.options import HomeOption, JsonOption
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.ids import RunId

app = App(name="ledger", help="Show and verify what happened in a run.")


@app.command
def show(run: str, /, *, home: HomeOption = None, json: JsonOption = False) -> int:
    """Every entry of RUN's ledger, oldest first."""
    from bridgehead.app import ledgers
    from bridgehead.cli import display

    entries = ledgers.entries(home, RunId(run))
    if json:
        print(msgspec.json.encode({"run": run, "entries": [ledgers.plain(entry) for entry in entries]}).decode())
    else:
        display.print_ledger([ledgers.plain(entry) for entry in entries])
    return ExitCode.DONE


@app.command
def verify(run: str, /, *, head: str | None = None, keys: Path | None = None, home: HomeOption = None, json: JsonOption = False) -> int:
    """Check every hash and signature of RUN's ledger.

    Args:
        head: the head hash that was noted when the run ended: shows whether newest entries were cut off.
        keys: folder with public keys (*.pub) to trust instead of the home's own.
    """
    from bridgehead.app import ledgers

    result = ledgers.verify(home, RunId(run), head=head, keys=keys)
    if json:
        print(msgspec.json.encode(result).decode())
    elif not result.faults:
        cut = "" if head else "; give --head to see that nothing was cut off"
        print(f"{run}: {result.entries} entries hold; head {result.head}{cut}")
    else:
        for fault in result.faults:
            print(f"{run}, entry {fault.seq}: {fault.problem}")
    return ExitCode.NEGATIVE if result.faults else ExitCode.DONE
