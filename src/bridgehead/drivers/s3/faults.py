"""How errors of obstore become port errors.

obstore tells a status of the server, the server's own code and the kind of a network failure only in the text of its exceptions; this
module is the one place that reads it. What it does not find there is treated as a failure that may pass, and after a write as doubt.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from bridgehead.kernel.errors import NotFound, Permanent, PortError, Transient

_STATUS: Final = re.compile(r"non-2xx status code: (\d{3})")
_CODE: Final = re.compile(r"<Code>([A-Za-z0-9.]{1,80})</Code>")
_MESSAGE: Final = re.compile(r"<Message>([^<]{1,300})</Message>")
_NETWORK: Final = re.compile(r"HttpError \{\s*kind: (\w+)")

_BAD_KEYS: Final = frozenset(
    {"SignatureDoesNotMatch", "InvalidAccessKeyId", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "InvalidClientTokenId"}
)
_NO_SPACE: Final = frozenset({"QuotaExceeded", "InsufficientStorage", "InsufficientCapacity", "EntityTooLargeForQuota"})
_MAY_PASS: Final = frozenset({"RequestTimeout", "SlowDown", "OperationAborted", "ConditionalRequestConflict"})
_WORDS: Final = {
    "Connect": "no connection",
    "Timeout": "no answer in time",
    "Interrupted": "the answer broke off",
}


class Failure(msgspec.Struct, frozen=True):
    """What is known of a request that failed. ``status`` is 0 when no answer came."""

    status: int
    code: str
    text: str
    network: str

    @property
    def nothing_done(self) -> bool:
        """Whether the server surely did not act: there was no connection, or it refused."""
        return self.network == "Connect" or 300 <= self.status < 500 or self.status in (501, 507) or self.code == "SlowDown"

    @property
    def may_pass(self) -> bool:
        """Whether the same request may succeed later."""
        if self.status == 0:
            return True
        return self.code in _MAY_PASS or self.status in (408, 409, 429) or (self.status >= 500 and self.status not in (501, 507))


def failure(error: Exception) -> Failure:
    """Read the text of an exception of obstore."""
    text = str(error)
    status, code, message, network = (pattern.search(text) for pattern in (_STATUS, _CODE, _MESSAGE, _NETWORK))
    number = int(status[1]) if status else 0
    if not number and "redirect without LOCATION" in text:
        number = 301
    if number:
        said = ": ".join(part[1] for part in (code, message) if part)
        happened = f"the server answered {number}{f' ({said})' if said else ''}"
    elif network:
        happened = _WORDS.get(network[1], f"the connection failed ({network[1]})")
    else:
        happened = text.split("\n\nDebug source", 1)[0][:300]
    return Failure(status=number, code=code[1] if code else "", text=happened, network=network[1] if network else "")


def port_error(found: Failure, *, tried: str, subject: str, deleting: bool = False) -> PortError:
    """The port error for a request of which the server did nothing, or which changes nothing."""
    if found.may_pass:
        return Transient(found.text, tried=tried, subject=subject, remedy="Check that the server runs and can be reached.")
    if found.code in _NO_SPACE or found.status == 507:
        return Permanent(
            f"no space left ({found.text})", tried=tried, subject=subject, remedy="Free space or raise the quota; then repeat."
        )
    if found.code == "NoSuchBucket":
        return Permanent("there is no such bucket", tried=tried, subject=subject, remedy="Correct the address, or make the bucket first.")
    if found.status == 404:
        return NotFound("no such key", tried=tried, subject=subject)
    if found.code in _BAD_KEYS or found.status == 401:
        remedy = "Correct the access key, the secret key or the session token (environment, or ~/.aws/credentials)."
        return Permanent(f"the credentials are refused: {found.text}", tried=tried, subject=subject, remedy=remedy)
    if deleting and found.status == 403:
        remedy = "Keys under state/ must be deletable: give them another place, s3://BUCKET/PREFIX?state=s3://OTHER/PREFIX."
        return Permanent(f"it is retained: {found.text}", tried=tried, subject=subject, remedy=remedy)
    if found.status == 403:
        return Permanent(f"access denied: {found.text}", tried=tried, subject=subject, remedy="Look at the rights of these credentials.")
    if found.status in (301, 307) or found.code in (
        "AuthorizationHeaderMalformed",
        "PermanentRedirect",
        "IllegalLocationConstraintException",
    ):
        return Permanent(found.text, tried=tried, subject=subject, remedy="Set AWS_REGION to the bucket's region.")
    return Permanent(found.text, tried=tried, subject=subject, remedy="Look at the server and its log.")
