"""Evidence: what was found is merged thing by thing and read out once: lines of facts, counts, conflicts, and what a draft needs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.app.discover import Discovery, Group
from bridgehead.app.spread import spread
from bridgehead.app.whole_file import whole_file
from bridgehead.discovery.knowledge import Knowledge, is_read, known_of
from bridgehead.discovery.merge import Claim, View, grouped, merge, told, view_of
from bridgehead.discovery.packing import unpack
from bridgehead.model.fact import Fact, Source, Status, Value

_ENCODER: Final = msgspec.json.Encoder()
_KNOWLEDGE: Final = msgspec.msgpack.Decoder(list[tuple[str, Knowledge]])
FACTS_FILE: Final = "facts file"
FACTS_BEGIN: Final = (b'{"subject":', b'{"summary":')
"""How a facts file begins."""
_PIECE_BYTES: Final = 64 << 10
"""Packed facts that a process reads out at a time: some hosts, or hundreds of adapters that a scan names."""
_WORTH_GROUPS: Final = 64
_NO_HOST: Final = "node:?"


class FactLine(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """One line of a facts file; see docs/reference/discovery.md.

    ``tool``, ``file``, ``line`` and ``at_s`` are those of the first source; ``sources`` lists all of them where there are several.
    """

    subject: str
    attribute: str
    value: Value
    unit: str
    status: Status
    tool: str
    file: str
    line: int
    at_s: float | None = None
    site: str = ""
    sources: tuple[Source, ...] = ()
    note: str = ""


class Told(msgspec.Struct, frozen=True):
    """What was found, in sum.

    Attributes:
        facts: attributes of subjects.
        by_status: how many of them are known, unknown, in conflict.
        by_tool: places that say something, by tool.
        conflicts: each in words, but for those of captures whose host nobody says.
        hostless: how many conflicts those have; they may well be of several hosts, and then are none.
        knowledge: what the draft of an estate reads, by site.
    """

    facts: int
    by_status: dict[Status, int]
    by_tool: dict[str, int]
    conflicts: tuple[str, ...]
    hostless: int
    knowledge: dict[str, Knowledge]


class _Digest(msgspec.Struct, frozen=True):
    """One or some groups, read out."""

    lines: bytes
    by_status: Counter[Status]
    by_tool: Counter[str]
    conflicts: list[str]
    hostless: int
    knowledge: bytes
    """Packed: pickling it takes as long as all else."""


def views_of(found: Discovery) -> Iterator[tuple[str, tuple[View, ...]]]:
    """Site and views of each thing, in the order of the groups."""
    for group in found.groups:
        yield group.site, merge(unpack(group.parts))


def read_out(found: Discovery, *, lines: Callable[[bytes], object] | None = None) -> Told:
    """Merge everything once. ``lines`` is given the lines of the facts file, many at a time, in their order."""
    by_status: Counter[Status] = Counter()
    by_tool: Counter[str] = Counter()
    conflicts: list[str] = []
    hostless = 0
    knowledge: dict[str, Knowledge] = {}
    jobs = found.jobs if len(found.groups) >= _WORTH_GROUPS else 1
    for digest in spread(_digest, _pieces(found.groups), jobs=jobs):
        if lines is not None:
            lines(digest.lines)
        by_status += digest.by_status
        by_tool += digest.by_tool
        conflicts += digest.conflicts
        hostless += digest.hostless
        for site, known in _KNOWLEDGE.decode(digest.knowledge):
            knowledge.setdefault(site, {}).update(known)
    return Told(
        by_status.total(),
        {status: by_status[status] for status in Status},
        dict(sorted(by_tool.items())),
        tuple(conflicts),
        hostless,
        knowledge,
    )


def _pieces(groups: tuple[Group, ...]) -> Iterator[tuple[Group, ...]]:
    piece: list[Group] = []
    size_bytes = 0
    for group in groups:
        piece.append(group)
        size_bytes += sum(map(len, group.parts))
        if size_bytes >= _PIECE_BYTES:
            yield tuple(piece)
            piece, size_bytes = [], 0
    if piece:
        yield tuple(piece)


def _digest(groups: tuple[Group, ...]) -> _Digest:
    lines: list[FactLine] = []
    statuses: list[Status] = []
    tools: list[str] = []
    conflicts: list[str] = []
    hostless = 0
    knowledge: list[tuple[str, Knowledge]] = []
    for group in groups:
        kept: list[View] = []
        for subject, attribute, facts in grouped(unpack(group.parts)):
            if len(facts) == 1 and kept and not is_read(attribute):  # as most are: a view of it would say the same
                [fact] = facts
                lines.append(_line_of(fact, group.site))
                statuses.append(fact.status)
                tools.append(fact.source.tool)
                view = None
            else:
                view = view_of(subject, attribute, facts)
                lines += [_line(view, claim, group.site) for claim in view.claims]
                statuses.append(view.status)
                tools += [source.tool for claim in view.claims for source in claim.sources]
                kept.append(view)
            if statuses[-1] is Status.CONFLICT and group.root == _NO_HOST:
                hostless += 1
            elif statuses[-1] is Status.CONFLICT:
                conflicts.append(conflict_words(view or view_of(subject, attribute, facts), site=group.site))
        knowledge.append((group.site, known_of(kept)))
    packed = msgspec.msgpack.encode(knowledge)
    return _Digest(_ENCODER.encode_lines(lines), Counter(statuses), Counter(tools), conflicts, hostless, packed)


def _line_of(fact: Fact, site: str) -> FactLine:
    at = fact.source
    return FactLine(
        fact.subject, fact.attribute, fact.value, fact.unit, fact.status, at.tool, at.file, at.line, at.at_s, site, (), fact.note
    )


def _line(view: View, claim: Claim, site: str) -> FactLine:
    first = claim.sources[0]
    several = claim.sources if len(claim.sources) > 1 else ()
    return FactLine(
        view.subject,
        view.attribute,
        claim.value,
        claim.unit,
        view.status,
        first.tool,
        first.file,
        first.line,
        first.at_s,
        site,
        several,
        view.note,
    )


def conflict_words(view: View, *, site: str) -> str:
    """A conflict for people; the site only where one was named. A value that stands alone is contradicted by what the note says."""
    place = f"{site + ' ' if site else ''}{view.subject} {view.attribute}"
    alone = f"; {view.note}" if len(view.claims) == 1 else ""
    return f"{place}: {' against '.join(told(claim) for claim in view.claims)}{alone}"


def summary(found: Discovery, said: Told) -> dict[str, Any]:
    """The last line of a facts file: counts, and what was skipped and why."""
    return {
        "facts": said.facts,
        "by_status": {status.value: count for status, count in said.by_status.items()},
        "by_tool": said.by_tool,
        "files_read": found.files,
        "files_recognised": found.recognised,
        "files_by_tool": found.tools,
        "skipped": msgspec.to_builtins(found.skipped),
    }


def write_facts(found: Discovery, path: Path, *, lines: Callable[[bytes], object] | None = None) -> Told:
    """Read everything out into a facts file, and to ``lines`` as ``read_out`` does. A reader sees the old file or the whole new one.

    Raises BAD_INPUT for a place that cannot be written to, OSError for a full disk.
    """
    with whole_file(path, what=FACTS_FILE) as stream:

        def both(some: bytes) -> None:
            stream.write(some)
            if lines is not None:
                lines(some)

        said = read_out(found, lines=both)
        stream.write(_ENCODER.encode({"summary": summary(found, said)}) + b"\n")
    return said
