"""The traefik driver keeps the traffic port's contract with a real traefik."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from bridgehead.drivers.traefik import TraefikBackend, TraefikOptions, TraefikService, TraefikTraffic
from bridgehead.kernel.errors import Transient
from bridgehead.testing import servers
from bridgehead.testing.http_rig import HttpRig
from bridgehead.testing.traffic_suite import SERVICE, A, B, TrafficSuite, shift, stamp

pytestmark = pytest.mark.server("traefik")


class TraefikRig(HttpRig):
    def __init__(self, folder: Path, stack: ExitStack) -> None:
        urls = {site: f"http://127.0.0.1:{stack.enter_context(servers.backend(site, folder=folder))}" for site in (A, B)}
        self.address = f"127.0.0.1:{servers.free_port()}"
        sites = {site: TraefikBackend(url=url, metrics_url=f"{url}/metrics") for site, url in urls.items()}
        self.options = TraefikOptions(
            dynamic_file=str(folder / "dynamic.yaml"),
            admin_url=f"http://127.0.0.1:{servers.free_port()}",
            services={SERVICE: TraefikService(sites=sites, initial={A: 100, B: 0})},
        )
        self.dynamic = Path(self.options.dynamic_file)
        self.server = stack.enter_context(servers.traefik(self.options, listen=self.address, folder=folder))

    def driver(self) -> TraefikTraffic:
        return TraefikTraffic(self.options)

    def lose_weights(self) -> None:
        self.edit(("weight: 20", "weight: 33"), ("weight: 80", "weight: 67"))

    def edit(self, *replacements: tuple[str, str]) -> None:
        """What an administrator does with an editor that saves by renaming."""
        text = self.dynamic.read_text()
        for old, new in replacements:
            text = text.replace(old, new)
        edited = self.dynamic.with_suffix(".edited")
        edited.write_text(text)
        edited.rename(self.dynamic)

    def kill(self) -> None:
        os.kill(self.server.pid, signal.SIGKILL)
        self.server.process.wait()


def readable(driver: TraefikTraffic) -> bool:
    try:
        driver.read(SERVICE)
    except Transient:
        return False
    return True


class TestTraefikTraffic(TrafficSuite):
    @pytest.fixture
    def rig(self, tmp_path: Path) -> Iterator[TraefikRig]:
        with ExitStack() as stack:
            yield TraefikRig(tmp_path, stack)

    def test_G09_removed_file_is_written_again(self, rig: TraefikRig) -> None:
        driver = rig.driver()
        shift(rig, driver, 20, 80)
        rig.dynamic.unlink()
        assert rig.send(50).total() == 50
        assert driver.reconcile(SERVICE) is True
        assert "weight: 80" in rig.dynamic.read_text()
        rig.eventually(lambda: driver.reconcile(SERVICE) is False, within_s=1.0)

    def test_G09_other_backends_in_the_file_are_found_and_taken_back(self, rig: TraefikRig) -> None:
        driver = rig.driver()
        shift(rig, driver, 20, 80)
        rig.edit(("chat~b", "chat~c"))
        rig.eventually(lambda: not readable(driver), within_s=2.0)
        with pytest.raises(Transient, match="chat~c"):
            driver.read(SERVICE)
        assert driver.reconcile(SERVICE) is True
        rig.eventually(lambda: readable(driver), within_s=2.0)
        assert driver.read(SERVICE) == {A: 20, B: 80}

    def test_weights_written_while_the_proxy_is_down_are_in_force_when_it_starts(self, rig: TraefikRig, tmp_path: Path) -> None:
        driver = rig.driver()
        rig.kill()
        driver.write(SERVICE, {A: 20, B: 80}, stamp=stamp())
        with servers.traefik(rig.options, listen=rig.address, folder=tmp_path):
            assert driver.read(SERVICE) == {A: 20, B: 80}
