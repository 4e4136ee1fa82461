"""Copies of the journal, so that the control plane survives the loss of its site: as a file, or in a vault (the witness's, best) (J09)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.app.home import Home
from bridgehead.app.vaults import open_vault
from bridgehead.host.durable import write_durably
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode, NotFound
from bridgehead.kernel.ids import RunId
from bridgehead.ports.journal import Entry
from bridgehead.runbook import copies
from bridgehead.runbook.ledger import KeyFolder, Seal, verify_chain
from bridgehead.vault import Vault
from bridgehead.vault.layout import journal_prefix
from bridgehead.vault.sealing import BadSeal

_SEGMENT: Final = re.compile(r"(\d{12})-(\d{12})-([0-9a-f]{16})")


class Copied(msgspec.Struct, frozen=True):
    """What was written or taken: entries by run, those with none left out; and runs for which it was refused, and why."""

    entries: dict[RunId, int]
    refused: dict[RunId, str]


def export(home: Home, file: Path) -> Copied:
    """Write the whole journal into a file, which is whole or not there. Raises port errors."""
    journal = home.journal()
    written: dict[RunId, int] = {}
    data = b""
    for run in reversed(journal.runs()):
        seals = journal.sealed(run)
        written[run] = len(seals)
        data += copies.encode(run, seals)
    write_durably(str(file), data)
    file.chmod(0o600)  # it holds environments of jobs
    return Copied(written, {})


def take(home: Home, file: Path, *, keys: Path | None) -> Copied:
    """Take from a file what the journal here lacks. Raises JOURNAL_DAMAGED, BAD_INPUT when it cannot be read."""
    try:
        data = file.read_bytes()
    except OSError as error:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="read a copy of the journal",
            subject=str(file),
            happened=error.strerror or str(error),
            remedy="Name a file that `bridgehead journal export` wrote.",
        ) from error
    return _taken(home, copies.decode(data, subject=str(file)), keys=keys)


def copy(home: Home, place: str) -> Copied:
    """Bring what a vault's copy lacks there; only that travels. Refused for runs of which the copy tells otherwise. Raises port errors."""
    vault, journal = open_vault(place), home.journal()
    written: dict[RunId, int] = {}
    refused: dict[RunId, str] = {}
    for run in reversed(journal.runs()):
        newest = max(_segments(vault, run), default=None)
        behind = _behind(journal.sealed(run) if newest is None else _sealed(journal.read(run, after_seq=newest.last - 1)), newest)
        if behind is None:
            refused[run] = "the copy there has entries that are not this journal's: it is newer, or went on for itself"
        elif behind:
            _write(vault, run, behind)
            written[run] = len(behind)
    return Copied(written, refused)


def restore(home: Home, place: str, *, keys: Path | None) -> Copied:
    """Take from a vault's copy what the journal here lacks. Raises JOURNAL_DAMAGED, port errors."""
    vault = open_vault(place)
    blobs = vault.place.objects.blobs
    found: dict[RunId, list[Seal]] = {}
    for run in sorted({RunId(key.split("/")[2]) for key in blobs.list(journal_prefix())}):
        found[run] = [seal for segment in sorted(_segments(vault, run)) for seal in _read(vault, run, segment)]
    return _taken(home, found, keys=keys)


def _sealed(entries: Sequence[Entry]) -> list[Seal]:
    return [Seal(one.seq, one.payload, one.previous, one.hash, one.signature, one.key_id) for one in entries]


def _behind(seals: list[Seal], newest: _Segment | None) -> list[Seal] | None:
    """Of the journal's entries from the copy's newest one on, those that the copy lacks; None when that one is another here."""
    if newest is None:
        return seals
    return seals[1:] if seals and seals[0].hash[:16] == newest.head else None


class _Segment(msgspec.Struct, frozen=True, order=True):
    last: int
    first: int
    head: str

    def key(self, run: RunId) -> str:
        return f"{journal_prefix(run)}{self.first:012d}-{self.last:012d}-{self.head}"


def _segments(vault: Vault, run: RunId) -> list[_Segment]:
    prefix = journal_prefix(run)
    names = (_SEGMENT.fullmatch(key.removeprefix(prefix)) for key in vault.place.objects.blobs.list(prefix))
    return [_Segment(int(match[2]), int(match[1]), match[3]) for match in names if match is not None]


def _write(vault: Vault, run: RunId, seals: list[Seal]) -> None:
    objects = vault.place.objects
    key = _Segment(seals[-1].seq, seals[0].seq, seals[-1].hash[:16]).key(run)
    objects.commit(key, objects.cipher.seal(copies.encode(run, seals), label=key))


def _read(vault: Vault, run: RunId, segment: _Segment) -> list[Seal]:
    objects, key = vault.place.objects, segment.key(run)
    try:
        data = bytes(objects.cipher.open(objects.blobs.get(key), label=key))
    except (BadSeal, NotFound) as error:
        raise BridgeheadError(
            ErrorCode.JOURNAL_DAMAGED,
            tried="read a copy of the journal",
            subject=key,
            happened="it is not what was written",
            remedy="Use another copy; nothing of this one was taken.",
        ) from error
    return copies.decode(data, subject=key).get(run, [])


def _taken(home: Home, found: dict[RunId, list[Seal]], *, keys: Path | None) -> Copied:
    """Each run for itself; one that does not verify, or does not follow, takes nothing from the others."""
    journal, verifier = home.journal(), KeyFolder(keys) if keys is not None else home.keys
    there = set(journal.runs())
    taken: dict[RunId, int] = {}
    refused: dict[RunId, str] = {}
    for run in copies.in_order_of_opening(found):
        seals = list({seal.seq: seal for seal in found[run]}.values())
        before = journal.sealed(run) if run in there else []
        try:
            fresh = copies.news(run, before, seals)
            faults = verify_chain([*before, *fresh], verifier, run=run)
            if faults:
                refused[run] = f"entry {faults[0].seq} {faults[0].problem}"
            elif fresh:
                taken[run] = journal.adopt(run, fresh)
        except Conflict as error:
            refused[run] = error.happened
    return Copied(taken, refused)
