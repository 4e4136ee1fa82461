"""LostSite: two sites and a witness as real processes on loopback, of which one can be killed whole, and come back as a zombie.

A trainer and an inference server at each site, HAProxy in front, vaults as folders; the vault of site-a is reached through a blob server
that belongs to site-a, so that it is out of reach when the site is killed. Snapshots are copied to site-b all the time, as a watch does.
"""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import TracebackType

import msgspec

from bridgehead.app.demo import commands, files
from bridgehead.app.demo.commands import Training
from bridgehead.app.demo.places import INFRA, SERVICE, SITES, SOURCE, TARGET, WORKLOAD, Places
from bridgehead.app.demo.scene import Scene
from bridgehead.app.wiring import driver_options
from bridgehead.drivers.haproxy import HaproxyOptions
from bridgehead.drivers.haproxy.process import haproxy_command
from bridgehead.drivers.haproxy.traffic import HaproxyTraffic
from bridgehead.drivers.httpblobs import HttpBlobs, HttpBlobsOptions
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import JobName, SiteId, SnapshotId, WorkloadId
from bridgehead.model.estate import Connection, Estate, Service, Site, SiteConnections, WorkloadKind
from bridgehead.model.estatefile import write_estate
from bridgehead.model.recovery import Drills, Protected, Ramp, Recovery, SiteJob
from bridgehead.model.recoveryfile import write_recovery
from bridgehead.ports.scheduler import JobSpec
from bridgehead.vault import SiteVaults, Vault

WITNESS = SiteId("witness")
TRAINER = {SOURCE: files.SOURCE_TRAINER, TARGET: files.TARGET_TRAINER}
BACKEND = {SOURCE: files.SOURCE_BACKEND, TARGET: files.TARGET_BACKEND}
BLOBS_A, PROXY, LOAD = JobName("blobs-a"), JobName("proxy"), JobName("load")
GPUS = 8
COPY_EVERY_S = 0.3


