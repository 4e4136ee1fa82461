"""Restore orchestration: 40 services with dependencies come back through 20 streams over a limited line, beside strictly serial recovery.

Run: ``python bench/restore_orchestration.py [--rate BIT_PER_S] [--streams N] [--write]``; ``--write`` puts the table into
docs/benchmarks.md. Exit code 1 when a promise broke. It needs haproxy.

A site is lost, and the other one holds none of the data. `recover failover` fetches it from an archive: an HTTP blob store behind a relay
that carries so many bits a second in each direction, shared by all connections. Each service is a process (``restored_service.py``): it
restores its data from the site's vault, and answers only when what it needs answers. The two recoveries are the same steps on the same
bytes; in the serial one each workload's steps wait until the one before it works.

The use of the line is what the relay carried from the moment when the first restore began to that when the last one was over, over what
it could have carried. The order is judged by what the services themselves wrote when they began.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import random
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
from table import Table, machine, write_section

from bridgehead.app import recover, runs, wiring
from bridgehead.app.home import Home
from bridgehead.drivers.haproxy import HaproxyOptions
from bridgehead.drivers.haproxy.options import HaproxyService
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.ids import Epoch, JobName, RunId, ServiceId, SiteId, StepId, WorkloadId
from bridgehead.model import event as ev
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Protected, Ramp, Recovery, Role, SiteJob
from bridgehead.model.runbook import Runbook
from bridgehead.model.stamp import Stamp
from bridgehead.recovery.order import ordered
from bridgehead.runbook import state as st
from bridgehead.testing.servers import free_port, haproxy, python_server, relay
from bridgehead.vault import Vault

LOST, SAVED, WITNESS, ARCHIVE = SiteId("site-a"), SiteId("site-b"), SiteId("witness"), SiteId("archive")
PROGRAM = Path(__file__).parent / "restored_service.py"
WARM_S = 1.0
STEPS_OF_ONE = ("fetch", "prove", "fence", "start", "ready")


class Member(msgspec.Struct, frozen=True):
    """One of the forty. ``needs`` is all that must answer before it may begin, foundations included."""

    name: str
    kind: WorkloadKind
    megabytes: int
    named: tuple[str, ...]
    needs: tuple[str, ...]
    role: Role = Role.OTHER
    priority: int = 0


def members(dice: random.Random) -> list[Member]:
    """Eleven foundations in five tiers, eleven services that need one another, twelve models by priority, six trainings."""
    made: list[Member] = []
    below: tuple[str, ...] = ()
    for role, many in ((Role.IDENTITY, 2), (Role.DNS, 2), (Role.STORAGE, 3), (Role.REGISTRY, 2), (Role.SCHEDULER, 2)):
        names = tuple(f"{role.value}-{number}" for number in range(many))
        made += [Member(name, WorkloadKind.SERVICE, dice.randint(2, 8), (), below, role) for name in names]
        below = names
    services = [f"service-{number}" for number in range(11)]
    for number, name in enumerate(services):
        named = tuple(dice.sample(services[:number], min(number, dice.randint(0, 2))))
        made.append(Member(name, WorkloadKind.SERVICE, dice.randint(4, 14), named, (*below, *named)))
    for number in range(12):
        named = tuple(dice.sample(services, dice.randint(1, 2)))
        one = Member(f"model-{number}", WorkloadKind.INFERENCE, dice.randint(8, 20), named, (*below, *named), priority=12 - number)
        made.append(one)
    for number in range(6):
        named = (dice.choice(services),)
        made.append(Member(f"training-{number}", WorkloadKind.BATCH, dice.randint(12, 24), named, (*below, *named)))
    return made


class Archive(msgspec.Struct, frozen=True):
    """What was saved: folder of the vault, and by name the digest of the data."""

    folder: Path
    digests: dict[str, str]


def filled(folder: Path, graph: list[Member], dice: random.Random) -> Archive:
    """Random bytes for each, so that nothing is saved by compression or by blocks in common."""
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(folder / "archive"))), pack_bytes=4 << 20)
    digests: dict[str, str] = {}
    for one in graph:
        data = folder / "data" / one.name
        data.mkdir(parents=True)
        content = dice.randbytes(one.megabytes * 1_000_000)
        (data / "data.bin").write_bytes(content)
        digests[one.name] = hashlib.blake2b(content).hexdigest()
        vault.save(data, workload=WorkloadId(one.name), step=1, epoch=Epoch(0), site=LOST)
        (data / "data.bin").unlink()
    return Archive(folder / "archive", digests)


class Outcome(msgspec.Struct):
    """What one recovery came to. Times in seconds from its beginning."""

    works_s: float
    first_model_s: float
    restores_s: float
    carried_bytes: int
    use: float
    most_streams: int
    violations: int
    services: int


class Site:
    """Everything of one recovery: the recovery file, the connections, the log of the services."""

    def __init__(self, folder: Path, graph: list[Member], archive: Archive, *, line_port: int, streams: int) -> None:
        self.graph, self.folder, self.log = graph, folder, folder / "services.log"
        ports: set[int] = set()
        while len(ports) < 2 * len(graph) + 1:
            ports.add(free_port())
        free = iter(sorted(ports))
        nobody = next(free)
        self._ports = {one.name: next(free) for one in graph}
        for name in ("scheduler-a", "scheduler-b", "vault-b", "witness"):
            (folder / name).mkdir(parents=True)
        for name in ("vault-b", "witness"):
            Vault.init(LocalBlobs(LocalBlobsOptions(str(folder / name))))
        backends = {one.name: {LOST: f"127.0.0.1:{nobody}", SAVED: f"127.0.0.1:{self._ports[one.name]}"} for one in graph}
        self.proxy = HaproxyOptions(
            socket=str(folder / "haproxy.sock"),
            state_file=str(folder / "weights.json"),
            config_file=str(folder / "haproxy.cfg"),
            timeout_s=10.0,  # its answers are slow while forty processes start
            services={
                ServiceId(name): HaproxyService(f"127.0.0.1:{next(free)}", sites, {LOST: 100, SAVED: 0}) for name, sites in backends.items()
            },
        )
        archived = {one.name: archive.digests[one.name] for one in graph}
        work = tuple(self._protected(one, archived[one.name]) for one in graph)
        ramp = Ramp(lost_step=1.0, every_s=0.2)
        self.recovery = Recovery("forty", (LOST, SAVED), work, witness=WITNESS, archives=(ARCHIVE,), ramp=ramp, streams=streams)
        localfs = {"driver": "localfs", "directory": ""}
        traffic = {"driver": "haproxy", **msgspec.to_builtins(self.proxy)}
        self.connections: dict[str, Any] = {
            "sites": {
                LOST: {
                    "scheduler": {"driver": "process", "directory": str(folder / "scheduler-a")},
                    "vault": {"driver": "http", "url": f"http://127.0.0.1:{nobody}"},
                },
                SAVED: {
                    "scheduler": {"driver": "process", "directory": str(folder / "scheduler-b")},
                    "vault": localfs | {"directory": str(folder / "vault-b")},
                },
                WITNESS: {"vault": localfs | {"directory": str(folder / "witness")}},
                ARCHIVE: {"vault": {"driver": "http", "url": f"http://127.0.0.1:{line_port}", "timeout_s": 60.0}},
            },
            "services": {
                name: {
                    "traffic": traffic,
                    "serving": {"driver": "http", "backends": {name: {site: f"http://{at}" for site, at in sites.items()}}},
                }
                for name, sites in backends.items()
            },
        }

    def _protected(self, one: Member, digest: str) -> Protected:
        serves = one.kind is not WorkloadKind.BATCH
        needs = [f"{need}={self._ports[need]}" for need in one.needs]
        command = (
            sys.executable, str(PROGRAM), one.name, str(self._ports[one.name]), str(self.folder / "vault-b"),
            "{snapshot}" if serves else "-", digest, str(self.log), str(WARM_S), *needs,
        )  # fmt: skip
        jobs = tuple(SiteJob(site, command, JobName(f"{one.name}-{site}"), grace_s=1.0) for site in (LOST, SAVED))
        return Protected(
            WorkloadId(one.name), one.kind, LOST, SAVED, jobs, role=one.role, service=ServiceId(one.name) if serves else None,
            needs=tuple(WorkloadId(need) for need in one.named), priority=one.priority, restore_bytes=one.megabytes * 1_000_000,
        )  # fmt: skip

    def noted(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()] if self.log.exists() else []

    def end_jobs(self) -> None:
        """Ends the services, each by its own record."""
        scheduler = wiring.connect(self.connections).scheduler(SAVED)
        for one in self.graph:
            with contextlib.suppress(Exception):
                stamp = Stamp(run=RunId("bench"), step=StepId("end"), attempt=1, epoch=Epoch(1))
                scheduler.kill(JobName(f"{one.name}-{SAVED}"), stamp=stamp)


def serial(book: Runbook, order: list[Protected]) -> Runbook:
    """The same steps, where each workload's wait until the one before it works."""
    after: dict[str, StepId] = {}
    for before, one in pairwise(order):
        after |= {f"{name}-{one.id}": StepId(f"ready-{before.id}") for name in STEPS_OF_ONE}
    steps = tuple(msgspec.structs.replace(step, needs=(*step.needs, after[step.id])) if step.id in after else step for step in book.steps)
    return msgspec.structs.replace(book, steps=steps)


