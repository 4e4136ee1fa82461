"""The doors of simulated sites."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from bridgehead.drivers.world.calls import Calls
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.equipment import NodeId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.admission import GraceTerms, NodeView, QueuedJob, Reservation


class WorldAdmission:
    """Implements ``ports.admission.Admission``. A repeat of any change changes nothing, as in the world itself."""

    def __init__(self, site: SiteId, calls: Calls) -> None:
        self._site, self._calls = site, calls
        self._doors = calls.world.doors_of(site)

    def nodes(self, names: Sequence[NodeId]) -> tuple[NodeView, ...]:
        """See the port."""
        return self._calls.read("admission.nodes", self._site, lambda: self._seen(names))

    def drain(self, names: Sequence[NodeId], *, reason: str, stamp: Stamp) -> None:
        """See the port."""
        self._write("admission.drain", lambda: self._doors.drain(names, f"{stamp.run}: {reason}"), stamp)

    def resume(self, names: Sequence[NodeId], *, stamp: Stamp) -> None:
        """See the port."""
        self._write("admission.resume", lambda: self._doors.resume(names), stamp)

    def reservation(self, name: str) -> Reservation | None:
        """See the port."""
        return self._calls.read("admission.reservation", self._site, lambda: self._doors.reservations.get(name))

    def reserve(self, reservation: Reservation, *, stamp: Stamp) -> None:
        """See the port."""
        self._write("admission.reserve", lambda: self._doors.reserve(reservation), stamp)

    def unreserve(self, name: str, *, stamp: Stamp) -> None:
        """See the port."""
        self._write("admission.unreserve", lambda: self._doors.unreserve(name, busy=self._busy()), stamp)

    def queue(self, name: JobName) -> tuple[QueuedJob, ...]:
        """See the port."""
        return self._calls.read("admission.queue", self._site, lambda: self._doors.queue(name))

    def hold(self, name: JobName, *, stamp: Stamp) -> None:
        """See the port."""
        self._write("admission.hold", lambda: self._doors.set_held(name, held=True), stamp)

    def release(self, name: JobName, *, stamp: Stamp) -> None:
        """See the port."""
        self._write("admission.release", lambda: self._doors.set_held(name, held=False), stamp)

    def graces(self, name: JobName) -> GraceTerms:
        """See the port."""
        return self._calls.read("admission.graces", self._site, lambda: self._doors.terms)

    def _seen(self, names: Sequence[NodeId]) -> tuple[NodeView, ...]:
        self._doors.check(names, tried="look at nodes")
        closed, empty = self._doors.closed, not self._busy()
        return tuple(
            NodeView(name, open=False, empty=empty, drained_here=closed[name].here, reason=closed[name].reason)
            if name in closed
            else NodeView(name, open=True, empty=empty)
            for name in names
        )

    def _busy(self) -> bool:
        return self._calls.world.computes(self._site)

    def _write(self, name: str, effect: Callable[[], None], stamp: Stamp) -> None:
        self._calls.write(name, self._site, effect, stamp=stamp, place=f"admission@{self._site}")
