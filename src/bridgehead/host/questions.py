"""Questions over HTTP, and what the answers mean in the words of the ports; shared by the drivers that speak HTTP."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

from bridgehead.kernel.errors import Conflict, NotFound, Permanent, PortError, Transient

MAX_BODY_BYTES = 16 * 1024 * 1024
"""An answer that is longer is refused: no admin interface, health report or metrics page needs more."""


def refused(status: int, *, tried: str, subject: str) -> PortError:
    """The error for an answer other than 200: 404 and 410 NotFound, 409 Conflict, 429 and 5xx Transient, all others Permanent."""
    happened = f"the server answered {status}"
    match status:
        case 404 | 410:
            return NotFound(happened, tried=tried, subject=subject, remedy="Check the address and the name.")
        case 409:
            return Conflict(happened, tried=tried, subject=subject, remedy="Look at its state, then try again.")
        case 429:
            return Transient(happened, tried=tried, subject=subject, remedy="The server asks for fewer requests.")
        case _ if status >= 500:
            return Transient(happened, tried=tried, subject=subject, remedy="Look at the server's log.")
        case _:
            return Permanent(happened, tried=tried, subject=subject, remedy="Check the address and the rights.")


def unanswered(error: Exception, *, tried: str, subject: str) -> Transient:
    """The error for a question (never for a change) that got no whole answer: nothing was done, and nothing is known."""
    happened = "no answer in time" if isinstance(error, TimeoutError) else f"no answer ({type(error).__name__}: {error})"
    return Transient(happened, tried=tried, subject=subject, remedy="Check that the server runs and can be reached.")


def too_long(*, tried: str, subject: str) -> Permanent:
    """The error for a body of more than ``MAX_BODY_BYTES``."""
    return Permanent(f"the answer is longer than {MAX_BODY_BYTES} bytes", tried=tried, subject=subject, remedy="Check the address.")


def ask(url: str, *, accept: str, tried: str, timeout_s: float) -> bytes:
    """The body of the answer to a GET. ``timeout_s`` holds for connecting and for each wait on the answer.

    Raises as ``refused`` says for any status but 200, Transient without a whole answer, Permanent for an address or a body that is no good.
    """
    try:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname:
            raise ValueError("it has no http:// or no host")
        connection = http.client.HTTPConnection(parts.hostname, 80 if parts.port is None else parts.port, timeout=timeout_s)
    except (ValueError, http.client.InvalidURL) as error:
        raise _no_address(error, tried=tried, subject=url) from error
    try:
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        try:
            connection.request("GET", target, headers={"Accept": accept, "Connection": "close"})
        except (ValueError, http.client.InvalidURL) as error:  # only now are the name of the host and the path looked at
            raise _no_address(error, tried=tried, subject=url) from error
        answer = connection.getresponse()
        body = answer.read(MAX_BODY_BYTES + 1)
        if len(body) <= MAX_BODY_BYTES and answer.length:
            raise http.client.IncompleteRead(body, answer.length)
    except (OSError, http.client.HTTPException) as error:
        raise unanswered(error, tried=tried, subject=url) from error
    finally:
        connection.close()
    if answer.status != 200:
        raise refused(answer.status, tried=tried, subject=url)
    if len(body) > MAX_BODY_BYTES:
        raise too_long(tried=tried, subject=url)
    return body


def _no_address(error: Exception, *, tried: str, subject: str) -> Permanent:
    return Permanent(f"not an http:// address ({error})", tried=tried, subject=subject, remedy="Correct the address in the estate file.")
