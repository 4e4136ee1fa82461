"""The Slurm scheduler keeps the scheduler's contract on a real cluster: by the command line, by slurmrestd, and over ssh."""

from __future__ import annotations

import pytest

from bridgehead.drivers.ssh import SshShell
from bridgehead.testing.scheduler_suite import SchedulerSuite
from bridgehead.testing.slurm_cluster import SlurmCluster
from bridgehead.testing.slurm_files import SlurmPlan
from bridgehead.testing.slurm_hooks import SlurmHooks
from bridgehead.testing.ssh_server import SshServer

pytestmark = [pytest.mark.server("slurmctld", "munged"), pytest.mark.xdist_group("slurm")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with SlurmCluster(SlurmPlan(rest=True, settings={"KillWait": "1"}), tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


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
class TestOverSsh(SlurmHooks):
    """What depends on the way to the cluster; the rest is the same code."""

    @pytest.fixture(autouse=True)
    def _login(self, login):
        self.login = login

    def shell(self):
        return self.login

    test_never_started = SchedulerSuite.test_a_job_that_was_never_started_is_absent
    test_started = SchedulerSuite.test_repeating_a_start_changes_nothing
    test_exit_code = SchedulerSuite.test_the_exit_code_is_collected
    test_cannot_execute = SchedulerSuite.test_a_command_that_cannot_be_executed_is_refused
    test_adopted = SchedulerSuite.test_J02_another_controller_adopts_the_job
    test_killed = SchedulerSuite.test_kill_takes_the_children_too
    test_out_of_sight = SchedulerSuite.test_J01_a_site_that_cannot_be_seen_is_not_an_absent_job
