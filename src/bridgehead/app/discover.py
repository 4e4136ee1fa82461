"""Discover: captured output of tools is read, and its facts are kept by the thing that they are of (M2, M5.1)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.app.capture_files import CaptureFile, capture_files, captures_of
from bridgehead.app.parsers import parsers
from bridgehead.app.spread import processes, spread
from bridgehead.discovery.merge import natural
from bridgehead.discovery.packing import pack
from bridgehead.discovery.parsing import Capture, Parsed
from bridgehead.discovery.recognise import read_capture
from bridgehead.model.fact import Fact, Skipped

Watch = Callable[[int], None]
"""Called with the bytes of captures that are done."""
BATCH_BYTES: Final = 2 << 20
"""Files that one process reads at a time."""
WORTH_BYTES: Final = 16 << 20
"""Less than this is read sooner than other processes start."""


class Group(msgspec.Struct, frozen=True):
    """All facts of one thing and its parts, packed.

    Attributes:
        site: the site that the user named for its captures; empty when none was named.
        root: the outermost part of the subjects.
        parts: for ``discovery.packing.unpack``.
    """

    site: str
    root: str
    parts: tuple[bytes, ...]


class Discovery(msgspec.Struct, frozen=True):
    """What was found.

    Attributes:
        groups: sorted by site and root; ``app.evidence`` reads them out.
        skipped: what gave no fact, sorted by file and line, each with its reason.
        tools: files by tool, sorted by tool; a tool is there only when one of its files was recognised.
        files: all files that were looked at, those in archives too.
        read_bytes: their size.
        jobs: how many processes it took, and reading it out may take.
    """

    groups: tuple[Group, ...]
    skipped: tuple[Skipped, ...]
    tools: dict[str, int]
    files: int
    read_bytes: int
    jobs: int = 1

    @property
    def recognised(self) -> int:
        """Files whose tool is known."""
        return sum(self.tools.values())


class _Batch(msgspec.Struct, frozen=True):
    """Some files of one site, for one process."""

    site: str
    host: str
    files: tuple[CaptureFile, ...]


class _Read(msgspec.Struct, frozen=True):
    """What a batch gave."""

    site: str
    facts: dict[str, bytes]
    skipped: list[Skipped]
    tools: Counter[str]
    files: int
    read_bytes: int


def discover(
    given: Mapping[str, Sequence[Path]], *, host: str = "", jobs: int | None = None, watch: Watch = lambda _size: None
) -> Discovery:
    """Read all captures; the order of paths and files changes nothing.

    Args:
        given: files, folders (one per host below), archives, by the site that the user names for them; "" for none.
        host: whose output it is where nothing else says.
        jobs: how many processes; None for as many as are worth it.
        watch: told the bytes of files.

    Raises BAD_INPUT for a path that does not exist, PORT_PERMANENT when a process is killed.
    """
    skipped: list[Skipped] = []
    batches: list[_Batch] = []
    total_bytes = 0
    for site, paths in given.items():
        files, passed_over = capture_files(paths, tools=_tool_words())
        skipped += passed_over
        total_bytes += sum(file.size_bytes for file in files)
        batches += [_Batch(site, host, some) for some in _batched(files)]
    if jobs is None:
        jobs = min(processes(), len(batches)) if total_bytes >= WORTH_BYTES else 1
    parts: defaultdict[tuple[str, str], list[bytes]] = defaultdict(list)
    tools: Counter[str] = Counter()
    files_read = read_bytes = 0
    for read in spread(_read, batches, jobs=jobs):
        for root, packed in read.facts.items():
            parts[read.site, root].append(packed)
        skipped += read.skipped
        tools += read.tools
        files_read += read.files
        read_bytes += read.read_bytes
        watch(read.read_bytes)
    skipped.sort(key=lambda one: (natural(one.file), one.file, one.line, one.reason))
    groups = tuple(Group(site, root, tuple(parts[site, root])) for site, root in sorted(parts, key=_place))
    return Discovery(groups, tuple(skipped), dict(sorted(tools.items())), files_read, read_bytes, jobs)


def _place(key: tuple[str, str]) -> tuple[object, ...]:
    site, root = key
    return (natural(site), natural(root), key)


def _batched(files: Iterable[CaptureFile]) -> Iterator[tuple[CaptureFile, ...]]:
    batch: list[CaptureFile] = []
    size_bytes = 0
    for file in files:
        batch.append(file)
        size_bytes += file.size_bytes
        if size_bytes >= BATCH_BYTES:
            yield tuple(batch)
            batch, size_bytes = [], 0
    if batch:
        yield tuple(batch)


def _read(batch: _Batch) -> _Read:
    """Read the files of a batch; in whatever process."""
    words = _tool_words()
    facts: list[Fact] = []
    skipped: list[Skipped] = []
    tools: Counter[str] = Counter()
    files = read_bytes = 0
    for file in batch.files:
        for found in captures_of(file, tools=words, host=batch.host):
            if isinstance(found, Skipped):
                skipped.append(found)
                continue
            files += 1
            read_bytes += len(found.data)
            tool, parsed = _parsed(found)
            tools.update([tool] if tool else [])
            facts += parsed.facts
            skipped += parsed.skipped
    return _Read(batch.site, pack(facts), skipped, tools, files, read_bytes)


def _parsed(capture: Capture) -> tuple[str, Parsed]:
    try:
        return read_capture(capture, parsers())
    except Exception as error:  # a fault of one parser must not cost the facts of all others
        reason = f"a fault in Bridgehead, please report it: {type(error).__name__}: {error}"
        return "", Parsed((), (Skipped(capture.file, 1, reason),))


@cache
def _tool_words() -> frozenset[str]:
    """Names that folders have after tools, and that are no hosts."""
    words = {parser.tool for parser in parsers()} | {parser.command.split(" ", 1)[0] for parser in parsers()}
    return frozenset(word.lower() for word in words) | {"ib0", "h100", "h200", "a100", "b200", "v100", "gb200", "fp8", "slurm", "k8s"}
