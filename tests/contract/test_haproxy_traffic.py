"""The haproxy driver keeps the traffic port's contract with a real haproxy."""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyService, HaproxyTraffic
from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.testing import servers
from bridgehead.testing.http_rig import HttpRig
from bridgehead.testing.traffic_suite import SERVICE, A, B, TrafficSuite, shift, stamp

pytestmark = pytest.mark.server("haproxy")


def ask(path: str, line: str) -> str:
    """What an administrator sees who types into a runtime socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(5.0)
        connection.connect(path)
        connection.sendall(f"{line}\n".encode())
        connection.shutdown(socket.SHUT_WR)
        return connection.makefile("rb").read().decode()


class HaproxyRig(HttpRig):
    def __init__(self, folder: Path, sockets: Path, stack: ExitStack) -> None:
        sites = {site: f"127.0.0.1:{stack.enter_context(servers.backend(site, folder=folder))}" for site in (A, B)}
        self.address = f"127.0.0.1:{servers.free_port()}"
        self.options = HaproxyOptions(
            socket=str(sockets / "run.sock"),
            master_socket=str(sockets / "master.sock"),
            state_file=str(folder / "state.json"),
            config_file=str(folder / "haproxy.cfg"),
            services={SERVICE: HaproxyService(listen=self.address, sites=sites, initial={A: 100, B: 0})},
        )
        self.server = stack.enter_context(servers.haproxy(self.options, folder=folder))

    def driver(self) -> HaproxyTraffic:
        return HaproxyTraffic(self.options)

    def lose_weights(self) -> None:
        config = Path(self.options.config_file)
        config.write_text(config.read_text().replace("weight 20", "weight 33").replace("weight 80", "weight 67"))
        self.reload()

    def reload(self) -> None:
        before = self.current_worker()
        os.kill(self.server.pid, signal.SIGUSR2)
        self.eventually(lambda: self.current_worker() not in ("", before), within_s=10.0)

    def current_worker(self) -> str:
        """Its process id; empty while the master is between two executions of itself."""
        try:
            return re.search(r"(?m)^Pid: (\d+)", ask(self.options.master_socket, "@1 show info"))[1]
        except (OSError, TypeError):
            return ""

    def kill(self) -> None:
        os.killpg(self.server.pid, signal.SIGKILL)
        self.server.process.wait()


class TestHaproxyTraffic(TrafficSuite):
    @pytest.fixture
    def sockets(self) -> Iterator[Path]:
        # The path of a unix socket may have 107 bytes; that of a test's folder can be longer.
        folder = tempfile.mkdtemp(prefix="bh-")
        yield Path(folder)
        shutil.rmtree(folder)

    @pytest.fixture
    def rig(self, tmp_path: Path, sockets: Path) -> Iterator[HaproxyRig]:
        with ExitStack() as stack:
            yield HaproxyRig(tmp_path, sockets, stack)

    def test_G09_reload_starts_with_the_desired_weights(self, rig: HaproxyRig) -> None:
        driver = rig.driver()
        shift(rig, driver, 0, 100)
        rig.reload()
        assert driver.read(SERVICE) == {A: 0, B: 100}
        assert rig.send(200) == {B: 200}
        shift(rig, driver, 50, 50)
        assert rig.send(200) == {A: 100, B: 100}

    def test_G09_reload_of_somebody_elses_configuration(self, rig: HaproxyRig) -> None:
        driver = HaproxyTraffic(msgspec.structs.replace(rig.options, config_file=""))
        shift(rig, driver, 20, 80)
        rig.reload()
        assert driver.read(SERVICE) == {A: 100, B: 0}
        assert driver.reconcile(SERVICE) is True
        assert driver.read(SERVICE) == {A: 20, B: 80}

    def test_without_master_socket(self, rig: HaproxyRig) -> None:
        driver = HaproxyTraffic(msgspec.structs.replace(rig.options, master_socket=""))
        stream = rig.stream()
        assert driver.in_flight(SERVICE, A) == 1
        shift(rig, driver, 0, 100)
        assert rig.send(100) == {B: 100}
        assert driver.in_flight(SERVICE, A) == 1
        assert stream.finish()

    def test_streams_left_in_an_old_worker_are_counted(self, rig: HaproxyRig) -> None:
        driver = rig.driver()
        stream = rig.stream()
        rig.reload()
        assert driver.in_flight(SERVICE, A) == 1
        assert stream.finish()
        rig.eventually(lambda: driver.in_flight(SERVICE, A) == 0, within_s=2.0)

    def test_write_to_a_dead_proxy_does_nothing(self, rig: HaproxyRig) -> None:
        driver = rig.driver()
        rig.kill()
        before = Path(rig.options.config_file).read_bytes()
        with pytest.raises(Transient):
            driver.write(SERVICE, {A: 0, B: 100}, stamp=stamp())
        assert Path(rig.options.config_file).read_bytes() == before
        assert not Path(rig.options.state_file).exists()

    def test_server_in_drain_by_hand_has_weight_0_in_force_and_is_corrected(self, rig: HaproxyRig) -> None:
        driver = rig.driver()
        shift(rig, driver, 50, 50)
        ask(rig.options.socket, "set server chat/a state drain")
        assert driver.read(SERVICE) == {A: 0, B: 50}
        assert driver.reconcile(SERVICE) is True
        assert driver.read(SERVICE) == {A: 50, B: 50}

    def test_backend_section_that_haproxy_lacks_is_not_found(self, rig: HaproxyRig) -> None:
        services = {"other": rig.options.services[SERVICE]}
        driver = HaproxyTraffic(msgspec.structs.replace(rig.options, services=services))
        with pytest.raises(NotFound, match="Can't find backend"):
            driver.read("other")
