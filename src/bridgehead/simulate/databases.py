"""Databases of simulated applications: who writes waits while one of them is held; what is pinned is the number of writes so far (R16)."""

from __future__ import annotations

import itertools

import msgspec


class Application(msgspec.Struct):
    """Writes to all its databases with each transaction, ``rate_per_s`` times a second while none of them is held.

    Attributes:
        busy_until_s: a transaction that is open so long; a hold waits for it.
        size_bytes: of the copy of each database.
    """

    databases: tuple[str, ...]
    rate_per_s: float = 100.0
    busy_until_s: float = 0.0
    size_bytes: int = 1_000_000
    written: float = 0.0
    looked_s: float = 0.0


class WorldHold(msgspec.Struct):
    """A hold, and what it pinned. ``released_s`` None: writers wait until ``ends_s``."""

    location: str
    began_s: float
    ends_s: float
    pinned: int
    released_s: float | None = None
    copy_ends_s: float | None = None

    def holds(self, now_s: float) -> bool:
        """Whether writers wait."""
        return self.released_s is None and now_s < self.ends_s


class DatabaseHall:
    """All of them. ``copies``: size of each copy by its name, for the vault that keeps it; ``pinned``: what is in it."""

    def __init__(self) -> None:
        self.applications: list[Application] = []
        self.holds: dict[str, WorldHold] = {}
        self._orphans: list[WorldHold] = []
        self.copies: dict[str, int] = {}
        self.pinned: dict[str, int] = {}

    def of(self, location: str) -> Application | None:
        """The application that writes there."""
        return next((one for one in self.applications if location in one.databases), None)

    def lose_process(self, now_s: float) -> None:
        """The process that held is dead or frozen: what it had pinned is gone, and who waited waits until the hold ends by itself."""
        for application in self.applications:
            self.written(application, now_s)
        self._orphans += self.holds.values()
        self.holds.clear()

    def held(self, now_s: float) -> list[str]:
        """Where writers wait."""
        return [hold.location for hold in (*self.holds.values(), *self._orphans) if hold.holds(now_s)]

    def written(self, application: Application, now_s: float) -> int:
        """How many transactions it has committed by now."""
        at_s = application.looked_s
        holds = [hold for hold in (*self.holds.values(), *self._orphans) if hold.location in application.databases]
        moments = sorted({at_s, now_s, *(at for hold in holds for at in _edges(hold) if at_s < at < now_s)})
        for begin_s, end_s in itertools.pairwise(moments):
            if not any(hold.began_s <= begin_s < _until(hold) for hold in holds):
                application.written += (end_s - begin_s) * application.rate_per_s
        application.looked_s = now_s
        return int(application.written)


def _edges(hold: WorldHold) -> tuple[float, float]:
    return hold.began_s, _until(hold)


def _until(hold: WorldHold) -> float:
    return hold.ends_s if hold.released_s is None else min(hold.ends_s, hold.released_s)
