"""Completeness: which checkpoints of a folder are whole, seen from outside, without the help of the trainer that writes them (V11, V12).

A checkpoint is whole when its completion mark is there (if the trainer has one), nothing about its files changed for some seconds, and
every file of a known format is as long as its own header or directory says. Formats are told by content (V08); nothing is unpickled.
"""

from __future__ import annotations

import json
import os
import re
import zipfile
from collections.abc import Iterator
from pathlib import Path

import msgspec

_MAX_HEADER_BYTES = 100 << 20
_ZIP = b"PK\x03\x04"
_NEVER_EMPTY = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")

Signature = tuple[tuple[str, int, int, int], ...]
"""Path, size, time of change and inode of each file: equal while nothing was touched."""


class MarkKind(msgspec.Struct, frozen=True):
    """How the trainer says that a checkpoint is complete. Both empty: it does not say.

    Attributes:
        inside: a file in the checkpoint's folder (``.metadata``, ``_SUCCESS``).
        beside: a file beside the checkpoints that names the newest complete one, or its step (``latest``).
    """

    inside: str = ""
    beside: str = ""


class Checkpoint(msgspec.Struct, frozen=True):
    """One checkpoint, a file or a folder, as it was when it was looked at."""

    path: Path
    step: int
    signature: Signature

    @property
    def changed_s(self) -> float:
        """Time of the newest change, seconds since the Unix epoch."""
        return max(changed_ns for _, _, changed_ns, _ in self.signature) / 1e9


class Watcher:
    """Looks at the checkpoints of ``directory`` again and again.

    Args:
        pattern: matches the whole name of a checkpoint; its first group is the step.
        stable_s: how long nothing may have changed.
    """

    def __init__(self, directory: Path, *, pattern: re.Pattern[str], mark: MarkKind, stable_s: float) -> None:
        self._directory = directory
        self._pattern = pattern
        self._mark = mark
        self._stable_s = stable_s
        self._since: dict[Path, tuple[Signature, float]] = {}
        self.faults: dict[Path, str] = {}
        """Why a checkpoint that stopped changing is not whole."""

    def complete(self, *, now_s: float) -> list[Checkpoint]:
        """The whole checkpoints, oldest step first. ``now_s``: any clock that only goes forward."""
        found = []
        candidates = list(self._candidates())
        self._since = {path: since for path, since in self._since.items() if path in {c.path for c in candidates}}
        self.faults = {}
        for candidate in candidates:
            known = self._since.get(candidate.path)
            if known is None or known[0] != candidate.signature:
                self._since[candidate.path] = (candidate.signature, now_s)
                if self._stable_s > 0:
                    continue
            elif now_s - known[1] < self._stable_s:
                continue
            if not self._marked(candidate):
                continue
            fault = _fault(candidate)
            if fault:
                self.faults[candidate.path] = fault
            else:
                found.append(candidate)
        return sorted(found, key=lambda checkpoint: checkpoint.step)

    def _candidates(self) -> Iterator[Checkpoint]:
        try:
            entries = list(os.scandir(self._directory))
        except FileNotFoundError:
            return
        for entry in entries:
            match = self._pattern.fullmatch(entry.name)
            if match is None or entry.is_symlink():
                continue
            signature = signature_of(Path(entry.path))
            if signature:
                yield Checkpoint(Path(entry.path), int(match[1]), signature)

    def _marked(self, candidate: Checkpoint) -> bool:
        if self._mark.inside and not (candidate.path / self._mark.inside).is_file():
            return False
        if not self._mark.beside:
            return True
        try:
            text = (self._directory / self._mark.beside).read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError):
            return False
        return text == candidate.path.name or text == str(candidate.step)


def signature_of(path: Path) -> Signature:
    """The signature of a file or of a folder with all below; empty when it is gone, or has no file, or vanishes meanwhile (V13)."""
    try:
        if path.is_file():
            return (_line(path, path.name),)
        files = sorted(Path(folder) / name for folder, _, names in os.walk(path) for name in names)
        return tuple(_line(file, file.relative_to(path).as_posix()) for file in files)
    except FileNotFoundError:
        return ()


def _line(file: Path, name: str) -> tuple[str, int, int, int]:
    status = file.stat()
    return (name, status.st_size, status.st_mtime_ns, status.st_ino)


def _fault(checkpoint: Checkpoint) -> str:
    for name, size, _, _ in checkpoint.signature:
        file = checkpoint.path if checkpoint.path.is_file() else checkpoint.path / name
        try:
            fault = file_fault(file, size_bytes=size)
        except FileNotFoundError:
            fault = "it was removed"
        if fault:
            return f"{name}: {fault}"
    return ""


def file_fault(file: Path, *, size_bytes: int) -> str:
    """Why this file cannot be whole; empty when nothing speaks against it (which is all that can be said of an unknown format)."""
    if size_bytes == 0:
        return "it is empty" if file.suffix in _NEVER_EMPTY else ""
    with file.open("rb") as stream:
        head = stream.read(8)
        if head.startswith(_ZIP):
            return "" if zipfile.is_zipfile(stream) else "a zip archive without its directory: cut off"
        if file.suffix != ".safetensors":
            return ""
        header_bytes = int.from_bytes(head, "little")
        if len(head) < 8 or header_bytes > min(size_bytes - 8, _MAX_HEADER_BYTES):
            return "its header is cut off"
        try:
            header = json.loads(stream.read(header_bytes))
            end = max((int(entry["data_offsets"][1]) for name, entry in header.items() if name != "__metadata__"), default=0)
        except (ValueError, KeyError, TypeError, IndexError, AttributeError):
            return "its header cannot be read"
    expected = 8 + header_bytes + end
    return "" if expected == size_bytes else f"{size_bytes} bytes where its header says {expected}"