@contextlib.contextmanager
def sampled(status: Path) -> Iterator[list[tuple[float, int]]]:
    """What the relay has carried from the archive, and when."""
    seen: list[tuple[float, int]] = [(time.time(), 0)]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            with contextlib.suppress(OSError, ValueError):
                seen.append((time.time(), json.loads(status.read_text())["back_bytes"]))

    thread = threading.Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        over.set()
        thread.join()


def recovered(folder: Path, graph: list[Member], archive: Archive, asked: argparse.Namespace, *, one_by_one: bool) -> Outcome:
    """One recovery, from the decision to the last service that works."""
    with (
        python_server("bridgehead.app.blobserver", "--directory", str(archive.folder), folder=folder, name="blobs") as (_, port),
        relay(port, folder=folder, rate_bps=asked.rate) as (line_port, _, status),
    ):
        site = Site(folder / "site", graph, archive, line_port=line_port, streams=asked.streams)
        home = Home(folder / "home")
        try:
            with haproxy(site.proxy, folder=folder), sampled(status) as carried:
                here = recover.Setting(site.recovery, site.connections, wiring.connect(site.connections))
                proposal = recover.propose_failover(here, LOST, home=home)
                if proposal.left_out:
                    raise SystemExit(f"not all of them are recovered: {proposal.left_out}")
                if one_by_one:
                    proposal = msgspec.structs.replace(proposal, runbook=serial(proposal.runbook, ordered(site.recovery.workloads)))
                run = recover.open_proposal(home, here, proposal, name=None, by="bench")
                began_s = time.time()
                state = recover.drive(home, here, run, until_serving=True)
                if not isinstance(state.mode, st.Forward):
                    raise SystemExit(f"{runs.mode_word(state)}: {state.mode}")
                deadline_s = time.time() + 30  # trainings run when they have begun; they work a little later
                while sum(line["what"] == "works" for line in site.noted()) < len(graph):
                    if time.time() > deadline_s:
                        raise SystemExit(f"not all work; their log is\n{site.log.read_text()}")
                    time.sleep(0.1)
                return measured(site, home, run, began_s, carried, asked.rate)
        finally:
            site.end_jobs()


