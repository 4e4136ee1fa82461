"""The Slurm scheduler keeps the scheduler's contract on a real cluster: by the command line, by slurmrestd, and over ssh."""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridgehead.drivers.shell import LocalShell, LocalShellOptions
from bridgehead.drivers.slurm.options import RestOptions, SlurmOptions
from bridgehead.drivers.slurm.scheduler import SlurmScheduler
from bridgehead.drivers.ssh import SshShell
from bridgehead.testing.scheduler_suite import Family, SchedulerHooks, SchedulerSuite
from bridgehead.testing.slurm_cluster import SlurmCluster
from bridgehead.testing.slurm_files import SlurmPlan
from bridgehead.testing.ssh_server import SshServer

pytestmark = [pytest.mark.server("slurmctld", "munged"), pytest.mark.xdist_group("slurm")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with SlurmCluster(SlurmPlan(rest=True, settings={"KillWait": "1"}), tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


def shell(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


class SlurmHooks(SchedulerHooks):
    rest = False

    @pytest.fixture(autouse=True)
    def _place(self, tmp_path: Path, cluster: SlurmCluster) -> None:
        self.tmp, self.cluster = tmp_path, cluster

    def make(self, **changes) -> SlurmScheduler:
        rest = RestOptions(url=f"unix:{self.cluster.rest_socket}") if self.rest else None
        fields = {"cluster": "site-a", "state": str(self.tmp / "state"), "conf": str(self.cluster.conf), "rest": rest, "timeout_s": 2.0}
        return SlurmScheduler(self.site, SlurmOptions(**(fields | changes)), shell=self.shell())

    def shell(self):
        return LocalShell(LocalShellOptions(env={"BRIDGEHEAD_SECRET": "of the controller"}))

    @pytest.fixture
    def scheduler(self):
        yield self.make()
        self.cluster.client("scancel", "--user=root")
        deadline = time.monotonic() + 20
        while self.cluster.client("squeue", "-h", "-o", "%i").strip():
            assert time.monotonic() < deadline, self.cluster.client("squeue")
            time.sleep(0.05)

    def sleeps(self):
        return shell("trap 'exit 0' TERM; echo listening; while :; do sleep 0.1; done")

    def ignores_stop(self):
        return shell("trap '' TERM; echo listening; while :; do sleep 60; done")

    def exits(self, code):
        return shell(f"exit {code}")

    def cannot_execute(self):
        return (str(self.tmp / "no-such-program"),)

    def listens(self, scheduler, name):
        path = Path(scheduler.log_path(name))
        return path.exists() and b"listening" in path.read_bytes()

    def reopened(self, scheduler):
        return self.make()

    @contextmanager
    def blinded(self, scheduler):
        pids = [stat.pid for stat in self.cluster.named("slurmctld")]
        for pid in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in pids:
                os.kill(pid, signal.SIGCONT)

    def waits_for_child(self):
        pids = self.tmp / "pids"

        def living() -> int:
            known = pids.read_text().split() if pids.exists() else []
            return sum(1 for pid in known if Path(f"/proc/{pid}/cmdline").exists() and Path(f"/proc/{pid}/cmdline").read_bytes())

        return Family(shell(f"echo $$ >> {pids}; setsid sh -c 'echo $$ >> {pids}; exec sleep 600' & wait"), living)


class TestByCommandLine(SlurmHooks, SchedulerSuite):
    """The contract."""


@pytest.mark.server("slurmrestd")
class TestBySlurmrestd(SlurmHooks, SchedulerSuite):
    rest = True


@pytest.fixture(scope="module")
def login(tmp_path_factory):
    place = SshServer(tmp_path_factory.mktemp("sshd"))
    with place.running():
        shell = SshShell(place.options())
        yield shell
        shell.close()


@pytest.mark.server("sshd", "ssh")
class TestOverSsh(SlurmHooks, SchedulerSuite):
    @pytest.fixture(autouse=True)
    def _login(self, login):
        self.login = login

    def shell(self):
        return self.login
