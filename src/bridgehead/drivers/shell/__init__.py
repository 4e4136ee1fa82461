"""Programs of this machine behind the shell port."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence

import msgspec

from bridgehead.host.commands import TimeUp, run_command
from bridgehead.kernel.errors import Permanent, Transient, Unknown
from bridgehead.ports.shell import ShellResult

_FOR_GOOD = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC, errno.ENOTDIR, errno.E2BIG, errno.EPERM, errno.EISDIR, errno.ELOOP})


class LocalShellOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Programs are run on the machine of the controller.

    Attributes:
        prefix: words before each command, as ``[ip, netns, exec, site-a]`` or ``[sudo, -n, -u, slurm]``.
        env: given to every program on top of the controller's own environment.
    """

    prefix: tuple[str, ...] = ()
    env: dict[str, str] = {}


class LocalShell:
    """Implements :class:`bridgehead.ports.shell.Shell`."""

    def __init__(self, options: LocalShellOptions = LocalShellOptions()) -> None:
        self._options = options

    def run(self, argv: Sequence[str], *, stdin: bytes = b"", env: Mapping[str, str] = {}, timeout_s: float = 30.0) -> ShellResult:
        """See the port; after ``timeout_s`` the program is killed with its session."""
        subject = argv[0] if argv else "(nothing)"
        try:
            result = run_command((*self._options.prefix, *argv), stdin=stdin, env={**self._options.env, **env}, timeout_s=timeout_s)
        except TimeUp as error:
            raise Unknown(str(error), tried="run a program", subject=subject, remedy="Look whether it had its effect.") from error
        except OSError as error:
            if error.errno in _FOR_GOOD:
                happened = f"it cannot be executed: {error.strerror}"
                raise Permanent(
                    happened, tried="run a program", subject=subject, remedy="Check its path and that it is installed."
                ) from error
            raise Transient(f"the system refused: {error}", tried="run a program", subject=subject) from error
        except (ValueError, IndexError) as error:
            raise Permanent(f"the words cannot be passed: {error}", tried="run a program", subject=subject) from error
        return ShellResult(*result)
