"""What traefik itself says: the weights in force from its admin interface, and open requests from a backend's metrics page."""

from __future__ import annotations

import http.client
from urllib.parse import quote, urlsplit

import msgspec

from bridgehead.drivers.traefik.options import TraefikBackend, TraefikOptions, TraefikService, child
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.answer import MAX_BODY_BYTES, refused, too_long, unanswered
from bridgehead.model.exposition import finite_sum, parse_exposition

_TRIED = "read the weights in force"


class Drifted(Transient):
    """Traefik answers, and does not have the service as the dynamic file has it: not loaded yet, lost, or edited by hand."""


class _Child(msgspec.Struct, frozen=True):
    name: str
    weight: int = 1  # traefik's own default


class _Weighted(msgspec.Struct, frozen=True):
    services: list[_Child]


class _Answer(msgspec.Struct, frozen=True):
    status: str
    weighted: _Weighted
    error: list[str] = []


def weights_in_force(options: TraefikOptions, name: ServiceId, service: TraefikService) -> dict[SiteId, int]:
    """The weights by which traefik spreads the service at this moment.

    Raises:
        Drifted: it does not have the service, has disabled it, or spreads it over other backends than the options say.
        Transient: it does not answer.
    """
    url = f"{options.admin_url.rstrip('/')}/api/http/services/{quote(name)}@file"
    try:
        answer = msgspec.json.decode(fetch(url, tried=_TRIED, timeout_s=options.timeout_s), type=_Answer)
    except NotFound as error:
        raise _drifted("the proxy does not have the service now", url) from error
    except msgspec.MsgspecError as error:
        raise _drifted(f"not a weighted service ({error})", url) from error
    if answer.status == "disabled":
        raise _drifted(f"the proxy has disabled the service: {'; '.join(answer.error) or 'no reason given'}", url)
    seen = {part.name.removesuffix("@file"): part.weight for part in answer.weighted.services}
    wanted = {child(name, site): site for site in service.sites}
    if seen.keys() != wanted.keys():
        raise _drifted(f"it is spread over {', '.join(sorted(seen)) or 'nothing'}", url)
    return {site: seen[part] for part, site in wanted.items()}


def _drifted(happened: str, url: str) -> Drifted:
    return Drifted(happened, tried=_TRIED, subject=url, remedy="Reconcile writes the dynamic file again; else look at the proxy's log.")


def open_requests(backend: TraefikBackend, *, timeout_s: float) -> int:
    """Requests and streams open at the backend, by its own gauge. Raises Transient when the gauge cannot be seen (never 0 then)."""
    tried = "count open requests"
    body = fetch(backend.metrics_url, tried=tried, timeout_s=timeout_s)
    try:
        matching = parse_exposition(body.decode("utf-8")).matching(backend.in_flight_labels)
    except ValueError as error:
        raise Transient(
            f"the page is damaged: {error}", tried=tried, subject=backend.metrics_url, remedy="Check what serves this address."
        ) from error
    total = finite_sum([sample.value for sample in matching if sample.name == backend.in_flight_gauge])
    if total is None:
        raise Transient(
            f"the page has no usable value of {backend.in_flight_gauge}",
            tried=tried,
            subject=backend.metrics_url,
            remedy="Set in_flight_gauge and in_flight_labels to the backend's gauge of open requests.",
        )
    return round(total)


def fetch(url: str, *, tried: str, timeout_s: float) -> bytes:
    """The body of a 200 answer; other answers raise as ``model.answer.refused`` says, none raises Transient."""
    parts = urlsplit(url)
    if parts.scheme != "http" or not parts.hostname:
        raise Permanent("not an http:// address", tried=tried, subject=url, remedy="Correct the address in the estate file.")
    connection = http.client.HTTPConnection(parts.hostname, parts.port or 80, timeout=timeout_s)
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("GET", target, headers={"Connection": "close"})
        answer = connection.getresponse()
        body = answer.read(MAX_BODY_BYTES + 1)
        if len(body) <= MAX_BODY_BYTES and answer.length:
            raise http.client.IncompleteRead(body, answer.length)
    except (OSError, http.client.HTTPException) as error:
        raise unanswered(error, tried=tried, subject=url) from error
    finally:
        connection.close()
    if answer.status != 200:
        raise refused(answer.status, tried=tried, subject=url)
    if len(body) > MAX_BODY_BYTES:
        raise too_long(tried=tried, subject=url)
    return body
