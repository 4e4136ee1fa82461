"""VirtualWatch: observers of a simulated world, each with a status path of its own that can go down while everything else goes on (J01).

They look by the drivers of the world, and judge with the very code of ``bridgehead watch``. Only what asks the sites is made for the world.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import msgspec

from bridgehead.drivers.world import Calls, connect
from bridgehead.kernel.errors import PortError, Transient
from bridgehead.kernel.ids import RunId, SiteId
from bridgehead.model.estate import Estate, Site
from bridgehead.model.recovery import Protected
from bridgehead.recovery.watch import board
from bridgehead.recovery.watch.alarm import AlarmState, Patience, follow
from bridgehead.recovery.watch.facts import Facts
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.liveness import Limits, Look, Sight, SiteClock, SiteVerdict, advance, is_blind, site_verdict
from bridgehead.recovery.watch.readiness import judge
from bridgehead.recovery.watch.scene import Scene
from bridgehead.simulate import faults as ft
from bridgehead.simulate.world import World

Judged = Callable[[float, SiteVerdict], None]


class StatusPath(Calls):
    """The way of one observer to the world. Sites in ``down`` cannot be seen over it; whoever controls them goes another way."""

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.down: set[SiteId] = set()

    def _begin(self, name: str, site: SiteId) -> ft.CallFault | None:
        if site in self.down:
            raise Transient("the status path is down", tried=name, subject=site)
        return super()._begin(name, site)


class VirtualObserver:
    """One observer: looks, keeps its clocks, posts on the board, and judges by what it and the others know.

    Args:
        witness: another place, where observers meet; who does not reach it is blind.
        knows_blindness: False plants a fault: it takes its own blindness for the silence of the sites.
    """

    def __init__(
        self,
        name: str,
        world: World,
        workloads: Sequence[Protected],
        sites: Sequence[SiteId],
        *,
        limits: Limits,
        witness: SiteId | None = None,
        knows_blindness: bool = True,
    ) -> None:
        self.name = name
        self.path = StatusPath(world)
        self.alarms: dict[str, AlarmState] = {}
        self.findings: tuple[WatchFinding, ...] = ()
        self._world, self._workloads, self._sites, self._limits = world, workloads, sites, limits
        self._ports = connect(self.path)
        self._witness, self._knows_blindness = witness, knows_blindness
        self._clocks = {site: SiteClock(site) for site in sites}
        self._reported: dict[str, float] = {}
        self._heard: dict[str, board.Heard] = {}
        self._number = 0

    def look(self) -> board.Bulletin:
        """One round of questions; what it tells the others."""
        looks = [self._look(site) for site in self._sites]
        blind = self._knows_blindness and (is_blind(looks) if self._witness is None else not self.sees_witness())
        self._clocks = {one.site: advance(self._clocks[one.site], one, blind=blind) for one in looks}
        self._number += 1
        return board.post(self.name, self._clocks.values(), number=self._number, now_s=self._world.now_s)

    def verdicts(self, bulletins: Mapping[str, board.Bulletin]) -> dict[SiteId, SiteVerdict]:
        """What it makes of all that is known. Observers meet at the witness; who does not reach it hears nothing of the others."""
        now_s = self._world.now_s
        others = [one for name, one in bulletins.items() if name != self.name and self.sees_witness()]
        self._heard = board.hear(self._heard, others, now_s=now_s, forget_s=86_400.0)
        found = {}
        for site in self._sites:
            sights = [Sight(self.name, self._clocks[site]), *board.sights(self._heard.values(), site)]
            found[site] = site_verdict(site, sights=sights, now_s=now_s, limits=self._limits)
        scene = Scene(
            estate=Estate(name="virtual", sites=tuple(Site(id=site) for site in self._sites)),
            protected=(),
            needs=(),
            facts=Facts(),
            verdicts={str(site): verdict for site, verdict in found.items()},
            now_s=now_s,
        )
        self.findings = judge(scene)
        patience = Patience(raise_after_s=2 * self._limits.every_s, clear_after_s=4 * self._limits.every_s)
        self.alarms = follow(self.alarms, self.findings, now_s=now_s, patience=patience)
        return found

    def sees_witness(self) -> bool:
        """Whether the witness answers; where there is none, observers meet at a place that is always there."""
        if self._witness is None:
            return True
        try:
            self._ports.vaults.newest_driver(RunId("watch"), site=self._witness)
        except PortError:
            return False
        return True

    def _look(self, site: SiteId) -> Look:
        """As ``app.watch_look`` does: an answer of the scheduler or of a backend is a sign of life, and a report that is new."""
        life: list[str] = []
        silence: list[str] = []
        for one in self._workloads:
            job = one.job(site).name
            try:
                self._ports.scheduler(site).observe(job)
                life.append("the scheduler answered")
                if one.service is not None:
                    self._ports.serving(one.service).health(one.service, site)
                    life.append(f"a backend answered ({one.service})")
                if one.computes:
                    reported_s = self._ports.training(site).progress(job).reported_s
                    if reported_s != self._reported.get(job, reported_s):
                        life.append(f"trainer {job} reported")
                    self._reported[job] = reported_s
            except PortError as error:
                silence.append(error.happened)
        return Look(site, self._world.now_s, life=tuple(dict.fromkeys(life)), silence=tuple(dict.fromkeys(silence)) or ("no sign of life",))


class Seen(msgspec.Struct, frozen=True):
    """A verdict, when and by whom."""

    at_s: float
    observer: str
    verdict: SiteVerdict


class VirtualWatch:
    """Observers at work in a world, one after the other in each round; ``seen`` keeps all that they found."""

    def __init__(self, world: World, observers: Sequence[VirtualObserver], *, every_s: float, until_s: float) -> None:
        self.observers = tuple(observers)
        self.seen: list[Seen] = []
        self.on_verdict: Judged = lambda at_s, verdict: None
        self._world, self._every_s, self._until_s = world, every_s, until_s
        self._bulletins: dict[str, board.Bulletin] = {}
        world.timeline.after(0.0, self._round)

    def path_down(self, sites: Sequence[SiteId], *, after_s: float, for_s: float) -> None:
        """The status paths of all observers to ``sites`` go down, together."""
        for observer in self.observers:
            self._world.timeline.after(after_s, partial(observer.path.down.update, sites))
            self._world.timeline.after(after_s + for_s, partial(observer.path.down.difference_update, sites))

    def texts(self) -> list[str]:
        """Texts of the alarms that stand."""
        return [alarm.text for observer in self.observers for alarm in observer.alarms.values() if alarm.kind is not None]

    def _round(self) -> None:
        posted = {observer.name: observer.look() for observer in self.observers}
        self._bulletins.update({one.name: posted[one.name] for one in self.observers if one.sees_witness()})
        for observer in self.observers:
            for verdict in observer.verdicts(self._bulletins).values():
                self.seen.append(Seen(self._world.now_s, observer.name, verdict))
                self.on_verdict(self._world.now_s, verdict)
        if self._world.now_s < self._until_s:
            self._world.timeline.after(self._every_s, self._round)
