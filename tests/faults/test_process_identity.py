"""A stranger's pid is never taken for ours (J12), and what cannot be seen from here is not called dead (J01)."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import time
from contextlib import suppress

import msgspec
import pytest

from bridgehead.drivers.process import procfs, signals
from bridgehead.drivers.process.execution import Intent, ProcessRecord, here
from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import Epoch, JobName, RunId, SiteId, StepId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobEnded, JobRunning, JobSpec

JOB = JobName("train")


def stamp(step: str) -> Stamp:
    return Stamp(run=RunId("run-1"), step=StepId(step), attempt=1, epoch=Epoch(1))


@pytest.fixture
def scheduler(tmp_path):
    return ProcessScheduler(SiteId("site-a"), ProcessOptions(directory=str(tmp_path / "site")))


@pytest.fixture
def stranger():
    """A session leader with a child in its session, which both would die of any signal meant for a job of the same number."""
    process = subprocess.Popen(["sh", "-c", "sleep 600 & echo $!; wait"], stdout=subprocess.PIPE, text=True, start_new_session=True)
    child = int(process.stdout.readline())
    pinned = os.pidfd_open(child)
    yield process, child
    with suppress(ProcessLookupError):
        signal.pidfd_send_signal(pinned, signal.SIGKILL)
    os.close(pinned)
    process.kill()
    process.wait()
    process.stdout.close()


def write_records(tmp_path, *, place=None, **record):
    """The files of an execution that recorded this process."""
    folder = tmp_path / "site" / JOB / "1"
    folder.mkdir(parents=True)
    (folder.parent / "lock").touch()
    intent = Intent(key="run-1/start", token="a" * 32, submitted_s=1.0, command=("x",), place=place or here())
    fields = {"supervisor_pid": 2**22 + 1, "supervisor_start_ticks": 1, **record}
    (folder / "intent.json").write_bytes(msgspec.json.encode(intent))
    (folder / "process.json").write_bytes(msgspec.json.encode(ProcessRecord(**fields)))


def survives(process, child) -> bool:
    time.sleep(0.1)  # a signal would have arrived
    return process.poll() is None and procfs.read_stat(child).alive


def test_J12_a_stranger_with_the_recorded_pid_is_never_signalled_and_the_job_is_reported_ended(scheduler, stranger, tmp_path):
    process, child = stranger
    start_ticks = procfs.read_stat(process.pid).start_ticks
    write_records(tmp_path, pid=process.pid, start_ticks=start_ticks - 1)
    for end in (scheduler.stop, scheduler.kill):
        end(JOB, stamp=stamp("end"))
    state = scheduler.observe(JOB)
    assert isinstance(state, JobEnded)
    assert state.exit_code is None
    assert survives(process, child)


def test_the_same_files_with_the_right_start_time_do_reach_the_process(scheduler, stranger, tmp_path):
    """Shows that the test above could fail."""
    process, child = stranger
    write_records(tmp_path, pid=process.pid, start_ticks=procfs.read_stat(process.pid).start_ticks)
    assert isinstance(scheduler.observe(JOB), JobRunning)
    scheduler.kill(JOB, stamp=stamp("kill"))
    assert process.wait(10) == -9
    limit_s = time.monotonic() + 10
    while (stat := procfs.read_stat(child)) is not None and stat.alive:
        assert time.monotonic() < limit_s


def test_J12_a_session_whose_leader_is_gone_is_not_ours_by_its_number_alone(scheduler, tmp_path):
    """As a daemon leaves it behind that got our job's number after the job had ended."""
    script = "sleep 600 > /dev/null 2>&1 & echo $!"
    leader = subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE, text=True, start_new_session=True)
    child = int(leader.communicate()[0])
    try:
        assert procfs.read_stat(child).session == leader.pid
        write_records(tmp_path, pid=leader.pid, start_ticks=1)
        scheduler.kill(JOB, stamp=stamp("kill"))
        assert isinstance(scheduler.observe(JOB), JobEnded)
        time.sleep(0.1)
        assert procfs.read_stat(child).alive
    finally:
        os.kill(child, 9)


