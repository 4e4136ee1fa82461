"""How the server is reached, from the environment: what identifies this machine there is never in a file of ours."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode


class OpenBaoOptions(msgspec.Struct, frozen=True):
    """Who asks whom.

    Attributes:
        address: ``https://host:port``.
        role_id, secret_id: log in by AppRole.
        token: a token that was given, instead; it is renewed as long as the server does it.
        namespace: sent with each request, "" for none.
        ca_file: certificates to trust instead of the system's, "" for those.
        timeout_s: for connecting and for each wait on an answer.
    """

    address: str
    role_id: str = ""
    secret_id: str = ""
    token: str = ""
    namespace: str = ""
    ca_file: str = ""
    timeout_s: float = 5.0

    def __repr__(self) -> str:
        return f"OpenBaoOptions({self.address!r})"


def options_of(environ: Mapping[str, str]) -> OpenBaoOptions:
    """From BAO_ADDR, BAO_ROLE_ID with BAO_SECRET_ID or BAO_SECRET_ID_FILE, or BAO_TOKEN; BAO_NAMESPACE, BAO_CACERT. Raises BAD_USAGE."""
    address = environ.get("BAO_ADDR", "")
    if not address:
        raise _refused("BAO_ADDR", "it is not set, so nobody knows where secrets are")
    secret_id, file = environ.get("BAO_SECRET_ID", ""), environ.get("BAO_SECRET_ID_FILE", "")
    if file and not secret_id:
        try:
            secret_id = Path(file).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise _refused(file, f"it cannot be read: {error}") from error
    role_id, token = environ.get("BAO_ROLE_ID", ""), environ.get("BAO_TOKEN", "")
    if not token and not (role_id and secret_id):
        raise _refused("BAO_ROLE_ID", "there is neither a role with its secret id nor a token (BAO_TOKEN)")
    namespace, ca_file = environ.get("BAO_NAMESPACE", ""), environ.get("BAO_CACERT", "")
    return OpenBaoOptions(address, role_id, secret_id, token if not role_id else "", namespace, ca_file)


def _refused(subject: str, happened: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="reach the server of secrets",
        subject=subject,
        happened=happened,
        remedy="Set BAO_ADDR, and BAO_ROLE_ID with BAO_SECRET_ID_FILE; see docs/how-to/use-openbao.md.",
    )
