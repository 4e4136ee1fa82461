"""The Slurm driver keeps the admission port's contract on a real cluster; what only Slurm does: suspended jobs, dead nodes, GraceTime."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from contextlib import contextmanager

import msgspec
import pytest

from bridgehead.drivers.shell import LocalShell
from bridgehead.drivers.slurm import SlurmOptions
from bridgehead.drivers.slurm.admission import SlurmAdmission
from bridgehead.drivers.slurm.options import JobRequest
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.ports.admission import Reservation
from bridgehead.testing.admission_suite import JOB, AdmissionRig, AdmissionSuite
from bridgehead.testing.scheduler_suite import stamp
from bridgehead.testing.slurm_cluster import SlurmCluster
from bridgehead.testing.slurm_files import SlurmPlan

pytestmark = [pytest.mark.server("slurmctld", "munged"), pytest.mark.xdist_group("slurm-admission")]
PREEMPTING = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    settings = {"KillWait": "1", "OverTimeLimit": "2", "SlurmdTimeout": "5", **PREEMPTING}
    with SlurmCluster(SlurmPlan(settings=settings), tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


class SlurmRig(AdmissionRig):
    def __init__(self, cluster, folder):
        self.cluster, self.folder = cluster, folder

    def driver(self, **changes):
        state = str(self.folder / "state")
        options = SlurmOptions(cluster="site-a", state=state, conf=str(self.cluster.conf), timeout_s=2.0)
        return SlurmAdmission(SiteId("site-a"), msgspec.structs.replace(options, **changes), shell=LocalShell())

    def submit(self, name, *words, script="exec sleep 600"):
        self.cluster.client("sbatch", "-J", name, "-o", "/dev/null", *words, stdin=f"#!/bin/sh\n{script}\n")

    def begun(self, name):
        return bool(self.states(name, "RUNNING"))

    def states(self, name, *states):
        return self.cluster.client("squeue", "-h", "-n", name, "-t", ",".join(states), "-o", "%T").split()

    def end(self, name):
        self.cluster.client("scancel", "-n", name)

    def close_by_hand(self, node, reason):
        self.cluster.client("scontrol", "update", f"nodename={node}", "state=drain", f"reason={reason}")

    @contextmanager
    def blinded(self):
        daemons = self.cluster.named("slurmctld")
        self.send(daemons, signal.SIGSTOP)
        yield
        self.send(daemons, signal.SIGCONT)

    @staticmethod
    def send(daemons, number):
        subprocess.run(["kill", f"-{int(number)}", *(str(stat.pid) for stat in daemons)], check=True)

    def clean(self):
        self.cluster.client("scancel", "--user=root")
        self.eventually(lambda: not self.cluster.client("squeue", "-h", "-o", "%i").strip())
        for name in re.findall(r"ReservationName=(\S+)", self.cluster.client("scontrol", "show", "reservation", "-o")):
            self.cluster.client("scontrol", "delete", f"reservationname={name}")
        for node in self.both:
            state = self.cluster.client("sinfo", "-h", "-n", node, "-o", "%T")
            if "drain" in state or "down" in state:
                self.cluster.client("scontrol", "update", f"nodename={node}", "state=resume")
        self.cluster.wait_ready(states=("idle",))


@pytest.fixture
def rig(cluster, tmp_path):
    rig = SlurmRig(cluster, tmp_path)
    yield rig
    rig.clean()


class TestSlurmAdmission(AdmissionSuite):
    @pytest.fixture
    def rig(self, rig):
        return rig


class TestWhatSlurmDoes:
    def test_a_node_with_a_suspended_job_is_not_empty(self, rig, tmp_path):
        """Slurm calls it idle, and its processes are there all the same."""
        rig.submit(JOB, script=f"touch {tmp_path}/began; exec sleep 600")
        rig.eventually((tmp_path / "began").exists)  # before, there is nothing to suspend, and it goes on
        (job_id,) = rig.cluster.client("squeue", "-h", "-o", "%i").split()
        rig.cluster.client("scontrol", "suspend", job_id)
        rig.eventually(lambda: rig.states(JOB, "SUSPENDED"))
        rig.eventually(lambda: set(rig.cluster.client("sinfo", "-h", "-o", "%T").split()) == {"idle"})
        assert sorted(view.empty for view in rig.driver().nodes(rig.both)) == [False, True]

    def test_J01_a_dead_node_is_not_empty_and_one_that_a_person_fenced_is(self, rig):
        driver = rig.driver()
        rig.cluster.kill_node(rig.first)
        try:
            # Until Slurm has noticed, a word of the node that is still on its way makes it idle again (ReturnToService).
            rig.eventually(lambda: "*" in rig.cluster.client("sinfo", "-h", "-n", rig.first, "-o", "%T"))
            rig.cluster.client("scontrol", "update", f"nodename={rig.first}", "state=down", "reason=looks strange")
            assert [(view.open, view.empty) for view in driver.nodes(rig.both)] == [(False, False), (True, True)]
            driver.drain((rig.first,), reason="move", stamp=stamp("drain"))
            (view,) = driver.nodes((rig.first,))
            assert (view.drained_here, view.reason) == (True, "bridgehead run-1: move (before: looks strange)")
            driver.resume((rig.first,), stamp=stamp("resume"))
            # Down as it was; or, where Slurm had heard of it in between (ReturnToService), a node that does not answer.
            assert re.search(r"down|\*", rig.cluster.client("sinfo", "-h", "-n", rig.first, "-o", "%T"))
            rig.cluster.client("scontrol", "update", f"nodename={rig.first}", "state=down", "reason=fenced: power is off")
            driver.drain((rig.first,), reason="move", stamp=stamp("drain"))
            (view,) = driver.nodes((rig.first,))
            assert (view.open, view.empty, view.reason) == (False, True, "fenced: power is off")
        finally:
            rig.cluster.start_node(rig.first)

    def test_only_jobs_that_ask_for_a_reservation_begin_on_its_nodes_and_it_stays_while_they_run(self, rig):
        driver = rig.driver()
        driver.reserve(Reservation("moved", rig.both, ("root",)), stamp=stamp("reserve"))
        rig.submit(JobName("stranger"))
        rig.submit(JOB, "--reservation=moved")
        rig.eventually(lambda: rig.begun(JOB))
        assert rig.states(JobName("stranger"), "PENDING", "RUNNING") == ["PENDING"]
        with pytest.raises(Transient, match="in use"):
            driver.unreserve("moved", stamp=stamp("unreserve"))
        rig.end(JOB)
        rig.eventually(lambda: not rig.states(JOB, "RUNNING", "COMPLETING"))
        driver.unreserve("moved", stamp=stamp("unreserve"))
        rig.eventually(lambda: rig.begun(JobName("stranger")))

    def test_the_words_of_the_operator_reach_slurm_with_its_configuration(self, rig):
        """sudo passes no environment on; nor does env -i."""
        rig.driver(operator=("env", "-i", "PATH=/usr/bin:/bin")).drain((rig.first,), reason="move", stamp=stamp("drain"))
        assert [view.open for view in rig.driver().nodes(rig.both)] == [False, True]

    @pytest.mark.parametrize("wrong", ["n[1-2]", "n1,n2", "n1 state=down", "", "-n"])
    def test_a_list_or_a_blank_is_no_name(self, rig, wrong):
        with pytest.raises(Permanent, match="plain name"):
            rig.driver().nodes((wrong,))
        with pytest.raises(Permanent, match="plain name"):
            rig.driver().reservation(wrong)


class TestGraces:
    def test_J10_the_chain_is_read_from_the_configuration_in_force(self, rig):
        limited = {"*": JobRequest(partition="serve", time_limit_s=60)}
        (plain, before) = rig.driver().graces(JOB), rig.driver(jobs=limited).graces(JOB)
        assert (plain.kill_wait_s, plain.over_limit_s, plain.preempted, plain.preempt_s) == (1.0, 120.0, "cancel", 0.0)
        rig.cluster.client("scontrol", "update", "partitionname=serve", "gracetime=7", "overtimelimit=5", "preemptmode=requeue")
        try:
            now = rig.driver(jobs=limited).graces(JOB)
        finally:
            rig.cluster.client("scontrol", "update", "partitionname=serve", "gracetime=0", "overtimelimit=2", "preemptmode=cancel")
        assert before == plain
        assert (now.kill_wait_s, now.over_limit_s, now.preempted, now.preempt_s) == (1.0, 300.0, "requeue", 7.0)
        assert not now.preempt_announced
        assert rig.driver().graces(JOB) == plain
        with pytest.raises(Permanent, match="no partition nowhere"):
            rig.driver(jobs={"*": JobRequest(partition="nowhere")}).graces(JOB)

    def test_J10_a_preempted_job_hears_of_it_only_when_kill_wait_begins(self, rig, tmp_path):
        """So GraceTime is no time to save in; ``settings`` says the same."""
        rig.cluster.client("scontrol", "update", "partitionname=train", "gracetime=3", "prioritytier=1")
        rig.cluster.client("scontrol", "update", "partitionname=serve", "prioritytier=10")
        try:
            loop = "while :; do date +%s.%N > alive.new; mv alive.new alive; sleep 0.05; done"
            rig.submit(JOB, "-p", "train", "-N2", "--exclusive", f"--chdir={tmp_path}", script=f"trap 'date +%s.%N > term' TERM\n{loop}")
            rig.eventually((tmp_path / "alive").exists)
            assert rig.driver().graces(JOB).preempt_s == 3.0
            chosen_s = time.time()
            rig.submit(JobName("urgent"), "-p", "serve", "-N2", "--exclusive")
            rig.eventually(lambda: rig.begun(JobName("urgent")))
            term_s, killed_s = (float((tmp_path / name).read_text()) for name in ("term", "alive"))
        finally:
            rig.cluster.client("scontrol", "update", "partitionname=train", "gracetime=0")
            rig.cluster.client("scontrol", "update", "partitionname=serve", "prioritytier=1")
        print(f"chosen 0 s, TERM {term_s - chosen_s:.1f} s, KILL {killed_s - chosen_s:.1f} s")
        assert term_s - chosen_s >= 2.9
        assert 0.5 <= killed_s - term_s <= 6.0
