"""One question to an OpenBao server, and what its answers mean in the words of ports. Neither tokens nor values reach an error text."""

from __future__ import annotations

import http.client
import ssl
from typing import Any, Final
from urllib.parse import quote, urlsplit

import msgspec

from bridgehead.drivers.openbao.options import OpenBaoOptions
from bridgehead.host.questions import MAX_BODY_BYTES, refused, too_long, unanswered
from bridgehead.kernel.errors import NotFound, Permanent, PortError, Transient

SEALED: Final = 503
FORBIDDEN: Final = 403


class Forbidden(Permanent):
    """The token is not, or no longer, allowed to do this."""


def ask(
    options: OpenBaoOptions, method: str, path: str, *, token: str, body: dict[str, object] | None = None, tried: str, subject: str
) -> Any:
    """The answer's document, None for an empty one. Raises NotFound, Forbidden, Permanent, Transient."""
    headers = {"Accept": "application/json", "X-Vault-Request": "true", "Connection": "close"}
    headers |= {"X-Vault-Token": token} if token else {}
    headers |= {"X-Vault-Namespace": options.namespace} if options.namespace else {}
    where = f"{subject} at {options.address}"
    connection = _connection(options, tried=tried, subject=where)
    try:
        connection.request(method, f"/v1/{quote(path)}", None if body is None else msgspec.json.encode(body), headers)
        answer = connection.getresponse()
        data = answer.read(MAX_BODY_BYTES + 1)
    except ssl.SSLCertVerificationError as error:
        raise Permanent(
            f"its certificate is not trusted: {error.verify_message}",
            tried=tried,
            subject=where,
            remedy="Name the authority by BAO_CACERT.",
        ) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise unanswered(
            error if not isinstance(error, ValueError) else OSError("a header is not valid"), tried=tried, subject=where
        ) from None
    finally:
        connection.close()
    if len(data) > MAX_BODY_BYTES:
        raise too_long(tried=tried, subject=where)
    if answer.status >= 300:
        raise _refusal(answer.status, data, tried=tried, subject=where)
    try:
        return msgspec.json.decode(data) if data.strip() else None
    except msgspec.DecodeError as error:
        raise Permanent("the answer is no document", tried=tried, subject=where, remedy="Is it an OpenBao server?") from error


def _connection(options: OpenBaoOptions, *, tried: str, subject: str) -> http.client.HTTPConnection:
    try:
        parts = urlsplit(options.address)
        port = parts.port
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError("it has no https:// or no host")
        if parts.scheme == "http":
            return http.client.HTTPConnection(parts.hostname, port or 8200, timeout=options.timeout_s)
        context = ssl.create_default_context(cafile=options.ca_file or None)
        return http.client.HTTPSConnection(parts.hostname, port or 8200, timeout=options.timeout_s, context=context)
    except (ValueError, OSError) as error:
        raise Permanent(
            f"the server cannot be asked: {error}", tried=tried, subject=subject, remedy="Correct BAO_ADDR, BAO_CACERT."
        ) from error


def _refusal(status: int, data: bytes, *, tried: str, subject: str) -> PortError:
    said = _said(data)
    if status == SEALED and "sealed" in said:
        return Transient(
            "the server is sealed: it gives nothing out until people unseal it",
            tried=tried,
            subject=subject,
            remedy="Unseal it (`bao operator unseal`), then go on; nothing was done meanwhile.",
            retry_after_s=5.0,
        )
    if status == FORBIDDEN:
        return Forbidden(
            f"not allowed{': ' + said if said else ''}",
            tried=tried,
            subject=subject,
            remedy="The token has expired or was revoked, or the policy of its role does not allow this path.",
        )
    if status == 404:
        return NotFound(f"there is nothing{': ' + said if said else ''}", tried=tried, subject=subject, remedy="Check mount and path.")
    if status == 400:
        return Permanent(said or "the request is wrong", tried=tried, subject=subject, remedy="Check role, secret id, mount and path.")
    return refused(status, tried=tried, subject=subject)


def _said(data: bytes) -> str:
    """What the server says is wrong."""
    try:
        errors = msgspec.json.decode(data).get("errors", [])
    except (msgspec.DecodeError, AttributeError):
        return ""
    return "; ".join(" ".join(str(error).split()) for error in errors)[:300]
