"""Status of a lab: what runs where, what its lines can do, what is cut, and whether everything answers."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.testing.lab.namespaces import members
from bridgehead.testing.lab.network import controller_address
from bridgehead.testing.lab.record import PLACES, SITES, LabFolder, LabRecord, Started
from bridgehead.testing.lab.servers import PROXY_PORT, database_url, prometheus_url
from bridgehead.testing.servers import listens
from bridgehead.testing.slurm_cluster import SlurmCluster


class ServerStatus(msgspec.Struct, frozen=True):
    """One process of the lab. ``answers``: as the controller sees it, so that a partition shows; None for what has no address."""

    name: str
    pid: int
    address: str
    alive: bool
    answers: bool | None

    @property
    def well(self) -> bool:
        """Nothing is wrong with it."""
        return self.alive and self.answers is not False


class LineStatus(msgspec.Struct, frozen=True):
    """The line of a place: limits in each direction, and from what it is cut ("" for everything)."""

    address: str
    rate_bps: float
    delay_s: float
    cut_from: tuple[str, ...]


class PlaceStatus(msgspec.Struct, frozen=True):
    """One place. ``processes``: all that live in its namespace; ``jobs``: name and state of each job that its Slurm knows."""

    namespace: str
    killed: bool
    line: LineStatus | None
    servers: tuple[ServerStatus, ...]
    programs: tuple[ServerStatus, ...]
    processes: int
    jobs: dict[str, str] = {}


class LabStatus(msgspec.Struct, frozen=True):
    """A lab. ``healthy``: it is ready, nothing is cut or killed, and every server is alive and answers."""

    id: str
    directory: str
    healthy: bool
    ready: bool
    created_s: float
    controller: str
    service: str
    prometheus: str
    database: str
    files: tuple[str, ...]
    places: dict[str, PlaceStatus]


def status_of(folder: LabFolder, record: LabRecord) -> LabStatus:
    """Look at everything at once; takes about as long as the slowest answer, some seconds when a site is out of reach."""
    with ThreadPoolExecutor(16, thread_name_prefix="lab-status") as pool:
        servers = dict(zip(record.processes, pool.map(_server, record.processes), strict=True))
        programs = dict(zip(record.programs, pool.map(_server, record.programs), strict=True))
        alive = [site for site in SITES if site not in record.killed]  # Slurm's clients wait long for a controller that is not there
        jobs = dict(zip(alive, pool.map(lambda site: _jobs(folder, site), alive), strict=True))
    places = {
        place: PlaceStatus(
            namespace=record.namespace(place),
            killed=place in record.killed,
            line=_line(record, place),
            servers=tuple(found for one, found in servers.items() if one.place == place),
            programs=tuple(found for one, found in programs.items() if one.place == place),
            processes=len(members(record.namespace(place))),
            jobs=jobs.get(SiteId(place), {}),
        )
        for place in PLACES
    }
    well = all(found.well for found in servers.values())
    return LabStatus(
        id=record.id,
        directory=str(folder.root),
        healthy=record.ready and well and not record.cuts and not record.killed,
        ready=record.ready,
        created_s=record.created_s,
        controller=controller_address(record),
        service=f"http://{record.net}.2:{PROXY_PORT}",
        prometheus=prometheus_url(record),
        database=database_url(record),
        files=tuple(sorted(str(path) for path in Path(folder.root).glob("*.yaml"))),
        places=places,
    )


def _server(one: Started) -> ServerStatus:
    return ServerStatus(one.name, one.pid, one.address, one.alive, listens(one.address) if one.address else None)


def _line(record: LabRecord, place: str) -> LineStatus | None:
    if place not in record.lines:
        return None
    line = record.lines[place]
    cut_from = [cut.other if cut.place == place else cut.place for cut in record.cuts if place in (cut.place, cut.other)]
    return LineStatus(line.address, line.rate_bps, line.delay_s, tuple(cut_from))


def _jobs(folder: LabFolder, site: str) -> dict[str, str]:
    """Asked inside of the site, so that a partition hides nothing; empty when its Slurm does not answer."""
    try:
        text = SlurmCluster.opened(folder.site(site) / "slurm").client("squeue", "-h", "-o", "%j %T")
    except (RuntimeError, FileNotFoundError):
        return {}
    return {name: state.lower() for name, _, state in (line.partition(" ") for line in text.splitlines())}
