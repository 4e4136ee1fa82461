"""Secrets where they are used: references in environments of jobs, and keys of vaults."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

import msgspec

from bridgehead.kernel.errors import BridgeheadError, Permanent, PortError
from bridgehead.kernel.ids import JobName
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobIdentity, JobSpec, JobState, Scheduler
from bridgehead.ports.secrets import SCHEME, Secrets, secret_ref

if TYPE_CHECKING:
    from bridgehead.vault.crypt.credentials import Credentials

FILE_SCHEME: Final = "file:"


def vault_credentials() -> Credentials:
    """All that this process has to open vaults. Raises BAD_USAGE, port errors of the server of secrets."""
    from bridgehead.vault.crypt.credentials import credentials

    return credentials(os.environ, fetch=_fetch_key)


@cache
def server_of_secrets() -> Secrets:
    """The one that the environment names, for the life of the process: its tokens are renewed. Raises BAD_USAGE when it names none."""
    from bridgehead.drivers.openbao import OpenBaoSecrets, options_of

    return OpenBaoSecrets(options_of(os.environ))


class ReferencingScheduler:
    """A scheduler whose jobs may have ``secret://`` references in their environment: fetched when a job starts, and known to it alone.

    Journals, runbooks and messages hold references only. What the scheduler behind it does with an environment is its own matter: the
    process driver keeps it in memory, batch systems keep a job's script.
    """

    def __init__(self, behind: Scheduler, *, secrets: Callable[[], Secrets] = server_of_secrets) -> None:
        self._behind = behind
        self._secrets = secrets

    def start(self, spec: JobSpec, *, stamp: Stamp) -> JobIdentity:
        """See the port. Raises also what fetching a secret raises; the job was not started then."""
        references = {name: value for name, value in spec.env.items() if value.startswith(SCHEME)}
        if references:
            spec = msgspec.structs.replace(spec, env={**spec.env, **{name: self._fetched(value) for name, value in references.items()}})
        return self._behind.start(spec, stamp=stamp)

    def observe(self, name: JobName) -> JobState:
        """See the port."""
        return self._behind.observe(name)

    def stop(self, name: JobName, *, stamp: Stamp) -> None:
        """See the port."""
        self._behind.stop(name, stamp=stamp)

    def kill(self, name: JobName, *, stamp: Stamp) -> None:
        """See the port."""
        self._behind.kill(name, stamp=stamp)

    def _fetched(self, reference: str) -> str:
        try:
            return self._secrets().get(secret_ref(reference)).value
        except PortError:
            raise
        except BridgeheadError as error:
            raise Permanent(error.happened, tried=error.tried, subject=error.subject, remedy=error.remedy) from error


def _fetch_key(reference: str) -> bytes:
    from bridgehead.drivers.openbao.keys import fetch_key

    return fetch_key(reference, os.environ)


def secret_value(reference: str) -> str:
    """The value behind ``secret://MOUNT/PATH#FIELD`` or ``file:/PATH``, fetched anew. Raises port errors; none names the value."""
    if reference.startswith(FILE_SCHEME):
        from bridgehead.host.web import secret as secret_in

        return secret_in(reference.removeprefix(FILE_SCHEME), tried="read a secret")
    try:
        return server_of_secrets().get(secret_ref(reference)).value
    except PortError:
        raise
    except BridgeheadError as error:
        raise Permanent(error.happened, tried=error.tried, subject=error.subject, remedy=error.remedy) from error
