"""``bridgehead ledger``: the evidence of a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from cyclopts import App

from bridgehead.cli.failures import page_of
from bridgehead.cli.options import HomeOption, JsonOption
from bridgehead.kernel.errors import ExitCode
from bridgehead.kernel.ids import RunId

if TYPE_CHECKING:
    from bridgehead.app.ledgers import Verification

SHOWN = 20
"""Faults that are printed; a ledger that is verified with the wrong keys has one for each entry."""
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
        head: the head that was noted when the run ended or stopped: shows whether newer entries were cut off.
        keys: folder with public keys (*.pub) to trust instead of the home's own.
    """
    from bridgehead.app import ledgers

    result = ledgers.verify(home, RunId(run), head=head, keys=keys)
    if json:
        print(msgspec.json.encode(result).decode())
    else:
        _print_verification(result)
    return ExitCode.NEGATIVE if result.faults else ExitCode.DONE


def _print_verification(result: Verification) -> None:
    if not result.faults:
        print(f"{result.run}: all {result.entries} entries hold: none was changed, dropped or reordered, and every signature is right")
        print(f"head {result.head}")
        if result.after_head is None:
            print("whether newest entries were cut off shows only with --head and the head that was noted when the run ended")
        elif result.after_head:
            print(f"the given head is in the chain; {result.after_head} entries were added behind it")
        else:
            print("the given head is the last entry: nothing was cut off")
        return
    for fault in result.faults[:SHOWN]:
        print(f"{result.run}, entry {fault.seq}: {fault.problem}")
    if len(result.faults) > SHOWN:
        print(f"... and {len(result.faults) - SHOWN} more (all with --json)")
    print(f"the ledger does NOT hold; first fault at entry {result.faults[0].seq} of {result.entries}: what stands before it is sound")
    print(f"keep a copy of the home folder as evidence; more: {page_of('docs/reference/errors.md#ledger-broken')}")
