"""Discover: captured output of tools becomes views of facts, and a file of evidence (M2, M5.1)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app.capture_files import captures
from bridgehead.app.parsers import parsers
from bridgehead.discovery.merge import Claim, View, merge, natural, told
from bridgehead.discovery.parsing import Capture, Parsed, Parser
from bridgehead.discovery.recognise import read_capture
from bridgehead.model.fact import Fact, Skipped, Status

Watch = Callable[[int], None]
"""Called with the bytes of each capture that is done."""


class Discovery(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        views: sorted by subject and attribute.
        skipped: what gave no fact, sorted by file and line, each with its reason.
        tools: files by tool, sorted by tool; a tool is there only when one of its files was recognised.
        files: all files that were looked at, those in archives too.
        read_bytes: their size.
    """

    views: tuple[View, ...]
    skipped: tuple[Skipped, ...]
    tools: dict[str, int]
    files: int
    read_bytes: int

    @property
    def recognised(self) -> int:
        """Files whose tool is known."""
        return sum(self.tools.values())


def discover(paths: Sequence[Path], *, host: str = "", watch: Watch = lambda _size: None) -> Discovery:
    """Read all captures and merge their facts; the order of paths and files changes nothing.

    Args:
        paths: files, folders (one per host below), archives.
        host: whose output it is where nothing else says.
        watch: told the bytes of each file.

    Raises BAD_INPUT for a path that does not exist.
    """
    known = parsers()
    facts: list[Fact] = []
    skipped: list[Skipped] = []
    tools: Counter[str] = Counter()
    files = read_bytes = 0
    for found in captures(paths, tools=_tool_words(known), host=host):
        if isinstance(found, Skipped):
            skipped.append(found)
            continue
        files += 1
        read_bytes += len(found.data)
        tool, parsed = _parsed(found, known)
        tools.update([tool] if tool else [])
        facts += parsed.facts
        skipped += parsed.skipped
        watch(len(found.data))
    skipped.sort(key=lambda one: (natural(one.file), one.file, one.line, one.reason))
    return Discovery(merge(facts), tuple(skipped), dict(sorted(tools.items())), files, read_bytes)


def _parsed(capture: Capture, known: Sequence[Parser]) -> tuple[str, Parsed]:
    try:
        return read_capture(capture, known)
    except Exception as error:  # a fault of one parser must not cost the facts of all others
        reason = f"a fault in Bridgehead, please report it: {type(error).__name__}: {error}"
        return "", Parsed((), (Skipped(capture.file, 1, reason),))


def _tool_words(known: Sequence[Parser]) -> frozenset[str]:
    """Names that folders have after tools, and that are no hosts."""
    words = {parser.tool for parser in known} | {parser.command.split(" ", 1)[0] for parser in known}
    return frozenset(word.lower() for word in words) | {"ib0", "h100", "h200", "a100", "b200", "v100", "gb200", "fp8", "slurm", "k8s"}


def fact_lines(found: Discovery) -> Iterator[dict[str, Any]]:
    """The lines of a facts file: one for each claim, in the order of the views, then the summary.

    ``tool``, ``file``, ``line`` are those of the first source; ``sources`` lists all of them where there are several.
    """
    for view in found.views:
        for claim in view.claims:
            yield _line(view, claim)
    yield {"summary": summary(found)}


def _line(view: View, claim: Claim) -> dict[str, Any]:
    first = claim.sources[0]
    line: dict[str, Any] = {
        "subject": view.subject,
        "attribute": view.attribute,
        "value": claim.value,
        "unit": claim.unit,
        "status": view.status.value,
        "tool": first.tool,
        "file": first.file,
        "line": first.line,
    }
    if first.at_s is not None:
        line["at_s"] = first.at_s
    if len(claim.sources) > 1:
        line["sources"] = msgspec.to_builtins(claim.sources)
    return line | ({"note": view.note} if view.note else {})


def summary(found: Discovery) -> dict[str, Any]:
    """Counts, and what was skipped and why."""
    by_status = Counter(view.status for view in found.views)
    by_tool = Counter(source.tool for view in found.views for claim in view.claims for source in claim.sources)
    return {
        "facts": len(found.views),
        "by_status": {status.value: by_status[status] for status in Status},
        "by_tool": dict(sorted(by_tool.items())),
        "files_read": found.files,
        "files_recognised": found.recognised,
        "files_by_tool": found.tools,
        "skipped": msgspec.to_builtins(found.skipped),
    }


def conflicts(found: Discovery) -> list[str]:
    """Each conflict in words."""
    return [
        f"{view.subject} {view.attribute}: {' against '.join(told(claim) for claim in view.claims)}"
        for view in found.views
        if view.status is Status.CONFLICT
    ]


def write_facts(found: Discovery, path: Path) -> None:
    """Write the facts file; a reader sees the old one or the whole new one. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.new")
    encoder = msgspec.json.Encoder()
    try:
        with temporary.open("wb") as stream:
            for line in fact_lines(found):
                stream.write(encoder.encode(line) + b"\n")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
