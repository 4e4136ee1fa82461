"""S3Blobs: a bucket as a blob store (ports.blobs.Blobs), with what must be deletable in a second place if need be."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterator, Mapping
from typing import Final

from bridgehead.drivers.s3.account import account
from bridgehead.drivers.s3.connection import Connection
from bridgehead.drivers.s3.folder import Folder
from bridgehead.drivers.s3.options import Location, S3BlobsOptions, places, with_address
from bridgehead.ports.blobs import BlobDigest

STATE_PREFIX: Final = "state/"
"""What lies here is written and deleted in daily use (markers of writers, leases): it must not lie under a retention (V26)."""


class S3Blobs:
    """Safe for threads; touches nothing before the first call.

    Every value is one object, there whole or not at all, written by one conditional request (``If-None-Match: *``): no part of it stays
    behind when the writer dies (V23). A value above 64 MiB whose key ends with its BLAKE3 goes in parts instead; of these, some may stay
    behind, unseen, until a lifecycle rule of the bucket removes them.

    Raises:
        Permanent: a bad address, no credentials, a profile that does not exist.
    """

    def __init__(self, options: S3BlobsOptions, *, environ: Mapping[str, str] | None = None) -> None:
        options = with_address(options)
        main, state = places(options)
        found = account(options, os.environ if environ is None else environ)

        def folder(location: Location) -> Folder:
            connection = Connection(location, found, timeout_s=options.timeout_s, retries=options.retries)
            return Folder(location, connection, retries=options.retries)

        self._main = folder(main)
        self._state = folder(state) if state is not None else self._main

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """See the port. Raises Unknown when it stays open whether the value was written."""
        return self._of(key).put_new(key, data)

    def get(self, key: str) -> bytes:
        """See the port."""
        return self._of(key).get(key)

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """See the port."""
        return self._of(key).get_range(key, offset_bytes, size_bytes)

    def digest(self, key: str) -> BlobDigest:
        """See the port; here the value does travel."""
        return self._of(key).digest(key)

    def size(self, key: str) -> int | None:
        """See the port."""
        return self._of(key).size(key)

    def list(self, prefix: str) -> Iterator[str]:
        """See the port. The listing is taken at the call."""
        if prefix or self._state is self._main:
            return self._of(prefix).list(prefix)
        # What lies under state/ in the first place is from before there was a second one, or not ours: it is not looked at.
        main = [key for key in self._main.list("") if not key.startswith(STATE_PREFIX)]
        return heapq.merge(main, self._state.list(STATE_PREFIX))

    def delete(self, key: str) -> None:
        """See the port. Raises Permanent with "retained" in its text when the server denies it; Unknown when the answer is lost."""
        self._of(key).delete(key)

    def _of(self, key: str) -> Folder:
        return self._state if key.startswith(STATE_PREFIX) else self._main
