"""KubernetesTraffic: weights of HTTPRoutes, read back from what their gateways say (ports.traffic.Traffic)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from bridgehead.drivers.kubernetes.api import KubeApi, Resource, repeated
from bridgehead.drivers.kubernetes.kept import Kept
from bridgehead.drivers.kubernetes.route import RouteView
from bridgehead.drivers.kubernetes.route_options import KubernetesTrafficOptions, RouteService
from bridgehead.host.gauges import open_requests
from bridgehead.kernel.errors import Conflict, NotFound, PortError, Unknown
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.desired import DesiredTraffic
from bridgehead.model.stamp import Stamp
from bridgehead.model.weights import validated_weights

ROUTES: Final = Resource("gateway.networking.k8s.io", "v1", "httproutes")


class KubernetesTraffic:
    """Steers HTTPRoutes of the Gateway API, for whatever gateway implements it.

    - In force is what every gateway of the route has accepted: conditions Accepted and ResolvedRefs, with the route's own generation.
      Between that and the last of its proxies, seconds may lie; a gateway says nothing of that.
    - The desired weights and the newest epoch of each run are in the ConfigMap ``bridgehead-traffic`` (G09, J13), so that a route that was
      made anew gets its weights back. Each change names the resourceVersion of the route that was seen before the epoch was looked at.
    - Sessions are the gateway's matter: where it has persistence, what happens to those of a site of weight 0 is for its manual to say.
    """

    def __init__(self, options: KubernetesTrafficOptions) -> None:
        self._options = options
        self._api = KubeApi(options.login, namespace=options.namespace)
        self._kept = Kept(self._api, name="bridgehead-traffic", empty=DesiredTraffic())

    def read(self, service: ServiceId) -> dict[SiteId, int]:
        """See the port. Transient also while a gateway refuses the route, or has not said that it took over somebody else's change."""
        return self._route(service, "read the weights in force").in_force()

    def write(self, service: ServiceId, weights: Mapping[SiteId, int], *, stamp: Stamp) -> None:
        """See the port. Raises Transient, with nothing done, when the API server does not answer or says that it did nothing.

        After Unknown the weights are the desired ones: ``reconcile`` or a repeat brings them into force.
        """
        tried = "set traffic weights"
        wanted = validated_weights(service, weights, sites=self._known(service, tried).sites)
        subject = f"service {service}"

        recorded = False

        def once() -> None:
            nonlocal recorded
            route = self._route(service, tried)
            self._kept.change(lambda state: state.admitted(stamp, subject=subject).wanting(service, wanted), tried=tried)
            recorded = True
            self._apply(route, wanted, tried)

        try:
            repeated(once)
        except Conflict:
            raise
        except PortError as error:
            if not recorded:
                raise
            raise Unknown(error.happened, tried=error.tried, subject=error.subject, remedy=error.remedy) from error

    def reconcile(self, service: ServiceId) -> bool:
        """See the port. A change that no gateway has taken over yet is no drift."""
        tried = "reconcile traffic weights"

        def once() -> bool:
            route = self._route(service, tried)
            wanted = self._kept.read(tried=tried)[0].weights.get(service, {})
            if wanted.keys() != self._known(service, tried).sites.keys():
                return False
            return self._apply(route, wanted, tried)

        return repeated(once)

    def in_flight(self, service: ServiceId, site: SiteId) -> int:
        """See the port. Counted by the backend itself, since the Gateway API has no such count."""
        backend = self._known(service, "count open requests").sites.get(site)
        if backend is None:
            remedy = "Name a site of the service."
            raise NotFound("no such site", tried="count open requests", subject=f"{service} at {site}", remedy=remedy)
        gauge, labels = backend.in_flight_gauge, backend.in_flight_labels
        return open_requests(backend.metrics_url, gauge=gauge, labels=labels, timeout_s=self._options.timeout_s)

    def _apply(self, route: RouteView, wanted: Mapping[SiteId, int], tried: str) -> bool:
        """Whether something had to be changed."""
        if route.spreads(wanted):
            return False
        self._api.patch(ROUTES, route.document, route.with_weights(wanted), tried=tried)
        return True

    def _route(self, service: ServiceId, tried: str) -> RouteView:
        known = self._known(service, tried)
        return RouteView(self._api.get(ROUTES, known.route, tried=tried), known)

    def _known(self, service: ServiceId, tried: str) -> RouteService:
        if service not in self._options.services:
            known = ", ".join(sorted(self._options.services)) or "none"
            raise NotFound("no such service", tried=tried, subject=f"service {service}", remedy=f"Services of this gateway: {known}.")
        return self._options.services[service]
