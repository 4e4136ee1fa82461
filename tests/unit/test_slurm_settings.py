"""How long a Slurm cluster gives its jobs, and what its refusals mean, by what Slurm 22.05.8 printed."""

from __future__ import annotations

import math

import pytest

from bridgehead.drivers.slurm.admission import SlurmAdmission
from bridgehead.drivers.slurm.options import SlurmOptions
from bridgehead.drivers.slurm.settings import grace_terms, read_config, read_partitions
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.equipment import NodeId
from bridgehead.model.estate import Grace
from bridgehead.ports.shell import ShellResult
from bridgehead.testing.scheduler_suite import stamp

CONFIG = """\
Configuration data as of 2026-12-03T06:41:57
ClusterName             = site-a
KillOnBadExit           = 0
KillWait                = 30 sec
OverTimeLimit           = {over}
PreemptMode             = CANCEL
PreemptType             = {kind}
PreemptExemptTime       = 00:00:00
SlurmctldParameters     = {parameters}

Slurmctld(primary) at vm is UP
"""
PARTITIONS = """\
PartitionName=train AllowGroups=ALL AllowQos=ALL Default=YES QoS=N/A DefaultTime=NONE GraceTime=60 Hidden=NO MaxTime=UNLIMITED \
Nodes=site-a-n[1-2] OverSubscribe=NO OverTimeLimit=NONE PreemptMode=CANCEL State=UP TRES=cpu=16,mem=16000M,node=2,billing=16
PartitionName=serve AllowGroups=ALL AllowQos=ALL Default=NO QoS=N/A DefaultTime=NONE GraceTime=0 Hidden=NO MaxTime=UNLIMITED \
Nodes=site-a-n[1-2] OverSubscribe=NO OverTimeLimit=5 PreemptMode=OFF State=UP TRES=cpu=16,mem=16000M,node=2,billing=16
PartitionName=scavenge AllowGroups=ALL AllowQos=ALL Default=NO GraceTime=10 OverTimeLimit=UNLIMITED PreemptMode=GANG,SUSPEND State=UP
"""


def terms(wanted="", *, warned=False, kind="preempt/partition_prio", over="2 min", parameters="(null)"):
    config = read_config(CONFIG.format(kind=kind, over=over, parameters=parameters))
    return grace_terms(config, read_partitions(PARTITIONS), wanted=wanted, warned=warned)


class TestGraceTerms:
    def test_J10_the_default_partition_counts_where_none_is_asked_for(self):
        assert terms() == terms("train")
        assert (terms().kill_wait_s, terms().over_limit_s, terms().preempted, terms().preempt_s) == (30.0, 120.0, "cancel", 60.0)

    def test_what_a_partition_says_counts_before_the_cluster(self):
        assert (terms("serve").over_limit_s, terms("serve").preempted, terms("serve").preempt_s) == (300.0, "", 0.0)
        assert (terms("scavenge").over_limit_s, terms("scavenge").preempted) == (math.inf, "suspend")
        assert terms(over="UNLIMITED").over_limit_s == math.inf

    def test_of_several_partitions_the_one_that_gives_least(self):
        assert terms("train,serve,scavenge") == terms("scavenge")
        assert terms("serve,train") == terms("train")

    def test_J10_grace_time_counts_only_when_the_job_hears_of_it(self):
        announced = "idle_on_node_suspend,preempt_send_user_signal"
        assert terms(warned=True, parameters=announced).chain == (Grace("kill-wait", 30.0), Grace("preemption", 90.0))
        for silent in (terms(warned=True), terms(parameters=announced), terms("serve", warned=True, parameters=announced)):
            assert silent.chain == (Grace("kill-wait", 30.0),)

    def test_without_preemption_by_partition_its_grace_time_is_nothing(self):
        assert (terms(kind="preempt/none").preempted, terms(kind="preempt/none").preempt_s) == ("", 0.0)
        assert (terms(kind="preempt/qos").preempted, terms(kind="preempt/qos").preempt_s) == ("cancel", 0.0)

    def test_what_is_not_there_is_an_error(self):
        for wanted in ("nowhere", "train,nowhere"):
            with pytest.raises(ValueError, match="no partition"):
                terms(wanted)
        with pytest.raises(ValueError, match="not a duration"):
            terms(over="a while")


class Answers:
    """A shell with Slurm's recorded answers, by the words that they answer; records are none."""

    def __init__(self, answers):
        self.answers = answers

    def run(self, argv, **how):
        line = " ".join(argv)
        for words, (code, output, errors) in self.answers.items():
            if words in line:
                return ShellResult(code, output.encode(), errors.encode())
        return ShellResult(0, b"site-a", b"")


NODES = f"{'n1':<256}{'idle':<256}{'none':<256}\n"
SEEN = {"show config": (0, "ClusterName             = site-a\n", ""), "sinfo": (0, NODES, "")}
REFUSALS = {
    "state=drain": (1, "", "slurm_update error: Invalid user id\n"),
    "delete reservationname": (1, "", "delete_reservation reservationname=bh: Requested reservation is in use\n"),
    "show reservation -o gone": (1, "", "Reservation gone not found\n"),
    "show reservation -o none": (1, "No reservations in the system\n", ""),
    "show reservation": (0, "ReservationName=bh Nodes=n1 Users=root Flags=IGNORE_JOBS\n", ""),
    "hostnames": (0, "n1\n", ""),
    "squeue": (0, "17|4294901758\nslurm_load_jobs warning\n", ""),
}


@pytest.fixture
def admission():
    return SlurmAdmission(SiteId("site-a"), SlurmOptions(cluster="site-a", state="/state"), shell=Answers(SEEN | REFUSALS))


class TestRefusals:
    def test_who_is_no_operator_is_told_so(self, admission):
        with pytest.raises(Permanent, match=r"Invalid user id.*option operator"):
            admission.drain((NodeId("n1"),), reason="move", stamp=stamp())

    def test_a_reservation_in_use_is_tried_again(self, admission):
        with pytest.raises(Transient, match="in use"):
            admission.unreserve("bh", stamp=stamp())

    def test_a_reservation_that_is_not_there_is_no_error_and_an_unknown_complaint_is_one(self, admission):
        assert admission.reservation("gone") is None
        assert admission.reservation("bh").nodes == ("n1",)

    def test_other_text_between_the_rows_is_no_queue(self, admission):
        with pytest.raises(Transient, match="cannot be read"):
            admission.queue(JobName("batch"))
