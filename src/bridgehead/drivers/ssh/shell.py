"""SshShell: the OpenSSH client, told never to ask, never to trust an unknown host, and to keep one connection for many programs.

The client's exit code alone cannot be read: 255 is its own trouble or the program's, and a broken connection looks like a failed login.
So the far side marks on standard error that the program begins and how it ended (``remote.py``), and the marks decide.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.drivers.ssh.remote import Marks, remote_command
from bridgehead.host.commands import TimeUp, run_command
from bridgehead.kernel.errors import Permanent, PortError, Transient, Unknown
from bridgehead.model.login import SshOptions
from bridgehead.ports.shell import ShellResult

_FAILED: Final = 255
_REFUSED: Final = (
    "permission denied",
    "host key verification failed",
    "remote host identification has changed",
    "no such identity",
    "could not resolve hostname",
    "bad configuration option",
    "bad owner or permissions",
)
"""What the client says when repeating will not help before a person has changed something."""


class SshShell:
    """Implements :class:`bridgehead.ports.shell.Shell`. The account's login shell on the other machine must be a POSIX one."""

    def __init__(self, options: SshOptions) -> None:
        self._options = options
        self._where = f"{options.user + '@' if options.user else ''}{options.host}{f':{options.port}' if options.port else ''}"
        self._client = _client(options)

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] = {}, timeout_s: float = 30.0) -> ShellResult:
        """See the port. When time is up, the program on the other machine may go on: wrap it in ``timeout`` where that matters."""
        marks = Marks(secrets.token_hex(8))
        words = (*self._options.prefix, *argv)
        try:
            command = remote_command(words, env={**self._options.env, **env}, marks=marks)
        except ValueError as error:
            raise self._error(Permanent, f"the words cannot be passed: {error}", argv) from error
        try:
            code, output, errors = run_command([*self._client, command], stdin=stdin, env={}, timeout_s=timeout_s)
        except TimeUp as error:
            raise self._error(Unknown, str(error), argv) from error
        except OSError as error:
            raise self._error(Permanent, f"the ssh client cannot be executed: {error.strerror}", argv) from error
        except ValueError as error:
            raise self._error(Permanent, f"the words cannot be passed: {error}", argv) from error
        return self._result(code, output, errors, marks=marks, argv=argv)

    def close(self) -> None:
        """Close the connection that is kept, if any; the next program opens one."""
        if self._options.keep_s:
            run_command([*self._client[:-2], "-O", "exit", *self._client[-2:]], stdin=b"", env={}, timeout_s=10.0)

    def _result(self, code: int, output: bytes, errors: bytes, *, marks: Marks, argv: Sequence[str]) -> ShellResult:
        said = marks.read(errors)
        if said.ended is not None and code in (said.ended, _FAILED) and not (code == _FAILED and said.ended != _FAILED):
            return ShellResult(said.ended, output, said.rest)
        if said.missing:
            raise self._error(Permanent, f"it cannot be executed there: {said.text}", argv)
        if said.begun:
            raise self._error(Unknown, f"the connection broke while it ran: {said.text}", argv)
        if any(reason in said.text.lower() for reason in _REFUSED):
            raise self._error(Permanent, said.text, argv, remedy="Check the login, the host's key and the options of the driver.")
        raise self._error(Transient, said.text or f"ssh ended with {code}", argv, remedy="Check that the host is up and can be reached.")

    def _error(self, kind: type[PortError], happened: str, argv: Sequence[str], *, remedy: str = "") -> PortError:
        return kind(happened, tried="run a program over ssh", subject=f"{argv[0] if argv else '(nothing)'} on {self._where}", remedy=remedy)


def _client(options: SshOptions) -> list[str]:
    """The client's words up to the remote command."""
    settings = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": str(max(1, round(options.connect_timeout_s))),
        "ServerAliveInterval": "5",
        "ServerAliveCountMax": "3",
        "LogLevel": "ERROR",
        "ForwardAgent": "no",
        "ForwardX11": "no",
        "ClearAllForwardings": "yes",
        "PermitLocalCommand": "no",
    }
    if options.identity_file:
        settings |= {"IdentityFile": options.identity_file, "IdentitiesOnly": "yes"}
    if options.known_hosts_file:
        settings |= {"UserKnownHostsFile": options.known_hosts_file, "GlobalKnownHostsFile": "/dev/null"}
    if options.keep_s:
        settings |= {"ControlMaster": "auto", "ControlPath": _control_path(options), "ControlPersist": str(max(1, round(options.keep_s)))}
    words = ["ssh", "-T"]
    if options.config_file:
        words += ["-F", options.config_file]
    for name, value in settings.items():
        words += ["-o", f"{name}={value}"]
    if options.port:
        words += ["-p", str(options.port)]
    if options.user:
        words += ["-l", options.user]
    return [*words, "--", options.host]


def _control_path(options: SshOptions) -> str:
    """The socket of the kept connection: a short path in a folder that only this user can enter, its own for each set of options."""
    base = Path(os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/bridgehead-ssh-{os.getuid()}")
    if "XDG_RUNTIME_DIR" not in os.environ:
        base.mkdir(mode=0o700, exist_ok=True)
        owner = base.lstat()
        if owner.st_uid != os.getuid() or owner.st_mode & 0o077:
            raise Permanent(
                "it belongs to somebody else", tried="keep ssh connections in a folder", subject=str(base), remedy="Set keep_s to 0."
            )
    digest = hashlib.sha256(msgspec.json.encode(options)).hexdigest()[:16]
    return str(base / f"bh-{digest}")