def test_J12_a_supervisor_pid_that_a_stranger_has_now_does_not_keep_the_end_open(scheduler, stranger, tmp_path):
    process, child = stranger
    start_ticks = procfs.read_stat(process.pid).start_ticks
    write_records(tmp_path, pid=2**22 + 2, start_ticks=1, supervisor_pid=process.pid, supervisor_start_ticks=start_ticks - 1)
    assert isinstance(scheduler.observe(JOB), JobEnded)
    assert survives(process, child)


def test_J12_after_a_reboot_every_job_of_before_has_ended_whoever_has_its_pid_and_start_time(scheduler, stranger, tmp_path):
    process, child = stranger
    place = msgspec.structs.replace(here(), boot_id="another boot", pid_namespace="pid:[1]")
    write_records(tmp_path, place=place, pid=process.pid, start_ticks=procfs.read_stat(process.pid).start_ticks)
    scheduler.kill(JOB, stamp=stamp("kill"))
    assert isinstance(scheduler.observe(JOB), JobEnded)
    assert survives(process, child)


@pytest.mark.parametrize("flags", [0, signals.WHOLE_GROUP], ids=["process", "group"])
@pytest.mark.parametrize("pidfd", [True, False])
def test_J12_a_pid_that_is_reused_between_look_and_signal_is_not_signalled(stranger, monkeypatch, flags, pidfd):
    def refuse(_pid):
        raise OSError(errno.ENOSYS, "no pidfd here")

    process, child = stranger
    seen = procfs.read_stat(process.pid)
    seen.start_ticks -= 1
    if not pidfd:
        flags = 0
        monkeypatch.setattr(os, "pidfd_open", refuse)
    signals.signal_one(seen, signal.SIGKILL, flags=flags)
    assert survives(process, child)
    seen.start_ticks += 1
    signals.signal_one(seen, signal.SIGKILL, flags=flags)
    assert process.wait(10) == -9


@pytest.mark.parametrize(
    "place", [{"host": "elsewhere", "boot_id": "its boot"}, {"pid_namespace": "pid:[1]"}], ids=["other-host", "other-container"]
)
def test_J01_a_job_of_another_host_or_container_is_not_called_dead(scheduler, stranger, tmp_path, place):
    process, child = stranger
    place = msgspec.structs.replace(here(), **place)
    write_records(tmp_path, place=place, pid=process.pid, start_ticks=procfs.read_stat(process.pid).start_ticks)
    with pytest.raises(Transient, match="cannot be seen from"):
        scheduler.observe(JOB)
    with pytest.raises(Transient):
        scheduler.kill(JOB, stamp=stamp("kill"))
    with pytest.raises(Transient):
        scheduler.start(JobSpec(name=JOB, command=("true",)), stamp=stamp("again"))
    assert survives(process, child)


@pytest.mark.parametrize("name", ["intent.json", "process.json", "ended.json"])
@pytest.mark.parametrize("text", ["", "{", '{"pid":"x"}'])
def test_J01_a_damaged_state_file_is_neither_absent_nor_ended(scheduler, tmp_path, name, text):
    write_records(tmp_path, pid=2**22 + 2, start_ticks=1)
    (tmp_path / "site" / JOB / "1" / name).write_text(text)
    with pytest.raises(Transient, match="damaged"):
        scheduler.observe(JOB)
    with pytest.raises(Transient, match="damaged"):
        scheduler.start(JobSpec(name=JOB, command=("true",)), stamp=stamp("again"))


def test_the_start_time_is_found_whatever_the_name_of_the_process(tmp_path):
    program = tmp_path / "a) R 1 (b"
    program.symlink_to("/bin/sleep")
    process = subprocess.Popen([str(program), "600"])
    try:
        stat = procfs.read_stat(process.pid)
        ticks = os.sysconf("SC_CLK_TCK")
        with open("/proc/uptime") as file:
            assert abs(stat.start_ticks / ticks - float(file.read().split()[0])) < 30
        assert (stat.session, stat.group) == (os.getsid(process.pid), os.getpgid(process.pid))
        assert stat.alive
    finally:
        process.kill()
        process.wait()
