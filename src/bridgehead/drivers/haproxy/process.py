"""How a haproxy on this machine is started: its program and its command line. Starting and ending it is a scheduler's work."""

from __future__ import annotations

import os
import shutil

from bridgehead.drivers.haproxy.options import HaproxyOptions
from bridgehead.kernel.errors import BridgeheadError, ErrorCode


def find_haproxy() -> str:
    """Path of the program, also where administrators' programs are. Raises SERVER_MISSING."""
    found = shutil.which("haproxy", path=os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"]))
    if found is None:
        raise BridgeheadError(
            ErrorCode.SERVER_MISSING,
            tried="find the proxy",
            subject="haproxy",
            happened="it is neither on the path nor in /usr/sbin",
            remedy="Install it with: apt-get install haproxy.",
        )
    return found


def haproxy_command(options: HaproxyOptions, *, program: str = "") -> list[str]:
    """Program and arguments of a haproxy that the driver with ``options`` steers, as master and workers in the foreground.

    SIGUSR2 to it is a reload, SIGUSR1 ends it after its streams, SIGTERM ends it now. Write the configuration first
    (``HaproxyTraffic.install``). Raises SERVER_MISSING; BAD_INPUT without ``config_file``.
    """
    if not options.config_file:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="start the proxy",
            subject="haproxy",
            happened="the options name no config_file",
            remedy="Name the file that the driver shall write.",
        )
    master = ["-S", options.master_socket] if options.master_socket else []
    return [program or find_haproxy(), "-W", *master, "-f", options.config_file]
