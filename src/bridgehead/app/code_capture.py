"""Code capture: the commit of a working tree, and what the tree has that the commit has not (R10)."""

from __future__ import annotations

import fnmatch
import os
from pathlib import Path
from typing import Final, NamedTuple

from bridgehead.host.git import GitFailed, diff_of, git, line, tree_of, untracked, whole_tree, without_secrets
from bridgehead.kernel.hashing import block_hash
from bridgehead.vault.context import Code

_SECRETS: Final = (".env", ".env.*", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_ed25519*", "*credentials*", ".netrc", "*.kdbx")
_MAX_FILE_BYTES: Final = 1 << 20
_MAX_ADDED_BYTES: Final = 16 << 20
_MAX_ADDED: Final = 2_000
_MAX_DIFF_BYTES: Final = 64 << 20
_MAX_NAMED: Final = 50


class CodeCapture(NamedTuple):
    """The record, and the diff when it is kept."""

    code: Code
    diff: bytes | None


class _Untracked(NamedTuple):
    """Untracked files: those that go into the diff, and the others with the reason."""

    taken: list[str]
    left_out: list[str]


def capture_code(directory: Path, *, keep_diff: bool, outside: tuple[Path, ...], notes: list[str]) -> CodeCapture | None:
    """None, with a note, when the folder is in no repository, or git cannot tell. The repository is not changed."""
    try:
        top = Path(os.fsdecode(git(directory, "rev-parse", "--show-toplevel").rstrip(b"\n")))
        commit = git(top, "rev-parse", "--verify", "HEAD^{commit}").decode().strip()
        chosen = _choose(top, outside)
        with whole_tree(top, adding=chosen.taken) as env:
            tree = tree_of(top, env)
            clean = tree == line(top, "rev-parse", f"{commit}^{{tree}}")
            diff = b"" if clean else diff_of(top, commit, env)
    except GitFailed as error:
        notes.append(f"no code was captured: {error}")
        return None
    kept = keep_diff and len(diff) <= _MAX_DIFF_BYTES
    if keep_diff and not kept:
        notes.append(f"the diff has {len(diff)} bytes and was not kept")
    if (top / ".gitmodules").exists():
        notes.append("the repository has submodules: what was changed inside of them is not captured")
    remote = line(top, "config", "--get", "remote.origin.url")
    return CodeCapture(
        Code(
            commit=commit,
            branch=line(top, "symbolic-ref", "-q", "--short", "HEAD"),
            tree=tree,
            remote=without_secrets(remote),
            place=str(top),
            dirty=not clean or bool(chosen.left_out),
            diff_blake3=block_hash(diff) if diff else "",
            diff_kept=kept and bool(diff),
            left_out=tuple(chosen.left_out[:_MAX_NAMED]),
        ),
        diff if kept and diff else None,
    )


def _choose(top: Path, outside: tuple[Path, ...]) -> _Untracked:
    """Small untracked files are part of the code; large ones, and what may hold secrets, are only named."""
    away = [path.resolve() for path in outside]
    taken: list[str] = []
    left_out: list[str] = []
    total = 0
    for name in untracked(top):
        path = top / name
        if any(path.resolve().is_relative_to(folder) for folder in away) or ".bridgehead-watch" in Path(name).parts:
            continue
        reason = _reason(path, name)
        if not reason:
            total += path.lstat().st_size
            reason = "too many untracked files" if len(taken) >= _MAX_ADDED or total > _MAX_ADDED_BYTES else ""
        if reason:
            left_out.append(f"{name}: {reason}".encode("utf-8", "backslashreplace").decode())
        else:
            taken.append(name)
    return _Untracked(taken, left_out)


def _reason(path: Path, name: str) -> str:
    if name.endswith("/"):
        return "a repository of its own"
    if any(fnmatch.fnmatchcase(path.name.lower(), pattern) for pattern in _SECRETS):
        return "it may hold secrets"
    try:
        size = path.lstat().st_size
    except OSError:
        return "it was removed"
    return f"it has {size} bytes" if size > _MAX_FILE_BYTES else ""
