"""Ballots of one vault: create-only records that are listed again after each write. The vault does not judge them (ADR 17)."""

from __future__ import annotations

import re
from typing import Final

from bridgehead.kernel.hashing import block_hash
from bridgehead.model.ballot import Ballot
from bridgehead.vault.layout import ballots_prefix
from bridgehead.vault.objects import Objects, refuse
from bridgehead.vault.records import damaged

MAX_NUMBER: Final = 10**8 - 1
_FILE: Final = re.compile(r"\d{8}-[0-9a-f]{16}-(bid|vote)\.json")


def cast(objects: Objects, ballot: Ballot) -> tuple[Ballot, ...]:
    """See ``ports.registers.FenceRegister.cast``. Raises Damaged for a ballot that cannot be read: to pass over it could elect two."""
    if not 1 <= ballot.number <= MAX_NUMBER:
        raise refuse(
            f"a ballot's number is from 1 to {MAX_NUMBER}",
            tried="cast a ballot",
            subject=str(ballot.number),
            remedy="This is a fault of the caller.",
        )
    prefix = ballots_prefix(ballot.workload, ballot.epoch)
    objects.add(f"{prefix}{_file(ballot)}", ballot)
    return tuple(_read(objects, key) for key in objects.blobs.list(prefix) if _FILE.fullmatch(key.removeprefix(prefix)))


def _file(ballot: Ballot) -> str:
    proposer = block_hash(ballot.proposer.encode())[:16]
    return f"{ballot.number:08d}-{proposer}-{'bid' if ballot.fence is None else 'vote'}.json"


def _read(objects: Objects, key: str) -> Ballot:
    ballot = objects.record(key, Ballot)
    if key != f"{ballots_prefix(ballot.workload, ballot.epoch)}{_file(ballot)}":
        raise damaged(key, f"the record is ballot {ballot.number} of {ballot.proposer} for epoch {ballot.epoch} of {ballot.workload}")
    return ballot
