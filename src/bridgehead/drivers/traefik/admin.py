"""What traefik itself says: the weights in force, from its admin interface."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from bridgehead.drivers.traefik.options import TraefikOptions, TraefikService, child
from bridgehead.host.questions import ask
from bridgehead.kernel.errors import NotFound, Transient
from bridgehead.kernel.ids import ServiceId, SiteId

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
