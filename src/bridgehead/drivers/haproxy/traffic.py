"""HaproxyTraffic: absolute weights through the runtime socket, kept over reloads (ports.traffic.Traffic)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from bridgehead.drivers.haproxy.options import HaproxyOptions, HaproxyService, rendered
from bridgehead.drivers.haproxy.runtime import Runtime
from bridgehead.host.desired import DesiredFile, write_for_proxy
from bridgehead.kernel.errors import NotFound, PortError, Unknown
from bridgehead.kernel.ids import ServiceId, SiteId
from bridgehead.model.desired import DesiredTraffic
from bridgehead.model.stamp import Stamp
from bridgehead.model.weights import validated_weights


class HaproxyTraffic:
    """Steers the services of one haproxy. Percent are used as haproxy's absolute weights.

    A site of weight 0 is put into maintenance, not into haproxy's drain: drain would go on sending it the sessions whose cookie names
    it. So sessions move to another site, and streams that are open go on to their end, exactly as with traefik. What differs: the
    cookie's value (here the site's name, there a hash), and that a reload of haproxy closes each idle client connection once.
    """

    def __init__(self, options: HaproxyOptions) -> None:
        self._options = options
        self._runtime = Runtime(options)
        self._state = DesiredFile(Path(options.state_file))
        for name, service in options.services.items():
            validated_weights(name, service.initial, sites=service.sites)

    def install(self) -> None:
        """Write the configuration file for the desired weights (at first the initial ones). To be called before haproxy starts.

        No effect without ``config_file``. Raises Permanent when the file system refuses.
        """
        with self._state.locked():
            self._write_config(self._state.load())

    def read(self, service: ServiceId) -> dict[SiteId, int]:
        """See the port. A server that haproxy has in maintenance or drain has weight 0 in force."""
        self._known(service, "read the weights in force")
        return self._runtime.weights_in_force(service)

    def write(self, service: ServiceId, weights: Mapping[SiteId, int], *, stamp: Stamp) -> None:
        """See the port. Raises Transient, with nothing done, when haproxy does not answer; Unknown when it stops to answer midway.

        After Unknown the weights are the desired ones: ``reconcile`` or a repeat brings them into force.
        """
        wanted = validated_weights(service, weights, sites=self._known(service, "set traffic weights").sites)
        with self._state.locked():
            state = self._state.load().admitted(stamp, subject=f"service {service}").wanting(service, wanted)
            self.read(service)  # so that a haproxy that is down is found before anything is recorded
            self._state.save(state)
            try:
                self._write_config(state)
                self._apply(service, wanted)
            except PortError as error:
                raise Unknown(error.happened, tried=error.tried, subject=error.subject, remedy=error.remedy) from error

    def in_flight(self, service: ServiceId, site: SiteId) -> int:
        """See the port. Summed over all workers when ``master_socket`` is given, else those of the newest worker only."""
        if site not in self._known(service, "count open requests").sites:
            raise NotFound(
                "no such site", tried="count open requests", subject=f"{service} at {site}", remedy="Name a site of the service."
            )
        return self._runtime.sessions_open(service, site)

    def reconcile(self, service: ServiceId) -> bool:
        """See the port. A configuration file that differs is put right too, and counts as drift."""
        self._known(service, "reconcile traffic weights")
        with self._state.locked():
            state = self._state.load()
            changed = self._write_config(state)
            wanted = self._weights(state)[service]
            if self.read(service) != wanted:
                self._apply(service, wanted)
                changed = True
            return changed

    def _apply(self, service: ServiceId, wanted: Mapping[SiteId, int]) -> None:
        """Sites that get traffic first, so that at no moment all are at 0."""
        commands = []
        for site, weight in sorted(wanted.items(), key=lambda item: item[1] == 0):
            state = "ready" if weight > 0 else "maint"
            commands += [f"set server {service}/{site} weight {weight}", f"set server {service}/{site} state {state}"]
        self._runtime.change(commands)
        self._runtime.take_turns_anew(service, [site for site, weight in wanted.items() if weight > 0], wanted)

    def _write_config(self, state: DesiredTraffic) -> bool:
        """Bring the configuration file up to date; True when it was not."""
        if not self._options.config_file:
            return False
        path, content = Path(self._options.config_file), rendered(self._options, self._weights(state))
        try:
            if path.read_bytes() == content:
                return False
        except OSError:
            pass  # absent or unreadable: writing it says what is wrong
        write_for_proxy(path, content)
        return True

    def _weights(self, state: DesiredTraffic) -> dict[ServiceId, dict[SiteId, int]]:
        """Desired weights of every service. A service whose sites changed since begins again with its initial weights."""
        return {
            name: recorded if (recorded := state.weights.get(name, {})).keys() == service.sites.keys() else service.initial
            for name, service in self._options.services.items()
        }

    def _known(self, service: ServiceId, tried: str) -> HaproxyService:
        if service not in self._options.services:
            known = ", ".join(sorted(self._options.services)) or "none"
            raise NotFound("no such service", tried=tried, subject=f"service {service}", remedy=f"Services of this proxy: {known}.")
        return self._options.services[service]
