"""Watch: looks at all sites again and again, judges, remembers, and tells the other observers (R1, R2, R6, R8, R13, M10.2; J01, J03)."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.app.home import Home
from bridgehead.app.notifying_alarms import AlarmTelling
from bridgehead.app.watch_board import Board
from bridgehead.app.watch_credentials import credentials_of
from bridgehead.app.watch_look import Looked, Looker
from bridgehead.app.watch_memory import Memory, MemoryFolder, line_of, memory_resumed
from bridgehead.app.watch_probes import Probes, Unanswered
from bridgehead.app.watch_scope import ScopeFiles, read_scope
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import SiteId
from bridgehead.recovery.watch import board
from bridgehead.recovery.watch.alarm import Patience, follow
from bridgehead.recovery.watch.liveness import (
    Evidence,
    Limits,
    Sight,
    SiteClock,
    SiteVerdict,
    advance,
    is_blind,
    site_verdict,
)  # fmt: skip
from bridgehead.recovery.watch.readiness import WatchReport, judge, report
from bridgehead.recovery.watch.scene import Scene, Terms, placed
from bridgehead.vault.layout import is_name

FORGET_S: Final = 86_400.0
TRAIL_S: Final = 6 * 3600.0
_TRAIL: Final = 2000


class WatchOrder(msgspec.Struct, frozen=True):
    """How to watch.

    Attributes:
        observer: its name; two observers have two names.
        alone: whether it must be the only process of that name (an observer at work), or may look beside it (a single look).
        budget_s: how long one look waits for answers.
    """

    observer: str
    limits: Limits = Limits()
    terms: Terms = Terms()
    patience: Patience = Patience()
    alone: bool = True
    budget_s: float = 10.0


def order_for(
    *, observer: str | None, every_s: float, grace_s: float, observers: int, lead_s: float, alone: bool, budget_s: float = 10.0
) -> WatchOrder:
    """The order that options make. Raises BAD_USAGE for a name that is none."""
    name = observer or os.uname().nodename
    if not is_name(name):
        remedy = "Names consist of A-Z a-z 0-9 . _ + - and begin with a letter, a digit or _."
        raise BridgeheadError(
            ErrorCode.BAD_USAGE, tried="watch", subject=f"--observer {name!r}", happened="this cannot be a name", remedy=remedy
        )
    stale_s = 3 * every_s + budget_s
    return WatchOrder(
        observer=name,
        limits=Limits(every_s=every_s, stale_s=stale_s, grace_s=grace_s, observers=observers),
        terms=Terms(stale_s=stale_s, lead_s=lead_s, detect_s=grace_s),
        patience=Patience(raise_after_s=2 * every_s, clear_after_s=4 * every_s),
        alone=alone,
        budget_s=budget_s,
    )


class Watch:
    """One observer. ``with`` takes its memory; ``look`` is one round, and reads the files anew when they have changed.

    Args:
        files: what is watched.
        now_s: the observer's clock; it must not go back while the process lives.
    """

    def __init__(self, files: ScopeFiles, home: Home, order: WatchOrder, *, now_s: Callable[[], float] | None = None) -> None:
        self._files, self._order = files, order
        if now_s is None:
            from bridgehead.drivers.system import SystemClock

            now_s = SystemClock().now_s
        self._now_s = now_s
        self._scope = scope = read_scope(files)
        self._stamp = files.stamp(scope)
        self._telling = AlarmTelling(home)
        self._root = home.folder / "watch" / _folder_name(scope.estate.name)
        self.memory_folder = MemoryFolder(self._root / order.observer, alone=order.alone)
        self._probes = Probes(budget_s=order.budget_s)
        self._looker = Looker(scope, probes=self._probes)
        self._memory = Memory()
        self.faults: tuple[str, ...] = ()
        """What the last look could not do besides looking: keep its memory, reach the board, read its files anew."""

    def __enter__(self) -> Watch:
        self.memory_folder.__enter__()
        if self.memory_folder.writes:  # a look beside an observer that is at work tells nobody
            self._telling.start()
        self._memory = memory_resumed(self.memory_folder.read(), now_s=self._now_s())
        return self

    def __exit__(self, *error: object) -> None:
        self._telling.close()
        self.memory_folder.__exit__(None, None, None)

    def place(self) -> Board:
        """Where observers meet. Raises port errors."""
        if self._scope.witness is not None:
            return Board(self._looker.vault(self._scope.witness).place.objects)
        from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
        from bridgehead.vault.objects import Objects

        folder = self._root / "board"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return Board(Objects(LocalBlobs(LocalBlobsOptions(str(folder)))))

    def look(self) -> WatchReport:
        """Look, judge, remember, tell. Never raises for what it cannot see: that is part of the report."""
        unread = self._read_again()
        memory, now_s = self._memory, self._now_s()
        looked = self._looker.look(memory.facts, now_s=now_s)
        clocks = _clocks(memory, looked)
        heard, evidence, faults = self._exchange(memory, clocks, now_s)
        verdicts = {
            site: site_verdict(
                SiteId(site),
                sights=[Sight(self._order.observer, clock), *board.sights(heard.values(), SiteId(site))],
                evidence=evidence,
                now_s=now_s,
                limits=self._order.limits,
            )
            for site, clock in clocks.items()
        }
        scene = Scene(
            estate=self._scope.estate,
            protected=tuple(placed(one, looked.facts, now_s=now_s, stale_s=self._order.terms.stale_s) for one in self._scope.protected),
            needs=self._scope.needs,
            facts=looked.facts,
            verdicts=verdicts,
            now_s=now_s,
            terms=msgspec.structs.replace(self._order.terms, drill_every_s=self._scope.drill_every_s),
            defaults=self._scope.defaults,
            declared_s=self._scope.declared_s,
            credentials=credentials_of(self._scope.connections),
            used=memory.trail,
            witness=self._scope.witness,
        )
        findings = judge(scene)
        alarms = follow(memory.alarms, findings, now_s=now_s, patience=self._order.patience)
        observers = {name: max(0.0, now_s - one.heard_s) for name, one in sorted(heard.items())}
        made = report(scene, findings, observer=self._order.observer, alarms=alarms, observers=observers)
        self._memory = Memory(
            number=memory.number + 1, clocks=clocks, heard=heard, facts=looked.facts, alarms=alarms, trail=_trail(memory, made)
        )
        fault = self.memory_folder.write(self._memory, line_of(made))
        self.faults = (*unread, *faults, *((f"what it knows cannot be kept: {fault}",) if fault else ()), *self._telling.tell(made))
        return made

    def _exchange(
        self, memory: Memory, clocks: dict[str, SiteClock], now_s: float
    ) -> tuple[dict[str, board.Heard], list[Evidence], tuple[str, ...]]:
        """Read the board and post on it. Out of reach, what was heard before stays, and grows old."""

        def exchanged() -> tuple[list[board.Bulletin], list[Evidence]]:
            place = self.place()
            found = place.read(but=self._order.observer), place.evidence()
            if self.memory_folder.writes:
                place.post(board.post(self._order.observer, clocks.values(), number=memory.number + 1, now_s=now_s))
            return found

        answer = self._probes.ask({"board": exchanged})["board"]
        if isinstance(answer, Unanswered):
            fault = f"the other observers are out of reach: {answer.happened}"
            return board.hear(memory.heard, (), now_s=now_s, forget_s=FORGET_S), [], (fault,)
        bulletins, evidence = answer
        return board.hear(memory.heard, bulletins, now_s=now_s, forget_s=FORGET_S), evidence, ()

    def _read_again(self) -> tuple[str, ...]:
        """Read the files when they have changed; while they cannot be read, what they said before holds, and that is told."""
        stamp = self._files.stamp(self._scope)
        if stamp == self._stamp:
            return ()
        try:
            scope = read_scope(self._files)
        except (BridgeheadError, OSError) as error:
            return (f"the files have changed and cannot be read, so that what they said before is judged: {error}",)
        if scope.connections != self._scope.connections or scope.witness != self._scope.witness or scope.protected != self._scope.protected:
            self._looker = Looker(scope, probes=self._probes)
        self._scope, self._stamp = scope, self._files.stamp(scope)
        return ()

    def declare(self, site: SiteId, evidence: Evidence | None) -> int:
        """Put evidence of a loss up, or, with None, take all of it back; returns how many there were. Raises BAD_USAGE, port errors."""
        known = [one.id for one in self._scope.estate.sites]
        if site not in known:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="declare a site lost",
                subject=site,
                happened="the estate has no such site",
                remedy=f"There is {', '.join(known)}.",
            )
        if evidence is None:
            return self.place().withdraw(site)
        self.place().declare(evidence)
        return 1


def verdict_on(site: SiteId, made: WatchReport) -> SiteVerdict | None:
    """What a report says of one site; None for one that it does not know."""
    return next((one for one in made.sites if one.site == site), None)


def _clocks(memory: Memory, looked: Looked) -> dict[str, SiteClock]:
    """An observer that cannot reach the witness either is cut off, even when it sees the site that it stands at."""
    blind = is_blind(looked.looks) if looked.witness is None else not looked.witness
    return {one.site: advance(memory.clocks.get(one.site, SiteClock(one.site)), one, blind=blind) for one in looked.looks}


def _trail(memory: Memory, made: WatchReport) -> dict[str, tuple[tuple[float, float], ...]]:
    found = {}
    for one in made.workloads:
        before = memory.trail.get(one.workload, ())
        now = ((made.at_s, one.lost_s),) if one.lost_s is not None else ()
        found[one.workload] = tuple(point for point in (*before, *now) if point[0] > made.at_s - TRAIL_S)[-_TRAIL:]
    return found


def _folder_name(estate: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", estate).strip(".-")[:80] or "estate"


def watch_always(watch: Watch, *, every_s: float, tell: Callable[[WatchReport], None], ended: Callable[[float], bool]) -> None:
    """Look until ``ended``, which waits the given seconds and says whether to end. A look that takes long delays the next, and no more."""
    while True:
        began_s = time.monotonic()
        tell(watch.look())
        if ended(max(0.0, every_s - (time.monotonic() - began_s))):
            return


def history_of(files: ScopeFiles, home: Home, observer: str) -> MemoryFolder:
    """The folder of an observer, to read its history from. Raises BAD_INPUT."""
    return MemoryFolder(home.folder / "watch" / _folder_name(read_scope(files).estate.name) / observer, alone=False)
