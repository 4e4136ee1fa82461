"""Notices by web hook: a signed POST of JSON to one address (Standard Webhooks 1.0)."""

from __future__ import annotations

import datetime
import ipaddress
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import msgspec

from bridgehead.host.questions import refused
from bridgehead.host.web import WebAccess, WebClient
from bridgehead.host.webhook_signature import secret_bytes, signed
from bridgehead.kernel.errors import Permanent, PortError, Transient
from bridgehead.model.notice import Notice
from bridgehead.ports.notify import AnswerWay

_TRIED = "tell by web hook"
_LONGEST_PAUSE_S = 3600.0


class WebHookOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to post, and by which secret it is signed.

    Attributes:
        url: ``https://...``; plain http only to this machine itself.
        secrets: references (``secret://MOUNT/PATH#FIELD`` or ``file:/PATH``) to the secrets that sign; two while one is changed.
        timeout_s: for connecting and for each wait on the answer.
        access: login and certificates.
    """

    url: str
    secrets: tuple[str, ...]
    timeout_s: float = 10.0
    access: WebAccess = WebAccess()

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme != "https" and not (parts.scheme == "http" and is_loopback(parts.hostname or "")):
            raise ValueError(
                "url: https:// is needed, since anybody on the way could read what it says; http:// only to 127.0.0.1 or [::1]"
            )
        if not self.secrets:
            raise ValueError("secrets: at least one reference is needed")


class WebHook:
    """Implements ``ports.notify.Notify``. Redirections are not followed: they could lead the message elsewhere.

    Args:
        secret: the value of a reference. Raises port errors.
        answers: how an ask is answered, None when it is not by web hook. Raises port errors.
    """

    refresh_s = None

    def __init__(
        self,
        options: WebHookOptions,
        *,
        secret: Callable[[str], str],
        answers: Callable[[Notice], AnswerWay | None] = lambda notice: None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._secret = secret
        self._answers = answers
        self._now_s = now_s
        self._place = place_of(options.url)
        query = urlsplit(options.url).query
        self._query = f"?{query}" if query else ""
        self._client = WebClient(self._place, access=options.access, timeout_s=options.timeout_s)

    def receivers(self, notice: Notice) -> tuple[str, ...]:
        """See the port: the one address, without its query."""
        return (self._place,)

    def send(self, notice: Notice, receiver: str) -> None:
        """See the port."""
        body = msgspec.json.encode(document(notice, self._answers(notice)))
        headers = {"Content-Type": "application/json", "User-Agent": "bridgehead"}
        headers |= signed([self._key(one) for one in self._options.secrets], message=notice.id, at_s=self._now_s(), body=body)
        answer = self._client.request("POST", self._query, tried=_TRIED, body=body, headers=headers, changes=True)
        if 200 <= answer.status < 300:
            return
        raise _refusal(answer.status, answer.headers.get("retry-after", ""), subject=self._place)

    def _key(self, reference: str) -> bytes:
        try:
            return secret_bytes(self._secret(reference))
        except ValueError as error:
            raise Permanent(
                f"the secret cannot sign: {error}", tried=_TRIED, subject=reference, remedy="Write a longer one there."
            ) from None


def document(notice: Notice, answer: AnswerWay | None) -> dict[str, Any]:
    """The body: type, time and data, as the standard has it."""
    data = msgspec.to_builtins(notice) | {"id": notice.id}
    if answer is not None:
        data["answer"] = answer.document()
    at = datetime.datetime.fromtimestamp(notice.at_s, datetime.UTC).isoformat().replace("+00:00", "Z")
    return {"type": f"bridgehead.{notice.kind.value}.{notice.state.value}", "timestamp": at, "data": data}


def place_of(url: str) -> str:
    """An address without what may be secret in it, its user and its query: it can be shown and stored. Raises ValueError for none."""
    parts = urlsplit(url)
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def is_loopback(host: str) -> bool:
    """Whether a host is surely this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _refusal(status: int, retry_after: str, *, subject: str) -> PortError:
    if status in (408, 425, 429) or status >= 500:
        pause_s = min(float(retry_after), _LONGEST_PAUSE_S) if retry_after.isascii() and retry_after.isdigit() else 1.0
        happened = f"the server answered {status}"
        return Transient(happened, tried=_TRIED, subject=subject, remedy="Look at the receiver's log.", retry_after_s=pause_s)
    if 300 <= status < 400:
        return Permanent(f"it points elsewhere ({status})", tried=_TRIED, subject=subject, remedy="Name the address that it moved to.")
    error = refused(status, tried=_TRIED, subject=subject)
    return Permanent(error.happened, tried=_TRIED, subject=subject, remedy="Check the address, the secret and the receiver's log.")
