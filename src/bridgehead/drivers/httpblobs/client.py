"""HttpBlobs: a blob store behind HTTP (ports.blobs.Blobs); one connection per thread, kept open."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from urllib.parse import quote, urlsplit

import msgspec

from bridgehead.drivers.httpblobs.protocol import BLOBS, ERROR_HEADER, ERRORS, HASH_HEADER, LIST, MAX_BODY_BYTES, Listed
from bridgehead.kernel.errors import NotFound, Permanent, PortError, Transient, Unknown
from bridgehead.kernel.hashing import block_hash
from bridgehead.ports.blobs import BlobDigest

_LOOK = "Look for the key before trying again."


class HttpBlobsOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``url``: ``http://host:port`` of the blob server. ``timeout_s`` holds for connecting and for each wait on the network."""

    url: str
    timeout_s: float = 10.0


class _Answer(msgspec.Struct, frozen=True):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class _Broken(Exception):
    """The connection failed. ``sent``: the request left as a whole, so that the server may have acted on it."""

    def __init__(self, cause: Exception, *, sent: bool, reused: bool) -> None:
        super().__init__(str(cause))
        self.happened = "no answer in time" if isinstance(cause, TimeoutError) else f"no answer ({type(cause).__name__}: {cause})"
        self.sent = sent
        self.reused = reused


