"""Lab: made and ended, and the faults that it can be given. Every change is recorded before it is made."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import SiteId
from bridgehead.testing.lab import needs, network, servers
from bridgehead.testing.lab.namespaces import end, end_members, spawn
from bridgehead.testing.lab.record import CONTROLLER, HUB, PLACES, SITES, WITNESS, Cut, LabFolder, LabRecord, Started, new_record

DATA_OUTSIDE: Final = "/var/tmp/bridgehead-lab-{id}"
"""Files of programs that do not run as root."""


PATIENCE_S: Final = 60.0
"""How long a program that was asked to end may take: clients wait for their open requests."""
Change = Callable[[tuple[Cut, ...], Cut], tuple[Cut, ...]]


class LabOptions(msgspec.Struct, frozen=True):
    """What the lines of a lab can do: ``rate_bps`` 0 for as fast as it goes, ``delay_s`` one way."""

    rate_bps: float = 200e6
    delay_s: float = 0.002


class Lab:
    """One lab in one folder. What it is can be asked by any process; only one at a time changes it."""

    def __init__(self, directory: Path) -> None:
        self.folder = LabFolder(directory)

    @property
    def record(self) -> LabRecord:
        """What there is. Raises BAD_USAGE when there is no lab."""
        return self.folder.require()

    def up(self, options: LabOptions = LabOptions()) -> LabRecord:
        """Make everything and return when every server answers; what was begun is ended when that fails.

        Raises SERVER_MISSING and BAD_USAGE for what the machine lacks, LAB_BUSY, BAD_USAGE when a lab is here, PORT_PERMANENT.
        """
        needs.require()
        self.folder.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        tried = "set the lab up"
        with self.folder.locked(tried):
            self._refuse_second(tried)
            try:
                return self._made(options)
            except BaseException:
                self._end()
                raise

    def down(self, *, keep_files: bool = False) -> int:
        """End every process of the lab, and remove its namespaces, devices and files. Does nothing when there is no lab.

        It works from the record alone, so also after ``up`` died anywhere. Returns how many processes were ended.
        Raises LAB_BUSY; Transient when a process does not end.
        """
        if not self.folder.root.exists():
            return 0
        with self.folder.locked("end the lab"):
            return self._end(keep_files=keep_files)

    def cut(self, place: str, other: str = "") -> None:
        """Part ``place`` from ``other``, or from everything. Raises BAD_USAGE for a place that there is not."""
        self._change_cuts("cut a line", place, other, lambda cuts, cut: (*(one for one in cuts if one != cut), cut))

    def heal(self, place: str = "", other: str = "") -> None:
        """End one partition, or all of a place, or all. Raises BAD_USAGE for a place that there is not."""

        def without(cuts: tuple[Cut, ...], cut: Cut) -> tuple[Cut, ...]:
            if not place:
                return ()
            return tuple(one for one in cuts if place not in (one.place, one.other) or (other and other not in (one.place, one.other)))

        self._change_cuts("heal a line", place, other, without)

    def kill(self, site: str) -> int:
        """End every process at a place at once (SIGKILL), as when the power fails; what is on disk stays. How many there were.

        Raises BAD_USAGE for a place that cannot be lost.
        """
        with self.folder.locked("kill a site"):
            record = self._with_place(site, "kill a site")
            self.folder.write(msgspec.structs.replace(record, killed=tuple({*record.killed, site})))
            return end_members(record.namespace(site))

    def revive(self, site: str) -> None:
        """Start the servers of a place that was killed; Slurm goes on from its saved state, and so may its jobs. Raises BAD_USAGE."""
        with self.folder.locked("revive a site"):
            record = self._with_place(site, "revive a site")
            left = tuple(one for one in record.processes if one.place != site)
            started = self._start(record, site)
            self.folder.write(
                msgspec.structs.replace(record, killed=tuple(one for one in record.killed if one != site), processes=(*left, *started))
            )

    def run(self, place: str, name: str, command: Sequence[str], *, env: Mapping[str, str] | None = None) -> Started:
        """Start a program at a place; it is ended with the lab, if not before. Raises BAD_USAGE."""
        with self.folder.locked("start a program"):
            record = self.record
            if place not in PLACES:
                raise _no_place(place, "start a program", PLACES)
            log = self.folder.log / f"{name}-{place}.log"
            started = spawn(record.namespace(place), command, name=name, place=place, log=log, env=env)
            self.folder.write(msgspec.structs.replace(record, programs=(*record.programs, started)))
            return started

    def runs(self, name: str) -> bool:
        """Whether a program that ``run`` started under that name lives."""
        return any(one.name == name and one.alive for one in self.record.programs)

    def end_program(self, name: str) -> None:
        """Ask a program that ``run`` started to end (SIGTERM), and wait. Raises BAD_USAGE when none of it runs, Transient when it stays."""
        with self.folder.locked("end a program"):
            record = self.record
            mine = [one for one in record.programs if one.name == name]
            if not mine:
                raise BridgeheadError(
                    ErrorCode.BAD_USAGE,
                    tried="end a program",
                    subject=str(self.folder.root),
                    happened=f"no {name} run",
                    remedy="`bridgehead lab work` starts the lab's programs.",
                )
            for one in mine:
                end(one, within_s=PATIENCE_S)
            left = tuple(one for one in record.programs if one.name != name)
            self.folder.write(msgspec.structs.replace(record, programs=left))

    def _made(self, options: LabOptions) -> LabRecord:
        self.folder.log.mkdir(exist_ok=True)
        record = new_record(now_s=time.time(), net=network.free_net())
        record = msgspec.structs.replace(
            record,
            lines=network.lines_of(record, rate_bps=options.rate_bps, delay_s=options.delay_s),
            places=(DATA_OUTSIDE.format(id=record.id),),
        )
        self.folder.write(record)
        record = self._add(record, network.make(record, self.folder))
        for place in (HUB, WITNESS, *SITES):
            record = self._add(record, self._start(record, place))
        record = msgspec.structs.replace(record, ready=True)
        self.folder.write(record)
        return record

    def _start(self, record: LabRecord, place: str) -> list[Started]:
        match place:
            case "hub":
                started = servers.start_hub(record, self.folder)
            case "witness":
                self.folder.site(place).mkdir(exist_ok=True)
                started = [servers.start_vault(record, self.folder, place)]
            case _:
                started = servers.start_site(record, self.folder, SiteId(place))
        servers.wait_answering(record, self.folder, started)
        return started

    def _add(self, record: LabRecord, started: list[Started]) -> LabRecord:
        record = msgspec.structs.replace(record, processes=(*record.processes, *started))
        self.folder.write(record)
        return record

    def _end(self, *, keep_files: bool = False) -> int:
        record = self.folder.read()
        if record is None:
            return 0
        ended = sum(end_members(record.namespace(place)) for place in PLACES)
        network.remove(record)
        for place in record.places:
            shutil.rmtree(place, ignore_errors=True)
        if not keep_files:
            for path in self.folder.root.iterdir():
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                elif path != self.folder.file:
                    path.unlink()
        self.folder.file.unlink()
        with contextlib.suppress(OSError):
            self.folder.root.rmdir()
        return ended

    def _refuse_second(self, tried: str) -> None:
        record = self.folder.read()
        if record is not None:
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried=tried,
                subject=str(self.folder.root),
                happened=f"lab {record.id} is here, made by process {record.up.pid}"
                + ("" if record.ready else ", which did not come to its end"),
                remedy=f"`bridgehead lab down --dir {self.folder.root}` ends it; or name another --dir.",
            )
        if any(path.name != "lab.lock" for path in self.folder.root.iterdir()):
            raise BridgeheadError(
                ErrorCode.BAD_USAGE,
                tried=tried,
                subject=str(self.folder.root),
                happened="the folder is not empty, and no lab is in it",
                remedy="Name an empty folder, or one that does not exist yet: `down` removes what is in it.",
            )

    def _change_cuts(self, tried: str, place: str, other: str, change: Change) -> None:
        with self.folder.locked(tried):
            record, known = self.record, (*PLACES, CONTROLLER)
            for one in (place, other):
                if one and one not in known:
                    raise _no_place(one, tried, known)
            if place == other and place:
                raise _no_place(other, tried, [one for one in known if one != place])
            record = msgspec.structs.replace(record, cuts=change(record.cuts, Cut(place, other)))
            self.folder.write(record)
            network.apply_cuts(record)

    def _with_place(self, place: str, tried: str) -> LabRecord:
        if place not in (*SITES, WITNESS):
            raise _no_place(place, tried, (*SITES, WITNESS))
        return self.record


def _no_place(place: str, tried: str, known: Sequence[str]) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE, tried=tried, subject=repr(place), happened="not possible there", remedy=f"Possible: {', '.join(known)}."
    )
