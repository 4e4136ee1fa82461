"""Comparing: the world is asked in many places at once, each in its own thread, and none of them can hold up the others (J09).

What was not answered in time was not seen: it is no difference and no agreement either, and is named as such.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from bridgehead.kernel.errors import PortError

COMPARE_S: Final = 15.0
"""A comparison takes no longer. A place that hangs may be a site that is lost, and the recovery from it must not wait for it."""


class Unseen(msgspec.Struct, frozen=True):
    """Something that could not be seen, and why."""

    what: str
    why: str


Lane = Callable[[], Iterator[Any]]


class Comparison(msgspec.Struct, frozen=True):
    """What is to be asked of the world, and what follows from the answers.

    Attributes:
        lanes: by the place that each asks ("the vault of site-a"): gives one fact after the other, ``Unseen`` for what it cannot see.
            A lane waits for nobody but its place, so that one that hangs takes away only what it would have said.
        judge: the differences, of the facts that came. Must not raise.
    """

    lanes: Mapping[str, Lane] = {}
    judge: Callable[[Sequence[Any]], list[str]] = lambda facts: []


class Compared(msgspec.Struct, frozen=True):
    """What came of it, in words: how the world differs, and what nobody saw."""

    differences: list[str]
    unseen: list[str]


class Comparing:
    """A comparison under way. Whoever waits for it calls ``goes_on`` again and again, and does his own work in between."""

    def __init__(self, comparison: Comparison, *, limit_s: float = COMPARE_S) -> None:
        self._judge = comparison.judge
        self._limit_s = limit_s
        self._until_s = time.monotonic() + limit_s
        self._open = dict.fromkeys(comparison.lanes)
        self._came: queue.SimpleQueue[tuple[str, Any, bool]] = queue.SimpleQueue()
        self._facts: list[Any] = []
        self._unseen: dict[str, str] = {}
        self._closed = threading.Event()
        for name, lane in comparison.lanes.items():
            # A daemon: one that hangs for ever must not keep the process from ending.
            threading.Thread(target=self._ask, args=(name, lane), name=f"compare {name}", daemon=True).start()

    def goes_on(self, *, wait_s: float) -> bool:
        """Wait for an answer, for ``wait_s`` at most. False when all have answered or the time is over."""
        left_s = self._until_s - time.monotonic()
        if not self._open or left_s <= 0:
            return False
        try:
            name, fact, last = self._came.get(timeout=min(wait_s, left_s))
        except queue.Empty:
            return True
        if last:
            self._open.pop(name)
        if isinstance(fact, Unseen):
            self._unseen.setdefault(fact.what, fact.why)
        elif not last:
            self._facts.append(fact)
        return bool(self._open)

    def close(self) -> Compared:
        """What is known now; lanes that have not ended ask nothing more."""
        self._closed.set()
        late = {name: f"no answer within {self._limit_s:g} s" for name in self._open}
        unseen = [f"{what} ({why})" for what, why in {**late, **self._unseen}.items()]
        return Compared(self._judge(self._facts), unseen)

    def _ask(self, name: str, lane: Lane) -> None:
        last: Unseen | None = None
        try:
            for fact in lane():
                self._came.put((name, fact, False))
                if self._closed.is_set():
                    return
        except PortError as error:
            last = Unseen(name, error.happened)
        except Exception as error:  # whatever it is, it was not seen
            last = Unseen(name, f"{type(error).__name__}: {error}")
        self._came.put((name, last, True))
