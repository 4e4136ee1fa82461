"""Which of several executions counts, and which nodes answer, by what Slurm 22.05.8 printed."""

from __future__ import annotations

import time

import msgspec
import pytest

from bridgehead.drivers.shell import LocalShell
from bridgehead.drivers.slurm.clients import CommandLine
from bridgehead.drivers.slurm.endings import Endings
from bridgehead.drivers.slurm.job import SlurmJob
from bridgehead.drivers.slurm.node import FORMAT, read_sinfo
from bridgehead.drivers.slurm.options import SlurmOptions
from bridgehead.drivers.slurm.records import NOBODY, Ended, Intent, Records
from bridgehead.drivers.slurm.verdicts import Verdicts
from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.ports.scheduler import JobEnded, JobRunning
from bridgehead.ports.shell import ShellResult

SITE, JOB, CLUSTER = SiteId("site-a"), JobName("train"), "site-a"
ANSWERS = {"n1": "idle", "n2": "idle+drain", "n3": "mixed", "n4": "allocated+maintenance"}
SILENT = {
    "n1": "idle+not_responding", "n2": "down+not_responding", "n3": "down", "n4": "unknown", "n5": "down+maintenance+not_responding",
    "n6": "idle+powered_down", "n7": "idle+reboot_requested", "n8": "idle+a_flag_of_a_later_version", "n9": "future",
}  # fmt: skip


def sinfo(states, reasons=None):
    """As ``sinfo -a -h -N -O FORMAT`` prints it, for two partitions."""
    return "".join(f"{name:<256}{state:<256}{(reasons or {}).get(name, 'none'):<256}\n" * 2 for name, state in states.items())


class Recorded:
    """A shell that answers for scontrol and sinfo, and nothing else."""

    def __init__(self, states, reasons=None, *, hidden=()):
        self.states, self.reasons, self.hidden, self.asked = states, reasons, hidden, []

    def run(self, argv, **how):
        words = list(argv)
        self.asked.append(words)
        if "hostnames" in words:
            return ShellResult(0, "".join(f"{name}\n" for name in self.states).encode(), b"")
        assert words[4:10] == ["sinfo", "-a", "-h", "-N", words[8], "-O"]
        assert words[10] == FORMAT
        shown = {name: state for name, state in self.states.items() if name not in self.hidden}
        return ShellResult(0, sinfo(shown, self.reasons).encode(), b"")


def silent(shell):
    return CommandLine(SlurmOptions(cluster=CLUSTER, state="/none"), shell).silent_nodes("n[1-9]")


class TestNodes:
    def test_only_a_state_that_tells_it_counts_as_an_answer(self):
        assert silent(Recorded(ANSWERS)) == []
        assert silent(Recorded(SILENT)) == sorted(SILENT)

    def test_J01_a_node_without_a_row_is_silent(self):
        assert silent(Recorded(ANSWERS, hidden={"n3"})) == ["n3"]
        assert silent(Recorded(ANSWERS, hidden=set(ANSWERS))) == sorted(ANSWERS)

    def test_a_node_that_a_person_fenced_is_not_waited_for(self):
        assert silent(Recorded(SILENT, {"n2": "Fenced: power is off", "n3": "not fenced"})) == sorted(SILENT.keys() - {"n2"})

    def test_a_job_whose_nodes_are_not_known_is_silent_too(self):
        line = CommandLine(SlurmOptions(cluster=CLUSTER, state="/none"), Recorded(ANSWERS))
        assert line.silent_nodes("") == ["its node"]

    def test_a_reason_may_hold_anything_and_other_text_is_no_answer(self):
        (node,) = read_sinfo(sinfo({"n1": "idle+drain"}, {"n1": "bad GPU | slot 3, see [ticket 9]"}))
        assert (node.name, node.reason, node.answers) == ("n1", "bad GPU | slot 3, see [ticket 9]", True)
        for text in ("slurm_load_node: some warning that is much longer\n", "n1\n"):
            with pytest.raises(ValueError, match="not in the columns"):
                read_sinfo(text)


class Site:
    """Records in files, Slurm's jobs as a list, nodes as recorded."""

    def __init__(self, folder, states=ANSWERS):
        self.records = Records(SITE, str(folder), LocalShell())
        line = CommandLine(SlurmOptions(cluster=CLUSTER, state="/none"), Recorded(states))
        self.jobs: list[SlurmJob] = []
        endings = Endings(line, jobcomp="")
        self.verdicts = Verdicts(SITE, CLUSTER, line=line, jobs=lambda name: self.jobs, endings=endings, records=self.records)
        assert self.known() == []

    def known(self):
        return self.records.read(JOB, tried="test")

    def newest(self):
        return self.verdicts.newest(JOB, self.known(), self.jobs)

    def execution(self, number, *, submitted_s, claim="", ended=False):
        self.records.begin(JOB, number, Intent(f"run/{number}", f"token{number}", submitted_s), tried="test")
        if claim:
            self.records.claim(JOB, number, claim, tried="test")
        if ended:
            self.records.end(JOB, number, 0, Ended(0, submitted_s + 1, "COMPLETED", "slurmctld"), tried="test")


