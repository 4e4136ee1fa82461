"""Several executions of one name on a real Slurm: one that lives counts before every end, and "absent" closes what may still arrive."""

from __future__ import annotations

import json
import threading

import pytest

from bridgehead.drivers.slurm.options import JobRequest, OnNodeFailure
from bridgehead.kernel.errors import Conflict, Transient
from bridgehead.ports.scheduler import JobAbsent, JobEnded
from bridgehead.testing.scheduler_suite import JOB, stamp
from bridgehead.testing.slurm_cluster import SlurmCluster
from bridgehead.testing.slurm_files import SlurmPlan
from bridgehead.testing.slurm_hooks import SlurmHooks, script

pytestmark = [pytest.mark.server("slurmctld", "munged"), pytest.mark.xdist_group("slurm-faults")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with SlurmCluster(SlurmPlan(settings={"KillWait": "1"}), tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


class TestSeveralExecutions(SlurmHooks):
    def counts(self) -> tuple[str, ...]:
        """A job that writes down that it began, and runs."""
        return script(f"echo $SLURM_JOB_ID >> {self.tmp}/began; trap 'exit 0' TERM; while :; do sleep 0.1; done")

    def began(self) -> list[str]:
        path = self.tmp / "began"
        return path.read_text().split() if path.exists() else []

    def test_J12_a_newer_end_does_not_hide_an_older_execution_that_runs_again(self, scheduler):
        driver = self.make(jobs={"*": JobRequest(on_node_failure=OnNodeFailure.REQUEUE)})
        first = driver.start(self.spec(self.counts()), stamp=stamp("first"))
        self.eventually(lambda: len(self.began()) == 1)
        driver.kill(JOB, stamp=stamp("kill"))
        self.wait_ended(driver)
        second = driver.start(self.spec(self.exits(0)), stamp=stamp("second"))
        assert self.wait_ended(driver).identity == second
        self.cluster.client("scontrol", "requeue", first.native_id.partition("/")[2])
        self.eventually(lambda: len(self.began()) == 2)
        again = self.running(driver)
        assert (again.native_id, again.restarts) == (first.native_id, 1)
        with pytest.raises(Conflict, match="started by run-1/first"):
            driver.start(self.spec(self.counts()), stamp=stamp("third"))
        driver.kill(JOB, stamp=stamp("kill-again"))
        self.wait_ended(driver)
        assert len(self.began()) == 2

    def test_J13_a_submission_that_arrives_after_absent_was_told_runs_nothing(self, scheduler):
        go_on, hangs, errors = threading.Event(), threading.Event(), []

        def hang(where: str) -> None:
            if where == "intended":
                hangs.set()
                assert go_on.wait(20)

        def first() -> None:
            try:
                self.make(checkpoint=hang).start(self.spec(self.counts()), stamp=stamp())
            except Transient as error:
                errors.append(error)

        thread = threading.Thread(target=first)
        thread.start()
        assert hangs.wait(20)
        with pytest.raises(Transient, match="just being started"):
            scheduler.observe(JOB)
        (intent,) = self.tmp.rglob("intent")
        said = json.loads(intent.read_text())
        intent.write_text(json.dumps(said | {"submitted_s": said["submitted_s"] - 100.0}))  # the controller hangs for long
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)
        go_on.set()
        thread.join()
        assert ["closed meanwhile" in error.happened for error in errors] == [True]
        self.eventually(lambda: self.cluster.client("squeue", "-h", "-o", "%i") == "")
        assert (self.began(), scheduler.observe(JOB)) == ([], JobAbsent(name=JOB))
        scheduler.start(self.spec(self.counts()), stamp=stamp())  # the same key again, as the engine does after Transient
        self.eventually(lambda: len(self.began()) == 1)

    def test_J01_a_silent_node_that_somebody_sets_down_is_no_end(self, scheduler):
        """Slurm says "down" of it, without the star of a node that does not answer."""
        scheduler.start(self.spec(self.counts()), stamp=stamp())
        self.eventually(lambda: len(self.began()) == 1)
        node = self.cluster.client("squeue", "-h", "-o", "%N").strip()
        self.cluster.kill_node(node)
        try:
            self.cluster.client("scontrol", "update", f"nodename={node}", "state=down", "reason=looks strange")
            assert "NODE_FAIL" in self.cluster.client("squeue", "-h", "--states=all", "-o", "%T")
            with pytest.raises(Transient, match=f"{node} is not seen to answer"):
                scheduler.observe(JOB)
            with pytest.raises(Transient, match=f"{node} is not seen to answer"):
                scheduler.start(self.spec(self.counts()), stamp=stamp("other"))
        finally:
            self.cluster.bring_back(node)
            self.cluster.wait_ready()
        assert isinstance(scheduler.observe(JOB), JobEnded)
