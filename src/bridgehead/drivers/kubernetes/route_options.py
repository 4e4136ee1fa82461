"""Options of the Kubernetes traffic driver: which HTTPRoute spreads which service over which backends."""

from __future__ import annotations

import msgspec

from bridgehead.drivers.kubernetes.login import KubeLogin
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import ServiceId, SiteId


class RouteBackend(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One site's backend.

    Attributes:
        name: of the Service (or other object) that stands in the route's ``backendRefs``.
        metrics_url: the backend's page in the Prometheus text format; holds the gauge of open requests and streams.
        in_flight_gauge: the name of that gauge; its series with ``in_flight_labels`` are summed.
    """

    name: str
    metrics_url: str
    in_flight_gauge: str = "requests_in_flight"
    in_flight_labels: dict[str, str] = {}


class RouteService(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One service over its sites. Every rule of the route that names one of the backends must name them all.

    Attributes:
        route: the HTTPRoute.
    """

    route: str
    sites: dict[SiteId, RouteBackend]


class KubernetesTrafficOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """HTTPRoutes of one namespace. Two services cannot share a route.

    Attributes:
        login: how the API server is reached.
        namespace: of the routes and of the driver's own record; "" is that of the log-in.
        timeout_s: for the pages of the backends.
    """

    services: dict[ServiceId, RouteService]
    login: KubeLogin = KubeLogin()
    namespace: str = ""
    timeout_s: float = 2.0

    def __post_init__(self) -> None:
        routes = [service.route for service in self.services.values()]
        names = [[backend.name for backend in service.sites.values()] for service in self.services.values()]
        if len(set(routes)) < len(routes) or any(len(set(one)) < len(one) for one in names):
            raise BridgeheadError(
                ErrorCode.BAD_INPUT,
                tried="connect the traffic",
                subject=", ".join(routes),
                happened="a route belongs to two services, or a backend to two sites",
                remedy="Give each service a route of its own, and each site a backend of its own.",
            )