def job(job_id, state, *, submitted_s, token="", restarts=0):
    comment = f"bridgehead:{token}" if token else ""
    return SlurmJob(job_id, JOB, state, submitted_s, None, restarts, 0, comment, "", "n[1-4]")


@pytest.fixture
def site(tmp_path):
    return Site(tmp_path / "state")


class TestWhichCounts:
    @pytest.mark.parametrize("hidden_by", ["own", "other", "unsure", "all"])
    @pytest.mark.parametrize("state", ["RUNNING", "PENDING", "COMPLETING", "A_LATER_STATE"])
    def test_a_living_job_of_another_counts_before_newer_ends_and_doubts(self, tmp_path, state, hidden_by):
        site = Site(tmp_path / "state", SILENT)
        site.jobs = [job("5", state, submitted_s=50.0)]
        if hidden_by in ("own", "all"):
            site.execution(1, submitted_s=100.0, claim="7", ended=True)
        if hidden_by in ("other", "all"):
            site.jobs.append(job("8", "COMPLETED", submitted_s=200.0))
        if hidden_by in ("unsure", "all"):
            site.jobs.append(job("9", "NODE_FAIL", submitted_s=300.0))
        verdict = site.newest()
        assert isinstance(verdict.state, JobRunning)
        assert (verdict.state.identity.native_id, verdict.execution, verdict.job) == ("site-a/5", None, site.jobs[0])

    def test_an_older_execution_of_ours_that_runs_again_counts_before_a_newer_end(self, site):
        site.execution(1, submitted_s=100.0, claim="7", ended=True)
        site.execution(2, submitted_s=200.0, claim="8", ended=True)
        site.jobs = [job("7", "RUNNING", submitted_s=300.0, token="token1", restarts=1)]
        verdict = site.newest()
        assert isinstance(verdict.state, JobRunning)
        assert (verdict.execution.number, verdict.state.identity.restarts) == (1, 1)

    @pytest.mark.parametrize("token", ["", "of-other-records"])
    def test_J01_a_doubt_about_an_older_job_counts_before_a_newer_end(self, tmp_path, token):
        for states in (SILENT, ANSWERS):
            site = Site(tmp_path / f"state-{len(states)}", states)
            site.execution(1, submitted_s=100.0, claim="7", ended=True)
            site.jobs = [job("5", "NODE_FAIL", submitted_s=50.0, token=token)]
            if states is SILENT:
                with pytest.raises(Transient, match="processes of job 5 there may live"):
                    site.newest()
            else:
                assert site.newest().state.identity.native_id == "site-a/7"

    def test_the_newest_end_counts_of_ours_by_number_and_of_others_by_time(self, site):
        site.execution(1, submitted_s=150.0, claim="7", ended=True)
        site.execution(2, submitted_s=100.0, claim="8", ended=True)  # by a controller whose clock is late
        site.jobs = [job("5", "COMPLETED", submitted_s=50.0)]
        assert site.newest().state.identity.native_id == "site-a/8"
        site.jobs.append(job("9", "COMPLETED", submitted_s=120.0))
        verdict = site.newest()
        assert isinstance(verdict.state, JobEnded)
        assert verdict.state.identity.native_id == "site-a/9"

    def test_nothing_known_is_nothing(self, site):
        assert site.newest() is None


class TestUnanswered:
    def test_J13_absent_is_told_only_after_the_intent_is_closed(self, site):
        site.execution(1, submitted_s=time.time() - 1000)
        assert site.newest() is None
        assert [execution.claim for execution in site.known()] == [NOBODY]

    def test_a_young_intent_is_not_touched(self, site):
        site.execution(1, submitted_s=time.time())
        with pytest.raises(Transient, match="just being started"):
            site.newest()
        assert [execution.claim for execution in site.known()] == [""]

    def test_a_job_that_claimed_meanwhile_is_judged(self, site):
        """It arrived between the look at the records and the claim."""
        site.execution(1, submitted_s=time.time() - 1000)
        (before,) = site.known()
        site.records.claim(JOB, 1, "7", tried="test")
        site.jobs = [job("7", "RUNNING", submitted_s=time.time(), token="token1")]
        verdict = site.verdicts.newest(JOB, [before], [])
        assert isinstance(verdict.state, JobRunning)
        assert (verdict.state.identity.native_id, verdict.execution) == ("site-a/7", msgspec.structs.replace(before, claim="7"))
