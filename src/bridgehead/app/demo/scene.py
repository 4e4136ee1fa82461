"""Scene: everything of a demo that runs, each as a job that is ended by its own identity, never by a name or a port."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TypeVar

import msgspec

from bridgehead.app.demo import commands
from bridgehead.app.demo.places import INFRA, SITES, SOURCE, TARGET, Places, Ports, free_ports
from bridgehead.drivers.httpblobs import HttpBlobs, HttpBlobsOptions
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.drivers.process.control import FileTrainingControl
from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobRunning, JobSpec
from bridgehead.ports.training import TrainingProgress
from bridgehead.testing.relay import RelayStatus
from bridgehead.vault import SiteVaults, Vault

Value = TypeVar("Value")
SETTLE_S = 30.0
PACK_BYTES = 256 << 10
"""A snapshot has some 4 MB: in small packs, a line that is cut in the middle has something to go on from."""


class Scene:
    """A context manager: on leaving it, every process that it or a run of it started has ended.

    Args:
        wan_rate_bps: rate of the line between the sites; 0 for as fast as loopback goes. With a rate the vaults do not encode, so that a
            transfer is long enough to be cut in its middle.
        settle_s: how long a killed job may take to end.
    """

    def __init__(self, places: Places, *, wan_rate_bps: float = 0.0, settle_s: float = SETTLE_S) -> None:
        self.places = places
        self._settle_s = settle_s
        self.ports: Ports = free_ports()
        self._wan_rate_bps = wan_rate_bps
        sites = (*SITES, INFRA)
        self.schedulers = {site: ProcessScheduler(site, ProcessOptions(directory=str(places.jobs(site)))) for site in sites}
        self.controls = {site: FileTrainingControl(site, str(places.control(site))) for site in SITES}
        self._jobs: dict[SiteId, set[JobName]] = {site: set() for site in sites}
        self._numbers = 0

    def __enter__(self) -> Scene:
        try:
            self._set_up()
        except BaseException as error:
            self._end_all(error)
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._end_all(error)

    def _set_up(self) -> None:
        for site in SITES:
            Vault.init(
                LocalBlobs(LocalBlobsOptions(directory=str(self.places.vault(site)))), codec=not self._wan_rate_bps, pack_bytes=PACK_BYTES
            )
        port_file = self.places.wan / "blobs.port"
        self.start(INFRA, commands.blob_server(self.places.vault(TARGET), port_file))
        self.start(INFRA, commands.relay(self.places, f"127.0.0.1:{self.port_in(port_file)}", rate_bps=self._wan_rate_bps))
        self.port_in(self.places.wan / "port")

    def _end_all(self, before: BaseException | None) -> None:
        """End every job, also when one of them cannot be ended. Raises PROMISE_BROKEN that names those; ``before`` is its cause."""
        jobs = [(site, name) for site, names in self._jobs.items() for name in names]
        for site, name in jobs:
            self._killed(site, name)
        left = []
        for site, name in jobs:
            try:
                self.until(partial(self._killed, site, name), f"job {name} at {site} to end", timeout_s=self._settle_s)
            except BridgeheadError:
                left.append(f"{name} at {site}")
        if left:
            raise BridgeheadError(
                ErrorCode.PROMISE_BROKEN,
                tried="end the demo",
                subject=", ".join(left),
                happened="still running, or it cannot be seen" + (f"; before that: {before}" if before is not None else ""),
                remedy=f"Each job's folder below {self.places.root} says which process it is; end it by hand.",
            ) from before

    def _killed(self, site: SiteId, name: JobName) -> bool:
        """Not running any more; told to end when it is. False while that cannot be seen."""
        with contextlib.suppress(PortError):
            if self._ended(site, name):
                return True
            self.schedulers[site].kill(name, stamp=self.stamp())
        return False

    def stamp(self) -> Stamp:
        """A stamp of the demo's own hand; the run has others."""
        self._numbers += 1
        return Stamp(run=RunId("demo"), step=StepId(f"scene-{self._numbers}"), attempt=1, epoch=Epoch(1))

    def start(self, site: SiteId, spec: JobSpec) -> None:
        """Start a job here and now."""
        self.expect(site, spec.name)
        self.schedulers[site].start(spec, stamp=self.stamp())

    def expect(self, site: SiteId, name: JobName) -> None:
        """A run will start this job: end it with the scene."""
        self._jobs[site].add(name)

    def stop(self, site: SiteId, name: JobName) -> None:
        """Ask it to end, and wait."""
        self.schedulers[site].stop(name, stamp=self.stamp())
        self.until(partial(self._ended, site, name), f"job {name} at {site} to end")

    def _ended(self, site: SiteId, name: JobName) -> bool:
        return not self.runs(site, name)

    def runs(self, site: SiteId, name: JobName) -> bool:
        """Seen alive."""
        return isinstance(self.schedulers[site].observe(name), JobRunning)

    def progress(self, site: SiteId, job: JobName) -> TrainingProgress | None:
        """A trainer's newest report, None before the first."""
        try:
            return self.controls[site].progress(job)
        except PortError:
            return None

    def vaults(self, *, over_wan: bool = True) -> SiteVaults:
        """The vaults as the source's controller reaches them: its own directly, the target's over the line."""
        source = LocalBlobs(LocalBlobsOptions(directory=str(self.places.vault(SOURCE))))
        if over_wan:
            return SiteVaults({SOURCE: Vault.open(source), TARGET: Vault.open(HttpBlobs(HttpBlobsOptions(url=self.wan_url)))})
        target = LocalBlobs(LocalBlobsOptions(directory=str(self.places.vault(TARGET))))
        return SiteVaults({SOURCE: Vault.open(source), TARGET: Vault.open(target)})

    @property
    def wan_url(self) -> str:
        """Where the target's vault is reached from the source."""
        return f"http://127.0.0.1:{self.port_in(self.places.wan / 'port')}"

    def wan_status(self) -> RelayStatus:
        """What crossed the line so far."""
        return msgspec.json.decode((self.places.wan / "status.json").read_bytes(), type=RelayStatus)

    def port_in(self, file: Path) -> int:
        """The port that a server writes into a file when it answers."""
        return int(self.until(lambda: file.exists() and file.read_text().strip(), f"{file.name} to appear") or 0)

    def saved(self, site: SiteId, workload: WorkloadId, *, at_least: int) -> SnapshotId:
        """Wait for a snapshot of a step, or a later one, in the site's own vault."""
        vaults = self.vaults(over_wan=False)

        def newest() -> SnapshotId | None:
            info = vaults.newest(workload, site=site)
            return info.id if info is not None and info.step >= at_least else None

        found = self.until(newest, f"a snapshot of {workload} after step {at_least} at {site}", timeout_s=60.0)
        assert found is not None
        return found

    def until(self, look: Callable[[], Value], what: str, *, timeout_s: float = SETTLE_S) -> Value:
        """Look until the answer is true. Raises PROMISE_BROKEN, with the logs' folder, when it never is."""
        end_s = time.monotonic() + timeout_s
        while True:
            value = look()
            if value:
                return value
            if time.monotonic() > end_s:
                raise BridgeheadError(
                    ErrorCode.PROMISE_BROKEN,
                    tried=f"wait for {what}",
                    subject=str(self.places.root),
                    happened=f"it did not come within {timeout_s:g} s",
                    remedy=f"Run with --keep and look at the logs below {self.places.root} (each job's folder has a file 'log').",
                )
            time.sleep(0.02)
