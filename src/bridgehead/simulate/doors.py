"""Doors of a simulated site: nodes that take no new jobs, reservations, and jobs that wait because of that or because they are held."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.equipment import NodeId
from bridgehead.ports.admission import GraceTerms, QueuedJob, Reservation

USER = "mover"
"""The only user of a simulated site."""


class Closed(msgspec.Struct, frozen=True):
    """A node that takes no new jobs; ``here``: by the port, not by hand."""

    reason: str
    here: bool


class Waiting(msgspec.Struct):
    """A job that has not begun."""

    native_id: str
    name: JobName
    begin: Callable[[], None]
    held: bool = False


class Doors:
    """The doors of one site. A job uses all nodes, and begins as soon as one of them is open; a reservation only keeps other users away."""

    def __init__(self, site: SiteId) -> None:
        self._site = site
        self.nodes = (NodeId(f"{site}-n1"), NodeId(f"{site}-n2"))
        self.closed: dict[NodeId, Closed] = {}
        self.reservations: dict[str, Reservation] = {}
        self.waiting: list[Waiting] = []
        self.terms = GraceTerms(kill_wait_s=30.0)

    # jobs

    def enter(self, native_id: str, name: JobName, begin: Callable[[], None]) -> bool:
        """Whether the job may begin at once; else ``begin`` is called when it may."""
        if self.closed.keys() < set(self.nodes):
            return True
        self.waiting.append(Waiting(native_id, name, begin))
        return False

    def leave(self, native_id: str) -> None:
        """It waits no more: it was ended."""
        self.waiting = [one for one in self.waiting if one.native_id != native_id]

    def queue(self, name: JobName) -> tuple[QueuedJob, ...]:
        """See ``ports.admission``."""
        return tuple(QueuedJob(one.native_id, one.held) for one in self.waiting if one.name == name)

    def set_held(self, name: JobName, *, held: bool) -> None:
        """Hold or release what waits."""
        for one in self.waiting:
            if one.name == name:
                one.held = held
        self._admit()

    # nodes

    def check(self, names: Sequence[NodeId], *, tried: str) -> None:
        """Raises NotFound for a node that the site does not have."""
        missing = [name for name in names if name not in self.nodes]
        if missing:
            raise NotFound(f"there is no {', '.join(missing)}", tried=tried, subject=self._site)

    def drain(self, names: Sequence[NodeId], reason: str, *, here: bool = True) -> None:
        """Close nodes; one that is closed keeps its reason."""
        self.check(names, tried="drain nodes")
        for name in names:
            self.closed.setdefault(name, Closed(reason, here))

    def resume(self, names: Sequence[NodeId]) -> None:
        """Open those that the port closed."""
        self.check(names, tried="resume nodes")
        for name in names:
            if name in self.closed and self.closed[name].here:
                del self.closed[name]
        self._admit()

    # reservations

    def reserve(self, wanted: Reservation) -> None:
        """See ``ports.admission``."""
        tried = "make a reservation"
        self.check(wanted.nodes, tried=tried)
        wanted = msgspec.structs.replace(wanted, users=wanted.users or (USER,))
        if wanted.users != (USER,):
            raise Permanent("there is no such user", tried=tried, subject=self._site)
        there = self.reservations.setdefault(wanted.name, wanted)
        if there != wanted:
            raise Conflict("there is one of that name", tried=tried, subject=self._site)
        if any(set(one.nodes) & set(wanted.nodes) for one in self.reservations.values() if one is not there):
            del self.reservations[wanted.name]
            raise Conflict("a node is reserved already", tried=tried, subject=self._site)

    def unreserve(self, name: str, *, busy: bool) -> None:
        """See ``ports.admission``; ``busy``: a job runs at the site."""
        if name in self.reservations and busy:
            raise Transient("it is in use", tried="remove a reservation", subject=self._site)
        self.reservations.pop(name, None)

    def _admit(self) -> None:
        if self.closed.keys() >= set(self.nodes):
            return
        begins = [one for one in self.waiting if not one.held]
        self.waiting = [one for one in self.waiting if one.held]
        for one in begins:
            one.begin()
