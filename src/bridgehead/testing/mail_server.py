"""A real SMTP server for tests (aiosmtpd), on a free port of loopback, with TLS and logins; keeps what it took."""

from __future__ import annotations

import asyncio
import ssl
import time
from email import message_from_bytes, policy
from email.message import EmailMessage
from pathlib import Path
from typing import Any

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from bridgehead.testing.servers import free_port

USER, PASSWORD = "bridgehead", "a password of the mail server"


class MailServer:
    """A context manager.

    Args:
        certificate: PEM file with certificate and key; without it there is no TLS at all.
        implicit: TLS from the first byte (as on port 465), else STARTTLS.
        login: whether senders must log in.

    Attributes:
        taken: (recipient, message) of each that was accepted.
        replies: what is said to the next messages, after their data; nothing is kept then.
        recipients: what is said to a recipient instead of taking it.
        hang_up: whether the connection is cut after the next message was taken, before that is said.
    """

    def __init__(self, *, certificate: Path | None = None, implicit: bool = False, login: bool = False) -> None:
        self.taken: list[tuple[str, EmailMessage]] = []
        self.replies: list[str] = []
        self.recipients: dict[str, str] = {}
        self.hang_up = False
        context = None
        if certificate is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
        options: dict[str, Any] = {"auth_required": True, "authenticator": _authenticate} if login else {}
        if implicit:
            options |= {"ssl_context": context, "auth_require_tls": False}  # it does not know that it is inside TLS already
        elif context is not None:
            options |= {"tls_context": context, "require_starttls": True}
        self._running = False
        self._controller = Controller(self, hostname="127.0.0.1", port=free_port(), **options)

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self._controller.port}"

    def stop(self) -> None:
        """Refuse connections from now on; no effect when done already."""
        if self._running:
            self._running = False
            self._controller.stop()

    def __enter__(self) -> MailServer:
        self._controller.start()
        self._running = True
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]) -> str:
        """Of aiosmtpd: take a recipient or not."""
        if address in self.recipients:
            return self.recipients[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        """Of aiosmtpd: take a message or not."""
        if self.replies:
            return self.replies.pop(0)
        content = envelope.content if isinstance(envelope.content, bytes) else str(envelope.content).encode()
        message = message_from_bytes(content, policy=policy.default)
        assert isinstance(message, EmailMessage)
        self.taken += [(recipient, message) for recipient in envelope.rcpt_tos]
        if self.hang_up:
            self.hang_up = False
            assert isinstance(server.transport, asyncio.Transport)
            server.transport.abort()
        return "250 taken"


def _authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, data: Any) -> AuthResult:
    right = isinstance(data, LoginPassword) and data == LoginPassword(USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=False)


def until_taken(server: MailServer, count: int, *, patience_s: float = 20.0) -> list[tuple[str, EmailMessage]]:
    """What it has taken as soon as it is so many. Raises TimeoutError."""
    end_s = time.monotonic() + patience_s
    while len(server.taken) < count:
        if time.monotonic() > end_s:
            raise TimeoutError(f"{len(server.taken)} of {count} mails came")
        time.sleep(0.02)
    return list(server.taken)
