"""Calls: the way from a driver to the simulated world. Here answers are late, calls fail, are lost, doubled or delayed, as planned."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from bridgehead.kernel.errors import PortError, Transient, Unknown
from bridgehead.kernel.ids import SiteId
from bridgehead.model.stamp import Stamp
from bridgehead.simulate import faults as ft
from bridgehead.simulate.fault_book import DriverDied, FaultBook
from bridgehead.simulate.world import World

T = TypeVar("T")

CALL_S = 0.002
"""What an ordinary call takes."""
RETRY_S = 1.0


class Calls:
    """All drivers of one controller share it.

    Args:
        book: planned faults; None for a world without any.
        trace: told of every call (name, place, what came of it).
    """

    def __init__(
        self, world: World, *, book: FaultBook | None = None, trace: Callable[[str, str, str], None] = lambda name, place, result: None
    ) -> None:
        self.world = world
        self.book = book
        self._trace = trace
        self._spent_s = 0.0

    def take_spent_s(self) -> float:
        """Virtual time that the calls since the last ``take_spent_s`` took."""
        spent_s, self._spent_s = self._spent_s, 0.0
        return spent_s

    def spend(self, seconds_s: float) -> None:
        """A call takes this much longer."""
        self._spent_s += seconds_s

    def read(self, name: str, site: SiteId, look: Callable[[], T], *, stale: Callable[[], T] | None = None) -> T:
        """A call without an effect. ``stale`` gives an older answer."""
        fault = self._begin(name, site)
        if isinstance(fault, ft.StaleRead) and stale is not None:
            look = stale
        if isinstance(fault, ft.FailAfter):
            raise self._transient(name, site, "the answer was lost (planned)")
        result = look()
        self._finish(name, site, fault, "read")
        return result

    def write(self, name: str, site: SiteId, effect: Callable[[], T], *, stamp: Stamp, place: str) -> T:
        """A call with an effect at ``place``, which refuses older epochs."""
        fault = self._begin(name, site)

        def act() -> T:
            self.world.admit(place, stamp)
            result = effect()
            self.world.note(place, stamp)
            return result

        if isinstance(fault, ft.LateCall):
            self.world.timeline.after(fault.late_s, lambda: self._arrive(name, site, act))
            self._trace(name, site, "sent, and the driver died")
            raise DriverDied(fault.resume_after_s)
        result = act()
        if isinstance(fault, ft.RepeatedCall):
            result = act()
        self._finish(name, site, fault, f"epoch {stamp.epoch}")
        if isinstance(fault, ft.FailAfter):
            raise Unknown("the answer was lost (planned)", tried=name, subject=site)
        return result

    def _begin(self, name: str, site: SiteId) -> ft.CallFault | None:
        self._spent_s += CALL_S
        fault = self.book.on_call(name) if self.book is not None else None
        if isinstance(fault, ft.DieInCall) and fault.side is ft.Side.BEFORE:
            self._trace(name, site, "the driver died before it")
            raise DriverDied(fault.resume_after_s)
        if not self.world.network.reaches(site):
            raise self._transient(name, site, "out of reach")
        if isinstance(fault, ft.FailBefore):
            raise self._transient(name, site, "refused for now (planned)")
        return fault

    def _finish(self, name: str, site: SiteId, fault: ft.CallFault | None, result: str) -> None:
        if isinstance(fault, ft.SlowCall):
            self._spent_s += fault.delay_s
        self._trace(name, site, result)
        if isinstance(fault, ft.DieInCall):
            self._trace(name, site, "the driver died after it")
            raise DriverDied(fault.resume_after_s)

    def _arrive(self, name: str, site: SiteId, act: Callable[[], object]) -> None:
        """The call of a dead controller reaches its place."""
        try:
            act()
            self._trace(name, site, "arrived late, and was done")
        except PortError as error:
            self._trace(name, site, f"arrived late, and was refused: {error.happened}")

    def _transient(self, name: str, site: SiteId, happened: str) -> Transient:
        self._trace(name, site, happened)
        return Transient(happened, tried=name, subject=site, retry_after_s=RETRY_S)
