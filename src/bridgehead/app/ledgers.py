"""Ledgers: show and verify the evidence of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app.home import Home
from bridgehead.app.runs import state_of
from bridgehead.kernel.ids import RunId
from bridgehead.ports.journal import Entry
from bridgehead.runbook.ledger import KeyFolder, LedgerFault, verify_chain


class Verification(msgspec.Struct, frozen=True):
    """What ``verify`` found; the ledger holds when ``faults`` is empty."""

    run: RunId
    entries: int
    head: str
    faults: list[LedgerFault]


def entries(folder: Path | None, run: RunId) -> list[Entry]:
    """All entries of a run. Raises RUN_NOT_FOUND."""
    home = Home(folder)
    state_of(home, run)
    return home.journal().read(run)


def plain(entry: Entry) -> dict[str, Any]:
    """An entry as plain values: the event's own fields, with seq, hash and signature."""
    return {
        "seq": entry.seq,
        **msgspec.json.decode(entry.payload),
        "previous": entry.previous,
        "hash": entry.hash,
        "signature": entry.signature,
        "key_id": entry.key_id,
    }


def verify(folder: Path | None, run: RunId, *, head: str | None, keys: Path | None) -> Verification:
    """Check the chain and the signatures."""
    found = entries(folder, run)
    trusted = KeyFolder(keys) if keys is not None else Home(folder).keys
    return Verification(run=run, entries=len(found), head=found[-1].hash, faults=verify_chain(found, trusted, head=head))
