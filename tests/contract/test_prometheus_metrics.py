"""TextMetrics keeps the metrics port's contract: with a page for each site, and with one page for all."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from bridgehead.drivers.prometheus import MetricsSource, TextMetrics, TextMetricsOptions
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.testing.metrics_suite import SERVICE, A, B, MetricsRig, MetricsSuite
from bridgehead.testing.pages import PageServer


class OwnPages(MetricsRig):
    def __init__(self, pages: PageServer) -> None:
        self.pages = pages

    def driver(self):
        sources = {site: MetricsSource(url=f"{self.pages.url}/{site}") for site in (A, B)}
        return TextMetrics(TextMetricsOptions(sources={SERVICE: sources}))

    def show(self, counters):
        for site, values in counters.items():
            self.pages.pages[f"/{site}"] = (200, "".join(f"{name} {value}\n" for name, value in values.items()).encode())

    def unplug(self):
        self.pages.unplug()


class OnePage(OwnPages):
    def driver(self):
        sources = {s: MetricsSource(url=f"{self.pages.url}/m", labels={"service": SERVICE, "site": s}) for s in (A, B)}
        return TextMetrics(TextMetricsOptions(sources={SERVICE: sources}))

    def show(self, counters):
        lines = ['requests_total{service="other",site="a"} 1e9\n']
        for site, values in counters.items():
            for name, value in values.items():
                # Each counter comes in two parts, as from two replicas.
                lines += [f'{name}{{service="chat",site="{site}",replica="{r}"}} {value / 2!r}\n' for r in (1, 2)]
        self.pages.pages["/m"] = (200, "".join(lines).encode())


@pytest.fixture
def pages() -> Iterator[PageServer]:
    with PageServer() as server:
        yield server


class TestOwnPages(MetricsSuite):
    @pytest.fixture
    def rig(self, pages):
        return OwnPages(pages)


class TestOnePage(MetricsSuite):
    @pytest.fixture
    def rig(self, pages):
        return OnePage(pages)


@pytest.mark.parametrize(
    ("status", "error"), [(404, NotFound), (403, Permanent), (301, Permanent), (500, Transient), (503, Transient), (429, Transient)]
)
def test_refusals_of_the_server(pages, status, error):
    pages.pages["/a"] = (status, b"requests_total 5\n")
    with pytest.raises(error, match=str(status)):
        OwnPages(pages).driver().read(SERVICE, A)


@pytest.mark.parametrize("body", [b"requests_total 5", b"requests_total five\n", b"\xff\xfe\n", b"<html></html>\n"])
def test_damaged_page_is_an_error_and_not_fewer_counters(pages, body):
    pages.pages["/a"] = (200, b"errors_total 0\n" + body)
    with pytest.raises(Transient, match="damaged"):
        OwnPages(pages).driver().read(SERVICE, A)


def test_answer_cut_short_or_not_in_time_is_transient():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        source = MetricsSource(url=f"http://127.0.0.1:{listener.getsockname()[1]}/metrics")
        driver = TextMetrics(TextMetricsOptions(sources={SERVICE: {A: source}}, timeout_s=0.2))
        with pytest.raises(Transient, match="in time"):
            driver.read(SERVICE, A)


def test_address_that_is_not_http_is_permanent():
    driver = TextMetrics(TextMetricsOptions(sources={SERVICE: {A: MetricsSource(url="ftp://127.0.0.1/x")}}))
    with pytest.raises(Permanent, match="http"):
        driver.read(SERVICE, A)
