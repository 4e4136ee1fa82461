"""What traefik itself says: the weights in force from its admin interface, and open requests from a backend's metrics page."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from bridgehead.drivers.traefik.options import TraefikBackend, TraefikOptions, TraefikService, child
from bridgehead.host.questions import ask
from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.kernel.ids import ServiceId, SiteId
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
        answer = msgspec.json.decode(ask(url, accept="application/json", tried=_TRIED, timeout_s=options.timeout_s), type=_Answer)
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
    body = ask(backend.metrics_url, accept="text/plain;version=0.0.4", tried=tried, timeout_s=timeout_s)
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
