"""FaultyBlobs: a blob store that goes wrong at planned moments. Faults are values; a test asserts that each one was hit."""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterator, Sequence

import msgspec

from bridgehead.kernel.errors import NotFound, Permanent, Transient, Unknown
from bridgehead.ports.blobs import BlobDigest, Blobs


class Operation(enum.StrEnum):
    """The calls of the port."""

    PUT = "put"
    GET = "get"
    DIGEST = "digest"
    SIZE = "size"
    LIST = "list"
    DELETE = "delete"


class FaultKind(enum.StrEnum):
    """What goes wrong."""

    NO_SPACE = "no-space"
    """A write fails with "no space"; nothing was done. So looks a full disk (ENOSPC), and a quota that is used up (EDQUOT)."""
    IO_ERROR = "io-error"
    """Transient; nothing was done. So looks a failing disk (EIO), and a handle that the file server no longer knows (ESTALE)."""
    LOST_ANSWER = "lost-answer"
    """It was done, and the caller hears Unknown."""
    TORN_WRITE = "torn-write"
    """Half of the value lies under its key and the caller hears success: a store that lost power and did not sync (V20)."""
    SHORT_WRITE = "short-write"
    """Half of the value lies under its key, and the caller hears Transient: a store that does not clean up after a short write."""
    STALE_READ = "stale-read"
    """A read does not see the key yet, a listing lacks the one that was written last: delayed visibility (V21)."""
    LYING_PUT = "lying-put"
    """A write replaces what lies under the key and says that it created it: a store that ignores the condition."""
    CRASH_BEFORE = "crash-before"
    """The process dies before the call has an effect."""
    CRASH_AFTER = "crash-after"
    """The process dies after it."""


_WRITES_ONLY = frozenset({FaultKind.NO_SPACE, FaultKind.TORN_WRITE, FaultKind.SHORT_WRITE, FaultKind.LYING_PUT})
_READS = frozenset({Operation.GET, Operation.DIGEST, Operation.SIZE, Operation.LIST})


class Fault(msgspec.Struct, frozen=True):
    """``kind`` happens at the ``at``-th call (from 1) of ``operation``, or of any operation."""

    kind: FaultKind
    at: int
    operation: Operation | None = None


class Crashed(BaseException):
    """Stands for the death of the process: no ``except Exception`` of the code under test can outlive it."""


class FaultyBlobs:
    """Wraps a store. After a crash every call is a crash. Safe to call from several threads."""

    def __init__(self, inner: Blobs, faults: Sequence[Fault] = ()) -> None:
        self._inner = inner
        self._faults = list(faults)
        self._counts: dict[Operation | None, int] = {}
        self._lock = threading.Lock()
        self._dead = False
        self._newest = ""
        self.hit: list[Fault] = []

    @property
    def calls(self) -> int:
        """How many calls were made."""
        return self._counts.get(None, 0)

    @property
    def missed(self) -> list[Fault]:
        """Planned faults that were not hit: a test with any proves nothing."""
        return [fault for fault in self._faults if fault not in self.hit]

    def put_new(self, key: str, data: bytes | memoryview) -> bool:
        """See the port."""
        fault = self._next(Operation.PUT, key)
        if fault is not None and fault.kind is FaultKind.NO_SPACE:
            raise Permanent("no space left (planned)", tried="store a value", subject=key)
        if fault is not None and fault.kind is FaultKind.TORN_WRITE:
            return self._inner.put_new(key, data[: len(data) // 2])
        if fault is not None and fault.kind is FaultKind.SHORT_WRITE:
            self._inner.put_new(key, data[: len(data) // 2])
            raise Transient("short write (planned)", tried="store a value", subject=key)
        if fault is not None and fault.kind is FaultKind.LYING_PUT:
            self._inner.delete(key)
            return self._inner.put_new(key, data)
        written = self._inner.put_new(key, data)
        self._newest = key if written else self._newest
        self._after(fault, key)
        return written

    def get(self, key: str) -> bytes:
        """See the port."""
        fault = self._visible(self._next(Operation.GET, key), key)
        value = self._inner.get(key)
        self._after(fault, key)
        return value

    def get_range(self, key: str, offset_bytes: int, size_bytes: int) -> bytes:
        """See the port."""
        fault = self._visible(self._next(Operation.GET, key), key)
        value = self._inner.get_range(key, offset_bytes, size_bytes)
        self._after(fault, key)
        return value

    def digest(self, key: str) -> BlobDigest:
        """See the port."""
        fault = self._visible(self._next(Operation.DIGEST, key), key)
        digest = self._inner.digest(key)
        self._after(fault, key)
        return digest

    def size(self, key: str) -> int | None:
        """See the port."""
        fault = self._next(Operation.SIZE, key)
        size = self._inner.size(key)
        self._after(fault, key)
        return None if _stale(fault) else size

    def list(self, prefix: str) -> Iterator[str]:
        """See the port."""
        fault = self._next(Operation.LIST, prefix)
        keys = self._inner.list(prefix)
        self._after(fault, prefix)
        return (key for key in keys if key != self._newest) if _stale(fault) else keys

    def delete(self, key: str) -> None:
        """See the port."""
        fault = self._next(Operation.DELETE, key)
        self._inner.delete(key)
        self._after(fault, key)

    def _visible(self, fault: Fault | None, key: str) -> Fault | None:
        if _stale(fault):
            raise NotFound("not visible yet (planned)", tried="read a value", subject=key)
        return fault

    def _next(self, operation: Operation, key: str) -> Fault | None:
        """Count the call; raise what happens before its effect; return what happens later."""
        with self._lock:
            if self._dead:
                raise Crashed
            for counted in (None, operation):
                self._counts[counted] = self._counts.get(counted, 0) + 1
            fault = next(
                (one for one in self._faults if self._counts.get(one.operation, 0) == one.at and self._meant(one, operation)), None
            )
            if fault is None:
                return None
            self.hit.append(fault)
            if fault.kind is FaultKind.CRASH_BEFORE:
                self._dead = True
                raise Crashed
            if fault.kind is FaultKind.IO_ERROR:
                raise Transient("input/output error (planned)", tried=operation.value, subject=key)
            return fault

    def _meant(self, fault: Fault, operation: Operation) -> bool:
        if fault in self.hit or fault.operation not in (None, operation):
            return False
        if fault.kind is FaultKind.STALE_READ:
            return operation in _READS
        return operation is Operation.PUT or fault.kind not in _WRITES_ONLY

    def _after(self, fault: Fault | None, key: str) -> None:
        if fault is None:
            return
        if fault.kind is FaultKind.CRASH_AFTER:
            with self._lock:
                self._dead = True
            raise Crashed
        if fault.kind is FaultKind.LOST_ANSWER:
            raise Unknown("the answer was lost (planned)", tried="use a blob store", subject=key)


def _stale(fault: Fault | None) -> bool:
    return fault is not None and fault.kind is FaultKind.STALE_READ
