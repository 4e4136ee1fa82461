"""Completeness: which checkpoints of a directory are whole, seen from outside, without the help of the trainer that writes them (V11, V12).

A checkpoint is whole when nothing about its files changed between two looks some seconds apart, nothing lacks by the rules of its format
(``marks``), and every file is as long as its own header or directory says.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from bridgehead.host.direct import read_at
from bridgehead.vault.checkpoints import Checkpoint, Signature, signature_of, steps_by_pattern, usual_steps
from bridgehead.vault.formats import Contents, examine
from bridgehead.vault.marks import MarkKind, missing

LOOKED_AT: Final = 3
"""Of the checkpoints that are at rest, so many of the highest steps are looked at in full each time; of the others only the folder."""
_NEVER_EMPTY: Final = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
_Rest = tuple[int, int, int]
"""Inode, time of change and size of the checkpoint's folder or file itself."""


class Watcher:
    """Looks at the checkpoints of ``directory`` again and again.

    Args:
        pattern: matches the whole name of a checkpoint; its first group is the step. None: the usual names.
        stable_s: how long nothing may have changed.

    Attributes:
        incomplete: the checkpoints that are not whole, each with what lacks or is wrong.
    """

    def __init__(self, directory: Path, *, pattern: re.Pattern[str] | None, mark: MarkKind, stable_s: float) -> None:
        self._directory = directory
        self._pattern = pattern
        self._mark = mark
        self._stable_s = stable_s
        self._since: dict[Path, tuple[Signature, float]] = {}
        self._resting: dict[Path, tuple[_Rest, Signature]] = {}
        self._sound: dict[Path, Signature] = {}
        self.incomplete: dict[Path, tuple[str, ...]] = {}
        self.matching = 0
        """How many checkpoints there were at the last look, whole or not: 0 when no name fits."""
        self.faults: dict[Path, str] = {}
        """Of those, the ones whose bytes are wrong."""

    def complete(self, *, now_s: float) -> list[Checkpoint]:
        """The whole checkpoints that are not at rest, oldest step first. ``now_s``: any clock that only goes forward."""
        found = []
        candidates = list(self._candidates())
        self.matching = len(candidates)
        here = {candidate.path for candidate in candidates}
        self._since = {path: since for path, since in self._since.items() if path in here}
        self._sound = {path: signature for path, signature in self._sound.items() if path in here}
        self.faults, self.incomplete = {}, {}
        for candidate in candidates:
            if candidate.path in self._resting and self._resting[candidate.path][1] == candidate.signature:
                continue
            lacking = self._lacking(candidate, now_s)
            if lacking:
                self.incomplete[candidate.path] = lacking
            else:
                found.append(candidate)
        return sorted(found, key=lambda checkpoint: checkpoint.step)

    def rest(self, checkpoint: Checkpoint) -> None:
        """It is dealt with, and comes again only when it changes: it is looked at in full when it is among the newest, or its folder itself
        changes."""
        stamp = _stamp(checkpoint.path)
        if stamp is not None:
            self._resting[checkpoint.path] = (stamp, checkpoint.signature)

    def _lacking(self, candidate: Checkpoint, now_s: float) -> tuple[str, ...]:
        known = self._since.get(candidate.path)
        if known is None or known[0] != candidate.signature:
            self._since[candidate.path] = (candidate.signature, now_s)
            if self._stable_s > 0:
                return ("its files changed, or were not seen before: it must stay as it is for a while",)
        elif now_s - known[1] < self._stable_s:
            return ("its files changed a moment ago",)
        lacking = missing(candidate, mark=self._mark)
        if lacking or self._sound.get(candidate.path) == candidate.signature:
            return lacking
        fault = _fault(candidate)
        if fault:
            self.faults[candidate.path] = fault
            return (fault,)
        self._sound[candidate.path] = candidate.signature
        return ()

    def _candidates(self) -> Iterator[Checkpoint]:
        steps = self._steps()
        self._resting = {path: rest for path, rest in self._resting.items() if path.name in steps}
        newest = sorted(steps, key=lambda name: steps[name])[-LOOKED_AT:]
        for name, step in steps.items():
            path = self._directory / name
            if name not in newest and path in self._resting and self._resting[path][0] == _stamp(path):
                continue
            signature = signature_of(path)
            if signature:
                yield Checkpoint(path, step, signature)

    def _steps(self) -> dict[str, int]:
        try:
            with os.scandir(self._directory) as entries:
                names = {entry.name: entry.is_dir() for entry in entries if not entry.is_symlink()}
        except FileNotFoundError:
            return {}
        return usual_steps(names) if self._pattern is None else steps_by_pattern(names, self._pattern)


def _stamp(path: Path) -> _Rest | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _fault(checkpoint: Checkpoint) -> str:
    for name, size, _, _ in checkpoint.signature:
        try:
            fault = file_fault(checkpoint.place(name), size_bytes=size)
        except FileNotFoundError:
            fault = "it was removed"
        except OSError as error:
            fault = f"it cannot be read ({error.strerror})"
        if fault:
            return f"{name}: {fault}"
    return ""


def file_fault(file: Path, *, size_bytes: int) -> str:
    """Why this file cannot be whole; empty when nothing speaks against it (which is all that can be said of an unknown format)."""
    if size_bytes == 0:
        return "it is empty" if file.suffix in _NEVER_EMPTY else ""
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        contents = examine(file.name, size_bytes, lambda offset, size: bytes(read_at(descriptor, size, offset)))
    finally:
        os.close(descriptor)
    if contents.cut_off_at is not None:
        return "cut off: its header or its directory is not whole" if contents.cut_off_at < 0 else _wrong_size(size_bytes, contents)
    return ""


def _wrong_size(size_bytes: int, contents: Contents) -> str:
    return f"{size_bytes} bytes where its header says {contents.cut_off_at}"
