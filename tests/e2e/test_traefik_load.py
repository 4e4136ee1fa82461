"""Weights change under load in a real traefik: nothing is lost, no stream is cut (M7.3, G10)."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from bridgehead.drivers.traefik import TraefikBackend, TraefikOptions, TraefikService, TraefikTraffic
from bridgehead.testing import servers
from bridgehead.testing.http_rig import HttpStream, change_under_load
from bridgehead.testing.traffic_suite import SERVICE, A, B


@pytest.mark.server("traefik")
def test_M7_3_fifty_changes_lose_nothing(tmp_path: Path) -> None:
    with ExitStack() as stack:
        urls = {site: f"http://127.0.0.1:{stack.enter_context(servers.backend(site, folder=tmp_path))}" for site in (A, B)}
        address = f"127.0.0.1:{servers.free_port()}"
        sites = {site: TraefikBackend(url=url, metrics_url=f"{url}/metrics") for site, url in urls.items()}
        options = TraefikOptions(
            dynamic_file=str(tmp_path / "dynamic.yaml"),
            admin_url=f"http://127.0.0.1:{servers.free_port()}",
            services={SERVICE: TraefikService(sites=sites, initial={A: 100, B: 0})},
        )
        stack.enter_context(servers.traefik(options, listen=address, folder=tmp_path))
        stream = HttpStream(address, parts=40, every_s=0.1)
        load, took_s = change_under_load(TraefikTraffic(options), address, changes=50)
        assert load.failures == []
        assert load.done >= 2000
        assert stream.finish()
        assert sorted(took_s)[len(took_s) // 2] < 1.0
