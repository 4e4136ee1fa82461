"""Folder: a part of a bucket as a blob store. One object for each value, written by one request, or in parts where that is safe."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import obstore
from obstore.exceptions import BaseError

from bridgehead.drivers.s3.connection import FIRST_PAUSE_S, LONGEST_PAUSE_S, Connection
from bridgehead.drivers.s3.faults import Failure, failure, port_error
from bridgehead.drivers.s3.options import Location
from bridgehead.kernel.errors import NotFound, Permanent, PortError, Transient, Unknown
from bridgehead.kernel.hashing import block_hash, stream_hash
from bridgehead.ports.blobkeys import checked_key, checked_prefix, is_segment
from bridgehead.ports.blobs import BlobDigest

MAX_BODY_BYTES: Final = 1 << 30
"""A value is one request and lies in memory once at each end; a longer one is refused. Packs are far shorter."""
PARTS_ABOVE_BYTES: Final = 64 << 20
"""A longer value that is named by its hash goes in parts: what breaks off is sent again part by part, over several connections."""
PART_BYTES: Final = 8 << 20
PARTS_AT_ONCE: Final = 4
"""So many parts are copied in memory, besides the value."""
_READ_BYTES: Final = 4 << 20
_ERRORS: Final = (BaseError, OSError, ValueError)
"""What obstore raises: its own errors, FileNotFoundError, ValueError."""
_LOOK: Final = "Look for the key before trying again."

Result = TypeVar("Result")


class Folder:
    """Safe for threads. A PUT whose answer is lost is looked up and sent again; only when that stays fruitless is it Unknown.

    Reads are repeated by obstore. Writes are repeated here, because a repetition that meets its own first try gets the same answer as
    one that meets the value of somebody else: whether there was a first try must be known.
    """

    def __init__(self, location: Location, connection: Connection, *, retries: int) -> None:
        self._location = location
        self._connection = connection
        self._retries = retries
        self._seen = False

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """See the port."""
        checked_key(key)
        body = memoryview(data).cast("B")
        if body.nbytes > MAX_BODY_BYTES:
            raise Permanent(
                f"it has {body.nbytes} bytes",
                tried="store a value",
                subject=self._subject(key),
                remedy=f"Values have at most {MAX_BODY_BYTES} bytes.",
            )
        if body.nbytes > PARTS_ABOVE_BYTES and key.rpartition("/")[2] == block_hash(body):
            return self._put_parts(key, body)
        store, doubt, last = self._connection.writer(body.nbytes), False, None
        for attempt in range(self._retries + 1):
            if attempt:
                _pause(attempt)
            try:
                obstore.put(store, key, body, mode="create", use_multipart=False)
            except _ERRORS as error:
                last = failure(error)
            else:
                return True
            if last.status == 412:
                return doubt and bool(self._holds(key, body, last))  # after a lost answer the value that exists may be our own
            if not last.nothing_done:
                doubt = True
                found = self._holds(key, body, last)
                if found is not None:
                    return found
            if not last.may_pass:
                break
        assert last is not None
        if doubt:
            raise Unknown(last.text, tried="store a value", subject=self._subject(key), remedy=_LOOK)
        raise self._refused(last, "store a value", key)

    def _put_parts(self, key: str, body: memoryview) -> bool:
        """Of a value whose key ends with its hash: S3 has no create-only upload in parts, but whoever writes this key writes these
        bytes, so that to replace them changes nothing. It is looked for first: under object lock it would be one more version.
        """
        for attempt in range(self._retries + 1):
            if attempt:
                _pause(attempt)
            if self.size(key) is not None:
                return attempt > 0  # after a lost answer it is our own
            try:
                obstore.put(
                    self._connection.parts(PART_BYTES), key, body, use_multipart=True, chunk_size=PART_BYTES, max_concurrency=PARTS_AT_ONCE
                )
            except _ERRORS as error:
                last = failure(error)
                if not last.may_pass:
                    break
            else:
                return True
        if last.nothing_done:
            raise self._refused(last, "store a value in parts", key)
        if self.size(key) is not None:
            return True
        raise Unknown(last.text, tried="store a value in parts", subject=self._subject(key), remedy=_LOOK)

    def get(self, key: str) -> bytes:
        """See the port."""
        checked_key(key)
        return self._ask("read a value", key, lambda: bytes(obstore.get(self._connection.reader, key).bytes()))

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """See the port."""
        checked_key(key)
        if size_bytes == 0:  # S3 has no empty ranges
            if self.size(key) is None:
                raise NotFound("no such key", tried="read a part of a value", subject=self._subject(key))
            return b""
        reader = self._connection.reader
        try:
            return bytes(obstore.get_range(reader, key, start=offset_bytes, length=size_bytes))
        except _ERRORS as error:
            found = failure(error)
            if found.status == 416:  # it exists, and ends before the range begins
                return b""
            raise self._refused(found, "read a part of a value", key) from error

    def digest(self, key: str) -> BlobDigest:
        """See the port. S3 has no BLAKE3: the value travels, and is hashed here as it arrives."""
        checked_key(key)

        def hashed() -> BlobDigest:
            arriving = obstore.get(self._connection.reader, key)
            digest, size_bytes = stream_hash(iter(arriving.stream(min_chunk_size=_READ_BYTES)))
            if size_bytes != arriving.meta["size"]:
                raise Transient("the value arrived shorter than it is", tried="hash a value", subject=self._subject(key))
            return BlobDigest(digest, size_bytes)

        return self._ask("hash a value", key, hashed)

    def size(self, key: str) -> int | None:
        """See the port."""
        checked_key(key)
        try:
            return self._ask("look for a value", key, lambda: obstore.head(self._connection.reader, key)["size"])
        except NotFound:
            # The answer to HEAD has no text: a bucket that is missing looks like a key that is.
            self._check_bucket()
            return None

    def list(self, prefix: str) -> Iterator[str]:
        """See the port. Objects with names that are no keys are left out."""
        checked_prefix(prefix)
        reader = self._connection.reader

        def listed() -> list[str]:
            chunks = obstore.list(reader, prefix=prefix or None, chunk_size=1000)
            keys = [meta["path"] for chunk in chunks for meta in chunk]
            return sorted(key for key in keys if all(is_segment(segment) for segment in key.split("/")))

        keys = self._ask("list keys", prefix, listed)
        self._seen = True
        return iter(keys)

    def delete(self, key: str) -> None:
        """See the port. Raises Unknown when the answer is lost; deleting again is harmless."""
        checked_key(key)
        try:
            obstore.delete(self._connection.reader, key)
        except FileNotFoundError as error:
            if failure(error).code == "NoSuchBucket":
                raise self._refused(failure(error), "delete a value", key) from error
        except _ERRORS as error:
            found = failure(error)
            if found.may_pass and not found.nothing_done:
                raise Unknown(found.text, tried="delete a value", subject=self._subject(key), remedy=_LOOK) from error
            raise port_error(found, tried="delete a value", subject=self._subject(key), deleting=True) from error

    def _ask(self, tried: str, key: str, how: Callable[[], Result]) -> Result:
        try:
            return how()
        except _ERRORS as error:
            raise self._refused(failure(error), tried, key) from error

    def _holds(self, key: str, body: memoryview, lost: Failure) -> bool | None:
        """Whether the key holds these bytes; None when it does not exist. Raises Unknown when that cannot be seen."""
        try:
            return self.digest(key).blake3 == block_hash(body)
        except NotFound:
            return None
        except PortError as error:
            happened = f"{lost.text}; then {error.happened}"
            raise Unknown(happened, tried="store a value", subject=self._subject(key), remedy=_LOOK) from error

    def _check_bucket(self) -> None:
        if not self._seen:
            self._ask("look for the bucket", "", lambda: next(iter(obstore.list(self._connection.reader, chunk_size=1)), None))
            self._seen = True

    def _refused(self, found: Failure, tried: str, key: str) -> PortError:
        return port_error(found, tried=tried, subject=self._subject(key))

    def _subject(self, key: str) -> str:
        return f"{key} in {self._location}" if key else str(self._location)


def _pause(attempt: int) -> None:
    longest_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2**attempt)
    time.sleep(random.uniform(longest_s / 2, longest_s))
