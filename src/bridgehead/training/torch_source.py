"""torch_source: a file of a checkpoint that is put together from tensors in memory, without a copy of those that are on the CPU."""

from __future__ import annotations

import bisect
from typing import Any

import numpy as np
import torch

from bridgehead.model.snapshot import EntryKind
from bridgehead.vault.sources import Range

_SMALL_BYTES = 4096
"""Shorter pieces are copied: they are headers."""


class Spliced:
    """Byte strings and tensors, one after the other: a ``sources.Source``. Nothing of it may change until it is saved."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.mode = 0o644
        self.size_bytes = 0
        self.kind: EntryKind | None = None
        self.target = self.same_as = ""
        self.mtime_ns: int | None = None
        self._pieces: list[memoryview] = []
        self._begins: list[int] = []
        self._kept: list[Any] = []

    def add(self, data: bytes | memoryview) -> None:
        """At the end; ``data`` is not copied."""
        if len(data):
            self._begins.append(self.size_bytes)
            self._pieces.append(memoryview(data).cast("B"))
            self.size_bytes += len(data)

    def add_tensor(self, tensor: torch.Tensor) -> None:
        """At the end, as ``torch.save`` writes it. Only the part of its storage that it shows is written."""
        tensor = tensor.detach().cpu()
        if tensor.untyped_storage().size() != tensor.numel() * tensor.itemsize:
            tensor = tensor.clone()
        self._kept.append(tensor)
        torch.save(tensor, _Sink(self, tensor))

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """See ``sources.Source``."""
        end = min(offset + size, self.size_bytes)
        found = []
        at = bisect.bisect_right(self._begins, offset) - 1
        while offset < end:
            piece = self._pieces[at][offset - self._begins[at] : end - self._begins[at]]
            found.append(piece)
            offset += len(piece)
            at += 1
        return found[0] if len(found) == 1 else b"".join(found)

    def data_ranges(self) -> list[Range]:
        """See ``sources.Source``."""
        return [(0, self.size_bytes)] if self.size_bytes else []

    def check_unchanged(self) -> None:
        """Nothing to look at."""


class _Sink:
    """What ``torch.save`` writes to. It hands over the bytes of a tensor where they lie: these are kept as they are, all others copied."""

    def __init__(self, file: Spliced, tensor: torch.Tensor) -> None:
        self._file = file
        storage = tensor.untyped_storage()
        self._begin = storage.data_ptr()
        self._end = self._begin + storage.nbytes()

    def write(self, data: bytes | memoryview) -> int:
        """At the end of the file."""
        size = len(data)
        if size >= _SMALL_BYTES:
            place = np.frombuffer(data, dtype=np.uint8).ctypes.data
            if self._begin <= place and place + size <= self._end:
                self._file.add(data)
                return size
        self._file.add(bytes(data))
        return size

    def flush(self) -> None:
        """Nothing waits."""
