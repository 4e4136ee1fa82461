"""TraefikTraffic: weights by atomic rename of the dynamic file, read back through the admin interface (ports.traffic.Traffic)."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from bridgehead.drivers.traefik.admin import Drifted, weights_in_force
from bridgehead.drivers.traefik.options import TraefikOptions, TraefikService, rendered
from bridgehead.host.desired import DesiredFile, write_for_proxy
from bridgehead.host.gauges import open_requests
from bridgehead.kernel.errors import NotFound, PortError, Transient, Unknown
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.desired import DesiredTraffic
from bridgehead.model.stamp import Stamp
from bridgehead.model.weights import validated_weights

LOADING_S = 2.0
"""What the dynamic file says is in force within this; 0.1 to 0.5 s is usual."""


class TraefikTraffic:
    """Steers the services of one traefik.

    At weight 0 a site gets nothing new: sessions whose cookie names it move to another site (and get a new cookie), streams that are
    open there go on to their end. Several processes may steer one traefik: changes are made under a lock, and the newest epoch of a
    run is kept on disk (J13).
    """

    def __init__(self, options: TraefikOptions) -> None:
        self._options = options
        self._dynamic = Path(options.dynamic_file)
        self._state = DesiredFile(self._dynamic.with_name(self._dynamic.name + ".state.json"))
        for name, service in options.services.items():
            validated_weights(name, service.initial, sites=service.sites)

    def install(self) -> None:
        """Write the dynamic file for the desired weights (the initial ones before the first write). To be called before traefik starts.

        Raises Permanent when the file system refuses.
        """
        with self._state.locked():
            write_for_proxy(self._dynamic, self._content(self._state.load()))

    def read(self, service: ServiceId) -> dict[SiteId, int]:
        """See the port. Transient also while the proxy has the service otherwise than the dynamic file: not loaded yet, lost, or edited."""
        return weights_in_force(self._options, service, self._known(service, "read the weights in force"))

    def write(self, service: ServiceId, weights: Mapping[SiteId, int], *, stamp: Stamp) -> None:
        """See the port. The dynamic file is changed also while traefik is down: it starts with these weights then.

        Raises Unknown when the weights are recorded as desired but the dynamic file could not be written: reconcile tries again.
        """
        wanted = validated_weights(service, weights, sites=self._known(service, "set traffic weights").sites)
        with self._state.locked():
            state = self._state.load().admitted(stamp, subject=f"service {service}").wanting(service, wanted)
            self._state.save(state)
            try:
                write_for_proxy(self._dynamic, self._content(state))
            except PortError as error:
                raise Unknown(error.happened, tried=error.tried, subject=error.subject, remedy=error.remedy) from error

    def in_flight(self, service: ServiceId, site: SiteId) -> int:
        """See the port. Counted by the backend itself, since traefik has no such gauge."""
        backend = self._known(service, "count open requests").sites.get(site)
        if backend is None:
            raise NotFound(
                "no such site", tried="count open requests", subject=f"{service} at {site}", remedy="Name a site of the service."
            )
        gauge, labels = backend.in_flight_gauge, backend.in_flight_labels
        return open_requests(backend.metrics_url, gauge=gauge, labels=labels, timeout_s=self._options.timeout_s)

    def reconcile(self, service: ServiceId) -> bool:
        """See the port. A change that was written less than ``LOADING_S`` ago and is not in force yet is no drift."""
        known = self._known(service, "reconcile traffic weights")
        with self._state.locked():
            state = self._state.load()
            content = self._content(state)
            if self._file_differs(content) or (self._proxy_differs(service, known, state) and not self._is_loading()):
                write_for_proxy(self._dynamic, content)
                return True
            return False

    def _file_differs(self, content: bytes) -> bool:
        try:
            return self._dynamic.read_bytes() != content
        except FileNotFoundError:
            return True
        except OSError as error:
            raise Transient(
                error.strerror or str(error),
                tried="read the dynamic file",
                subject=str(self._dynamic),
                remedy="Check the rights of the file.",
            ) from error

    def _is_loading(self) -> bool:
        return 0 <= time.time() - self._dynamic.stat().st_mtime < LOADING_S

    def _proxy_differs(self, name: ServiceId, service: TraefikService, state: DesiredTraffic) -> bool:
        try:
            return weights_in_force(self._options, name, service) != self._weights(state)[name]
        except Drifted:
            return True

    def _content(self, state: DesiredTraffic) -> bytes:
        return rendered(self._options, self._weights(state))

    def _weights(self, state: DesiredTraffic) -> dict[ServiceId, dict[SiteId, int]]:
        """Desired weights of every service. A service whose sites changed since begins again with its initial weights."""
        return {
            name: recorded if (recorded := state.weights.get(name, {})).keys() == service.sites.keys() else service.initial
            for name, service in self._options.services.items()
        }

    def _known(self, service: ServiceId, tried: str) -> TraefikService:
        if service not in self._options.services:
            known = ", ".join(sorted(self._options.services)) or "none"
            raise NotFound("no such service", tried=tried, subject=f"service {service}", remedy=f"Services of this proxy: {known}.")
        return self._options.services[service]
