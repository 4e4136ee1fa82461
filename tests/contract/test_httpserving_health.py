"""HttpServing keeps the serving port's contract."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest

from bridgehead.drivers.httpserving import HttpServing, HttpServingOptions
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.testing.pages import PageServer
from bridgehead.testing.serving_suite import COLD, SERVICE, A, B, ServingRig, ServingSuite


class HttpRig(ServingRig):
    def __init__(self) -> None:
        self.servers = {A: PageServer(), B: PageServer()}

    def driver(self):
        return HttpServing(HttpServingOptions(backends={SERVICE: {site: server.url for site, server in self.servers.items()}}))

    def show(self, site, health):
        self.servers[site].pages["/healthz"] = (200, msgspec.json.encode(health))

    def unplug(self, site):
        self.servers[site].unplug()


class TestHttpServing(ServingSuite):
    @pytest.fixture
    def rig(self) -> Iterator[HttpRig]:
        rig = HttpRig()
        yield rig
        for server in rig.servers.values():
            server.unplug()

    @pytest.mark.parametrize("body", [b"ok", b"{}", b'{"warm": "yes", "model_hash": "", "snapshot": ""}', b"[true]"])
    def test_what_is_not_a_report_is_never_warm(self, rig, body):
        rig.servers[A].pages["/healthz"] = (200, body)
        with pytest.raises(Permanent, match="not a health report"):
            rig.driver().health(SERVICE, A)

    @pytest.mark.parametrize(("status", "error"), [(503, Transient), (404, NotFound), (401, Permanent)])
    def test_refusals(self, rig, status, error):
        rig.servers[A].pages["/healthz"] = (status, msgspec.json.encode(COLD))
        with pytest.raises(error, match=str(status)):
            rig.driver().health(SERVICE, A)