def measured(site: Site, home: Home, run: RunId, began_s: float, carried: list[tuple[float, int]], rate_bps: float) -> Outcome:
    works = {line["service"]: line["at_s"] for line in site.noted() if line["what"] == "works"}
    begins = {line["service"]: line["at_s"] for line in site.noted() if line["what"] == "began"}
    early = [(one.name, need) for one in site.graph for need in one.needs if begins[one.name] < works[need]]
    early += [(line["service"], line["about"]) for line in site.noted() if line["what"] == "violation"]
    edges: list[tuple[float, int]] = []
    applied: list[float] = []
    for entry in runs.entries_of(home, run):
        match entry.event:
            case ev.Intent(phase=ev.Phase.PRECHECK, step=step) if step.startswith("fetch-"):
                edges.append((entry.event.at_s, 1))
            case ev.PhaseDone(phase=ev.Phase.VERIFY, step=step) if step.startswith("fetch-"):
                edges.append((entry.event.at_s, -1))
            case ev.PhaseDone(phase=ev.Phase.APPLY, step=step) if step.startswith("fetch-"):
                applied.append(entry.event.at_s)
            case _:
                pass
    most = under_way = 0
    for _, change in sorted(edges):
        under_way += change
        most = max(most, under_way)
    first_s, last_s = min(edges)[0], max(applied)
    inside = [size for at_s, size in carried if first_s <= at_s <= last_s + 0.2]
    before = [size for at_s, size in carried if at_s < first_s][-1]
    models = [at_s for name, at_s in works.items() if name.startswith("model-")]
    return Outcome(
        works_s=max(works.values()) - began_s,
        first_model_s=min(models) - began_s,
        restores_s=last_s - first_s,
        carried_bytes=inside[-1] - before,
        use=(inside[-1] - before) * 8 / rate_bps / (last_s - first_s),
        most_streams=most,
        violations=len(set(early)),
        services=len(works),
    )


