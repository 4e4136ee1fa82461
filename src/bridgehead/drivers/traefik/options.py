"""Options of the traefik driver, and the dynamic file that they make."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec
import yaml

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import ServiceId, SiteId

_ID = re.compile(r"[A-Za-z0-9._-]+")


class TraefikBackend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One site's backend.

    Attributes:
        url: ``http://host:port``, as the proxy reaches it.
        metrics_url: the backend's page in the Prometheus text format; holds the gauge of open requests and streams.
        in_flight_gauge: the name of that gauge; its series with ``in_flight_labels`` are summed.
    """

    url: str
    metrics_url: str
    in_flight_gauge: str = "requests_in_flight"
    in_flight_labels: dict[str, str] = {}


class TraefikService(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One service over its sites.

    Attributes:
        initial: percent by site, in force until the first write.
        rule: which requests belong to the service, in traefik's language.
        cookie: holds a client to its site; its value is a hash of the site's name.
    """

    sites: dict[SiteId, TraefikBackend]
    initial: dict[SiteId, int]
    rule: str = "PathPrefix(`/`)"
    cookie: str = "bridgehead-site"


class TraefikOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to steer one traefik.

    Attributes:
        dynamic_file: the file that its file provider watches; written whole by the driver. Its state file lies beside it.
        admin_url: ``http://127.0.0.1:port``. The admin interface has no login: loopback only.
        entry_point: the entry point that the services listen on.
        backend_idle_s: an unused connection to a backend is closed after this. Must be below the backend's own limit (5 s in uvicorn),
            or a request can meet a connection that the backend is just closing.
    """

    dynamic_file: str
    admin_url: str
    services: dict[ServiceId, TraefikService]
    entry_point: str = "web"
    backend_idle_s: float = 2.0
    timeout_s: float = 1.0

    def __post_init__(self) -> None:
        for name in [*self.services, *(site for service in self.services.values() for site in service.sites)]:
            if not _ID.fullmatch(name):
                raise _bad(self.dynamic_file, f"{name!r} cannot be used as a name there", "Use letters, digits, dot, dash, underscore.")


def child(service: ServiceId, site: SiteId) -> str:
    """Traefik's name of the part of a service that one site serves. The tilde occurs in no id."""
    return f"{service}~{site}"


def rendered(options: TraefikOptions, weights: Mapping[ServiceId, Mapping[SiteId, int]]) -> bytes:
    """The whole dynamic file. Raises BAD_INPUT when an option would be taken for a template by traefik."""
    routers: dict[str, Any] = {}
    services: dict[str, Any] = {}
    for name, service in options.services.items():
        routers[name] = {"entryPoints": [options.entry_point], "rule": service.rule, "service": name}
        services[name] = {
            "weighted": {
                "services": [{"name": child(name, site), "weight": weights[name][site]} for site in service.sites],
                "sticky": {"cookie": {"name": service.cookie, "httpOnly": True}},
            }
        }
        for site, backend in service.sites.items():
            balancer = {"servers": [{"url": backend.url}], "passHostHeader": True, "serversTransport": "bridgehead"}
            services[child(name, site)] = {"loadBalancer": balancer}
    transport = {"forwardingTimeouts": {"idleConnTimeout": f"{round(options.backend_idle_s * 1000)}ms"}}
    document = {"http": {"routers": routers, "serversTransports": {"bridgehead": transport}, "services": services}}
    text = "# Written by Bridgehead; changes by hand are taken back.\n" + yaml.safe_dump(document, sort_keys=False, width=1000)
    if "{{" in text:
        # Traefik runs the file through a template engine first.
        raise _bad(options.dynamic_file, "an option holds '{{'", "Take it out of the rule, cookie or address.")
    return text.encode()


def _bad(subject: str, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_INPUT, tried="make the proxy's configuration", subject=subject, happened=happened, remedy=remedy)
