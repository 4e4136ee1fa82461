"""LabRecord: what a lab consists of, in ``lab.json``; written before a thing is made, so that ``down`` finds it whatever happened."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.drivers.process.procfs import boot_id, find, read_stat
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import SiteId

SITE_A, SITE_B, WITNESS = SiteId("site-a"), SiteId("site-b"), SiteId("witness")
SITES: Final = (SITE_A, SITE_B)
HUB: Final = "hub"
"""Where all lines meet; proxy, Prometheus and PostgreSQL stand here, and so do the clients."""
CONTROLLER: Final = "controller"
"""This machine outside of the lab's namespaces, where ``bridgehead`` runs."""
PLACES: Final = (HUB, *SITES, WITNESS)
NAMED_WITHIN_S: Final = 1.0
"""How long who is refused waits for the number of who changes the lab."""


class Started(msgspec.Struct, frozen=True):
    """A process that the lab started: a pid alone names nothing for long. ``address``: ``host:port`` or a socket's path, "" for none."""

    name: str
    place: str
    pid: int
    start_ticks: int
    address: str = ""

    @property
    def alive(self) -> bool:
        """Whether exactly this process lives."""
        stat = find(self.pid, self.start_ticks)
        return stat is not None and stat.alive


class Line(msgspec.Struct, frozen=True):
    """The line of one place to the hub. ``device`` at the hub's end; rate and delay hold for each direction."""

    device: str
    hub_address: str
    address: str
    rate_bps: float
    delay_s: float


class Cut(msgspec.Struct, frozen=True):
    """A partition in force: ``place`` against ``other``, or against everything when that is empty."""

    place: str
    other: str = ""


class LabRecord(msgspec.Struct, frozen=True):
    """One lab.

    Attributes:
        id: six hex digits, part of all names outside of the folder.
        boot: the boot of the machine in which it was made.
        up: pid and start of the process that made it.
        net: the first three numbers of its addresses.
        lines: the line of each place to the hub.
        processes: relays and servers.
        programs: what was started at the lab's places later, such as clients.
        cuts: partitions in force.
        killed: places that were killed and not revived.
        places: folders outside of the lab's own, removed with it.
        ready: ``up`` came to its end.
    """

    id: str
    boot: str
    up: Started
    created_s: float
    net: str
    lines: dict[str, Line] = {}
    processes: tuple[Started, ...] = ()
    programs: tuple[Started, ...] = ()
    cuts: tuple[Cut, ...] = ()
    killed: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    ready: bool = False

    def namespace(self, place: str) -> str:
        """The name of a place's network namespace, unique on this machine."""
        return f"bh{self.id}-{place}"

    @property
    def device(self) -> str:
        """The network device outside of all namespaces, by which the controller reaches the lab."""
        return f"bh{self.id}"


class LabFolder:
    """The folder of one lab. ``directory`` must be short enough for the paths of sockets."""

    def __init__(self, directory: Path) -> None:
        self.root = directory.absolute()
        self.file = self.root / "lab.json"
        self.log = self.root / "log"

    def site(self, place: str) -> Path:
        """What lies at a place."""
        return self.root / place

    def read(self) -> LabRecord | None:
        """The lab that is or was here; None when there is none. Raises BAD_INPUT when the file is not a lab's, BAD_USAGE without root."""
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=LabRecord)
        except FileNotFoundError:
            return None
        except PermissionError as error:
            raise needs_root("read the lab") from error
        except msgspec.MsgspecError as error:
            raise BridgeheadError(
                ErrorCode.BAD_INPUT, tried="read the lab", subject=str(self.file), happened=str(error), remedy="Name the folder of a lab."
            ) from error

    def write(self, record: LabRecord) -> None:
        """Replace the record."""
        temporary = self.file.with_suffix(".tmp")
        temporary.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1))
        temporary.replace(self.file)

    def require(self) -> LabRecord:
        """The lab here. Raises BAD_USAGE when there is none."""
        record = self.read()
        if record is None:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried="find the lab",
                subject=str(self.root),
                happened="there is no lab in this folder",
                remedy=f"`bridgehead lab up --dir {self.root}` makes one.",
            )
        return record

    @contextlib.contextmanager
    def locked(self, tried: str) -> Iterator[None]:
        """Nobody else changes the lab meanwhile. Raises LAB_BUSY, naming who does; BAD_USAGE without root, and when there is no lab."""
        if not self.root.is_dir():
            self.require()
        try:
            descriptor = os.open(self.root / "lab.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except PermissionError as error:
            raise needs_root(tried) from error
        try:
            self._take(descriptor, tried)
            os.pwrite(descriptor, str(os.getpid()).encode(), 0)
            try:
                yield
            finally:
                os.ftruncate(descriptor, 0)
        finally:
            os.close(descriptor)

    def _take(self, descriptor: int, tried: str) -> None:
        """Take the lock of an open file, whose holder writes its number into it. Raises LAB_BUSY."""
        limit_s = time.monotonic() + NAMED_WITHIN_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                # A holder has the lock a moment before its number is there, and one that was killed leaves its number behind.
                holder = os.pread(descriptor, 20, 0).decode()
                named = holder and read_stat(int(holder)) is not None
                if named or time.monotonic() > limit_s:
                    raise BridgeheadError(
                        ErrorCode.LAB_BUSY,
                        tried=tried,
                        subject=str(self.root),
                        happened=f"process {holder} is changing this lab"
                        if named
                        else "a process that gives no number is changing this lab",
                        remedy="Wait for it, or name another --dir.",
                    ) from error
                time.sleep(0.005)
            else:
                os.ftruncate(descriptor, 0)
                return


def new_record(*, now_s: float, net: str) -> LabRecord:
    """A lab of which nothing exists yet."""
    me = read_stat(os.getpid())
    assert me is not None
    return LabRecord(
        id=secrets.token_hex(3), boot=boot_id(), up=Started("up", CONTROLLER, me.pid, me.start_ticks), created_s=now_s, net=net
    )


def needs_root(tried: str) -> BridgeheadError:
    """The error that this user is not root."""
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried=tried,
        subject="this user",
        happened="network namespaces and Slurm's daemons need root",
        remedy="Run it as root (sudo), in a virtual machine if you like.",
    )
