"""Notices by e-mail: one message for each address, over SMTP with TLS."""

from __future__ import annotations

import contextlib
import email.policy
import email.utils
import enum
import smtplib
import socket
import ssl
from collections.abc import Callable, Iterator
from email.message import EmailMessage

import msgspec

from bridgehead.drivers.notify.webhook import is_loopback
from bridgehead.kernel.errors import Permanent, PortError, Transient, Unknown
from bridgehead.kernel.hashing import document_hash
from bridgehead.kernel.ids import Person
from bridgehead.kernel.moment import format_moment
from bridgehead.model.notice import Notice, NoticeState

_TRIED = "tell by e-mail"


class Security(enum.StrEnum):
    """How the way to the server is protected."""

    STARTTLS = "starttls"
    TLS = "tls"
    NONE = "none"


class MailOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The server that takes mail, and who has which address.

    Attributes:
        server: ``host:port``.
        sender: the address that it comes from.
        addresses: of people, by name.
        always: addresses that get everything that this channel tells.
        security: ``starttls`` (usually port 587), ``tls`` (465), or ``none``, which is possible to this machine itself alone.
        user: for a login; only over TLS.
        password: reference (``secret://MOUNT/PATH#FIELD`` or ``file:/PATH``) to the user's password.
        ca_file: certificates (PEM) that are trusted in place of the system's.
        timeout_s: for connecting and for each wait on the server.
    """

    server: str
    sender: str
    addresses: dict[Person, str] = {}
    always: tuple[str, ...] = ()
    security: Security = Security.STARTTLS
    user: str = ""
    password: str = ""
    ca_file: str = ""
    timeout_s: float = 20.0

    def __post_init__(self) -> None:
        host, _, port = self.server.rpartition(":")
        if not host or not port.isdigit():
            raise ValueError("server: expected host:port")
        if self.security is Security.NONE and (self.user or not is_loopback(host.strip("[]"))):
            raise ValueError("security: 'none' is possible to 127.0.0.1 or [::1], without a user, and nowhere else")
        for address in (self.sender, *self.addresses.values(), *self.always):
            if address.count("@") != 1 or any(sign.isspace() or sign in "<>,;" or not sign.isprintable() for sign in address):
                raise ValueError(f"{address!r} is no e-mail address")


class Mail:
    """Implements ``ports.notify.Notify``. Mails of one thread refer to each other; a repeated one has the same Message-ID.

    Args:
        secret: the value of a reference. Raises port errors.
    """

    refresh_s = None

    def __init__(self, options: MailOptions, *, secret: Callable[[str], str]) -> None:
        self._options = options
        self._secret = secret

    def receivers(self, notice: Notice) -> tuple[str, ...]:
        """See the port: the addresses of its people, and those that get everything."""
        own = [self._options.addresses[person] for person in notice.people if person in self._options.addresses]
        return tuple(dict.fromkeys([*own, *self._options.always]))

    def send(self, notice: Notice, receiver: str) -> None:
        """See the port."""
        message = self._message(notice, receiver)
        password = self._secret(self._options.password) if self._options.password else ""
        sent = False
        try:
            with self._session() as smtp:
                if self._options.user:
                    smtp.login(self._options.user, password)
                sent = True
                smtp.send_message(message, self._options.sender, [receiver])
        except smtplib.SMTPException as error:
            raise self._refusal(error, receiver, sent=sent) from None
        except ssl.SSLCertVerificationError as error:
            remedy = "Name the authority by ca_file; check the name of the server."
            raise self._permanent(f"its certificate is not trusted ({error.verify_message})", remedy) from None
        except (OSError, UnicodeError) as error:
            happened = "no answer in time" if isinstance(error, TimeoutError) else f"no answer ({error})"
            if sent:
                raise Unknown(happened, tried=_TRIED, subject=receiver) from None
            raise Transient(
                happened, tried=_TRIED, subject=self._options.server, remedy="Check that the mail server can be reached."
            ) from None

    @contextlib.contextmanager
    def _session(self) -> Iterator[smtplib.SMTP]:
        smtp = self._connected()
        try:
            yield smtp
        finally:
            with contextlib.suppress(smtplib.SMTPException, OSError):  # a mail is taken, or not, however the server says good-bye
                smtp.quit()
            smtp.close()

    def _connected(self) -> smtplib.SMTP:
        options = self._options
        host, _, port = options.server.rpartition(":")
        host = host.strip("[]")
        if options.security is Security.NONE:
            return smtplib.SMTP(host, int(port), timeout=options.timeout_s, local_hostname=socket.gethostname())
        try:
            context = ssl.create_default_context(cafile=options.ca_file or None)
        except OSError as error:
            raise self._permanent(f"the certificates cannot be read ({error.strerror or error})", "Check ca_file.") from error
        if options.security is Security.TLS:
            return smtplib.SMTP_SSL(host, int(port), timeout=options.timeout_s, context=context, local_hostname=socket.gethostname())
        smtp = smtplib.SMTP(host, int(port), timeout=options.timeout_s, local_hostname=socket.gethostname())
        try:
            smtp.starttls(context=context)  # raises when the server does not offer it: nothing is ever sent in the clear instead
        except (smtplib.SMTPException, OSError):
            smtp.close()
            raise
        return smtp

    def _message(self, notice: Notice, receiver: str) -> EmailMessage:
        domain = self._options.sender.rpartition("@")[2]
        thread = f"<thread-{document_hash(notice.thread)[:32]}@{domain}>"
        message = EmailMessage(policy=email.policy.SMTP)
        over = "[over] " if notice.state is NoticeState.RESOLVED else ""
        message["Subject"] = f"[Bridgehead] {over}{_one_line(notice.title)}"
        message["From"] = self._options.sender
        message["To"] = receiver
        message["Date"] = email.utils.format_datetime(email.utils.localtime())
        message["Message-ID"] = f"<{notice.id}@{domain}>"
        message["In-Reply-To"] = thread
        message["References"] = thread
        message["Auto-Submitted"] = "auto-generated"  # RFC 3834: nobody's holiday notice is wanted
        message["X-Bridgehead-Key"] = notice.id
        message.set_content(text_of(notice))
        return message

    def _refusal(self, error: smtplib.SMTPException, receiver: str, *, sent: bool) -> PortError:
        code, said = _said(error)
        if isinstance(error, smtplib.SMTPNotSupportedError):
            return self._permanent(f"the server does not offer what is needed ({said})", "Choose another 'security', or mend the server.")
        if isinstance(error, smtplib.SMTPServerDisconnected) or code < 0:
            happened = f"the server hung up ({said})"
            if sent:
                return Unknown(happened, tried=_TRIED, subject=receiver)
            return Transient(happened, tried=_TRIED, subject=self._options.server)
        if 400 <= code < 500:
            return Transient(f"the server said {code}: {said}", tried=_TRIED, subject=receiver, remedy="It wants it later.")
        return Permanent(f"the server said {code}: {said}", tried=_TRIED, subject=receiver, remedy="Check address, sender and login.")

    def _permanent(self, happened: str, remedy: str) -> Permanent:
        return Permanent(happened, tried=_TRIED, subject=self._options.server, remedy=remedy)


def text_of(notice: Notice) -> str:
    """What people read."""
    lines = [notice.text, "", f"Since {format_moment(notice.since_s)}, told for {format_moment(notice.at_s)}."]
    ask = notice.ask
    if ask is not None:
        lines += [f"Who may answer: {', '.join(ask.may_answer)}" + (f" ({ask.quorum} of them)" if ask.quorum > 1 else "") + "."]
        lines += [f"Without an answer by {format_moment(ask.expires_s)} it counts as refused."] if ask.expires_s is not None else []
        lines += ["", "Answer by:", *(f"    {command}" for command in ask.commands)]
        lines += ["", *(f"{name}: {link}" for name, link in ask.links.items())] if ask.links else []
    return "\n".join(lines) + "\n"


def _one_line(text: str) -> str:
    return " ".join(text.split())[:200]


def _said(error: smtplib.SMTPException) -> tuple[int, str]:
    """Code (-1: none) and words of the server, as one line."""
    words: bytes | str
    if isinstance(error, smtplib.SMTPRecipientsRefused):
        code, words = next(iter(error.recipients.values()))
    elif isinstance(error, smtplib.SMTPResponseException):
        code, words = error.smtp_code, error.smtp_error
    else:
        code, words = -1, str(error).encode()
    text = words.decode(errors="replace") if isinstance(words, bytes) else str(words)
    return code, _one_line(text)
