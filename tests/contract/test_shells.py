"""The local shell and the one over ssh keep the shell's contract; what ssh promises beyond it."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import pytest

from bridgehead.drivers.shell import LocalShell, LocalShellOptions
from bridgehead.drivers.ssh import SshShell
from bridgehead.drivers.ssh.remote import Marks
from bridgehead.kernel.errors import Permanent, Transient, Unknown
from bridgehead.testing.shell_suite import ShellSuite
from bridgehead.testing.ssh_server import SshServer, end_connections


class TestLocalShell(ShellSuite):
    @pytest.fixture
    def shell(self):
        return LocalShell()

    def test_prefix_and_environment_of_the_options_are_used(self):
        shell = LocalShell(LocalShellOptions(prefix=("env", "FIRST=1"), env={"SECOND": "2"}))
        assert shell.run(["sh", "-c", "echo $FIRST$SECOND$THIRD"], env={"THIRD": "3"}).text == "123\n"

    def test_what_takes_too_long_is_ended_with_its_children(self, shell, tmp_path):
        pids = tmp_path / "pids"
        with pytest.raises(Unknown):
            shell.run(["sh", "-c", f"sleep 60 & echo $! >> {pids}; wait"], timeout_s=0.5)
        pid = int(pids.read_text())
        deadline = time.monotonic() + 5
        while Path(f"/proc/{pid}/stat").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not Path(f"/proc/{pid}").exists() or ") Z" in Path(f"/proc/{pid}/stat").read_text()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    place = SshServer(tmp_path_factory.mktemp("sshd"))
    with place.running() as server:
        place.server = server
        yield place


@pytest.mark.server("sshd", "ssh")
class TestSshShell(ShellSuite):
    @pytest.fixture
    def shell(self, place):
        shell = SshShell(place.options())
        yield shell
        shell.close()

    @contextmanager
    def unreachable(self, shell):
        shell.close()
        place = SshServer(Path(shell._options.identity_file).parent / "nobody")  # keys and a port, and no server behind it
        yield SshShell(place.options(keep_s=0))

    def test_one_connection_serves_many_programs(self, shell, place):
        shell.run(["true"])
        before = (place.folder / "sshd.log").read_text().count("Accepted publickey")
        for _ in range(5):
            shell.run(["true"])
        assert (place.folder / "sshd.log").read_text().count("Accepted publickey") == before

    @pytest.mark.parametrize("what", ["unknown host", "other host key", "unknown login", "no key file"])
    def test_nobody_is_trusted_and_nothing_is_asked(self, place, tmp_path, what):
        hosts = tmp_path / "hosts"
        stranger = (place.folder / "stranger.pub").read_text().split()[:2]
        hosts.write_text("" if what == "unknown host" else f"[127.0.0.1]:{place.port} {' '.join(stranger)}\n")
        changes = {
            "unknown host": {"known_hosts_file": str(hosts)},
            "other host key": {"known_hosts_file": str(hosts)},
            "unknown login": {"identity_file": str(place.folder / "stranger")},
            "no key file": {"identity_file": str(tmp_path / "none")},
        }
        begun_s = time.monotonic()
        with pytest.raises(Permanent):
            SshShell(place.options(keep_s=0, **changes[what])).run(["true"])
        assert time.monotonic() - begun_s < 5

    def test_J01_a_host_that_accepts_and_says_nothing_is_out_of_reach(self, place):
        os.kill(place.server.pid, signal.SIGSTOP)
        try:
            with pytest.raises(Transient):
                SshShell(place.options(keep_s=0, connect_timeout_s=1)).run(["true"], timeout_s=20)
        finally:
            os.kill(place.server.pid, signal.SIGCONT)

    def test_a_connection_that_breaks_leaves_doubt_only_when_the_program_began(self, place, tmp_path):
        shell = SshShell(place.options(keep_s=0))
        mark = tmp_path / "mark"

        def cut():
            while not mark.exists():
                time.sleep(0.01)
            end_connections(place.server)

        cutter = threading.Thread(target=cut)
        cutter.start()
        with pytest.raises(Unknown, match="the connection broke while it ran"):
            shell.run(["sh", "-c", f"touch {mark}; sleep 20"])
        cutter.join()
        assert shell.run(["echo", "again"]).text == "again\n"

    def test_a_kept_connection_that_died_is_made_again(self, shell, place):
        assert shell.run(["echo", "1"]).text == "1\n"
        end_connections(place.server)
        deadline = time.monotonic() + 10
        while True:
            try:
                assert shell.run(["echo", "2"]).text == "2\n"
                break
            except Transient:
                assert time.monotonic() < deadline
                time.sleep(0.1)


def test_marks_leave_what_the_program_wrote():
    marks = Marks("1a")
    said = marks.read(b"bridgehead-1a-begun\nno line break at the end\nbridgehead-1a-ended 7\n")
    assert (said.begun, said.ended, said.rest) == (True, 7, b"no line break at the end")
    assert marks.read(b"ssh: connect to host").begun is False