class LostSite:
    """A context manager; on leaving it every process that it or a recovery started has ended.

    Args:
        pace_per_s, save_every: of the trainer.
        rate_per_s: of requests.
    """

    def __init__(self, folder: Path, *, pace_per_s: float = 20.0, save_every: int = 20, rate_per_s: float = 60.0) -> None:
        self.places = Places(folder)
        self.scene = Scene(self.places)
        self.recovery, self.estate = self.places.root / "recovery.yaml", self.places.root / "estate.yaml"
        self._training = Training(seed=7, until=1_000_000, pace_per_s=pace_per_s, save_every=save_every)
        self._rate_per_s = rate_per_s
        self._copying = threading.Event()
        self._over = threading.Event()
        self._copier = threading.Thread(target=self._copy, daemon=True)

    def __enter__(self) -> LostSite:
        self.scene.__enter__()
        try:
            self._set_up()
        except BaseException as error:
            self.scene.__exit__(type(error), error, None)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._over.set()
        if self._copier.ident is not None:
            self._copier.join()
        self.scene.__exit__(kind, error, trace)

    def _set_up(self) -> None:
        scene, places = self.scene, self.places
        Vault.init(LocalBlobs(LocalBlobsOptions(directory=str(places.root / "witness"))))
        self._port_file = places.wan / "blobs-a.port"
        self.start_blobs()
        self.url_a = f"http://127.0.0.1:{scene.port_in(self._port_file)}"
        self.start_trainer(SOURCE)
        self.model = scene.saved(SOURCE, WORKLOAD, at_least=1)
        scene.start(SOURCE, self._backend(SOURCE))
        self._options = files.haproxy_options(scene)
        HaproxyTraffic(self._options).install()
        scene.start(INFRA, JobSpec(name=PROXY, command=tuple(haproxy_command(self._options)), grace_s=5.0))
        for job in (TRAINER[TARGET], BACKEND[TARGET]):
            scene.expect(TARGET, job)
        self.estate.write_text(write_estate(self._estate(self._options), drivers=driver_options()))
        self.recovery.write_text(write_recovery(self._recovery()))
        self.vaults = SiteVaults(
            {SOURCE: Vault.open(HttpBlobs(HttpBlobsOptions(url=self.url_a))), TARGET: Vault.open(_folder(places.vault(TARGET)))}
        )
        self._copying.set()
        self._copier.start()
        load = commands.load(places, scene.ports, self.model, places.vault(SOURCE), rate_per_s=self._rate_per_s, seed=7)
        scene.start(INFRA, load)

    def start_blobs(self) -> None:
        """What makes the vault of site-a reachable. It has one port for all its life."""
        port = self._port_file.read_text().strip() if self._port_file.exists() else "0"
        spec = commands.blob_server(self.places.vault(SOURCE), self._port_file)
        words = list(spec.command)
        words[words.index("--port") + 1] = port
        self.scene.start(SOURCE, msgspec.structs.replace(spec, name=BLOBS_A, command=tuple(words)))

    def start_trainer(self, site: SiteId, *, deaf: bool = False) -> None:
        """Start the trainer of a site; ``deaf``: it takes no orders and does not care for fences."""
        training = msgspec.structs.replace(self._training, ignore_orders=deaf)
        self.scene.start(site, commands.trainer(self.places, training, TRAINER[site], site=site, workload=WORKLOAD))

    def kill_site_a(self) -> None:
        """kill -9 of everything at site-a, the way to its vault too; nothing is copied any more."""
        self._copying.clear()
        for job in (TRAINER[SOURCE], BACKEND[SOURCE], BLOBS_A):
            with contextlib.suppress(PortError):
                self.scene.schedulers[SOURCE].kill(job, stamp=self.scene.stamp())

    def last_step_at_a(self) -> int:
        """What the trainer at site-a really did last, by its own log of losses."""
        lines = self.places.losses(TRAINER[SOURCE]).read_bytes().splitlines()
        whole = [line for line in lines if line.endswith(b"}")]
        return int(msgspec.json.decode(whole[-1])["step"])

    def copied_step(self) -> int:
        """Step of the newest snapshot at site-b."""
        newest = self.vaults.newest(WORKLOAD, site=TARGET)
        return -1 if newest is None else newest.step

    def _copy(self) -> None:
        while not self._over.wait(COPY_EVERY_S):
            if not self._copying.is_set():
                continue
            with contextlib.suppress(PortError):
                newest = self.vaults.newest(WORKLOAD, site=SOURCE)
                if newest is not None:
                    self.vaults.replicate(newest.id, source=SOURCE, target=TARGET, budget_s=5.0, stamp=self.scene.stamp())

    def _backend(self, site: SiteId) -> JobSpec:
        return commands.backend(self.places, self.scene.ports, BACKEND[site], site, self.model)

    def _estate(self, options: HaproxyOptions) -> Estate:
        places, ports = self.places, self.scene.ports
        vault = {
            SOURCE: Connection("http", {"url": self.url_a}),
            TARGET: Connection("localfs", {"directory": str(places.vault(TARGET))}),
        }
        sites = [files.embedded_site(places, site, vault=vault[site]) for site in SITES]
        witness = Connection("localfs", {"directory": str(places.root / "witness")})
        sites.append(Site(WITNESS, connections=SiteConnections(vault=witness)))
        probe = {site: {"url": f"http://127.0.0.1:{ports.probe}/metrics", "labels": {"service": SERVICE, "site": site}} for site in SITES}
        service = Service(
            SERVICE,
            SITES,
            traffic=Connection("haproxy", msgspec.to_builtins(options)),
            metrics=Connection("prometheus-text", {"sources": {SERVICE: probe}}),
            serving=Connection("http", {"backends": {SERVICE: {site: f"http://127.0.0.1:{ports.backend[site]}" for site in SITES}}}),
        )
        return Estate(name="lost-site", sites=tuple(sites), services=(service,))

    def _recovery(self) -> Recovery:
        trainers, backends = [], []
        for site in SITES:
            trainer = commands.trainer(self.places, self._training, TRAINER[site], site=site, workload=WORKLOAD)
            trainers.append(_job(site, trainer, ""))
            backends.append(_job(site, self._backend(site), self.model))
        trained = Protected(WORKLOAD, WorkloadKind.TRAINING, SOURCE, TARGET, tuple(trainers), gpus=GPUS)
        chat = WorkloadId(SERVICE)
        served = Protected(chat, WorkloadKind.INFERENCE, SOURCE, TARGET, tuple(backends), service=SERVICE, model=WORKLOAD)
        workloads = (trained, msgspec.structs.replace(served, snapshot=self.model))
        ramp, drills = Ramp(step=0.5, lost_step=1.0, every_s=0.5), Drills(own=(str(self.places.log),))
        return Recovery("lost-site", SITES, workloads, witness=WITNESS, ramp=ramp, drills=drills)


def _folder(directory: Path) -> LocalBlobs:
    return LocalBlobs(LocalBlobsOptions(directory=str(directory)))


def _job(site: SiteId, spec: JobSpec, model: SnapshotId | str) -> SiteJob:
    """As the recovery file has it; the snapshot that is served has a placeholder."""
    command = tuple("{snapshot}" if model and word == model else word for word in spec.command)
    return SiteJob(site, command, spec.name, dict(spec.env), spec.workdir, spec.grace_s)
