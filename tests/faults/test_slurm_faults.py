"""What goes wrong with a real Slurm: lost answers, lost memory, requeues, dead nodes. Never two executions, never an invented end."""

from __future__ import annotations

import subprocess
import threading
import time
from pathlib import Path

import pytest

from bridgehead.drivers.slurm.options import JobRequest, OnNodeFailure
from bridgehead.kernel.errors import Conflict, Permanent, Transient, Unknown
from bridgehead.kernel.ids import JobName
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobRunning
from bridgehead.testing.scheduler_suite import JOB, stamp
from bridgehead.testing.slurm_cluster import SlurmCluster, program
from bridgehead.testing.slurm_files import SlurmPlan
from bridgehead.testing.slurm_hooks import SlurmHooks, script

pytestmark = [pytest.mark.server("slurmctld", "munged"), pytest.mark.xdist_group("slurm-faults")]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    settings = {"KillWait": "1", "SlurmdTimeout": "5", "MinJobAge": "3"}
    with SlurmCluster(SlurmPlan(name="site-a", gpus=2, settings=settings), tmp_path_factory.mktemp("slurm")) as cluster:
        yield cluster


class Died(BaseException):
    """The controller, at a planned place."""


class LosesAnswers:
    """A shell over which sbatch is run, and its answer never comes."""

    def __init__(self, shell):
        self.inner, self.losing = shell, True

    def run(self, argv, **how):
        result = self.inner.run(argv, **how)
        if self.losing and "sbatch" in argv:
            raise Unknown("the connection broke", tried="run", subject="sbatch")
        return result


