"""What ``bridgehead vault save`` says, and what it saves beside the files."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from bridgehead.app.vault_context import Capturer
from bridgehead.app.vaults import Saved, usage
from bridgehead.cli.vault_display import warnings
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode
from bridgehead.vault.sources import Files, MemorySource, Source
from bridgehead.vault.tensor_alarm import Alarm


def notes_of(pairs: Sequence[str]) -> dict[str, str]:
    """The pairs of ``--context``. Raises BAD_USAGE."""
    context = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise usage("save a snapshot", subject=f"--context {pair!r}", happened="not of the form KEY=VALUE", remedy="Write loss=1.25.")
        context[key] = value
    return context


def with_context(
    gathered: Files | str, sources: Sequence[Source], notes: Mapping[str, str], capturer: Capturer | None
) -> tuple[Files | str | list[Source], dict[str, str]]:
    """What is saved, and its notes, with what is captured now, if anything; what the user noted goes first."""
    if capturer is None:
        return gathered, dict(notes)
    extra = capturer.capture()
    more: list[Source] = [MemorySource(path, data) for path, data in extra.files.items()]
    return sorted([*sources, *more], key=lambda source: source.path), {**extra.context, **notes}


def saved_document(saved: Saved, found: Sequence[Alarm]) -> dict[str, object]:
    """What ``--json`` prints."""
    result, snapshot = saved.result, saved.result.snapshot
    return {
        "id": snapshot.id,
        "step": snapshot.step,
        "epoch": snapshot.epoch,
        "site": snapshot.site,
        "created": saved.created,
        "counts": result.counts,
        "raw_bytes": snapshot.raw_bytes,
        "written_blocks": result.written_blocks,
        "written_bytes": result.written_bytes,
        "incomplete": snapshot.incomplete,
        "findings": snapshot.findings or (),
        "others": saved.others,
        "alarms": found,
    }


def verdict(saved: Saved) -> int:
    """What a script that deletes the original next must know. Raises VAULT_FENCED; 1 for files that were cut off or are missing."""
    snapshot = saved.result.snapshot
    if not saved.result.counts:
        raise BridgeheadError(
            ErrorCode.VAULT_FENCED,
            tried="save a snapshot that counts",
            subject=snapshot.id,
            happened=f"epoch {snapshot.epoch} is not in force; it was kept as evidence and will never be the newest",
            remedy="Stop this writer: another one has taken over. `bridgehead vault status` shows the epoch and its holder.",
        )
    for text in warnings(snapshot):
        print(f"warning: {text}", file=sys.stderr)
    return ExitCode.NEGATIVE if snapshot.incomplete else ExitCode.DONE
