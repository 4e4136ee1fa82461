"""What tests of the Slurm driver share: a real cluster, drivers with state folders of their own, jobs ended after each test."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.drivers.shell import LocalShell, LocalShellOptions
from bridgehead.drivers.slurm.options import RestOptions, SlurmOptions
from bridgehead.drivers.slurm.scheduler import SlurmScheduler
from bridgehead.kernel.ids import JobName
from bridgehead.ports.scheduler import Scheduler
from bridgehead.ports.shell import Shell
from bridgehead.testing.scheduler_suite import Family, SchedulerHooks
from bridgehead.testing.slurm_cluster import SlurmCluster


def script(text: str) -> tuple[str, ...]:
    """A command that runs a shell script."""
    return ("/bin/sh", "-c", text)


class SlurmHooks(SchedulerHooks):
    """The hooks of the scheduler's suite for one cluster, which the fixture ``cluster`` gives, also to several tests in a row."""

    rest = False

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, cluster: SlurmCluster) -> None:
        self.tmp, self.cluster = tmp_path, cluster

    def options(self, **changes: Any) -> SlurmOptions:
        """Options of a driver for the cluster; its state folder is the test's own."""
        rest = RestOptions(url=f"unix:{self.cluster.rest_socket}") if self.rest else None
        name, state = self.cluster.plan.name, str(self.tmp / "state")
        options = SlurmOptions(cluster=name, state=state, conf=str(self.cluster.conf), rest=rest, timeout_s=2.0)
        return msgspec.structs.replace(options, **changes)

    def make(self, *, checkpoint: Callable[[str], None] = lambda _name: None, **changes: Any) -> SlurmScheduler:
        """A driver; every one that a test makes works on the same state."""
        return SlurmScheduler(self.site, self.options(**changes), shell=self.shell(), checkpoint=checkpoint)

    def shell(self) -> Shell:
        """Where Slurm's clients run."""
        return LocalShell(LocalShellOptions(env={"BRIDGEHEAD_SECRET": "of the controller"}))

    @pytest.fixture
    def scheduler(self) -> Iterator[Scheduler]:
        """A driver; all jobs of the cluster are ended afterwards."""
        yield self.make()
        self.end_all()

    def end_all(self) -> None:
        """End all jobs of the cluster, and wait until they are over."""
        self.cluster.client("scancel", "--user=root")
        deadline = time.monotonic() + 20
        while self.cluster.client("squeue", "-h", "-o", "%i").strip():
            assert time.monotonic() < deadline, self.cluster.client("squeue")
            time.sleep(0.05)

    def eventually(self, predicate: Callable[[], bool], *, within_s: float = 30.0, step_s: float = 0.1) -> None:
        """As the suite's; a look costs processes."""
        super().eventually(predicate, within_s=within_s, step_s=step_s)

    def sleeps(self) -> tuple[str, ...]:
        """See the suite."""
        return script("trap 'exit 0' TERM; echo listening; while :; do sleep 0.1; done")

    def ignores_stop(self) -> tuple[str, ...]:
        """See the suite."""
        return script("trap '' TERM; echo listening; while :; do sleep 60; done")

    def exits(self, code: int) -> tuple[str, ...]:
        """See the suite."""
        return script(f"exit {code}")

    def cannot_execute(self) -> tuple[str, ...]:
        """See the suite."""
        return (str(self.tmp / "no-such-program"),)

    def listens(self, scheduler: Scheduler, name: JobName) -> bool:
        """See the suite."""
        assert isinstance(scheduler, SlurmScheduler)
        path = Path(scheduler.log_path(name))
        return path.exists() and b"listening" in path.read_bytes()

    def reopened(self, scheduler: Scheduler) -> Scheduler:
        """See the suite."""
        return self.make()

    @contextmanager
    def blinded(self, scheduler: Scheduler) -> Iterator[None]:
        """slurmctld says nothing."""
        pids = [stat.pid for stat in self.cluster.named("slurmctld")]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def waits_for_child(self) -> Family:
        """See the suite; the child has left the session."""
        pids = self.tmp / "pids"

        def living() -> int:
            known = pids.read_text().split() if pids.exists() else []
            return sum(1 for pid in known if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes())

        return Family(script(f"echo $$ >> {pids}; setsid sh -c 'echo $$ >> {pids}; exec sleep 600' & wait"), living)