class TestSlurmFaults(SlurmHooks):
    def counts(self) -> tuple[str, ...]:
        """A job that writes down that it began, and runs."""
        return script(f"echo $SLURM_JOB_ID >> {self.tmp}/began; trap 'exit 0' TERM; echo listening; while :; do sleep 0.1; done")

    def began(self) -> list[str]:
        path = self.tmp / "began"
        return path.read_text().split() if path.exists() else []

    def wait_began(self, times: int = 1) -> None:
        self.eventually(lambda: len(self.began()) == times)

    def jobs(self) -> list[str]:
        return self.cluster.client("squeue", "-h", "-o", "%i").split()

    # starts

    @pytest.mark.parametrize("place", ["intended", "submitted", "claimed"])
    def test_J15_a_controller_that_dies_in_a_start_leaves_one_job(self, scheduler, place):
        def die(where: str) -> None:
            if where == place:
                raise Died

        with pytest.raises(Died):
            self.make(checkpoint=die).start(self.spec(self.counts()), stamp=stamp())
        identity = self.make().start(self.spec(self.counts()), stamp=stamp(epoch=2))
        self.wait_began()
        assert self.running(scheduler) == identity
        assert len(self.jobs()) == 1

    def test_a_lost_answer_is_looked_up(self, scheduler):
        lossy = self.make()
        lossy._line._shell = LosesAnswers(self.shell())
        identity = lossy.start(self.spec(self.counts()), stamp=stamp())
        assert scheduler.start(self.spec(self.counts()), stamp=stamp()) == identity
        self.wait_began()
        assert self.jobs() == [identity.native_id.partition("/")[2]]

    def test_a_submission_that_arrives_late_runs_nothing(self, scheduler):
        """A controller hangs before sbatch, another one repeats the start, then the first goes on (J13)."""
        go_on, hangs = threading.Event(), threading.Event()

        def hang(where: str) -> None:
            if where == "intended":
                hangs.set()
                assert go_on.wait(20)

        results = []

        def first() -> None:
            results.append(self.make(checkpoint=hang).start(self.spec(self.counts()), stamp=stamp()))

        thread = threading.Thread(target=first)
        thread.start()
        assert hangs.wait(20)
        identity = scheduler.start(self.spec(self.counts()), stamp=stamp(epoch=2))
        self.wait_began()
        go_on.set()
        thread.join()
        assert results == [identity]
        self.eventually(lambda: len(self.jobs()) == 1)
        assert len(self.began()) == 1
        assert self.running(scheduler) == identity

    def test_a_late_submission_under_another_key_is_refused_and_runs_nothing(self, scheduler):
        go_on, hangs, errors = threading.Event(), threading.Event(), []

        def hang(where: str) -> None:
            if where == "intended":
                hangs.set()
                assert go_on.wait(20)

        def first() -> None:
            try:
                self.make(checkpoint=hang).start(self.spec(self.counts()), stamp=stamp("first"))
            except Conflict as error:
                errors.append(error)

        thread = threading.Thread(target=first)
        thread.start()
        assert hangs.wait(20)
        identity = scheduler.start(self.spec(self.counts()), stamp=stamp("second"))
        go_on.set()
        thread.join()
        assert len(errors) == 1
        self.wait_began()
        self.eventually(lambda: len(self.jobs()) == 1)
        assert self.running(scheduler) == identity
        assert self.began() == [identity.native_id.partition("/")[2]]

    def test_what_slurm_refuses_leaves_nothing_behind(self, scheduler):
        wrong = self.make(jobs={"*": JobRequest(partition="no-such-partition")})
        with pytest.raises(Permanent, match="partition"):
            wrong.start(self.spec(self.counts()), stamp=stamp())
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)
        assert self.running(scheduler) if scheduler.start(self.spec(self.counts()), stamp=stamp()) else None

    def test_another_cluster_is_refused(self):
        with pytest.raises(Permanent, match="cluster site-a answers"):
            self.make(cluster="site-b").observe(JOB)

    def test_what_a_job_asks_for_it_gets_and_no_secret_of_the_controller(self, scheduler):
        request = JobRequest(partition="serve", gpus_per_node=2, gpu_type="h100", time_limit_s=600, cpus_per_task=2)
        driver = self.make(jobs={"tr*": request}, env={"SITE_WIDE": "yes"})
        (self.tmp / "there").mkdir()
        words = 'echo "$SLURM_JOB_PARTITION|$CUDA_VISIBLE_DEVICES|$SLURM_CPUS_PER_TASK|$SITE_WIDE|$MINE|$PWD|$BRIDGEHEAD_SECRET|$HOME"'
        spec = self.spec(script(words))
        spec = type(spec)(name=spec.name, command=spec.command, env={"MINE": "a 'b'\nü"}, workdir=str(self.tmp / "there"))
        driver.start(spec, stamp=stamp())
        self.wait_ended(driver)
        home = str(Path("~").expanduser())
        assert Path(driver.log_path(JOB)).read_text() == f"serve|0,1|2|yes|a 'b'\nü|{self.tmp}/there||{home}\n"

    # by hand

    def test_a_job_that_was_submitted_by_hand_is_seen_and_ended(self, scheduler, tmp_path):
        began = tmp_path / "began"
        job_id = self.cluster.client(
            "sbatch", "--parsable", "-J", JOB, "-o", "/dev/null", "--wrap", f"touch {began}; exec sleep 600"
        ).strip()
        self.eventually(began.exists)  # Slurm calls a job running before its script is there to get a signal
        self.eventually(lambda: isinstance(scheduler.observe(JOB), JobRunning) and not scheduler.observe(JOB).waiting_for)
        assert self.running(scheduler).native_id == f"site-a/{job_id}"
        with pytest.raises(Conflict, match="by hand"):
            scheduler.start(self.spec(self.counts()), stamp=stamp())
        scheduler.stop(JOB, stamp=stamp("stop"))
        ended = self.wait_ended(scheduler)
        assert ended.exit_code == 143
        assert self.make().observe(JOB) == ended
        scheduler.start(self.spec(self.counts()), stamp=stamp())
        self.wait_began()

    # memory of Slurm

    def test_J12_a_requeue_is_another_execution_and_an_end_is_not_forgotten(self, scheduler):
        driver = self.make(jobs={"*": JobRequest(on_node_failure=OnNodeFailure.REQUEUE)})
        first = driver.start(self.spec(self.counts()), stamp=stamp())
        self.wait_began()
        job_id = first.native_id.partition("/")[2]
        self.cluster.client("scontrol", "requeue", job_id)
        self.wait_began(2)
        second = self.running(driver)
        assert (second.native_id, second.restarts, first.restarts) == (first.native_id, 1, 0)
        driver.kill(JOB, stamp=stamp("kill"))
        ended = self.wait_ended(driver)
        assert ended.identity == second
        self.cluster.client("scontrol", "requeue", job_id)  # somebody runs an ended job again, by hand
        self.wait_began(3)
        assert self.running(driver).restarts == 2
        with pytest.raises(Conflict):
            driver.start(self.spec(self.counts()), stamp=stamp("other"))

    def test_J01_a_job_that_slurm_forgot_has_not_ended(self, scheduler):
        """Without any record of its end; with the file of jobcomp the end is known."""
        scheduler.start(self.spec(self.exits(3)), stamp=stamp())
        name_in = "-n", "-h", "--states=all", "-o", "%i"
        self.eventually(lambda: self.cluster.client("squeue", name_in[1], "--states=all", "-o", "%j|%T").strip() != "")
        self.eventually(lambda: "FAILED" in self.cluster.client("squeue", "-h", "--states=all", "-o", "%T"))
        self.eventually(lambda: "FAILED" not in self.cluster.client("squeue", "-h", "--states=all", "-o", "%T"), within_s=90)
        with pytest.raises(Transient, match="does not know job"):
            scheduler.observe(JOB)
        with pytest.raises(Transient, match="does not know job"):
            scheduler.start(self.spec(self.counts()), stamp=stamp("other"))
        informed = self.make(jobcomp=str(self.cluster.folder / "log" / "jobcomp.txt"))
        ended = informed.observe(JOB)
        assert isinstance(ended, JobEnded)
        assert (ended.exit_code, abs(ended.ended_s - time.time()) < 120) == (3, True)
        assert scheduler.observe(JOB) == ended
        (record,) = self.tmp.rglob("ended-0")
        record.unlink()
        with pytest.raises(Transient, match="does not know job") as told:  # after the loss of a site nobody may have written the end down
            scheduler.observe(JOB)
        subprocess.run(["sh", "-c", told.value.remedy.split("`")[1]], check=True)
        said = scheduler.observe(JOB)
        assert isinstance(said, JobEnded)
        assert said.exit_code is None

    def test_J05_a_controller_of_slurm_that_loses_a_start_never_makes_two(self, scheduler):
        """kill -9 of slurmctld right after a submission: on restart the job waits again, or is unknown, while it still runs."""
        identity = scheduler.start(self.spec(self.counts()), stamp=stamp())
        self.wait_began()
        self.cluster.kill_controller()
        with pytest.raises(Transient):
            scheduler.observe(JOB)
        with pytest.raises(Transient):
            scheduler.start(self.spec(self.counts()), stamp=stamp("other"))
        self.cluster.start_controller()
        seen, living_at_once = set(), 0
        deadline = time.monotonic() + 12
        while time.monotonic() < deadline:
            try:
                state = scheduler.observe(JOB)
                seen.add(f"{type(state).__name__} {getattr(state, 'waiting_for', '')}")
                again = scheduler.start(self.spec(self.counts()), stamp=stamp())
                assert again.native_id == identity.native_id
                with pytest.raises((Conflict, Transient)):
                    scheduler.start(self.spec(self.counts()), stamp=stamp("other"))
            except Transient as error:
                seen.add(f"cannot tell: {error.happened[:60]}")
            # By process groups: a shell that forks for its sleep is two processes of one execution for a moment.
            living = {stat.group for stat in self.cluster.processes() if program(stat.pid) == "sh" and self.is_job(stat.pid)}
            living_at_once = max(living_at_once, len(living))
            assert not any(word.startswith(("JobAbsent", "JobEnded")) for word in seen), seen
            time.sleep(0.3)
        print(seen, self.began(), living_at_once)
        assert living_at_once == 1, (seen, self.began())

    def is_job(self, pid: int) -> bool:
        try:
            return str(self.tmp).encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            return False

    def test_J01_a_node_that_does_not_answer_is_no_end(self, scheduler):
        scheduler.start(self.spec(self.counts()), stamp=stamp())
        self.wait_began()
        node = self.cluster.client("squeue", "-h", "-o", "%N").strip()
        self.cluster.kill_node(node)
        self.eventually(lambda: "NODE_FAIL" in self.cluster.client("squeue", "-h", "--states=all", "-o", "%T"), within_s=60)
        with pytest.raises(Transient, match=f"{node} is not seen to answer"):
            scheduler.observe(JOB)
        with pytest.raises(Transient, match=f"{node} is not seen to answer"):
            scheduler.start(self.spec(self.counts()), stamp=stamp("other"))
        try:
            self.cluster.client("scontrol", "update", f"nodename={node}", "state=down", "reason=fenced: power is off")
            ended = scheduler.observe(JOB)
            assert isinstance(ended, JobEnded)
            assert ended.exit_code is None
        finally:
            self.cluster.bring_back(node)
            self.cluster.wait_ready()
        assert scheduler.observe(JobName(JOB)) == ended
