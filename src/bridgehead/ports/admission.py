"""Admission: what a site's scheduler lets begin, and where: nodes that take no new jobs, nodes kept for one user, jobs that are held.

Beside ports.scheduler, which starts and ends single jobs; not every scheduler has it (M7.2, R11; J10).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from bridgehead.kernel.ids import JobName
from bridgehead.model.equipment import NodeId
from bridgehead.model.estate import Grace
from bridgehead.model.stamp import Stamp


class NodeView(msgspec.Struct, frozen=True):
    """One node.

    Attributes:
        open: it takes new jobs, if only those of a reservation.
        empty: positive evidence that no job has a process there; a node that does not answer is not empty.
        drained_here: ``drain`` closed it, under whichever run.
        reason: why it is closed, in the words of whoever closed it; "" for none.
    """

    name: NodeId
    open: bool
    empty: bool
    drained_here: bool = False
    reason: str = ""


class Reservation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes on which from now on only jobs of these users begin that ask for the reservation by its name; what runs there goes on.

    It is for long (Slurm: a year): at its end the jobs that run in it would be killed.

    Attributes:
        users: none for the user who starts Bridgehead's jobs at the site.
    """

    name: str
    nodes: tuple[NodeId, ...]
    users: tuple[str, ...] = ()


class QueuedJob(msgspec.Struct, frozen=True):
    """A job that has not begun; ``held``: and will not, until it is released."""

    native_id: str
    held: bool


class GraceTerms(msgspec.Struct, frozen=True):
    """How long a job is given when somebody cancels it, when its time is over, or when it is preempted (J10).

    Attributes:
        kill_wait_s: from TERM to all processes to KILL. Whoever ends the job, this comes last, so a last save may take no longer.
        over_limit_s: by so much it may outrun its time limit before that; ``inf`` for ever. It hears nothing of it.
        preempted: what is done to it in favour of another job (``cancel``, ``requeue``, ``suspend``); "" when that never happens.
        preempt_s: from the choice of the job to the TERM to all, at least.
        preempt_announced: the job's script gets TERM at that choice already, and so has ``preempt_s`` more.
    """

    kill_wait_s: float
    over_limit_s: float = 0.0
    preempted: str = ""
    preempt_s: float = 0.0
    preempt_announced: bool = False

    @property
    def chain(self) -> tuple[Grace, ...]:
        """As the estate writes a workload's chain."""
        links = [Grace("kill-wait", self.kill_wait_s)]
        if self.preempted and self.preempt_announced:
            links.append(Grace("preemption", self.preempt_s + self.kill_wait_s))
        return tuple(links)


class Admission(Protocol):
    """The doors of one site's scheduler.

    All methods raise Transient when the site cannot be seen. Those with a stamp raise Conflict when its epoch is old, and Permanent when
    the scheduler refuses (no right to it, a name that it cannot have); a repeat has no effect.
    """

    def nodes(self, names: Sequence[NodeId]) -> tuple[NodeView, ...]:
        """The nodes, in this order. Raises NotFound for one that the scheduler does not have."""
        ...

    def drain(self, names: Sequence[NodeId], *, reason: str, stamp: Stamp) -> None:
        """Close nodes to new jobs; what runs there goes on. One that is closed already keeps its reason. Raises NotFound."""
        ...

    def resume(self, names: Sequence[NodeId], *, stamp: Stamp) -> None:
        """Open nodes that ``drain`` closed. One that somebody else closed stays closed. Raises NotFound."""
        ...

    def reservation(self, name: str) -> Reservation | None:
        """The reservation of that name; None when there is positively none."""
        ...

    def reserve(self, reservation: Reservation, *, stamp: Stamp) -> None:
        """Make the reservation, from now on. Raises Conflict when another one of that name is there, or its nodes are reserved."""
        ...

    def unreserve(self, name: str, *, stamp: Stamp) -> None:
        """Remove it; no effect when it is not there. Raises Transient while a job runs in it."""
        ...

    def queue(self, name: JobName) -> tuple[QueuedJob, ...]:
        """The user's jobs of that name that wait, held or not."""
        ...

    def hold(self, name: JobName, *, stamp: Stamp) -> None:
        """Hold the user's jobs of that name that wait. Those that run go on."""
        ...

    def release(self, name: JobName, *, stamp: Stamp) -> None:
        """Let the user's held jobs of that name begin when there is room, whoever held them."""
        ...

    def graces(self, name: JobName) -> GraceTerms:
        """How long a job of that name is given to end, as the scheduler is configured now."""
        ...
