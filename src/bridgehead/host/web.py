"""Requests to HTTP APIs with a login and certificates; what an answer means in the words of the ports."""

from __future__ import annotations

import base64
import http.client
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from bridgehead.host.questions import MAX_BODY_BYTES, too_long
from bridgehead.kernel.errors import Permanent, Transient, Unknown


class Access(Protocol):
    """Who asks, and whom to trust."""

    def trust(self) -> ssl.SSLContext:
        """For a connection. Raises OSError when a certificate cannot be used."""
        ...

    def login(self, tried: str) -> dict[str, str]:
        """Headers of a request. Raises Permanent when a secret cannot be read."""
        ...


class WebAccess(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who asks, and whom to trust. Secrets are in files that are read for each request, so that renewed ones count.

    Attributes:
        token_file: a bearer token.
        user: a user's name, for a password.
        password_file: the user's password.
        ca_file: certificates (PEM) that are trusted in place of the system's.
        cert_file: the client's certificate (PEM).
        key_file: its private key (PEM), when it is not in the same file.
    """

    token_file: str = ""
    user: str = ""
    password_file: str = ""
    ca_file: str = ""
    cert_file: str = ""
    key_file: str = ""

    def trust(self) -> ssl.SSLContext:
        """See ``Access``."""
        context = ssl.create_default_context(cafile=self.ca_file or None)
        if self.cert_file:
            context.load_cert_chain(self.cert_file, self.key_file or None)
        return context

    def login(self, tried: str) -> dict[str, str]:
        """See ``Access``."""
        if self.token_file:
            return {"Authorization": f"Bearer {secret(self.token_file, tried=tried)}"}
        if self.user:
            password = secret(self.password_file, tried=tried) if self.password_file else ""
            return {"Authorization": "Basic " + base64.b64encode(f"{self.user}:{password}".encode()).decode()}
        return {}


class WebAnswer(msgspec.Struct, frozen=True):
    """Status, headers with names in lower case, and the whole body."""

    status: int
    headers: dict[str, str]
    body: bytes


class WebClient:
    """Speaks to one server. A connection for each request; safe to call from several threads.

    Args:
        url: ``http://host:port/path`` or ``https://...``; paths of requests are put behind it.
        timeout_s: for connecting and for each wait on the answer.
    """

    def __init__(self, url: str, *, access: Access, timeout_s: float) -> None:
        self.url = url.rstrip("/")
        self._access = access
        self._timeout_s = timeout_s

    def request(
        self, method: str, path: str, *, tried: str, body: bytes = b"", headers: Mapping[str, str] | None = None, changes: bool = False
    ) -> WebAnswer:
        """The answer, whatever its status.

        Args:
            changes: a lost answer is Unknown then, since the server may have done it.

        Raises:
            Transient: it was not reached, or (for a question) did not answer whole.
            Unknown: a change was sent, and no whole answer came.
            Permanent: the address, a file of the access, or the length of the answer is no good.
        """
        subject = self.url + path.partition("?")[0]
        connection, sent = self._connection(subject, tried), False
        target = (urlsplit(self.url).path or "/" * (not path.startswith("/"))) + path
        try:
            connection.connect()
            sent = True
            connection.request(
                method, target, body=body or None, headers={**self._access.login(tried), "Connection": "close", **(headers or {})}
            )
            answer = connection.getresponse()
            content = answer.read(MAX_BODY_BYTES + 1)
            if len(content) <= MAX_BODY_BYTES and answer.length:
                raise http.client.IncompleteRead(content, answer.length)
        except ssl.SSLCertVerificationError as error:
            remedy = "Name the right ca_file; check the name in the address."
            raise Permanent(
                f"its certificate is not trusted ({error.verify_message})", tried=tried, subject=subject, remedy=remedy
            ) from error
        except (ValueError, http.client.InvalidURL) as error:
            raise Permanent(f"not an address ({error})", tried=tried, subject=subject, remedy="Correct the address.") from error
        except (OSError, http.client.HTTPException) as error:
            happened = "no answer in time" if isinstance(error, TimeoutError) else f"no answer ({type(error).__name__}: {error})"
            if sent and changes:
                raise Unknown(happened, tried=tried, subject=subject, remedy="Look whether it was done before trying again.") from error
            raise Transient(happened, tried=tried, subject=subject, remedy="Check that the server runs and can be reached.") from error
        finally:
            connection.close()
        if len(content) > MAX_BODY_BYTES:
            raise too_long(tried=tried, subject=subject)
        return WebAnswer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, content)

    def _connection(self, subject: str, tried: str) -> http.client.HTTPConnection:
        try:
            parts = urlsplit(self.url)
            host, port = parts.hostname, parts.port
            if not host or parts.scheme not in ("http", "https"):
                raise ValueError("it has no http:// or https://, or no host")
            if parts.scheme == "http":
                return http.client.HTTPConnection(host, port or 80, timeout=self._timeout_s)
            return http.client.HTTPSConnection(host, port or 443, timeout=self._timeout_s, context=self._access.trust())
        except (ValueError, http.client.InvalidURL) as error:
            raise Permanent(f"not an address ({error})", tried=tried, subject=subject, remedy="Correct the address.") from error
        except OSError as error:
            happened = f"a certificate file cannot be used ({error})"
            raise Permanent(happened, tried=tried, subject=subject, remedy="Check ca_file, cert_file and key_file.") from error


def secret(path: str, *, tried: str) -> str:
    """The secret in a file, without blanks around it. Raises Permanent when there is none."""
    try:
        text = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        happened = getattr(error, "strerror", None) or str(error)
        raise Permanent(happened, tried=tried, subject=path, remedy="Check the file of the secret.") from error
    if not text:
        raise Permanent("the file is empty", tried=tried, subject=path, remedy="Put the secret into it.")
    return text
