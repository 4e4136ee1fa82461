"""Notices to Alertmanager (API v2): an open thread is a firing alert, its end resolves it. Whom it calls, and when, is its own matter."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any, Final

import msgspec

from bridgehead.drivers.notify.webhook import place_of
from bridgehead.host.questions import refused
from bridgehead.host.web import WebAccess, WebClient
from bridgehead.kernel.errors import Permanent
from bridgehead.model.notice import Notice, NoticeKind, NoticeState, Severity

_TRIED: Final = "tell Alertmanager"
_NAMES: Final = {
    NoticeKind.ASK: "BridgeheadWaitsForPeople",
    NoticeKind.CALL: "BridgeheadNobodyAnswers",
    NoticeKind.TROUBLE: "BridgeheadRunStandsStill",
    NoticeKind.ALARM: "BridgeheadNotRecoverable",
    NoticeKind.TRIAL: "BridgeheadTrial",
}


class AlertmanagerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The servers of one Alertmanager; each is told, as its high availability wants it.

    Attributes:
        urls: ``https://host:port`` of each, with the path in front of ``/api``, if any.
        labels: added to each alert.
        refresh_s: how often open alerts are sent again: Alertmanager forgets them when it starts anew.
        hold_s: an alert that nobody refreshes or resolves ends by itself after this. Long: that nobody speaks is no all-clear.
        timeout_s: for connecting and for each wait on the answer.
        access: login and certificates.
    """

    urls: tuple[str, ...]
    labels: dict[str, str] = {}
    refresh_s: float = 60.0
    hold_s: float = 86_400.0
    timeout_s: float = 5.0
    access: WebAccess = WebAccess()

    def __post_init__(self) -> None:
        if not self.urls:
            raise ValueError("urls: at least one is needed")
        for url in self.urls:
            place_of(url)  # raises ValueError
        if self.hold_s < 2 * self.refresh_s:
            raise ValueError("hold: at least twice 'refresh' is needed, or alerts would come and go")


class Alertmanager:
    """Implements ``ports.notify.Notify``. To repeat is harmless: an alert is its labels."""

    def __init__(self, options: AlertmanagerOptions, *, now_s: Callable[[], float] = time.time) -> None:
        self._options = options
        self._now_s = now_s
        self.refresh_s: float | None = options.refresh_s
        places = [place_of(url) for url in options.urls]
        self._clients = {place: WebClient(place, access=options.access, timeout_s=options.timeout_s) for place in places}

    def receivers(self, notice: Notice) -> tuple[str, ...]:
        """See the port: every server."""
        return tuple(self._clients)

    def send(self, notice: Notice, receiver: str) -> None:
        """See the port."""
        client = self._clients.get(receiver)
        if client is None:  # it was taken out of the file
            return
        body = msgspec.json.encode(self._alerts(notice))
        headers = {"Content-Type": "application/json"}
        answer = client.request("POST", "/api/v2/alerts", tried=_TRIED, body=body, headers=headers, changes=True)
        if answer.status == 400:
            said = " ".join(answer.body[:300].decode(errors="replace").split())
            raise Permanent(f"the alert is not accepted: {said}", tried=_TRIED, subject=receiver, remedy="Check the labels.")
        if not 200 <= answer.status < 300:
            raise refused(answer.status, tried=_TRIED, subject=receiver)

    def _alerts(self, notice: Notice) -> list[dict[str, Any]]:
        """The alert; where the severity changed, also the end of the one that it was: labels are what an alert is."""
        now_s = self._now_s()
        over_s = max(now_s, notice.since_s)  # an end before the begin is refused, and clocks differ
        ends_s = over_s if notice.state is NoticeState.RESOLVED else over_s + self._options.hold_s
        found = [self._alert(notice, notice.severity, ends_s=ends_s)]
        if notice.was is not None and notice.was is not notice.severity:
            found.append(self._alert(notice, notice.was, ends_s=over_s))
        return found

    def _alert(self, notice: Notice, severity: Severity, *, ends_s: float) -> dict[str, Any]:
        labels = {**self._options.labels, **notice.labels, "alertname": _NAMES[notice.kind], "severity": severity.value}
        annotations = {"summary": notice.title, "description": notice.text}
        if notice.people:
            annotations["people"] = ", ".join(notice.people)
        return {
            "labels": {name: value for name, value in labels.items() if value},
            "annotations": annotations,
            "startsAt": _time(notice.since_s),
            "endsAt": _time(ends_s),
        }


def _time(at_s: float) -> str:
    return datetime.datetime.fromtimestamp(at_s, datetime.UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
