"""Checkpoints: what a trainer has put into its output directory, a folder or a file for each step, seen from outside."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import msgspec

from bridgehead.kernel.hashing import block_hash

Signature = tuple[tuple[str, int, int, int], ...]
"""Path, size, time of change in nanoseconds and inode of each file and link: equal while nothing was touched."""

_EXTENSION: Final = r"(?:\.(?:pt|pth|ckpt|bin|safetensors|npz|npy|tar|distcp))?"
_TAIL: Final = r"(?:-v[0-9]+|-last|[-_,][A-Za-z_]+=[-0-9.e]*[0-9])*"
_STEP: Final = re.compile(
    rf"(?:.*[^A-Za-z])?(?:global_?step|steps?|checkpoint|ckpt|iter(?:ation)?|update)[-_=]?([0-9]{{1,12}}){_TAIL}{_EXTENSION}", re.I
)
_EPOCH: Final = re.compile(rf"(?:.*[^A-Za-z])?epoch[-_=]?([0-9]{{1,12}}){_TAIL}{_EXTENSION}", re.I)
_NUMBER: Final = re.compile(r"([0-9]{1,12})")
_BEING_WRITTEN: Final = re.compile(r"\..*|tmp[-_.].*|.*[-_.](?:tmp|temp|part|partial|incomplete|staging)(?:[-_.].*)?", re.I)


class Checkpoint(msgspec.Struct, frozen=True):
    """One checkpoint, a file or a folder, as it was when it was looked at."""

    path: Path
    step: int
    signature: Signature

    @property
    def changed_s(self) -> float:
        """Time of the newest change, seconds since the Unix epoch."""
        return max(changed_ns for _, _, changed_ns, _ in self.signature) / 1e9

    @property
    def is_file(self) -> bool:
        """Whether it is a single file, not a folder. Looks at the disk."""
        return self.path.is_file()

    @property
    def fingerprint(self) -> str:
        """32 hex digits over the signature: the same checkpoint, untouched."""
        return block_hash(repr(self.signature).encode("utf-8", "backslashreplace"))[:32]

    def place(self, name: str) -> Path:
        """Where the file of this name in the signature lies."""
        return self.path if self.is_file else self.path / name


def signature_of(path: Path) -> Signature:
    """The signature of a file or of a folder with all below; empty when it is gone, or has no file, or vanishes meanwhile (V13)."""
    try:
        if path.is_file():
            return (_line(path, path.name),)
        files = sorted(
            Path(folder) / name
            for folder, folders, names in os.walk(path)
            for name in (*names, *(one for one in folders if os.path.islink(os.path.join(folder, one))))
        )
        return tuple(_line(file, file.relative_to(path).as_posix()) for file in files)
    except FileNotFoundError:
        return ()


def _line(file: Path, name: str) -> tuple[str, int, int, int]:
    status = file.lstat()
    return (name, status.st_size, status.st_mtime_ns, status.st_ino)


def steps_by_pattern(names: Iterable[str], pattern: re.Pattern[str]) -> dict[str, int]:
    """The names that the pattern matches as a whole, each with the step that its first group gives."""
    matches = {name: pattern.fullmatch(name) for name in names}
    return {name: int(match[1]) for name, match in matches.items() if match is not None}


def usual_steps(names: Mapping[str, bool]) -> dict[str, int]:
    """The names (and whether each is a folder) that look like checkpoints, with their steps.

    ``step-1200``, ``checkpoint-1200``, ``global_step1200``, ``iter_0001200``, ``epoch=3-step=1200.ckpt``, ``ckpt_1200.pt`` ...; where
    there is none of these, ``epoch_3``; where there is none of these either, folders that are a number. Names of what is evidently still
    being written (``tmp-...``, ``....tmp``) are left out.
    """
    whole = [name for name in names if not _BEING_WRITTEN.fullmatch(name)]
    for pattern in (_STEP, _EPOCH):
        found = {name: step for name, step in steps_by_pattern(whole, pattern).items() if names[name] or "." in name}
        if found:
            return found
    return {name: int(name) for name in whole if names[name] and _NUMBER.fullmatch(name)}
