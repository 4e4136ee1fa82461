"""Secrets: values that nobody writes down here, fetched where they are used, and named by references until then."""

from __future__ import annotations

from typing import Final, Protocol

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

SCHEME: Final = "secret://"


class SecretRef(msgspec.Struct, frozen=True):
    """Where a secret is: ``secret://<mount>/<path>#<field>``. It may be shown."""

    mount: str
    path: str
    field: str

    def __str__(self) -> str:
        return f"{self.mount}/{self.path}#{self.field}"


class Secret:
    """A value, and how long it holds. Shows nothing of itself in logs and tracebacks.

    Attributes:
        lease_s: seconds for which the server promises it; None when it does not say.
    """

    def __init__(self, value: str, *, lease_s: float | None = None) -> None:
        self.value = value
        self.lease_s = lease_s

    def __repr__(self) -> str:
        return "Secret(...)"


class Secrets(Protocol):
    """A server of secrets. Error texts name references, never values or tokens."""

    def get(self, ref: SecretRef) -> Secret:
        """The newest version. Raises NotFound (no such path or field), Permanent (not allowed), Transient (sealed, out of reach)."""
        ...

    def unwrap(self, key: str, wrapped: str) -> bytes:
        """Decrypt what was encrypted with the server's ``<mount>/<key>``, which never leaves it. Raises as ``get``."""
        ...


def secret_ref(text: str) -> SecretRef:
    """Read ``<mount>/<path>#<field>``, with or without ``secret://``. Raises BAD_INPUT."""
    place, _, field = text.removeprefix(SCHEME).partition("#")
    mount, _, path = place.partition("/")
    if not (mount and path.strip("/") and field) or any(sign in place for sign in "?&% \n"):
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="read a reference to a secret",
            subject=repr(text),
            happened="it does not name mount, path and field",
            remedy="Write secret://MOUNT/PATH#FIELD, as secret://kv/site-a/registry#password.",
        )
    return SecretRef(mount, path.strip("/"), field)
