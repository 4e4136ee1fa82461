"""How a traefik on this machine is started: its program and its command line. Starting and ending it is a scheduler's work."""

from __future__ import annotations

import shutil
import sysconfig
from pathlib import Path
from urllib.parse import urlsplit

from bridgehead.drivers.traefik.options import TraefikOptions
from bridgehead.kernel.errors import BridgeheadError, ErrorCode

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})


def find_traefik() -> str:
    """Path of the program: the wheel's beside this Python, else the one on the path. Raises SERVER_MISSING."""
    found = shutil.which("traefik", path=sysconfig.get_path("scripts")) or shutil.which("traefik")
    if found is None:
        raise BridgeheadError(
            ErrorCode.SERVER_MISSING,
            tried="find the proxy",
            subject="traefik",
            happened="it is neither beside this Python nor on the path",
            remedy="Install it with: pip install 'bridgehead[demo]'.",
        )
    return found


def traefik_command(options: TraefikOptions, *, listen: str, program: str = "", log_level: str = "ERROR") -> list[str]:
    """Program and arguments of a traefik that the driver with ``options`` steers.

    Watches the one dynamic file, so that a file that vanishes or is damaged leaves the proxy as it is. Write it first
    (``TraefikTraffic.install``).

    Args:
        listen: ``host:port`` of the entry point.

    Raises:
        BridgeheadError: SERVER_MISSING; BAD_INPUT when the admin interface, which has no login, would not be on loopback.
    """
    admin = urlsplit(options.admin_url)
    if admin.hostname not in LOOPBACK or admin.port is None:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="start the proxy",
            subject=options.admin_url,
            happened="its admin interface has no login and must be on loopback, with a port",
            remedy="Use http://127.0.0.1:PORT.",
        )
    # --experimental.fastproxy stays off: with it, about one request in 10,000 got no answer at all in our measurements.
    return [
        program or find_traefik(),
        f"--entrypoints.{options.entry_point}.address={listen}",
        f"--entrypoints.traefik.address={admin.netloc.replace('localhost', '127.0.0.1')}",
        "--api.insecure=true",
        "--api.dashboard=false",
        f"--providers.file.filename={Path(options.dynamic_file).absolute()}",
        "--providers.file.watch=true",
        "--providers.providersthrottleduration=50ms",
        "--global.checknewversion=false",
        "--global.sendanonymoususage=false",
        f"--log.level={log_level}",
    ]
