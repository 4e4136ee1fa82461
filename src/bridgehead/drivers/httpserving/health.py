"""HttpServing: asks a backend itself, past the proxy, for its own health report (ports.serving.Serving)."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import msgspec

from bridgehead.kernel.errors import NotFound, Permanent
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.answer import MAX_BODY_BYTES, refused, too_long, unanswered
from bridgehead.ports.serving import ServingHealth

_TRIED = "ask a backend for its health"


class HttpServingOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Addresses ``http://host:port`` of the backends by service and site, and the path of the health report on them."""

    backends: dict[ServiceId, dict[SiteId, str]]
    path: str = "/healthz"
    timeout_s: float = 2.0


class HttpServing:
    """``GET <backend>/healthz`` answers 200 with the JSON of ``ServingHealth``, whether warm or not."""

    def __init__(self, options: HttpServingOptions) -> None:
        self._options = options

    def health(self, service: ServiceId, site: SiteId) -> ServingHealth:
        """See the port. Raises Permanent when the answer is not a health report."""
        backend = self._options.backends.get(service, {}).get(site)
        if backend is None:
            known = ", ".join(sorted(self._options.backends.get(service, {}))) or "none"
            raise NotFound("no such backend", tried=_TRIED, subject=f"{service} at {site}", remedy=f"Sites of this service: {known}.")
        url = backend.rstrip("/") + self._options.path
        body = fetch(url, timeout_s=self._options.timeout_s)
        try:
            return msgspec.json.decode(body, type=ServingHealth)
        except msgspec.MsgspecError as error:
            raise Permanent(
                f"the answer is not a health report ({error})",
                tried=_TRIED,
                subject=url,
                remedy="Check the address; the backend must answer with warm, model_hash and snapshot.",
            ) from error


def fetch(url: str, *, timeout_s: float) -> bytes:
    """The body of the report. Raises as ``HttpServing.health``."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise Permanent("not an http:// address", tried=_TRIED, subject=url, remedy="Correct the address in the estate file.")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout_s)
    try:
        connection.request("GET", parts.path or "/", headers={"Accept": "application/json", "Connection": "close"})
        answer = connection.getresponse()
        body = answer.read(MAX_BODY_BYTES + 1)
        if len(body) <= MAX_BODY_BYTES and answer.length:
            raise http.client.IncompleteRead(body, answer.length)
    except (OSError, http.client.HTTPException) as error:
        raise unanswered(error, tried=_TRIED, subject=url) from error
    finally:
        connection.close()
    if answer.status != 200:
        raise refused(answer.status, tried=_TRIED, subject=url)
    if len(body) > MAX_BODY_BYTES:
        raise too_long(tried=_TRIED, subject=url)
    return body
