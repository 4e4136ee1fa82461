"""Alertmanager keeps the notify port's contract: alerts fire once, change, and are resolved, in a real one (issue 6, `notify`)."""

from __future__ import annotations

import datetime
import http.client
import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from bridgehead.drivers.notify import Alertmanager, AlertmanagerOptions
from bridgehead.kernel.errors import Permanent, Transient
from bridgehead.model.notice import Severity
from bridgehead.testing.alertmanager_server import AlertmanagerServer, alertmanager
from bridgehead.testing.notify_suite import Heard, NotifyRig, NotifySuite, notice, over
from bridgehead.testing.servers import free_port

REAL = pytest.mark.server("prometheus-alertmanager")


class Front:
    """A proxy in front of Alertmanager that fails on demand: what fails in a network, the program itself does not show."""

    def __init__(self, port: int) -> None:
        self.fate: list[int | None] = []
        front = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                fate = front.fate.pop(0) if front.fate else 0
                if fate:
                    self._answer(fate)
                    return
                connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                connection.request("POST", self.path, body, {"Content-Type": self.headers["Content-Type"]})
                status = connection.getresponse().status
                connection.close()
                if fate == 0:
                    self._answer(status)

            def _answer(self, status: int) -> None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Quiet."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class Rig(NotifyRig):
    """Alerts of one test among those of others in one server, by a label."""

    number = 0

    def __init__(self, server: AlertmanagerServer) -> None:
        Rig.number += 1
        self.server, self.front = server, Front(server.port)
        self.label = f"test-{Rig.number}"

    def driver(self) -> Alertmanager:
        return Alertmanager(AlertmanagerOptions((self.front.url,), labels={"test": self.label}, timeout_s=5.0))

    def heard(self) -> list[Heard]:
        """Alerts that fire: a repetition is no second one."""
        found = []
        for one in self.server.alerts():
            if one["labels"].get("test") == self.label:
                words = one["annotations"]
                found.append(Heard(one["fingerprint"], words["summary"], words["description"], False))
        return found

    def later(self) -> None:
        self.front.fate.append(503)

    def refuse(self) -> None:
        self.front.fate.append(403)

    def hang_up(self) -> None:
        self.front.fate.append(None)

    def unplug(self) -> None:
        self.front.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AlertmanagerServer]:
    with alertmanager(tmp_path_factory.mktemp("alertmanager")) as running:
        yield running


@pytest.fixture
def rig(server: AlertmanagerServer) -> Iterator[Rig]:
    rig = Rig(server)
    yield rig
    rig.front.close()


def now_notice(number: int = 1) -> Any:
    return notice(number, since_s=time.time() - 5.0)


@REAL
class TestAlertmanager(NotifySuite):
    @pytest.fixture
    def rig(self, server: AlertmanagerServer) -> Iterator[Rig]:
        rig = Rig(server)
        yield rig
        rig.front.close()

    def test_end_of_a_thread_is_told(self, rig: NotifyRig) -> None:
        """It fires no more."""
        assert isinstance(rig, Rig)
        driver, told = rig.driver(), now_notice()
        driver.send(told, rig.front.url)
        assert len(rig.heard()) == 1
        driver.send(over(told, at_s=time.time()), rig.front.url)
        assert rig.heard() == []
        driver.send(over(told, at_s=time.time()), rig.front.url)
        assert rig.heard() == []

    def test_severity_is_a_part_of_the_notice(self, rig: NotifyRig) -> None:
        """Labels are what an alert is: the one that it was ends."""
        assert isinstance(rig, Rig)
        driver, told = rig.driver(), now_notice()
        driver.send(told, rig.front.url)
        driver.send(msgspec.structs.replace(told, key="worse", severity=Severity.CRITICAL, was=Severity.WARNING), rig.front.url)
        alerts = [one for one in rig.server.alerts() if one["labels"].get("test") == rig.label]
        assert [one["labels"]["severity"] for one in alerts] == ["critical"]


@REAL
def test_an_alert_says_what_it_is_about_and_since_when(rig: Rig) -> None:
    told = now_notice()
    rig.driver().send(told, rig.front.url)
    (alert,) = [one for one in rig.server.alerts() if one["labels"].get("test") == rig.label]
    assert alert["labels"] == {
        "alertname": "BridgeheadWaitsForPeople", "severity": "warning", "run": "move", "step": "agree", "n": "1", "test": rig.label,
    }  # fmt: skip
    assert alert["annotations"]["people"] == "ann, bob"
    assert _seconds(alert["startsAt"]) == pytest.approx(told.since_s, abs=0.01)
    assert _seconds(alert["endsAt"]) == pytest.approx(time.time() + 86_400, abs=60), "that nobody speaks is no all-clear"


@REAL
def test_an_alert_that_was_forgotten_stands_again_after_a_refresh(tmp_path: Path) -> None:
    """Alertmanager keeps no alerts over a restart."""
    port, told = free_port(), now_notice()
    driver = Alertmanager(AlertmanagerOptions((f"http://127.0.0.1:{port}",)))
    assert driver.refresh_s == 60.0
    for _ in range(2):
        with alertmanager(tmp_path, port=port) as server:
            assert server.alerts() == []
            driver.send(told, server.url)
            assert len(server.alerts()) == 1


@REAL
def test_an_alert_that_is_not_accepted_says_why(server: AlertmanagerServer) -> None:
    driver = Alertmanager(AlertmanagerOptions((server.url,), labels={"not a label": "x"}))
    with pytest.raises(Permanent, match=r"not accepted.*not a label"):
        driver.send(now_notice(), server.url)


@REAL
def test_every_server_of_a_cluster_is_told_also_when_one_is_down(server: AlertmanagerServer) -> None:
    down = f"http://127.0.0.1:{free_port()}"
    driver = Alertmanager(AlertmanagerOptions((down, server.url), labels={"test": "cluster"}))
    assert driver.receivers(now_notice()) == (down, server.url)
    with pytest.raises(Transient):
        driver.send(now_notice(), down)
    driver.send(now_notice(), server.url)
    assert [one["labels"]["test"] for one in server.alerts() if one["labels"].get("test") == "cluster"] == ["cluster"]


@pytest.mark.parametrize("options", [{"urls": ()}, {"urls": ("http://a",), "refresh_s": 60.0, "hold_s": 60.0}])
def test_options_by_which_alerts_would_get_lost_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="needed"):
        AlertmanagerOptions(**options)


def _seconds(text: str) -> float:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def test_what_may_be_secret_in_an_address_is_neither_stored_nor_shown() -> None:
    driver = Alertmanager(AlertmanagerOptions((f"http://me:PASSWORD@127.0.0.1:{free_port()}/front?token=TOKEN",)))
    (receiver,) = driver.receivers(notice())
    assert receiver.endswith("/front")
    with pytest.raises(Transient) as refused:
        driver.send(notice(), receiver)
    assert not any(secret in receiver + repr(vars(refused.value)) for secret in ("PASSWORD", "TOKEN"))


def test_an_address_that_is_none_is_refused_before_anything_is_told() -> None:
    with pytest.raises(ValueError, match="IPv6"):
        AlertmanagerOptions(("http://[::1",))