class HttpBlobs:
    """Safe for threads. A value is checked by length and BLAKE3 on each way.

    A PUT whose answer is lost is looked up: when the key then holds exactly these bytes, it counts as written. Only when the look-up
    fails too, or finds nothing (the server may still be writing), is it Unknown.
    """

    def __init__(self, options: HttpBlobsOptions) -> None:
        parts = urlsplit(options.url)
        if parts.scheme != "http" or not parts.hostname:
            raise Permanent(
                "not an http:// address", tried="use a blob store", subject=options.url, remedy="Correct the address in the estate file."
            )
        self._options = options
        self._host, self._port = parts.hostname, parts.port or 80
        self._base = parts.path.rstrip("/")
        self._local = threading.local()

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """See the port."""
        tried, size_bytes = "store a value", memoryview(data).nbytes
        if size_bytes > MAX_BODY_BYTES:
            raise Permanent(
                f"it has {size_bytes} bytes", tried=tried, subject=self._subject(key), remedy=f"Values have at most {MAX_BODY_BYTES} bytes."
            )
        digest = block_hash(data)
        headers = {"If-None-Match": "*", HASH_HEADER: digest, "Content-Length": str(size_bytes)}
        doubt = False
        for _ in range(2):
            try:
                answer = self._exchange("PUT", self._path(key), body=data, headers=headers)
            except _Broken as broken:
                if not broken.sent:
                    if broken.reused:
                        continue  # a kept connection that the server had closed: nothing was done, a fresh one may work
                    raise self._lost(broken, tried, key, doubt=doubt) from broken
                doubt = True
                found = self._holds(key, digest, broken)
                if found is not None:
                    return found
                if broken.reused:
                    continue
                raise self._lost(broken, tried, key, doubt=True) from broken
            if answer.status == 201:
                return True
            if answer.status == 412:
                # After a lost answer the value that exists may be our own.
                return doubt and bool(self._holds(key, digest, None))
            raise self._refused(answer, tried, key)
        raise self._lost(_Broken(ConnectionError("the connection broke twice"), sent=doubt, reused=True), tried, key, doubt=doubt)

    def get(self, key: str) -> bytes:
        """See the port. Raises Transient also when the value arrives damaged."""
        return self._arrived_whole(self._ask("GET", self._path(key), tried="read a value", subject=key), key)

    def _arrived_whole(self, answer: _Answer, key: str) -> bytes:
        if block_hash(answer.body) != answer.headers.get(HASH_HEADER):
            raise Transient(
                "the value arrived with another hash", tried="read a value", subject=self._subject(key), remedy="Check the network path."
            )
        return answer.body

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """See the port. Raises Transient also when the part arrives damaged."""
        where = f"{self._path(key)}?offset={offset_bytes}&size={size_bytes}"
        return self._arrived_whole(self._ask("GET", where, tried="read a part of a value", subject=key), key)

    def digest(self, key: str) -> BlobDigest:
        """See the port: the server reads and hashes, the value does not travel."""
        answer = self._ask("HEAD", self._path(key) + "?hash", tried="hash a value", subject=key)
        return BlobDigest(answer.headers[HASH_HEADER], int(answer.headers["Content-Length"]))

    def size(self, key: str) -> int | None:
        """See the port."""
        try:
            answer = self._ask("HEAD", self._path(key), tried="look for a value", subject=key)
        except NotFound:
            return None
        return int(answer.headers["Content-Length"])

    def list(self, prefix: str) -> Iterator[str]:
        """See the port. The listing is taken at the call."""
        path = f"{self._base}{LIST}?prefix={quote(prefix)}"
        answer = self._ask("GET", path, tried="list keys", subject=prefix)
        try:
            return iter([row.key for row in msgspec.json.decode(answer.body, type=list[Listed])])
        except msgspec.MsgspecError as error:
            raise Permanent(
                f"not a listing ({error})", tried="list keys", subject=self._subject(prefix), remedy="Is this a blob server?"
            ) from error

    def delete(self, key: str) -> None:
        """See the port. Raises Unknown when the answer is lost; deleting again is harmless."""
        self._ask("DELETE", self._path(key), tried="delete a value", subject=key, changes=True)

    def close(self) -> None:
        """Close the calling thread's connection; those of other threads close when these end."""
        connection: http.client.HTTPConnection | None = self._local.__dict__.pop("connection", None)
        if connection is not None:
            connection.close()

    def _ask(self, method: str, path: str, *, tried: str, subject: str, changes: bool = False) -> _Answer:
        """An exchange that may be repeated: once more when a kept connection turns out to be closed."""
        try:
            answer = self._exchange(method, path)
        except _Broken as first:
            if not first.reused:
                raise self._lost(first, tried, subject, doubt=changes and first.sent) from first
            try:
                answer = self._exchange(method, path)
            except _Broken as second:
                raise self._lost(second, tried, subject, doubt=changes and (first.sent or second.sent)) from second
        if answer.status in (200, 204):
            return answer
        raise self._refused(answer, tried, subject)

    def _holds(self, key: str, digest: str, broken: _Broken | None) -> bool | None:
        """Whether the key holds the bytes with this hash; None when it does not exist. Raises Unknown when that cannot be seen."""
        try:
            return self.digest(key).blake3 == digest
        except NotFound:
            return None
        except PortError as error:
            happened = f"{broken.happened if broken else 'its answer was lost'}; then {error.happened}"
            raise Unknown(happened, tried="store a value", subject=self._subject(key), remedy=_LOOK) from error

    def _exchange(self, method: str, path: str, *, body: bytes | memoryview = b"", headers: dict[str, str] | None = None) -> _Answer:
        connection: http.client.HTTPConnection | None = self._local.__dict__.get("connection")
        reused, sent = connection is not None, False
        try:
            if connection is None:
                connection = http.client.HTTPConnection(self._host, self._port, timeout=self._options.timeout_s)
                connection.connect()
                connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._local.connection = connection
            connection.putrequest(method, path, skip_accept_encoding=True)
            for name, value in (headers or {}).items():
                connection.putheader(name, value)
            connection.endheaders()
            if body:
                connection.send(body)
            sent = True
            response = connection.getresponse()
            content = response.read()
            if response.length and method != "HEAD":
                raise http.client.IncompleteRead(content, response.length)
            if response.will_close:
                self.close()
            return _Answer(status=response.status, headers=response.headers, body=content)
        except (OSError, http.client.HTTPException) as error:
            with contextlib.suppress(OSError):
                self.close()
            raise _Broken(error, sent=sent, reused=reused) from error

    def _path(self, key: str) -> str:
        return f"{self._base}{BLOBS}{quote(key)}"

    def _subject(self, key: str) -> str:
        return f"{key} at {self._options.url}"

    def _lost(self, broken: _Broken, tried: str, key: str, *, doubt: bool) -> PortError:
        """The error for a broken exchange: Unknown when there is doubt whether the server acted on it."""
        if doubt:
            return Unknown(broken.happened, tried=tried, subject=self._subject(key), remedy=_LOOK)
        return Transient(broken.happened, tried=tried, subject=self._subject(key), remedy="Check that the server runs and can be reached.")

    def _refused(self, answer: _Answer, tried: str, key: str) -> PortError:
        kind = ERRORS.get(answer.headers.get(ERROR_HEADER, ""))
        if kind is None:
            kind = Transient if answer.status >= 500 else Permanent
        happened = answer.body.decode("utf-8", "replace")[:500] or f"the server answered {answer.status}"
        return kind(happened, tried=tried, subject=self._subject(key), remedy="Look at the blob server.")
