"""How to log in on another machine."""

from __future__ import annotations

import msgspec


class SshOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to log in. What is not said here comes from the client's own configuration.

    Attributes:
        host: name, address, or an alias of the client's configuration.
        user: "" is the client's default.
        port: 0 is the client's default.
        identity_file: the private key; no other key is then offered.
        known_hosts_file: keys of hosts that are trusted; "" is the client's own. A host that is not in it is refused.
        config_file: in place of the user's ssh_config.
        connect_timeout_s: for reaching the host and logging in.
        keep_s: how long a connection is kept for the next program; 0 makes a new one each time.
        prefix: words before each command on the other machine, as ``[sudo, -n, -u, slurm]``.
        env: given to every program there.
    """

    host: str
    user: str = ""
    port: int = 0
    identity_file: str = ""
    known_hosts_file: str = ""
    config_file: str = ""
    connect_timeout_s: float = 10.0
    keep_s: float = 60.0
    prefix: tuple[str, ...] = ()
    env: dict[str, str] = {}
