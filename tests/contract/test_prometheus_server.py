"""The prometheus driver keeps the metrics port's contract with a real Prometheus, and knows what is no answer (G01-G03)."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from bridgehead.drivers.prometheus import PrometheusMetrics, PrometheusOptions
from bridgehead.host.web import WebAccess
from bridgehead.kernel.errors import BridgeheadError, NotFound, Permanent, PortError, Transient
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.gate_presets import PresetName
from bridgehead.testing import servers
from bridgehead.testing.certificates import make_certificates
from bridgehead.testing.metrics_suite import SERVICE, A, B, MetricsRig, MetricsSuite
from bridgehead.testing.pages import PageServer
from bridgehead.testing.prometheus_server import prometheus

REAL = pytest.mark.server("prometheus")
QUERIES = {name: f'sum({name}{{job="{{site}}"}})' for name in ("requests_total", "errors_total")}
PATIENCE_S = 20.0


def eventually(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < end_s, "did not happen"
        time.sleep(0.05)


class Scraped(MetricsRig):
    """Pages that a real Prometheus scrapes; ``show`` returns when it has them. One server for all tests: its first scrape takes 5 s."""

    def __init__(self, pages: PageServer, url: str, cut: Path) -> None:
        self.pages, self.shown, self.cut = pages, 0, cut
        self.options = PrometheusOptions(url=url, sites={SERVICE: (A, B)}, queries=QUERIES, timeout_s=5.0)

    def driver(self) -> PrometheusMetrics:
        return PrometheusMetrics(self.options)

    def show(self, counters: dict[SiteId, dict[str, float]]) -> None:
        self.show_pages(
            {
                site: "".join(f'{name}{{replica="{r}"}} {value / 2!r}\n' for name, value in values.items() for r in (1, 2))
                for site, values in counters.items()
            }
        )

    def show_pages(self, texts: dict[SiteId, str]) -> None:
        self.shown += 1
        for site in (A, B):
            self.pages.pages[f"/{site}"] = (200, f"{texts.get(site, '')}shown {self.shown}\n".encode())
        ask = self.driver().value
        eventually(lambda: all(ask(f'shown{{job="{site}"}}') == self.shown for site in (A, B)))

    def unplug(self) -> None:
        self.cut.touch()
        time.sleep(0.3)  # the relay looks for the file ten times a second


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scraped]:
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        pages = stack.enter_context(PageServer())
        host = pages.url.removeprefix("http://")
        url = stack.enter_context(prometheus({site: f"{host}/{site}" for site in (A, B)}, folder=folder))
        port, cut, _ = stack.enter_context(servers.relay(int(url.rpartition(":")[2]), folder=folder))
        yield Scraped(pages, f"http://127.0.0.1:{port}", cut)


@pytest.fixture
def scraped(server: Scraped) -> Scraped:
    server.cut.unlink(missing_ok=True)
    time.sleep(0.2)  # the relay looks for the file ten times a second
    server.show({A: {}, B: {}})
    return server


@pytest.fixture
def pages() -> Iterator[PageServer]:
    with PageServer() as pages:
        yield pages


@REAL
class TestPrometheus(MetricsSuite):
    @pytest.fixture
    def rig(self, scraped: Scraped) -> Scraped:
        return scraped


@REAL
def test_G03_what_is_no_number_is_no_data(scraped: Scraped) -> None:
    scraped.show_pages({A: "requests_total NaN\nerrors_total +Inf\n"})
    assert scraped.driver().read(SERVICE, A).counters == {}
    assert scraped.driver().value("0/0") is None


@REAL
def test_several_series_are_an_error_that_names_them(scraped: Scraped) -> None:
    scraped.show({A: {"requests_total": 4.0}, B: {"requests_total": 6.0}})
    options = msgspec.structs.replace(scraped.options, queries={"requests_total": 'requests_total{job="{site}"}'})
    with pytest.raises(Permanent, match=r'2 series .*requests_total\{.*replica="1"\}; requests_total\{.*replica="2"\}'):
        PrometheusMetrics(options).read(SERVICE, A)


@REAL
def test_old_samples_are_no_data(tmp_path: Path, pages: PageServer) -> None:
    """A page with times of its own leaves no mark of its end in Prometheus, so that its last sample stays for minutes: no shared server."""
    old_ms, now_ms = round((time.time() - 30) * 1000), round(time.time() * 1000)
    pages.pages["/a"] = (200, f"requests_total 5 {old_ms}\nerrors_total 1 {now_ms}\n".encode())
    with prometheus({"a": f"{pages.url.removeprefix('http://')}/a"}, folder=tmp_path) as url:
        options = PrometheusOptions(url=url, sites={SERVICE: (A,)}, queries=QUERIES, timeout_s=5.0)
        patient = PrometheusMetrics(options)
        eventually(lambda: patient.read(SERVICE, A).counters == {"requests_total": 5.0, "errors_total": 1.0})
        strict = msgspec.structs.replace(options, max_age_s=20.0)
        assert PrometheusMetrics(strict).read(SERVICE, A).counters == {"errors_total": 1.0}
        mixed = msgspec.structs.replace(strict, queries={"sum": 'requests_total{job="a"} + on() errors_total{job="a"}'})
        assert PrometheusMetrics(mixed).read(SERVICE, A).counters == {}


@REAL
def test_target_that_is_down_is_no_data_at_once(scraped: Scraped) -> None:
    scraped.show({A: {"requests_total": 4.0}, B: {"requests_total": 6.0}})
    scraped.pages.pages["/a"] = (500, b"")
    eventually(lambda: scraped.driver().read(SERVICE, A).counters == {})
    assert scraped.driver().read(SERVICE, B).counters == {"requests_total": 6.0}


@REAL
def test_a_counter_that_was_reset_is_handed_on(scraped: Scraped) -> None:
    scraped.show({A: {"requests_total": 900.0}, B: {}})
    assert scraped.driver().read(SERVICE, A).counters == {"requests_total": 900.0}
    scraped.show({A: {"requests_total": 2.0}, B: {}})
    assert scraped.driver().read(SERVICE, A).counters == {"requests_total": 2.0}


@REAL
@pytest.mark.parametrize(("query", "why"), [("sum(", "bad_data"), ("requests_total[5m]", "matrix"), ('"text"', "string")])
def test_wrong_queries_are_refused_for_good(scraped: Scraped, query: str, why: str) -> None:
    with pytest.raises(Permanent, match=why):
        scraped.driver().value(query)


@REAL
def test_numbers_for_objectives(scraped: Scraped) -> None:
    scraped.show({A: {"requests_total": 100.0, "errors_total": 3.0}, B: {}})
    ask = scraped.driver().value
    assert ask('sum(errors_total{job="a"}) / sum(requests_total{job="a"})') == pytest.approx(0.03)
    assert ask("scalar(vector(7))") == 7.0
    assert ask("nothing_of_that_name") is None


@REAL
def test_a_backend_is_read_through_prometheus(tmp_path: Path) -> None:
    import http.client

    with servers.backend("a", folder=tmp_path) as port, prometheus({"a": f"127.0.0.1:{port}/metrics"}, folder=tmp_path) as url:
        driver = PrometheusMetrics(PrometheusOptions(url=url, sites={SERVICE: (A,)}, queries=QUERIES))
        client = http.client.HTTPConnection("127.0.0.1", port)
        for _ in range(7):
            client.request("GET", "/")
            client.getresponse().read()
        eventually(lambda: driver.read(SERVICE, A).counters == {"requests_total": 7.0})
        client.close()


@REAL
def test_certificates_of_both_sides(tmp_path: Path) -> None:
    made = make_certificates(tmp_path)
    tls = {"cert_file": str(made.server), "key_file": str(made.server), "client_auth_type": "RequireAndVerifyClientCert"}
    with prometheus({}, folder=tmp_path, web={"tls_server_config": tls | {"client_ca_file": str(made.ca)}}) as url:
        options = PrometheusOptions(url=url.replace("http:", "https:"), sites={}, queries=QUERIES)

        def asked(**access: str) -> float | None:
            return PrometheusMetrics(msgspec.structs.replace(options, access=WebAccess(**access))).value("vector(3)")

        def answers() -> bool:
            try:
                return asked(ca_file=str(made.ca), cert_file=str(made.client)) == 3.0
            except Transient:  # it listens before it is ready
                return False

        eventually(answers)
        with pytest.raises(Permanent, match="not trusted"):
            asked(cert_file=str(made.client))
        with pytest.raises(PortError):
            asked(ca_file=str(made.ca))
        with pytest.raises(Permanent, match="certificate file"):
            asked(ca_file=str(tmp_path / "none.pem"))


def test_names_are_quoted_in_queries() -> None:
    options = PrometheusOptions(url="http://x", sites={}, queries={"n": 'sum(n{s="{service}",t="{site}"})'})
    made = PrometheusMetrics(options).queries(ServiceId('a"b'), SiteId("c\\d"))
    assert made == {"n": 'sum(n{s="a\\"b",t="c\\\\d"})'}


def test_options_without_any_counter_are_refused() -> None:
    with pytest.raises(BridgeheadError, match="neither queries nor a preset"):
        PrometheusOptions(url="http://x", sites={})


def test_queries_whose_age_cannot_be_asked_are_refused() -> None:
    with pytest.raises(BridgeheadError, match="age cannot be asked"):
        PrometheusOptions(url="http://x", sites={}, queries={"n": "sum(requests_total)"})
    PrometheusOptions(url="http://x", sites={}, queries={"n": 'sum(requests_total{path="/{a}"}[5m])'})


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (503, b"", Transient),
        (401, b"no", Permanent),
        (404, b"no", NotFound),
        (200, b"<html>", Permanent),
        (503, b'{"status":"error","errorType":"timeout","error":"query timed out"}', Transient),
        (422, b'{"status":"error","errorType":"execution","error":"too many samples"}', Permanent),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{}}]}}', Permanent),
        (200, b'{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"x"]}]}}', Permanent),
        (200, b'{"status":"success","warnings":["a store is down"],"data":{"resultType":"vector","result":[]}}', Transient),
    ],
)
def test_what_is_no_answer(pages: PageServer, status: int, body: bytes, error: type[PortError]) -> None:
    pages.pages["/api/v1/query"] = (status, body)
    driver = PrometheusMetrics(PrometheusOptions(url=pages.url, sites={SERVICE: (A,)}, queries={"n": "n{}"}))
    with pytest.raises(error):
        driver.read(SERVICE, A)


def test_preset_asks_by_labels() -> None:
    options = PrometheusOptions(url="http://x", sites={}, preset=PresetName.TGI, labels={"job": "{service}-{site}"})
    made = PrometheusMetrics(options).queries(SERVICE, A)
    assert made["errors_total"] == (
        'sum(tgi_request_failure{job="chat-a"}) - (sum(tgi_request_failure{err="validation",job="chat-a"}) or vector(0))'
    )
