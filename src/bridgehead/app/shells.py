"""Where the commands of drivers and looks are run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridgehead.model.login import SshOptions
    from bridgehead.ports.shell import Shell


def shell_at(login: SshOptions | None, *, prefix: tuple[str, ...] = ()) -> Shell:
    """Where a driver's commands run: over ssh, or on the controller's machine."""
    if login is not None:
        from bridgehead.drivers.ssh import SshShell

        return SshShell(login)
    from bridgehead.drivers.shell import LocalShell, LocalShellOptions

    return LocalShell(LocalShellOptions(prefix=prefix))