def report(together: Outcome, serially: Outcome, asked: argparse.Namespace, graph: list[Member]) -> str:
    size_bytes = sum(one.megabytes for one in graph) * 1_000_000
    table = Table("", f"{asked.streams} streams", "strictly serial")
    both = (together, serially)
    table.add("all 40 work after", *(f"{one.works_s:.1f} s" for one in both))
    table.add("the first model answers after", *(f"{one.first_model_s:.1f} s" for one in both))
    table.add("from the first restore to the end of the last", *(f"{one.restores_s:.1f} s" for one in both))
    table.add("use of the line in that time", *(f"{one.use:.1%}" for one in both))
    table.add("restores under way at once, at most", *(str(one.most_streams) for one in both))
    table.add("services that began before what they need answered", *(str(one.violations) for one in both))
    ideal_s = size_bytes * 8 / asked.rate
    needs = sum(len(one.needs) for one in graph)
    what = (
        f"{len(graph)} services (11 foundations in 5 tiers, 11 services, 12 models by priority, 6 trainings) with {needs} dependencies; "
        f"{size_bytes / 1e6:.0f} MB in an archive behind a line of {asked.rate / 1e6:.0f} Mbit/s, which carries them in {ideal_s:.1f} s at "
        f"best. Each service takes {WARM_S:g} s to get warm once its data are restored and what it needs answers."
    )
    beside = (
        f"Strictly serial recovery takes {serially.works_s / together.works_s:.1f} times as long. Bytes, steps and line are the same in "
        "both; in the serial one the steps of each workload wait until the one before it works."
    )
    return "\n\n".join([machine(), what, str(table), beside])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=100e6, metavar="BIT_PER_S")
    parser.add_argument("--streams", type=int, default=20)
    parser.add_argument("--seed", type=int, default=40)
    parser.add_argument("--write", action="store_true")
    asked = parser.parse_args()
    dice = random.Random(asked.seed)
    graph = members(dice)
    with tempfile.TemporaryDirectory(prefix="bh-restores-", dir="/tmp") as name:
        archive = filled(Path(name), graph, dice)
        outcomes = []
        for label in ("together", "serially"):
            folder = Path(name) / label
            folder.mkdir()
            outcomes.append(recovered(folder, graph, archive, asked, one_by_one=label == "serially"))
            print(label, msgspec.json.encode(outcomes[-1]).decode(), flush=True)
    together, serially = outcomes
    text = report(together, serially, asked, graph)
    print(text)
    if asked.write:
        write_section("restore orchestration", "python bench/restore_orchestration.py --write", text)
    promises = {
        f"{together.use:.1%} of the line is used, at least 90 %": together.use >= 0.9,
        f"{together.violations} and {serially.violations} violations of the order, none": together.violations + serially.violations == 0,
        f"{together.most_streams} restores at once, at most {asked.streams}": together.most_streams <= asked.streams,
        "all at once is quicker than one by one": together.works_s < serially.works_s,
    }
    broken = [promise for promise, kept in promises.items() if not kept]
    for promise in broken:
        print(f"BROKEN: {promise}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
