"""The process scheduler keeps the scheduler's contract, and what it promises beyond it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridgehead.drivers.process import procfs
from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.ports.scheduler import JobAbsent, JobEnded, JobSpec, Scheduler
from bridgehead.testing.scheduler_suite import JOB, Family, SchedulerHooks, SchedulerSuite, stamp


def shell(script: str) -> tuple[str, ...]:
    return ("/bin/sh", "-c", script)


class ProcessHooks(SchedulerHooks):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.tmp = tmp_path
        self.directory = tmp_path / "site"

    @pytest.fixture
    def scheduler(self) -> Iterator[ProcessScheduler]:
        scheduler = ProcessScheduler(self.site, ProcessOptions(directory=str(self.directory), env={"SITE_WIDE": "yes"}))
        yield scheduler
        for folder in self.directory.iterdir():
            if any(folder.glob("*/process.json")):
                scheduler.kill(JobName(folder.name), stamp=stamp("teardown", run="teardown"))

    def sleeps(self):
        return shell("trap 'exit 0' TERM; echo listening; while :; do sleep 0.2; done")

    def ignores_stop(self):
        return shell("trap '' TERM; echo listening; while :; do sleep 60; done")

    def exits(self, code):
        return shell(f"exit {code}")

    def cannot_execute(self):
        return (str(self.tmp / "no-such-program"),)

    def listens(self, scheduler, name):
        return b"listening" in Path(scheduler.log_path(name)).read_bytes()

    def reopened(self, scheduler: Scheduler) -> ProcessScheduler:
        return ProcessScheduler(self.site, ProcessOptions(directory=str(self.directory)))

    @contextmanager
    def blinded(self, scheduler):
        away = self.directory.with_name("away")
        self.directory.rename(away)
        self.directory.write_text("something else is here")
        yield
        self.directory.unlink()
        away.rename(self.directory)

    def family(self, leader: str, child: str = "exec sleep 600") -> Family:
        pids = self.tmp / "pids"
        script = self.tmp / "child.sh"
        script.write_text(f"echo $$ >> {pids}\n{child}\n")

        def living() -> int:
            known = [int(line) for line in pids.read_text().split()] if pids.exists() else []
            return sum(1 for pid in known if (stat := procfs.read_stat(pid)) is not None and stat.alive)

        return Family(shell(f"sh {script} & until [ -s {pids} ]; do sleep 0.01; done; {leader.format(pids=pids)}"), living)

    def waits_for_child(self):
        return self.family("echo $$ >> {pids}; wait")

    def leaves_child(self):
        return self.family("exit 0")


class TestProcessScheduler(ProcessHooks, SchedulerSuite):
    """The contract."""


class TestProcessSchedulerBeyondTheContract(ProcessHooks):
    def run(self, scheduler, script: str, **fields) -> tuple[JobEnded, str]:
        scheduler.start(JobSpec(name=JOB, command=shell(script), **fields), stamp=stamp())
        ended = self.wait_ended(scheduler)
        return ended, Path(scheduler.log_path(JOB)).read_text()

    def test_output_environment_and_folder_are_what_the_spec_says(self, scheduler):
        (self.tmp / "there").mkdir()
        script = 'echo "$SITE_WIDE $MINE $PWD"; echo err >&2; read line || echo "no input"'
        ended, log = self.run(scheduler, script, env={"MINE": "ümläut"}, workdir=str(self.tmp / "there"))
        assert ended.exit_code == 0
        assert log == f"yes ümläut {self.tmp}/there\nerr\nno input\n"

    def test_a_job_without_workdir_gets_an_empty_folder_of_its_own(self, scheduler):
        _, log = self.run(scheduler, "pwd; ls -A | wc -l")
        folder, count = log.splitlines()
        assert folder.startswith(str(self.directory))
        assert int(count) == 0

    def test_a_job_leads_a_session_of_its_own_with_default_signals_and_no_stray_descriptors(self, scheduler):
        code = (
            "import os; there = '/proc/self/fd'\n"
            "fds = [n for n in os.listdir(there) if int(n) > 2 and os.path.exists(f'{there}/{n}')]\n"
            "mask = next(l for l in open('/proc/self/status') if l.startswith('SigIgn')).split()[1]\n"
            # Python itself ignores SIGPIPE (13) and SIGXFSZ (25); 32 and 33 belong to the C library, which lets nobody change them.
            "mine = ~(1 << 12 | 1 << 24 | 1 << 31 | 1 << 32)\n"
            "print(os.getsid(0) == os.getpgid(0) == os.getpid(), fds, hex(int(mask, 16) & mine))"
        )
        scheduler.start(JobSpec(name=JOB, command=(sys.executable, "-S", "-c", code)), stamp=stamp())
        self.wait_ended(scheduler)
        assert Path(scheduler.log_path(JOB)).read_text() == "True [] 0x0\n"

    def test_a_death_by_signal_is_128_plus_its_number(self, scheduler):
        assert self.run(scheduler, "kill -9 $$")[0].exit_code == 137

    def test_arguments_are_not_touched_by_any_shell(self, scheduler):
        scheduler.start(JobSpec(name=JOB, command=("printf", "%s|", "a b", "", "$HOME", "*", "'\"\n")), stamp=stamp())
        assert self.wait_ended(scheduler).exit_code == 0
        assert Path(scheduler.log_path(JOB)).read_text() == "a b||$HOME|*|'\"\n|"

    def test_a_large_environment_passes(self, scheduler):
        env = {f"BIG_{number}": "x" * 20_000 for number in range(20)}
        assert self.run(scheduler, "printf %s $BIG_19 | wc -c", env=env)[1] == "20000\n"

    def test_no_secret_of_the_environment_is_on_disk_or_in_the_process_list(self, scheduler):
        scheduler.start(JobSpec(name=JOB, command=self.sleeps(), env={"KEY": "s3cr3t-value"}), stamp=stamp())
        files = [path for path in self.directory.rglob("*") if path.is_file()]
        assert len(files) > 4
        assert not [path for path in files if b"s3cr3t-value" in path.read_bytes()]
        supervisor = next(self.directory.glob("*/*/process.json")).read_text().split('"supervisor_pid":')[1].split(",")[0]
        for what in ("cmdline", "environ"):
            assert b"s3cr3t-value" not in Path(f"/proc/{supervisor}/{what}").read_bytes()

    @pytest.mark.parametrize(
        "fields",
        [
            {"command": ()},
            {"command": ("",)},
            {"command": ("true", "a\0b")},
            {"command": ("true", "\ud800")},
            {"command": ("true",), "env": {"A=B": "c"}},
            {"command": ("true",), "env": {"": "c"}},
            {"command": ("true",), "workdir": "/no/such/folder"},
            {"command": ("/",)},
            {"command": ("/etc/passwd",)},
        ],
        ids=repr,
    )
    def test_what_can_never_run_is_refused_and_leaves_no_job(self, scheduler, fields):
        with pytest.raises(Permanent):
            scheduler.start(JobSpec(name=JOB, **fields), stamp=stamp())
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)

    @pytest.mark.parametrize("name", ["", ".", "..", "a/b", ".driver", "x" * 300, "a\n", "ü"])
    def test_a_name_that_is_no_file_name_is_refused(self, scheduler, name):
        with pytest.raises(Permanent):
            scheduler.start(JobSpec(name=JobName(name), command=("true",)), stamp=stamp())
        with pytest.raises(Permanent):
            scheduler.observe(JobName(name))

    def test_the_directory_of_another_site_is_refused(self, scheduler):
        with pytest.raises(Permanent, match="belongs to site site-a"):
            ProcessScheduler(SiteId("site-b"), ProcessOptions(directory=str(self.directory)))

    def test_J01_an_empty_directory_in_its_place_is_not_an_absent_job(self, scheduler):
        self.directory.rename(self.tmp / "unmounted")
        self.directory.mkdir()
        try:
            with pytest.raises(Transient):
                scheduler.observe(JOB)
            with pytest.raises(Transient):
                scheduler.start(JobSpec(name=JOB, command=("true",)), stamp=stamp())
        finally:
            os.rename(self.tmp / "unmounted", self.directory)
        assert scheduler.observe(JOB) == JobAbsent(name=JOB)
