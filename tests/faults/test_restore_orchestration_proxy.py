"""One proxy in front of many services, which a recovery asks about all at once: its answer may take a while, none is lost (R14)."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridgehead.drivers.haproxy import HaproxyOptions, HaproxyTraffic
from bridgehead.drivers.haproxy.options import HaproxyService
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.testing.servers import free_port, haproxy

A, B = SiteId("a"), SiteId("b")


@pytest.mark.server("haproxy")
def test_R14_more_callers_than_the_proxy_lets_wait_all_get_their_answer(tmp_path: Path) -> None:
    """haproxy's socket has ten places and as many to wait; who finds them taken is turned away at once, and has to come again."""
    names = [ServiceId(f"s{number}") for number in range(48)]
    services = {name: HaproxyService(f"unix@{tmp_path}/{name}", {A: "127.0.0.1:9", B: "127.0.0.1:9"}, {A: 100, B: 0}) for name in names[1:]}
    services[names[0]] = HaproxyService(f"127.0.0.1:{free_port()}", {A: "127.0.0.1:9", B: "127.0.0.1:9"}, {A: 100, B: 0})
    options = HaproxyOptions(
        socket=str(tmp_path / "socket"),
        state_file=str(tmp_path / "state.json"),
        config_file=str(tmp_path / "haproxy.cfg"),
        services=dict(reversed(services.items())),
        timeout_s=10.0,
    )
    with haproxy(options, folder=tmp_path), ThreadPoolExecutor(48) as pool:
        traffic = HaproxyTraffic(options)
        answers = list(pool.map(traffic.read, names * 6))
    assert answers == [{A: 100, B: 0}] * len(answers)
