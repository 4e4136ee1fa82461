"""Copies of journals: lines that hold entries as they were sealed, and what may be taken from them (J09). Pure.

A copy can be changed on its way as anything can: hashes and signatures of what is taken are checked, and a copy never changes an entry that
is there.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode
from bridgehead.kernel.ids import Epoch, RunId
from bridgehead.model import event as ev
from bridgehead.runbook.ledger import Seal

_decode: Final = msgspec.json.Decoder(ev.Event).decode


class Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of one run; the payload is in base64."""

    run: RunId
    seal: Seal


def encode(run: RunId, seals: Iterable[Seal]) -> bytes:
    """Lines of JSON, one for each entry."""
    return b"".join(msgspec.json.encode(Line(run, seal)) + b"\n" for seal in seals)


def decode(data: bytes, *, subject: str) -> dict[RunId, list[Seal]]:
    """Entries by run, in the order of the lines. Raises JOURNAL_DAMAGED."""
    found: dict[RunId, list[Seal]] = {}
    for number, text in enumerate(data.splitlines(), start=1):
        try:
            line = msgspec.json.decode(text, type=Line)
        except (msgspec.MsgspecError, UnicodeDecodeError, binascii.Error) as error:
            raise _damaged(f"{subject}, line {number}", f"it is not an entry of a journal: {error}") from error
        found.setdefault(line.run, []).append(line.seal)
    return found


def in_order_of_opening(copies: Mapping[RunId, Sequence[Seal]]) -> list[RunId]:
    """Runs, the one first that was opened first."""

    def opened_s(run: RunId) -> float:
        try:
            return _decode(copies[run][0].payload).at_s if copies[run] else 0.0
        except msgspec.MsgspecError:
            return 0.0

    return sorted(copies, key=opened_s)


def news(run: RunId, there: Sequence[Seal], given: Sequence[Seal]) -> list[Seal]:
    """What ``given`` has behind ``there``; empty when it is no longer. Raises Conflict when one does not go on where the other ends."""
    hashes = {seal.seq: seal.hash for seal in there}
    for seal in given:
        if seal.seq in hashes and hashes[seal.seq] != seal.hash:
            raise Conflict(
                f"entry {seal.seq} of the copy is another one: both went on from entry {seal.seq - 1}, each for itself",
                tried="take entries from a copy",
                subject=f"run {run}",
                remedy="Find out which of the two is right, and keep the other as evidence; no tool can join them.",
            )
    head = there[-1].seq if there else 0
    behind = sorted((seal for seal in given if seal.seq > head), key=lambda seal: seal.seq)
    if behind and behind[0].seq != head + 1:
        raise Conflict(
            f"the copy begins with entry {behind[0].seq}, and the journal ends with entry {head}",
            tried="take entries from a copy",
            subject=f"run {run}",
            remedy="Take an older or a whole copy first.",
        )
    return behind


def newest_epoch(seals: Iterable[Seal], *, subject: str) -> Epoch:
    """The newest driving epoch that they tell of; 0 for none. Raises JOURNAL_DAMAGED for an entry that cannot be read."""
    newest = Epoch(0)
    for seal in seals:
        try:
            event = _decode(seal.payload)
        except msgspec.MsgspecError as error:
            raise _damaged(f"{subject}, entry {seal.seq}", str(error)) from error
        if isinstance(event, ev.DriverTook):
            newest = max(newest, event.epoch)
    return newest


def _damaged(subject: str, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.JOURNAL_DAMAGED,
        tried="read a copy of the journal",
        subject=subject,
        happened=happened,
        remedy="Use another copy; nothing of this one was taken.",
    )
