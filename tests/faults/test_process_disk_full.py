"""The state directory is full (V19): no job without record, no record without job, and no exit code is lost."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bridgehead.drivers.process import procfs
from bridgehead.drivers.process.control import FileTrainingControl
from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.host import durable
from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId, StepId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobRunning, JobSpec
from bridgehead.ports.training import Continue, SaveAndHold

SITE = SiteId("site-a")
PAGE_BYTES = 4096


def stamp(step: str, epoch: int = 1) -> Stamp:
    return Stamp(run=RunId("run-1"), step=StepId(step), attempt=1, epoch=Epoch(epoch))


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 64 pages; needs the right to mount."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={64 * PAGE_BYTES}", "none", str(disk)], capture_output=True, text=True)
    if mounted.returncode != 0:
        pytest.skip(f"may not mount a small file system here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", "-l", str(disk)], check=True)


def fill(disk: Path, *, leave_pages: int) -> Path:
    ballast = disk / "ballast"
    with open(ballast, "wb") as file:
        for _ in range(os.statvfs(disk).f_bfree - leave_pages):
            file.write(b"x" * PAGE_BYTES)
    assert os.statvfs(disk).f_bfree == leave_pages
    return ballast


def eventually(predicate, within_s=20.0):
    limit_s = time.monotonic() + within_s
    while not predicate():
        assert time.monotonic() < limit_s, "did not happen"
        time.sleep(0.01)


def test_V19_at_every_fill_level_a_start_is_whole_or_nothing(small_disk, tmp_path):
    scheduler = ProcessScheduler(SITE, ProcessOptions(directory=str(small_disk)))
    scheduler.start(JobSpec(name=JobName("first"), command=("true",)), stamp=stamp("first"))
    eventually(lambda: isinstance(scheduler.observe(JobName("first")), JobEnded))
    refused_after_intent = refused_before = 0
    refusals = []
    for pages in range(12):
        job = JobName(f"job-{pages}")
        starts = tmp_path / job
        ballast = fill(small_disk, leave_pages=pages)
        spec = JobSpec(name=job, command=("sh", "-c", f"echo $$ > {starts}; exec sleep 600"))
        try:
            identity = scheduler.start(spec, stamp=stamp(job))
        except Transient as error:
            refusals.append(str(error))
            if (small_disk / job / "1" / "intent.json").exists():
                refused_after_intent += 1
            else:
                refused_before += 1
            time.sleep(0.05)  # a job without record would show itself
            assert not starts.exists()
            assert scheduler.observe(job) == JobAbsent(name=job)
            ballast.unlink()
            identity = scheduler.start(spec, stamp=stamp(job))
        assert scheduler.observe(job) == JobRunning(identity=identity)
        ballast.unlink(missing_ok=True)
        scheduler.kill(job, stamp=stamp("kill"))
        eventually(lambda job=job: isinstance(scheduler.observe(job), JobEnded))
        assert scheduler.observe(job).exit_code == 137
        assert not [path for path in small_disk.rglob("*.tmp")]
    # each planned fault was met: before the intent, and between the intent and the job's own record
    assert refused_before
    assert refused_after_intent
    assert all("no space" in text for text in refusals)


def test_V19_a_disk_that_fills_while_the_job_runs_does_not_lose_the_exit_code(small_disk, tmp_path):
    scheduler = ProcessScheduler(SITE, ProcessOptions(directory=str(small_disk)))
    job = JobName("train")
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    scheduler.start(JobSpec(name=job, command=("sh", "-c", f"read x < {gate}; exit 9")), stamp=stamp("start"))
    fill(small_disk, leave_pages=0)
    gate.write_text("end\n")
    scheduler = ProcessScheduler(SITE, ProcessOptions(directory=str(small_disk)))  # a new controller can look, too
    eventually(lambda: isinstance(scheduler.observe(job), JobEnded))
    assert scheduler.observe(job).exit_code == 9
    # ending it again needs no space, a newer epoch does, and is then not half-remembered
    scheduler.kill(job, stamp=stamp("kill"))
    with pytest.raises(Transient, match="no space"):
        scheduler.kill(job, stamp=stamp("kill", epoch=2))
    scheduler.kill(job, stamp=stamp("kill", epoch=1))


def test_V19_a_lost_supervisor_on_a_full_disk_still_gives_an_answer(small_disk):
    scheduler = ProcessScheduler(SITE, ProcessOptions(directory=str(small_disk)))
    job = JobName("train")
    identity = scheduler.start(JobSpec(name=job, command=("sleep", "600")), stamp=stamp("start"))
    fill(small_disk, leave_pages=0)
    supervisor = int((small_disk / job / "1" / "process.json").read_text().split('"supervisor_pid":')[1].split(",")[0])
    os.kill(supervisor, 9)
    eventually(lambda: (stat := procfs.read_stat(supervisor)) is None or not stat.alive)
    scheduler.kill(job, stamp=stamp("kill"))
    eventually(lambda: isinstance(scheduler.observe(job), JobEnded))
    (small_disk / "ballast").unlink()
    assert scheduler.observe(job) == JobEnded(identity=identity, exit_code=None, ended_s=None)


def test_V19_an_order_that_does_not_fit_leaves_the_old_one(small_disk):
    control = FileTrainingControl(SITE, str(small_disk))
    job = JobName("train")
    control.request(job, SaveAndHold(), order_id="o1", stamp=stamp("a"))
    before = (small_disk / job / "order.json").read_bytes()
    ballast = fill(small_disk, leave_pages=0)
    with pytest.raises(Transient, match="no space"):
        control.request(job, Continue(), order_id="o2", stamp=stamp("b"))
    assert (small_disk / job / "order.json").read_bytes() == before
    ballast.unlink()
    control.request(job, Continue(), order_id="o2", stamp=stamp("b"))
    assert b"o2" in (small_disk / job / "order.json").read_bytes()


@pytest.mark.parametrize("name", ["ended.reserved", "process.json"])
def test_a_record_that_cannot_be_written_starts_nothing(tmp_path, name):
    """The same without the right to mount: something is in the place of one of the files that the job's supervisor writes."""
    job, starts = JobName("train"), tmp_path / "starts"
    obstacle = tmp_path / "site" / job / "1" / name

    def checkpoint(point):
        if point == "intended":
            obstacle.mkdir()

    options = ProcessOptions(directory=str(tmp_path / "site"))
    spec = JobSpec(name=job, command=("sh", "-c", f"echo > {starts}; exec sleep 600"))
    with pytest.raises(Transient):
        ProcessScheduler(SITE, options, checkpoint=checkpoint).start(spec, stamp=stamp("start"))
    time.sleep(0.1)  # a job without record would show itself
    assert not starts.exists()
    obstacle.rmdir()
    scheduler = ProcessScheduler(SITE, options)
    assert scheduler.observe(job) == JobAbsent(name=job)
    identity = scheduler.start(spec, stamp=stamp("start"))
    assert scheduler.observe(job) == JobRunning(identity=identity)
    scheduler.kill(job, stamp=stamp("kill"))


