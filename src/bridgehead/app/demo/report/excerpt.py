"""Excerpt: the entries of the ledger that a page shows, and where some were left out."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.app.demo.summary import LedgerLine

FREQUENT = frozenset({"intent", "phase-progress", "gate-measured"})
"""Events that come in great numbers; they go first where not all can be shown."""

_MOST = 60
_HEAD = 20


class Excerpt(msgspec.Struct, frozen=True):
    """``head`` and, after ``left_out`` entries that are not shown, ``tail``. ``thinned``: frequent entries are not shown either."""

    head: tuple[LedgerLine, ...]
    left_out: int
    tail: tuple[LedgerLine, ...]
    thinned: bool

    @property
    def shown(self) -> int:
        """How many entries are shown."""
        return len(self.head) + len(self.tail)


def excerpt(ledger: Sequence[LedgerLine]) -> Excerpt:
    """At most 60 entries: the telling ones, the beginning and the end. The first and the last are always among them."""
    lines = tuple(sorted(ledger, key=lambda line: line.seq))
    if thinned := len(lines) > _MOST:
        lines = tuple(line for line in lines if line.event not in FREQUENT or line in (lines[0], lines[-1]))
    if len(lines) <= _MOST:
        return Excerpt(lines, 0, (), thinned)
    return Excerpt(lines[:_HEAD], len(lines) - _MOST, lines[_HEAD - _MOST :], thinned)
