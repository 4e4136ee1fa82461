"""Secrets of an OpenBao server. Tokens live in memory alone: got by AppRole, renewed before they end, got anew when they have ended."""

from __future__ import annotations

import base64
import binascii
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from bridgehead.drivers.openbao.client import Forbidden, ask
from bridgehead.drivers.openbao.options import OpenBaoOptions
from bridgehead.kernel.errors import NotFound, Permanent, PortError
from bridgehead.ports.secrets import Secret, SecretRef

RENEW_SHARE: Final = 1 / 3
"""A token of which less than this share of its time is left is renewed first."""


class OpenBaoSecrets:
    """Implements ``ports.secrets.Secrets``; safe for threads.

    Args:
        monotonic_s: for tests of what happens when time passes.
    """

    def __init__(self, options: OpenBaoOptions, *, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._options = options
        self._monotonic_s = monotonic_s
        self._lock = threading.Lock()
        self._token = options.token
        self._ends_s = float("inf")
        self._lasts_s = float("inf")
        self._renewable = True
        self._known = False

    def get(self, ref: SecretRef) -> Secret:
        """See the port."""
        answer = self._asked("GET", f"{ref.mount}/data/{ref.path}", tried="fetch a secret", subject=str(ref))
        data = ((answer or {}).get("data") or {}).get("data")
        if not isinstance(data, dict):
            raise NotFound(
                "its newest version was deleted", tried="fetch a secret", subject=str(ref), remedy="Write it anew, or undelete it."
            )
        if ref.field not in data:
            fields = ", ".join(sorted(data)) or "none"
            raise NotFound(f"it has no field '{ref.field}'", tried="fetch a secret", subject=str(ref), remedy=f"Its fields: {fields}.")
        value = data[ref.field]
        if not isinstance(value, str):
            raise Permanent("the field is no text", tried="fetch a secret", subject=str(ref), remedy="Store it as a text.")
        return Secret(value, lease_s=float(answer.get("lease_duration") or 0) or None)

    def unwrap(self, key: str, wrapped: str) -> bytes:
        """See the port; ``key`` is ``<mount>/<name>`` of a transit key."""
        mount, _, name = key.partition("/")
        body: dict[str, object] = {"ciphertext": wrapped}
        answer = self._asked("POST", f"{mount}/decrypt/{name}", tried="unwrap a key", subject=key, body=body)
        try:
            return base64.b64decode(answer["data"]["plaintext"], validate=True)
        except (KeyError, TypeError, binascii.Error):
            raise Permanent("the answer holds no plain text", tried="unwrap a key", subject=key, remedy="Is it a transit mount?") from None

    def wrap(self, key: str, plain: bytes) -> str:
        """Encrypt with the server's ``<mount>/<key>``: what ``unwrap`` takes."""
        mount, _, name = key.partition("/")
        body: dict[str, object] = {"plaintext": base64.b64encode(plain).decode()}
        answer = self._asked("POST", f"{mount}/encrypt/{name}", tried="wrap a key", subject=key, body=body)
        return str(answer["data"]["ciphertext"])

    def _asked(self, method: str, path: str, *, tried: str, subject: str, body: dict[str, object] | None = None) -> Any:
        token = self._valid_token()
        try:
            return ask(self._options, method, path, token=token, body=body, tried=tried, subject=subject)
        except Forbidden:
            # Revoked, or the server forgot it: one that can log in again tries so once, and a refusal then is final.
            if not self._options.role_id or not self._forget(token):
                raise
        return ask(self._options, method, path, token=self._valid_token(), body=body, tried=tried, subject=subject)

    def _valid_token(self) -> str:
        with self._lock:
            if self._token and not self._known:
                self._look_up()
            left_s = self._ends_s - self._monotonic_s()
            if self._token and left_s < self._lasts_s * RENEW_SHARE:
                self._renew(left_s)
            if not self._token:
                self._log_in()
            return self._token

    def _forget(self, token: str) -> bool:
        with self._lock:
            if self._token == token:
                self._token = ""
            return True

    def _look_up(self) -> None:
        """How long a token that was given holds."""
        answer = self._self("GET", "lookup-self", tried="look at the token")
        self._take(self._token, (answer or {}).get("data") or {}, "ttl")

    def _renew(self, left_s: float) -> None:
        """A token that can no longer be renewed is forgotten when this machine can log in, and used to its end when it cannot."""
        if self._renewable and left_s > 0:
            try:
                answer = self._self("POST", "renew-self", tried="renew the token")
            except (Forbidden, Permanent):
                pass
            except PortError:
                if left_s > 0:
                    return  # it holds for a while yet
                raise
            else:
                before = self._lasts_s
                self._take(self._token, (answer or {}).get("auth") or {}, "lease_duration")
                if self._lasts_s > before * RENEW_SHARE:
                    return  # else it nears the end beyond which nobody may renew it
        if self._options.role_id:
            self._token = ""
        elif left_s <= 0:
            raise Forbidden(
                "the token has expired",
                tried="fetch a secret",
                subject=self._options.address,
                remedy="Set a new BAO_TOKEN; with BAO_ROLE_ID and BAO_SECRET_ID_FILE a new one would have been got without you.",
            )

    def _log_in(self) -> None:
        body: dict[str, object] = {"role_id": self._options.role_id, "secret_id": self._options.secret_id}
        answer = ask(self._options, "POST", "auth/approle/login", token="", body=body, tried="log in", subject="the role of this machine")
        auth = (answer or {}).get("auth") or {}
        self._take(str(auth.get("client_token", "")), auth, "lease_duration")

    def _self(self, method: str, verb: str, *, tried: str) -> Any:
        body: dict[str, object] | None = {} if method == "POST" else None
        return ask(
            self._options, method, f"auth/token/{verb}", token=self._token, body=body, tried=tried, subject="the token of this machine"
        )

    def _take(self, token: str, said: dict[str, Any], lasts: str) -> None:
        lasts_s = float(said.get(lasts) or 0) or float("inf")  # 0: it never ends
        self._token, self._known, self._lasts_s = token, True, lasts_s
        self._ends_s = self._monotonic_s() + lasts_s
        self._renewable = bool(said.get("renewable", False))
