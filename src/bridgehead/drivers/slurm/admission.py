"""The doors of a Slurm site: drain, reservations, holds, and how long jobs are given to end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from bridgehead.drivers.slurm.clients import CommandLine
from bridgehead.drivers.slurm.node import NodeState
from bridgehead.drivers.slurm.options import SlurmOptions
from bridgehead.drivers.slurm.records import Records
from bridgehead.drivers.slurm.settings import grace_terms, read_config, read_partitions
from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.equipment import NodeId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.admission import GraceTerms, NodeView, QueuedJob, Reservation
from bridgehead.ports.shell import Shell

MARK: Final = "bridgehead "
"""With it begins the reason of a node that was drained here."""
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_WAITING: Final = "PENDING,REQUEUE_HOLD,REQUEUE_FED,SPECIAL_EXIT,RESV_DEL_HOLD"
_BUSY: Final = "reservation is in use"
_NO_RESERVATION: Final = ("not found", "requested reservation is invalid")


class SlurmAdmission:
    """Implements :class:`bridgehead.ports.admission.Admission` for one cluster, by Slurm's command line.

    - A node that was drained here has a reason that begins with ``bridgehead`` and the run. A node whose reason begins with ``fenced`` is
      not drained: the reason says that it surely runs nothing, and a drain would write over it.
    - ``resume`` takes the drain back and nothing else: a node that is down stays down. Until Slurm has heard of it again, some seconds
      later, it is not open.
    - Drain and reservations need an operator of Slurm (option ``operator``); holds do not.

    Args:
        site: the site whose cluster this is.
        options: those of the scheduler; ``rest`` is not used.
        shell: where Slurm's clients run and the state folder is.
    """

    def __init__(self, site: SiteId, options: SlurmOptions, *, shell: Shell) -> None:
        self._site, self._options, self._shell = site, options, shell
        self._line = CommandLine(options, shell)
        self._records = Records(site, options.state, shell)

    # nodes

    def nodes(self, names: Sequence[NodeId]) -> tuple[NodeView, ...]:
        """See the port. A suspended job has processes, although Slurm calls its node idle."""
        tried = "look at nodes"
        states = self._states(names, tried=tried)
        words = ["squeue", "-a", "-h", "-w", ",".join(names), "-t", "SUSPENDED", "-o", "%N"]
        suspended = self._line.ask_text(words, tried=tried).split()
        full = {name for nodes in suspended for name in self._line.ask_text(["scontrol", "show", "hostnames", nodes], tried=tried).split()}
        return tuple(
            NodeView(
                name=name,
                open=state.open,
                empty=state.idle and name not in full,
                drained_here=_drained_here(state),
                reason=state.reason,
            )
            for name, state in zip(names, states, strict=True)
        )

    def drain(self, names: Sequence[NodeId], *, reason: str, stamp: Stamp) -> None:
        """See the port."""
        tried = "drain nodes"
        self._records.admit(stamp, tried=tried)
        together: dict[str, list[str]] = {}
        for state in self._states(names, tried=tried):
            if not (state.drained or state.fenced):
                before = f" (before: {state.reason})" if state.reason else ""
                together.setdefault(" ".join(f"{MARK}{stamp.run}: {reason}{before}".split()), []).append(state.name)
        for said, nodes in together.items():
            words = ["scontrol", "update", f"nodename={','.join(nodes)}", "state=drain", f"reason={said}"]
            self._line.tell(words, tried=tried, operator=True)

    def resume(self, names: Sequence[NodeId], *, stamp: Stamp) -> None:
        """See the port."""
        tried = "resume nodes"
        self._records.admit(stamp, tried=tried)
        mine = [state.name for state in self._states(names, tried=tried) if _drained_here(state)]
        if mine:
            self._line.tell(["scontrol", "update", f"nodename={','.join(mine)}", "state=undrain"], tried=tried, operator=True)

    # reservations

    def reservation(self, name: str) -> Reservation | None:
        """See the port."""
        tried = "look at a reservation"
        self._check_words([name], tried=tried)
        self._line.check_cluster()
        try:
            text = self._line.ask_text(["scontrol", "show", "reservation", "-o", name], tried=tried)
        except Permanent as error:
            if any(word in error.happened.lower() for word in _NO_RESERVATION):
                return None
            raise
        found = dict(word.partition("=")[::2] for word in text.split())
        if found.get("ReservationName") != name:
            raise Transient(f"scontrol's answer cannot be read: {text!r}", tried=tried, subject=self._subject)
        nodes = self._line.ask_text(["scontrol", "show", "hostnames", found["Nodes"]], tried=tried).split()
        users = () if found["Users"] == "(null)" else tuple(found["Users"].split(","))
        return Reservation(name, tuple(NodeId(node) for node in nodes), users)

    def reserve(self, reservation: Reservation, *, stamp: Stamp) -> None:
        """See the port; jobs that run on the nodes go on, and jobs that wait for it are not held when it is removed."""
        tried, name = "make a reservation", reservation.name
        self._records.admit(stamp, tried=tried)
        users = reservation.users or (self._user(tried),)
        self._check_words([name, *reservation.nodes, *users], tried=tried)
        self._states(reservation.nodes, tried=tried)
        there = self.reservation(name)
        if there is not None:
            if set(there.nodes) != set(reservation.nodes) or set(there.users) != set(users):
                happened = f"there is one of that name, of {','.join(there.nodes)} for {','.join(there.users) or 'others'}"
                raise Conflict(happened, tried=tried, subject=self._subject, remedy="Use another name, or remove that one.")
            return
        words = [f"reservationname={name}", f"nodes={','.join(reservation.nodes)}", f"users={','.join(users)}"]
        words += ["starttime=now", "duration=infinite", "flags=ignore_jobs,no_hold_jobs_after"]
        try:
            self._line.tell(["scontrol", "create", "reservation", *words], tried=tried, operator=True)
        except Permanent as error:
            if "overlaps" not in error.happened and "Duplicate" not in error.happened:
                raise
            raise Conflict(error.happened, tried=tried, subject=self._subject, remedy="Look at `scontrol show reservation`.") from error

    def unreserve(self, name: str, *, stamp: Stamp) -> None:
        """See the port."""
        tried = "remove a reservation"
        self._records.admit(stamp, tried=tried)
        if self.reservation(name) is None:
            return
        try:
            self._line.tell(["scontrol", "delete", f"reservationname={name}"], tried=tried, operator=True)
        except Permanent as error:
            said = error.happened.lower()
            if _BUSY in said:
                remedy = "Wait for the jobs that run in it, or end them."
                raise Transient(error.happened, tried=tried, subject=self._subject, remedy=remedy, retry_after_s=5.0) from error
            if not any(word in said for word in _NO_RESERVATION):
                raise

    # jobs

    def queue(self, name: JobName) -> tuple[QueuedJob, ...]:
        """See the port. Slurm holds a job by priority 0."""
        tried = "look at waiting jobs"
        self._line.check_cluster()
        text = self._line.ask_text(["squeue", "--me", f"--name={name}", f"--states={_WAITING}", "-h", "-o", "%A|%Q"], tried=tried)
        rows = [line.strip().partition("|") for line in text.splitlines()]
        if any(not job_id.isdigit() or not priority.isdigit() for job_id, _, priority in rows):
            raise Transient(f"squeue's answer cannot be read: {text!r}", tried=tried, subject=self._subject)
        return tuple(QueuedJob(f"{self._options.cluster}/{job_id}", held=priority == "0") for job_id, _, priority in rows)

    def hold(self, name: JobName, *, stamp: Stamp) -> None:
        """See the port. The hold is the user's own, so that he can release it himself."""
        self._turn(name, "uhold", stamp=stamp, held=False)

    def release(self, name: JobName, *, stamp: Stamp) -> None:
        """See the port. Permanent for a job that an administrator holds, unless the user is one."""
        self._turn(name, "release", stamp=stamp, held=True)

    def graces(self, name: JobName) -> GraceTerms:
        """See the port and ``settings``. Permanent when the job's partition is not there."""
        tried = "read how jobs are ended"
        self._line.check_cluster()
        request = self._options.request(name)
        config = read_config(self._line.ask_text(["scontrol", "show", "config"], tried=tried))
        partitions = read_partitions(self._line.ask_text(["scontrol", "show", "partition", "-a", "-o"], tried=tried))
        warned = bool(request.time_limit_s) and self._options.rest is None
        try:
            return grace_terms(config, partitions, wanted=request.partition, warned=warned)
        except (ValueError, KeyError) as error:
            remedy = "Correct the partition in the driver's option jobs."
            raise Permanent(f"it cannot be told: {error}", tried=tried, subject=self._subject, remedy=remedy) from error

    def _turn(self, name: JobName, verb: str, *, stamp: Stamp, held: bool) -> None:
        tried = f"{verb.removeprefix('u')} jobs"
        self._records.admit(stamp, tried=tried)
        for job in self.queue(name):
            if job.held is not held:
                continue
            try:
                self._line.tell(["scontrol", verb, job.native_id.rpartition("/")[2]], tried=tried)
            except NotFound:  # it has ended, and was forgotten, since the look
                continue

    # words

    def _states(self, names: Sequence[NodeId], *, tried: str) -> list[NodeState]:
        self._check_words(names, tried=tried)
        self._line.check_cluster()
        states = {state.name: state for state in self._line.node_states(",".join(names))}
        missing = [name for name in names if name not in states]
        if missing:
            remedy = "Check the names; `sinfo -a -N` lists all nodes."
            raise NotFound(f"no partition has {', '.join(missing)}", tried=tried, subject=self._subject, remedy=remedy)
        return [states[name] for name in names]

    def _check_words(self, words: Sequence[str], *, tried: str) -> None:
        """What is passed to Slurm in a list must hold no sign of lists. Raises Permanent."""
        wrong = [word for word in words if not _PLAIN.fullmatch(word)]
        if wrong or not words:
            happened = f"no plain name: {wrong[0]!r}" if wrong else "no node is named"
            raise Permanent(happened, tried=tried, subject=self._subject, remedy="Name each node, user and reservation by itself.")

    def _user(self, tried: str) -> str:
        return self._line.ask_text(["id", "-un"], tried=tried).strip()

    @property
    def _subject(self) -> str:
        return f"cluster {self._options.cluster} of site {self._site}"


def _drained_here(state: NodeState) -> bool:
    return state.drained and state.reason.startswith(MARK)
