"""Connection: how obstore is told to reach one folder of a bucket, with every wait and every retry bounded."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from obstore.store import S3Store

from bridgehead.drivers.s3.account import Account
from bridgehead.drivers.s3.options import Location
from bridgehead.kernel.errors import Permanent

if TYPE_CHECKING:  # these exist for the type checker only
    from obstore.store import ClientConfig, S3Credential

SLOWEST_BYTES_PER_S: Final = 125_000
"""A write may take as long as over a line of 1 Mbit/s; the wait for its answer comes on top."""
LONGEST_READ: Final = timedelta(hours=6)
"""A read has no limit of its own as long as bytes arrive; this is for a server that dribbles."""
FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0


class Connection:
    """Makes the stores of obstore for one location. Safe to use from several threads."""

    def __init__(self, location: Location, account: Account, *, timeout_s: float, retries: int) -> None:
        self._location = location
        self._account = account
        self._timeout_s = timeout_s
        self._retries = retries
        self._writers: dict[int, S3Store] = {}
        self._parts: S3Store | None = None
        self._lock = threading.Lock()
        self.reader = self._store({"read_timeout": timedelta(seconds=timeout_s), "timeout": LONGEST_READ}, retries=retries)

    def writer(self, size_bytes: int) -> S3Store:
        """For a single try of writing so many bytes: its time limit covers the whole request, so it grows with the size."""
        step = (size_bytes >> 16).bit_length()
        with self._lock:
            if step not in self._writers:
                self._writers[step] = self._store({"timeout": self._limit(1 << 16 + step)}, retries=0)
            return self._writers[step]

    def parts(self, part_bytes: int) -> S3Store:
        """For values that are sent in parts of so many bytes: each part is sent again by itself when it breaks off."""
        with self._lock:
            if self._parts is None:
                self._parts = self._store({"timeout": self._limit(part_bytes)}, retries=self._retries)
            return self._parts

    def _limit(self, size_bytes: int) -> timedelta:
        return timedelta(seconds=self._timeout_s + size_bytes / SLOWEST_BYTES_PER_S)

    def _store(self, waits: ClientConfig, *, retries: int) -> S3Store:
        account, keys = self._account, self._account.keys
        client: ClientConfig = {
            "allow_http": account.endpoint.startswith("http://"),
            "connect_timeout": timedelta(seconds=self._timeout_s),
            **waits,
        }
        if account.roots:
            client["root_certificate"] = account.roots
        served: S3Credential | None = None
        if keys is not None:
            served = {
                "access_key_id": keys.access_key_id,
                "secret_access_key": keys.secret_access_key,
                "token": keys.session_token or None,
                "expires_at": None,
            }
        try:
            return S3Store(
                self._location.bucket,
                prefix=self._location.prefix or None,
                # Both names: obstore reads the environment too, and what it would find there must not win.
                config={"endpoint": account.endpoint, "aws_endpoint_url_s3": account.endpoint} if account.endpoint else {},
                region=account.region,
                conditional_put="etag",
                # One request for each key: only then does the answer say why a key could not be deleted.
                disable_bulk_delete=True,
                client_options=client,
                credential_provider=(lambda: served) if served is not None else None,
                retry_config={
                    "max_retries": retries,
                    "retry_timeout": timedelta(seconds=(retries + 1) * (self._timeout_s + LONGEST_PAUSE_S)),
                    "backoff": {
                        "init_backoff": timedelta(seconds=FIRST_PAUSE_S),
                        "max_backoff": timedelta(seconds=LONGEST_PAUSE_S),
                        "base": 2,
                    },
                },
            )
        except Exception as error:
            # obstore raises ValueError, TypeError and errors of its own for what it does not understand.
            happened = str(error).split("\n\nDebug source", 1)[0]
            raise Permanent(
                happened, tried="use a bucket", subject=str(self._location), remedy="Look at AWS_* in the environment."
            ) from error
