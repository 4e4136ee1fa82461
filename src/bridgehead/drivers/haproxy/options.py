"""Options of the haproxy driver, and the configuration file that they make."""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import ServiceId, SiteId

_ID = re.compile(r"[A-Za-z0-9._-]+")
_WORD = re.compile(r"[^\s\"'\\#]+")


class HaproxyService(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One service over its sites; the service is a backend section of that name, each site a server of that name in it.

    Attributes:
        listen: ``host:port`` where clients reach the service.
        sites: ``host:port`` of the backend by site.
        initial: percent by site, in force until the first write.
        cookie: holds a client to its site; its value is the site's name.
    """

    listen: str
    sites: dict[SiteId, str]
    initial: dict[SiteId, int]
    cookie: str = "bridgehead-site"


class HaproxyOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How to steer one haproxy.

    Attributes:
        socket: its runtime socket (``stats socket ... level admin``).
        state_file: where the driver keeps the desired weights.
        config_file: its configuration, written whole by the driver and kept up to date, so that a reload starts with the desired
            weights. Empty: the configuration is somebody else's; after a reload ``reconcile`` brings the weights back.
        master_socket: the socket of its master process (``-S``), then used in place of ``socket``: it always leads to the current
            worker, and streams that a reload left in old workers are counted too.
        stream_timeout_s: longest silence within a stream before haproxy cuts it.
    """

    socket: str
    state_file: str
    services: dict[ServiceId, HaproxyService]
    config_file: str = ""
    master_socket: str = ""
    stream_timeout_s: float = 300.0
    timeout_s: float = 1.0

    def __post_init__(self) -> None:
        for name in [*self.services, *(site for service in self.services.values() for site in service.sites)]:
            _check(name, _ID, self.socket)
        for service in self.services.values():
            for word in [service.listen, service.cookie, *service.sites.values()]:
                _check(word, _WORD, self.socket)
        _check(self.socket, _WORD, self.socket)


def rendered(options: HaproxyOptions, weights: Mapping[ServiceId, Mapping[SiteId, int]]) -> bytes:
    """The whole configuration file, with ``weights`` as the ones to start with."""
    stream_timeout = f"{round(options.stream_timeout_s * 1000)}ms"
    lines = [
        "# Written by Bridgehead; changes by hand are taken back.",
        "global",
        f"    stats socket {options.socket} mode 600 level admin expose-fd listeners",
        "",
        "defaults",
        "    mode http",
        "    balance roundrobin",
        "    option redispatch",
        "    retries 3",
        "    timeout connect 2s",
        f"    timeout client {stream_timeout}",
        f"    timeout server {stream_timeout}",
    ]
    for name, service in options.services.items():
        lines += [
            "",
            f"frontend {name}",
            f"    bind {service.listen}",
            f"    default_backend {name}",
            "",
            f"backend {name}",
            f"    cookie {service.cookie} insert indirect nocache httponly",
        ]
        for site, address in service.sites.items():
            weight = weights[name][site]
            # A server that begins with weight 0 could not be raised by every means; it begins in maintenance instead.
            start = f"weight {weight}" if weight > 0 else "weight 1 disabled"
            lines.append(f"    server {site} {address} cookie {site} {start}")
    return ("\n".join(lines) + "\n").encode()


def _check(word: str, shape: re.Pattern[str], subject: str) -> None:
    if not shape.fullmatch(word):
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="make the proxy's configuration",
            subject=subject,
            happened=f"{word!r} cannot be used there",
            remedy="Names consist of letters, digits, dot, dash, underscore; addresses and paths hold no blanks or quotes.",
        )
