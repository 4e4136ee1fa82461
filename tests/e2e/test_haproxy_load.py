"""Weights change under load in a real haproxy: nothing is lost, no stream is cut (M7.3, G10)."""

from __future__ import annotations

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

import pytest

from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyService, HaproxyTraffic
from bridgehead.testing import servers
from bridgehead.testing.http_rig import HttpStream, change_under_load
from bridgehead.testing.traffic_suite import SERVICE, A, B


@pytest.mark.server("haproxy")
def test_M7_3_fifty_changes_lose_nothing(tmp_path: Path) -> None:
    with ExitStack() as stack:
        sockets = Path(tempfile.mkdtemp(prefix="bh-"))  # the path of a unix socket may have 107 bytes only
        stack.callback(shutil.rmtree, sockets)
        sites = {site: f"127.0.0.1:{stack.enter_context(servers.backend(site, folder=tmp_path))}" for site in (A, B)}
        address = f"127.0.0.1:{servers.free_port()}"
        options = HaproxyOptions(
            socket=str(sockets / "run.sock"),
            master_socket=str(sockets / "master.sock"),
            state_file=str(tmp_path / "state.json"),
            config_file=str(tmp_path / "haproxy.cfg"),
            services={SERVICE: HaproxyService(listen=address, sites=sites, initial={A: 100, B: 0})},
        )
        stack.enter_context(servers.haproxy(options, folder=tmp_path))
        stream = HttpStream(address, parts=40, every_s=0.1)
        load, took_s = change_under_load(HaproxyTraffic(options), address, changes=50)
        assert load.failures == []
        assert load.done >= 2000
        assert stream.finish()
        assert sorted(took_s)[len(took_s) // 2] < 1.0
