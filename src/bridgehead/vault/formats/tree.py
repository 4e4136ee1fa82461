"""Tree: the files of one checkpoint, as the rules of its format see them: by folder, by name, with bounded looks into the small ones."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from bridgehead.model.snapshot import FileEntry, Finding, FindingKind

MAX_FINDINGS: Final = 1000
"""Of one rule; a checkpoint that lacks more is no less incomplete."""
_MAX_GRID: Final = 1_000_000
_MAX_MARK_BYTES: Final = 4096

ReadFile = Callable[[FileEntry, int, int], bytes]
"""(file, offset, size) -> those bytes of it."""


class Tree:
    """Files and symbolic links; a link counts as the file that it stands for. ``folders``: names by the folder, which ends with a slash."""

    def __init__(self, entries: Iterable[FileEntry], read: ReadFile) -> None:
        self.files = {entry.path: entry for entry in entries if entry.kind != "folder"}
        self.folders: dict[str, set[str]] = {}
        for path in self.files:
            folder, slash, name = path.rpartition("/")
            self.folders.setdefault(folder + slash, set()).add(name)
        self._read = read

    def part(self, path: str, offset: int, size: int) -> bytes:
        """Bytes of a file; none of what is a link, since its content is elsewhere."""
        file = self.files[path]
        size = min(size, file.size_bytes - offset)
        return self._read(file, offset, size) if file.is_file and size > 0 else b""

    def mark(self, path: str) -> str:
        """The text of a small file that names something; empty when there is none."""
        if path not in self.files:
            return ""
        return self.part(path, 0, _MAX_MARK_BYTES).decode("utf-8", "replace").strip()

    def has_folder(self, folder: str) -> bool:
        """Whether anything lies in this folder or below it."""
        return any(one.startswith(folder) for one in self.folders)


def missing(path: str, happened: str) -> Finding:
    """The finding that spoils a checkpoint."""
    return Finding(FindingKind.MISSING, path, happened)


def lacking(names: Iterable[str], pattern: re.Pattern[str], *, counts: Sequence[int] = (), free: int = 0) -> Iterator[str]:
    """Names that are not there although their neighbours say that they must be: every number of every group of ``pattern`` from 0 to the
    highest that is seen (or below ``counts``), combined with all others.

    Args:
        free: so many of the first groups are no ranks: what stands there is taken as it comes (a layer without parameters has no file).
    """
    series: dict[tuple[str, ...], set[tuple[int, ...]]] = {}
    widths: dict[tuple[str, ...], tuple[int, ...]] = {}
    for name in names:
        match = pattern.fullmatch(name)
        if match is None:
            continue
        spans = [match.span(group) for group in range(1, pattern.groups + 1) if match[group] is not None][free:]
        bounds = [0, *itertools.chain.from_iterable(spans), len(name)]
        literals = tuple(name[begin:end] for begin, end in zip(bounds[::2], bounds[1::2], strict=True))
        lengths = tuple(end - begin for begin, end in spans)
        series.setdefault(literals, set()).add(tuple(int(name[begin:end]) for begin, end in spans))
        widths[literals] = tuple(map(min, widths.get(literals, lengths), lengths))
    for literals, seen in sorted(series.items()):
        highest = [max(column) + 1 for column in zip(*seen, strict=True)]
        highest = [max(pair) for pair in itertools.zip_longest(highest, counts[: len(highest)], fillvalue=0)]
        size = 1
        for one in highest:
            size *= one
        if size > _MAX_GRID:
            continue  # no cluster has so many ranks: the names mean something else
        for numbers in itertools.product(*map(range, highest)):
            if numbers not in seen:
                padded = [f"{number:0{width}d}" for number, width in zip(numbers, widths[literals], strict=True)]
                yield "".join(itertools.chain.from_iterable(itertools.zip_longest(literals, padded, fillvalue="")))
