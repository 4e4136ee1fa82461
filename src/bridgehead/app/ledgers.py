"""Ledgers: show and verify the evidence of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app.home import Home
from bridgehead.app.runs import entries_of, not_found
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, NotFound
from bridgehead.kernel.ids import RunId
from bridgehead.ports.journal import Entry
from bridgehead.runbook.ledger import KeyFolder, LedgerFault, verify_chain


class Verification(msgspec.Struct, frozen=True):
    """What ``verify`` found; the ledger holds when ``faults`` is empty.

    Attributes:
        after_head: how many entries are newer than the head that was given; None when none was given.
    """

    run: RunId
    entries: int
    head: str
    faults: list[LedgerFault]
    after_head: int | None = None


def entries(folder: Path | None, run: RunId) -> list[Entry]:
    """All entries of a run. Raises RUN_NOT_FOUND, JOURNAL_DAMAGED."""
    return entries_of(Home(folder), run)


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
    """Check the chain and the signatures, also of entries that nothing can read any more.

    Raises:
        BridgeheadError: RUN_NOT_FOUND, BAD_USAGE when ``keys`` is no folder with public keys.
    """
    home = Home(folder)
    if keys is not None and not any(keys.glob("*.pub")):
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="verify the ledger",
            subject=str(keys),
            happened="there is no public key (*.pub) in that folder",
            remedy=f"The keys of this home are in {home.folder / 'keys'}.",
        )
    if home.is_new:
        raise not_found(home, run)
    try:
        found = home.journal().sealed(run)
    except NotFound as error:
        raise not_found(home, run) from error
    faults = verify_chain(found, KeyFolder(keys) if keys is not None else home.keys, run=run, head=head)
    after = next((len(found) - number for number, seal in enumerate(found, start=1) if seal.hash == head), None)
    return Verification(run=run, entries=len(found), head=found[-1].hash if found else "", faults=faults, after_head=after)
