"""A real Slurm cluster for tests and for the lab: all its files in one folder, everything it started ended by process id.

Whoever has the folder can stop the cluster, also in another process than the one that started it: what belongs to it is recognised by an
environment variable that every program inherits, so there are no pid files that could lie.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.drivers.process.procfs import Stat, find, read_stat
from bridgehead.testing.servers import free_port
from bridgehead.testing.slurm_accounting import start_accounting
from bridgehead.testing.slurm_files import SlurmPlan, munge_socket, write_files

MARK: Final = "BRIDGEHEAD_SLURM_CLUSTER"
"""Environment variable by which the processes of a cluster are recognised; its value is the cluster's folder."""
READY_S: Final = 30.0
CLIENT_S: Final = 5
"""Slurm's clients wait for minutes for a controller that does not answer."""
_POLL_S: Final = 0.05


class SlurmCluster:
    """One cluster in ``folder``. Programs run as root, which Slurm needs to start jobs."""

    def __init__(self, plan: SlurmPlan, folder: Path) -> None:
        self.plan, self.folder = plan, folder
        self.conf = folder / "slurm.conf"
        self.rest_socket = folder / "run" / "rest.sock"
        self.environ = {
            "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "SLURM_CONF": str(self.conf),
            "LANG": "C.UTF-8",
        }

    @classmethod
    def opened(cls, folder: Path) -> SlurmCluster:
        """The cluster that was installed in ``folder`` before, running or not. Raises FileNotFoundError."""
        return cls(msgspec.json.decode((folder / "cluster.json").read_bytes(), type=SlurmPlan), folder)

    def install(self) -> None:
        """Choose the ports that the plan leaves open and write all files; no process starts."""
        plan = self.plan
        self.plan = msgspec.structs.replace(
            plan,
            controller_port=plan.controller_port or free_port(),
            node_ports=plan.node_ports or tuple(free_port() for _ in range(plan.nodes)),
            accounting_ports=plan.accounting_ports or ((free_port(), free_port()) if plan.accounting else ()),
        )
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "cluster.json").write_bytes(msgspec.json.encode(self.plan))
        write_files(self.plan, self.folder)

    # life

    def start(self) -> None:
        """Install, start everything and return when all nodes are idle.

        Raises RuntimeError with the ends of the logs, after stopping all, when they do not come.
        """
        self.install()
        try:
            self.start_munged()
            if self.plan.accounting:
                start_accounting(self)
            self.start_controller()
            for node in self.plan.node_names:
                self.start_node(node)
            self.wait_ready()
            if self.plan.rest:
                self.start_rest()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End every process of the cluster, jobs included; no effect when none is left. The folder stays."""
        for daemon in ("slurmctld", "slurmdbd"):
            # These two write what they know when they are asked; the others have nothing to lose.
            for stat in self.named(daemon):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(stat.pid, signal.SIGTERM)
            self._wait_gone(daemon, within_s=3.0)
        deadline = time.monotonic() + READY_S
        while left := self.processes():
            for stat in left:
                end(stat, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise RuntimeError(f"cluster {self.plan.name}: processes {[stat.pid for stat in left]} do not end")
            time.sleep(_POLL_S)

    def __enter__(self) -> SlurmCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # single daemons

    def start_munged(self) -> None:
        """The daemon that signs for the others; its key is the cluster's own, so that another cluster refuses its credentials."""
        run, log = self.folder / "run", self.folder / "log"
        socket_path = munge_socket(self.folder)
        files = [f"--pid-file={run / 'munged.pid'}", f"--log-file={log / 'munged.log'}", f"--seed-file={self.folder / 'munge.seed'}"]
        socket_path.unlink(missing_ok=True)
        # --force: the folder may lie in one that others can write, as /tmp.
        self.spawn("munged", "--foreground", "--force", f"--key-file={self.folder / 'munge.key'}", f"--socket={socket_path}", *files)
        self.wait(socket_path.exists, "munged does not listen")

    def start_controller(self) -> None:
        """Start slurmctld, which reads its saved state when there is one."""
        self.spawn("slurmctld", "-D", "-f", str(self.conf))

    def start_node(self, node: str) -> None:
        """Start the slurmd of ``node``."""
        self.spawn("slurmd", "-D", "-f", str(self.conf), "-N", node)

    def bring_back(self, node: str) -> None:
        """Start the slurmd of a node that was killed, and say that it may be used. Raises RuntimeError."""
        self.start_node(node)
        try:
            self.client("scontrol", "update", f"nodename={node}", "state=resume")
        except RuntimeError as error:
            if "Invalid node state" not in str(error):  # it has registered by now, and is back without being told
                raise

    def start_rest(self) -> None:
        """Start slurmrestd. It refuses to serve as root unless told otherwise; here jobs must run as the user of the command line."""
        self.rest_socket.unlink(missing_ok=True)
        env = {"SLURMRESTD_SECURITY": "disable_user_check"}
        self.spawn(
            "slurmrestd", "-f", str(self.conf), "-a", "rest_auth/local", "-s", "openapi/v0.0.38", f"unix:{self.rest_socket}", env=env
        )
        self.wait(self.rest_socket.exists, "slurmrestd does not listen")

    def kill_controller(self) -> None:
        """As a crash: SIGKILL, nothing saved."""
        self._end_named("slurmctld")

    def kill_node(self, node: str) -> None:
        """As a dead machine: slurmd, its steps and the jobs' processes there."""
        deadline = time.monotonic() + READY_S
        while members := self.node_processes(node):
            assert time.monotonic() < deadline, f"processes of {node} do not end"
            for stat in members:
                end(stat, signal.SIGKILL)
            time.sleep(_POLL_S)

    def signal_all(self, number: signal.Signals) -> None:
        """SIGSTOP and SIGCONT freeze and thaw the whole site, jobs included; SIGKILL is the loss of the site."""
        for stat in self.processes():
            end(stat, number)

    # clients

    def command(self, *argv: str) -> tuple[str, ...]:
        """``argv`` as it must be run to reach the cluster: inside its namespace, with its configuration, and bounded in time."""
        inside = ("ip", "netns", "exec", self.plan.namespace) if self.plan.namespace else ()
        return (*inside, "env", f"SLURM_CONF={self.conf}", "timeout", str(CLIENT_S), *argv)

    def client(self, *argv: str, stdin: str = "") -> str:
        """What a Slurm client prints. Raises RuntimeError with its errors when it fails."""
        done = subprocess.run(self.command(*argv), input=stdin, capture_output=True, text=True, env=self.environ, check=False)
        if done.returncode:
            raise RuntimeError(f"{' '.join(argv)} exits with {done.returncode}: {done.stderr or done.stdout}")
        return done.stdout

    def wait_ready(self, *, states: Sequence[str] = ("idle", "mixed", "allocated")) -> None:
        """Return when each node is in one of ``states``. Raises RuntimeError with the ends of the logs after ``READY_S``."""

        def ready() -> bool:
            try:
                lines = self.client("sinfo", "-h", "-N", "-p", self.plan.partitions[0], "-o", "%T").split()
            except RuntimeError:
                return False
            return len(lines) == self.plan.nodes and all(line in states for line in lines)

        self.wait(ready, "nodes do not become ready")

    # processes

    def processes(self) -> list[Stat]:
        """Every living process of the cluster: daemons, steps, jobs and what these left behind."""
        return list(self._members(lambda _: True))

    def named(self, daemon: str) -> list[Stat]:
        """The cluster's living processes of this program."""
        return list(self._members(lambda pid: program(pid) == daemon))

    def node_processes(self, node: str) -> list[Stat]:
        """What lives of the node: its slurmd, steps and jobs."""
        marks = (b"SLURMD_NODENAME=" + node.encode(), f"{MARK}_NODE={node}".encode())
        return list(self._members(lambda pid: any(mark in _environ(pid) for mark in marks)))

    def spawn(self, name: str, *argv: str, env: dict[str, str] | None = None) -> int:
        """Start a daemon of the cluster in a session of its own; its pid."""
        inside = ("ip", "netns", "exec", self.plan.namespace) if self.plan.namespace else ()
        node = {f"{MARK}_NODE": argv[-1]} if name == "slurmd" else {}
        environ = {**self.environ, MARK: str(self.folder), **node, **(env or {})}
        with open(self.folder / "log" / f"{name}{'-' + argv[-1] if node else ''}.out", "ab") as output:
            process = subprocess.Popen(
                (*inside, name, *argv), stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environ, cwd="/", start_new_session=True
            )
        _CHILDREN[process.pid] = process
        return process.pid

    def wait(self, ready: Callable[[], object], complaint: str) -> None:
        """Return when ``ready()`` is true. Raises RuntimeError with the ends of the logs."""
        deadline = time.monotonic() + READY_S
        while not ready():
            if time.monotonic() > deadline:
                raise RuntimeError(f"cluster {self.plan.name}: {complaint} within {READY_S:g} s\n{self.logs()}")
            time.sleep(_POLL_S)

    def logs(self, *, last_bytes: int = 1500) -> str:
        """The ends of all logs, for messages."""
        files = sorted(path for path in (self.folder / "log").iterdir() if path.is_file() and path.stat().st_size)
        return "\n".join(f"--- {path.name}\n{path.read_bytes()[-last_bytes:].decode(errors='replace')}" for path in files)

    def _end_named(self, daemon: str) -> None:
        for stat in self.named(daemon):
            end(stat, signal.SIGKILL)
        self._wait_gone(daemon, within_s=READY_S)

    def _wait_gone(self, daemon: str, *, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while self.named(daemon) and time.monotonic() < deadline:
            time.sleep(_POLL_S)

    def _members(self, wanted: Callable[[int], bool]) -> Iterator[Stat]:
        mark = f"{MARK}={self.folder}".encode()
        conf, folder = f"SLURM_CONF={self.conf}".encode(), str(self.folder / "spool").encode()
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            pid = int(name)
            _reap(pid)
            environ = _environ(pid)
            # A job has the environment of its submitter, not the daemon's: it is known by its configuration and node.
            job = conf in environ and any(part.startswith(b"SLURM_JOB_ID=") for part in environ)
            if not (mark in environ or job or any(part.startswith(folder) for part in _cmdline(pid))):
                continue
            if wanted(pid) and (stat := read_stat(pid)) is not None and stat.alive:
                yield stat


_CHILDREN: dict[int, subprocess.Popen[bytes]] = {}
"""Daemons that this process started, so that it can collect them: to the kernel an ended child is a process until then."""


def end(stat: Stat, number: signal.Signals) -> None:
    """Send ``number`` to exactly this process, not to another one that has its pid by now."""
    if find(stat.pid, stat.start_ticks) is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(stat.pid, number)


def program(pid: int) -> str:
    """The name of the program that ``pid`` runs; "" when it is gone."""
    arguments = _cmdline(pid)
    return os.path.basename(os.fsdecode(arguments[0]).partition(":")[0]) if arguments else ""


def _reap(pid: int) -> None:
    if pid in _CHILDREN and _CHILDREN[pid].poll() is not None:
        del _CHILDREN[pid]


def _environ(pid: int) -> list[bytes]:
    return _read(pid, "environ")


def _cmdline(pid: int) -> list[bytes]:
    return _read(pid, "cmdline")


def _read(pid: int, name: str) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().split(b"\0")
    except OSError:
        return []
