"""The controller dies in the middle, two controllers meet, the supervisor dies: no job is lost, none runs twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.process import procfs
from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.kernel.errors import Conflict, Transient
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId, StepId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobRunning, JobSpec

SITE = SiteId("site-a")
JOB = JobName("train")

CONTROLLER = """
import os, signal, sys
import msgspec
from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobSpec

directory, point, spec, stamp = sys.argv[1:]
def checkpoint(name):
    if name == point:
        os.kill(os.getpid(), signal.SIGKILL)
scheduler = ProcessScheduler("site-a", ProcessOptions(directory=directory), checkpoint=checkpoint)
print("ready", flush=True)
sys.stdin.readline()
print(scheduler.start(msgspec.json.decode(spec, type=JobSpec), stamp=msgspec.json.decode(stamp, type=Stamp)).native_id)
"""


def stamp(step: str = "start", epoch: int = 1) -> Stamp:
    return Stamp(run=RunId("run-1"), step=StepId(step), attempt=1, epoch=Epoch(epoch))


class Site:
    """A directory, and a job that leaves a line in a file each time that it is started."""

    def __init__(self, tmp_path: Path) -> None:
        self.directory = tmp_path / "site"
        self.starts = tmp_path / "starts"
        self.spec = JobSpec(name=JOB, command=("sh", "-c", f"echo $$ >> {self.starts}; exec sleep 600"))

    def scheduler(self, **options) -> ProcessScheduler:
        return ProcessScheduler(SITE, ProcessOptions(directory=str(self.directory)), **options)

    def controller(self, point: str, step: str = "start") -> subprocess.Popen[str]:
        """A controller in a process of its own; it starts the job when a line is sent to it."""
        spec, mark = (msgspec.json.encode(value).decode() for value in (self.spec, stamp(step)))
        command = [sys.executable, "-c", CONTROLLER, str(self.directory), point, spec, mark]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def started(self) -> list[int]:
        return [int(line) for line in self.starts.read_text().split()] if self.starts.exists() else []

    def state_file(self, name: str, number: int = 1) -> Path:
        return self.directory / JOB / str(number) / name


@pytest.fixture
def site(tmp_path):
    site = Site(tmp_path)
    yield site
    scheduler = site.scheduler()
    for job in (path.parent.parent.name for path in site.directory.glob("*/*/process.json")):
        scheduler.kill(JobName(job), stamp=Stamp(run=RunId("teardown"), step=StepId("kill"), attempt=1, epoch=Epoch(1)))


def eventually(predicate, within_s=20.0):
    limit_s = time.monotonic() + within_s
    while not predicate():
        assert time.monotonic() < limit_s, "did not happen"
        time.sleep(0.01)


def alive(pid: int) -> bool:
    stat = procfs.read_stat(pid)
    return stat is not None and stat.alive


def test_the_kill_points_are_those_that_a_start_passes(site):
    passed = []
    site.scheduler(checkpoint=passed.append).start(site.spec, stamp=stamp())
    assert passed == ["locked", "intended", "spawned", "recorded"]


@pytest.mark.parametrize(("point", "had_begun"), [("locked", False), ("intended", False), ("spawned", True), ("recorded", True)])
@pytest.mark.parametrize("look_first", [True, False])
def test_G11_a_controller_killed_in_mid_start_neither_loses_nor_doubles_the_job(site, point, had_begun, look_first):
    controller = site.controller(point)
    controller.communicate("go\n")
    assert controller.returncode == -signal.SIGKILL
    successor = site.scheduler()
    if look_first:
        state = successor.observe(JOB)
        assert isinstance(state, JobRunning if had_begun else JobAbsent)
    identity = successor.start(site.spec, stamp=stamp(epoch=2))
    assert successor.observe(JOB) == JobRunning(identity=identity)
    eventually(lambda: site.started())
    time.sleep(0.1)  # a second process would write its line by now
    assert [str(pid) for pid in site.started()] == [identity.native_id.split("@")[0]]


def test_J02_a_killed_controller_leaves_the_job_running_and_its_exit_code_is_still_collected(site):
    site.spec = msgspec.structs.replace(site.spec, command=("sh", "-c", f"echo $$ >> {site.starts}; read x < {site.starts}.fifo; exit 7"))
    os.mkfifo(f"{site.starts}.fifo")
    controller = site.controller("never")
    native_id, _ = controller.communicate("go\n")
    successor = site.scheduler()
    state = successor.observe(JOB)
    assert isinstance(state, JobRunning)
    assert state.identity.native_id == native_id.split()[-1]
    Path(f"{site.starts}.fifo").write_text("end\n")
    eventually(lambda: isinstance(successor.observe(JOB), JobEnded))
    ended = successor.observe(JOB)
    assert (ended.identity, ended.exit_code) == (state.identity, 7)


@pytest.mark.parametrize("steps", [("start", "start"), ("start", "other")], ids=["same-key", "other-key"])
def test_J15_two_controllers_at_once_start_one_process(site, steps):
    for _ in range(3):
        pair = [site.controller("never", step) for step in steps]
        for controller in pair:
            assert controller.stdout.readline() == "ready\n"
        for controller in pair:
            controller.stdin.write("go\n")
            controller.stdin.flush()
        answers = [controller.communicate() for controller in pair]
        eventually(lambda: site.started())
        time.sleep(0.1)
        assert len(site.started()) == 1
        if steps[0] == steps[1]:
            assert [controller.returncode for controller in pair] == [0, 0], answers
            assert answers[0] == answers[1]
        else:
            assert sorted(controller.returncode for controller in pair) == [0, 1]
            assert sum("Conflict" in error for _, error in answers) == 1, answers
        site.scheduler().kill(JOB, stamp=stamp("kill"))
        eventually(lambda: isinstance(site.scheduler().observe(JOB), JobEnded))
        site.starts.unlink()
        steps = tuple(step + "+" for step in steps)


def test_J13_a_controller_that_sleeps_in_mid_start_keeps_the_others_out_until_it_has_done(site):
    def while_locked(name):
        if name == "intended":
            with pytest.raises(Transient, match="just being started"):
                site.scheduler().observe(JOB)
            with pytest.raises(Transient, match="another controller is busy"):
                site.scheduler().start(site.spec, stamp=stamp("other"))

    identity = site.scheduler(checkpoint=while_locked).start(site.spec, stamp=stamp())
    with pytest.raises(Conflict):
        site.scheduler().start(site.spec, stamp=stamp("other"))
    assert site.scheduler().observe(JOB) == JobRunning(identity=identity)


# the supervisor


def kill_supervisor(site: Site) -> None:
    record = msgspec.json.decode(site.state_file("process.json").read_bytes())
    assert procfs.find(record["supervisor_pid"], record["supervisor_start_ticks"]) is not None
    os.kill(record["supervisor_pid"], signal.SIGKILL)
    eventually(lambda: not alive(record["supervisor_pid"]))


def test_the_job_outlives_its_supervisor_and_its_end_is_known_without_exit_code(site):
    scheduler = site.scheduler()
    identity = scheduler.start(site.spec, stamp=stamp())
    kill_supervisor(site)
    assert scheduler.observe(JOB) == JobRunning(identity=identity)
    scheduler.stop(JOB, stamp=stamp("stop"))
    eventually(lambda: isinstance(scheduler.observe(JOB), JobEnded))
    assert scheduler.observe(JOB) == JobEnded(identity=identity, exit_code=None, ended_s=None)
    assert site.scheduler().observe(JOB) == scheduler.observe(JOB)


@pytest.mark.parametrize(
    "child", ["exec sleep 600", "exec env -i sleep 600", "exec setsid sleep 600"], ids=["plain", "no-environment", "own-session"]
)
@pytest.mark.parametrize("supervised", [True, False])
def test_kill_finds_children_of_a_dead_leader(site, child, supervised, tmp_path):
    pid_file = tmp_path / "child"
    script = (
        f"sh -c 'echo $$ > {pid_file}.new; mv {pid_file}.new {pid_file}; {child}' & until [ -e {pid_file} ]; do sleep 0.01; done; exit 5"
    )
    scheduler = site.scheduler()
    identity = scheduler.start(JobSpec(name=JOB, command=("sh", "-c", script)), stamp=stamp())
    leader = int(identity.native_id.split("@")[0])
    eventually(lambda: site.state_file("leader.json").exists() and not alive(leader))
    if not supervised:
        kill_supervisor(site)
        limit_s = time.monotonic() + 3
        while procfs.read_stat(leader) is not None and time.monotonic() < limit_s:
            time.sleep(0.01)  # until the init process has reaped it, if this one does
    assert scheduler.observe(JOB) == JobRunning(identity=identity)
    pid = int(pid_file.read_text())
    assert alive(pid)
    scheduler.kill(JOB, stamp=stamp("kill"))
    eventually(lambda: not alive(pid))
    eventually(lambda: isinstance(scheduler.observe(JOB), JobEnded))
    assert scheduler.observe(JOB).exit_code == 5


def test_stop_reaches_the_children_of_a_dead_leader(site, tmp_path):
    script = f"sh -c 'trap \"echo saved > {tmp_path}/saved; exit\" TERM; echo > {tmp_path}/up; while :; do sleep 0.1; done' & exit 0"
    scheduler = site.scheduler()
    scheduler.start(JobSpec(name=JOB, command=("sh", "-c", script)), stamp=stamp())
    eventually(lambda: (tmp_path / "up").exists() and site.state_file("leader.json").exists())
    scheduler.stop(JOB, stamp=stamp("stop"))
    eventually(lambda: isinstance(scheduler.observe(JOB), JobEnded))
    assert (tmp_path / "saved").read_text() == "saved\n"


def test_J13_a_job_that_was_paused_obeys_a_stop(site):
    scheduler = site.scheduler()
    identity = scheduler.start(site.spec, stamp=stamp())
    os.kill(int(identity.native_id.split("@")[0]), signal.SIGSTOP)
    assert scheduler.observe(JOB) == JobRunning(identity=identity)
    scheduler.stop(JOB, stamp=stamp("stop"))
    eventually(lambda: isinstance(scheduler.observe(JOB), JobEnded))
    assert scheduler.observe(JOB).exit_code == 128 + signal.SIGTERM


def test_a_supervisor_that_hangs_makes_the_end_uncertain_and_nothing_else(site):
    scheduler = site.scheduler()
    identity = scheduler.start(site.spec, stamp=stamp())
    supervisor = msgspec.json.decode(site.state_file("process.json").read_bytes())["supervisor_pid"]
    os.kill(supervisor, signal.SIGSTOP)
    try:
        assert scheduler.observe(JOB) == JobRunning(identity=identity)
        scheduler.kill(JOB, stamp=stamp("kill"))
        assert not alive(int(identity.native_id.split("@")[0]))
        with pytest.raises(Transient, match="has not recorded the exit code yet"):
            scheduler.observe(JOB)
        with pytest.raises(Transient):
            scheduler.start(site.spec, stamp=stamp("again"))
    finally:
        os.kill(supervisor, signal.SIGCONT)
    eventually(lambda: site.state_file("ended.json").exists())
    assert scheduler.observe(JOB).exit_code == 128 + signal.SIGKILL


@pytest.mark.parametrize("missing", ["pidfd_open", "group flag"])
def test_on_an_older_kernel_signals_still_reach_the_whole_group(site, tmp_path, monkeypatch, missing):
    def refuse(*_):
        raise OSError(38 if missing == "pidfd_open" else 22, missing)

    real = signal.pidfd_send_signal
    if missing == "pidfd_open":
        monkeypatch.setattr(os, "pidfd_open", refuse)
    else:
        monkeypatch.setattr(
            signal, "pidfd_send_signal", lambda fd, number, info, flags: refuse() if flags else real(fd, number, info, flags)
        )
    script = f"sleep 600 & echo $! > {tmp_path}/child; wait"
    scheduler = site.scheduler()
    identity = scheduler.start(JobSpec(name=JOB, command=("sh", "-c", script)), stamp=stamp())
    eventually(lambda: (tmp_path / "child").exists() and (tmp_path / "child").read_text())
    scheduler.stop(JOB, stamp=stamp("stop"))
    eventually(lambda: not alive(int((tmp_path / "child").read_text())))
    eventually(lambda: isinstance(scheduler.observe(JOB), JobEnded))
    assert scheduler.observe(JOB) == msgspec.structs.replace(scheduler.observe(JOB), identity=identity, exit_code=143)
