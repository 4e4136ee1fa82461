"""Columns of text tables whose cells may be empty, have blanks, or be cut at the width of their column (case D16). Pure.

A row is only read where each of its words belongs to exactly one heading; a cell that fills its column may be cut and says so.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

_WORD: Final = re.compile(r"\S+")


class Heading(msgspec.Struct, frozen=True):
    """A column: its name and the places of its first sign and behind its last."""

    name: str
    start: int
    end: int


class Cell(msgspec.Struct, frozen=True):
    """What stands in a column. ``full``: it is as wide as its column, so that the tool may have cut it."""

    text: str
    full: bool = False


def headings(line: str) -> tuple[Heading, ...]:
    """The columns of a line of names."""
    return tuple(Heading(found[0], found.start(), found.end()) for found in _WORD.finditer(line))


def cells(line: str, columns: Sequence[Heading]) -> tuple[Cell, ...] | None:
    """The cells of a row, one for each column, empty where nothing stands. The last column takes what is left of the line. None where
    a word may belong to two columns, unless there are as many words as columns."""
    words = [(found.start(), found.end()) for found in _WORD.finditer(line)]
    spans = _placed(words, columns)
    if spans is None:
        return tuple(Cell(line[start:end], full=True) for start, end in words) if len(words) == len(columns) else None
    return tuple(
        Cell("") if span is None else Cell(line[span[0] : span[1]], _fills(columns, index, *span)) for index, span in enumerate(spans)
    )


def _placed(words: Sequence[tuple[int, int]], columns: Sequence[Heading]) -> list[tuple[int, int] | None] | None:
    """Where the cell of each column is; None where that cannot be told. A word below a heading is in its column; one between two headings
    belongs to the neighbour that is one blank away, as parts of one text are."""
    spans: list[tuple[int, int] | None] = [None] * len(columns)
    last, loose, at = len(columns) - 1, -1, 0
    for start, end in words:
        while at < last and columns[at].end <= start:  # columns and words go from left to right together
            at += 1
        index = at if start < columns[at].end and end > columns[at].start else -1
        if index >= 0 and index < last and end > columns[index + 1].start:
            return None
        if spans[last] is not None or (index < 0 and start >= columns[last].end):
            index = last
        before = next((column for column in range(min(at, last), -1, -1) if spans[column] is not None), None)
        near = before is not None and (held := spans[before]) is not None and start - held[1] == 1
        if index < 0:
            if loose >= 0 or near:
                return None
            loose = start
            continue
        if loose >= 0:
            start, loose = loose, -1
        held = spans[index]
        if held is not None and index != last and start - held[1] != 1:
            return None
        spans[index] = (start if held is None else held[0], end)
    return None if loose >= 0 else spans


def _fills(columns: Sequence[Heading], index: int, start: int, end: int) -> bool:
    """Whether the cell leaves at most one blank to the column beside it, on the side where the heading leaves more: there its room is."""
    column = columns[index]
    left = column.start - (columns[index - 1].end if index else -1)
    right = columns[index + 1].start - column.end if index + 1 < len(columns) else 0
    leaves_none_left = end == column.end and start <= column.start - left + 1
    leaves_none_right = start == column.start and right > 0 and end >= column.end + right - 1
    if left > 1 and right == 1:
        return leaves_none_left
    if left == 1 and right > 1:
        return leaves_none_right
    return leaves_none_left or leaves_none_right


def by_dashes(rule: str) -> tuple[tuple[int, int], ...]:
    """The places of the columns under a line of dashes, which shows their widths."""
    return tuple((found.start(), found.end()) for found in re.finditer(r"-+", rule))