CONTROLLER = """
import sys
from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.kernel.errors import Transient
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobSpec

directory, command = sys.argv[1:]
scheduler = ProcessScheduler("site-a", ProcessOptions(directory=directory))
try:
    scheduler.start(JobSpec(name="train", command=("sh", "-c", command)), stamp=Stamp(run="run-1", step="start", attempt=1, epoch=1))
except Transient as error:
    print("refused", error)
"""


@pytest.mark.parametrize(("limit_bytes", "remembered"), [(0, False), (150, True)], ids=["epoch", "intent"])
def test_a_limit_on_file_sizes_is_met_before_anything_is_started(tmp_path, limit_bytes, remembered):
    directory, starts = tmp_path / "site", tmp_path / "starts"
    scheduler = ProcessScheduler(SITE, ProcessOptions(directory=str(directory)))
    controller = subprocess.run(
        [sys.executable, "-c", CONTROLLER, str(directory), f"echo > {starts}"],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes)),
    )
    assert controller.stdout.startswith("refused"), controller
    assert (directory / ".driver" / "epochs.json").exists() == remembered
    assert not list(directory.rglob("intent.json"))
    assert not list(directory.rglob("*.tmp"))
    time.sleep(0.1)
    assert not starts.exists()
    assert scheduler.observe(JobName("train")) == JobAbsent(name=JobName("train"))


def test_a_write_that_fails_leaves_the_old_file_and_no_temporary_one(tmp_path, monkeypatch):
    path = tmp_path / "state.json"
    durable.write_durably(str(path), b"old")

    def refuse(_descriptor):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        durable.write_durably(str(path), b"new")
    with pytest.raises(OSError, match="Input/output error"):
        durable.create_durably(str(tmp_path / "other.json"), b"new")
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("state.json", b"old")]


def test_J02_what_is_written_once_stays(tmp_path):
    path = str(tmp_path / "ended.json")
    assert durable.create_durably(path, b"first")
    assert not durable.create_durably(path, b"second")
    assert Path(path).read_bytes() == b"first"
    assert os.listdir(tmp_path) == ["ended.json"]
