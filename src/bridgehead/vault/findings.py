"""Findings: what is noticed about a checkpoint when it is saved, and stays with its snapshot (V04, V07, V11, V12).

Every format has rules for what belongs together. What a checkpoint lacks by them makes its snapshot incomplete: it is kept, and is never
the newest usable one. All other findings are for people.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Final

from bridgehead.model.snapshot import EntryKind, FileEntry, Finding, FindingKind
from bridgehead.vault.formats.dcp import dcp_findings
from bridgehead.vault.formats.deepspeed import deepspeed_findings
from bridgehead.vault.formats.megatron import megatron_findings
from bridgehead.vault.formats.named import named_findings
from bridgehead.vault.formats.shardindex import shard_findings
from bridgehead.vault.formats.tree import MAX_FINDINGS, ReadFile, Tree
from bridgehead.vault.paths import leads_out, shown

_RULES: Final[tuple[Callable[[Tree], Iterator[Finding]], ...]] = (
    shard_findings,
    dcp_findings,
    deepspeed_findings,
    megatron_findings,
    named_findings,
)


def findings_of(files: Sequence[FileEntry], cut_off: Sequence[str], read: ReadFile) -> tuple[Finding, ...]:
    """All findings, each path once for each kind, in the order of the paths.

    Args:
        cut_off: paths of files that are shorter than their own header says.
        read: reads files of the checkpoint; only small ones and the tables of others are asked for.
    """
    found = [Finding(FindingKind.CUT_OFF, path, "it is cut off: shorter than its own header says, or never written") for path in cut_off]
    for file in files:
        if file.kind is EntryKind.LINK and leads_out(file.path, file.target or ""):
            happened = f"the link leads out of the folder, to {shown(file.target or '')}; what is there is not in the snapshot"
            found.append(Finding(FindingKind.LEADS_OUT, file.path, happened))
    tree = Tree(files, read)
    for rule in _RULES:
        found += islice(rule(tree), MAX_FINDINGS)
    once: dict[tuple[str, FindingKind, str], Finding] = {}
    for one in found:
        detail = one.happened if one.kind is FindingKind.STALE else ""
        once.setdefault((one.path, one.kind, detail), one)
    return tuple(once[key] for key in sorted(once))


def incomplete(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Paths of those that make a checkpoint incomplete."""
    return tuple(sorted({finding.path for finding in findings if finding.spoils}))
