"""Git: a working tree as it is, told apart from its commit, and made again elsewhere (R10). Nothing of the repository is changed.

What the tree holds is put into an index and an object store of their own, beside the repository's, so that neither its index nor its
objects are touched.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

TIMEOUT_S: Final = 300.0
_QUIET: Final = {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_ADVICE": "0"}
_DIFF: Final = (
    "--binary",
    "--full-index",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
_INHERITED: Final = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_PREFIX")


class GitFailed(Exception):
    """Git refused, or is not there; the text says what it said."""


def git(folder: Path, *words: str, given: bytes = b"", env: dict[str, str] | None = None) -> bytes:
    """What a command of git prints. Never asks for a password. Raises GitFailed."""
    around = {name: value for name, value in os.environ.items() if name not in _INHERITED}
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", *words],
            input=given,
            env={**around, **_QUIET, **(env or {})},
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError:
        raise GitFailed("git is not installed") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise GitFailed(str(error)) from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise GitFailed(said.splitlines()[-1] if said else f"git {words[0]} ended with {done.returncode}")
    return done.stdout


def line(folder: Path, *words: str) -> str:
    """The one line that a command prints; empty when it fails."""
    try:
        return git(folder, *words).decode("utf-8", "replace").strip()
    except GitFailed:
        return ""


def without_secrets(url: str) -> str:
    """The address without user and password."""
    return re.sub(r"^([a-z][a-z0-9+.-]*://)[^/@]*@", r"\1", url, flags=re.I)


def untracked(folder: Path) -> list[str]:
    """Files that are neither tracked nor ignored, relative to ``folder``, which is the top of the tree. Raises GitFailed."""
    return [os.fsdecode(name) for name in git(folder, "ls-files", "-o", "--exclude-standard", "-z").split(b"\0") if name]


@contextmanager
def whole_tree(folder: Path, *, adding: Sequence[str]) -> Iterator[dict[str, str]]:
    """An environment in which git's index holds the tracked files as they are, and ``adding``. Raises GitFailed."""
    with tempfile.TemporaryDirectory(prefix="bridgehead-git-") as scratch:
        objects = Path(scratch) / "objects"
        objects.mkdir()
        paths = git(folder, "rev-parse", "--path-format=absolute", "--git-path", "index", "--git-path", "objects").decode().splitlines()
        index, shared = paths
        env = {"GIT_INDEX_FILE": f"{scratch}/index", "GIT_OBJECT_DIRECTORY": str(objects), "GIT_ALTERNATE_OBJECT_DIRECTORIES": shared}
        if os.path.exists(index):
            # The times in it spare git the reading of what did not change. Its own time must come with it: a file that is not older than
            # the index may have been changed, at the same size, within the tick of the clock in which git looked at it.
            shutil.copy2(index, f"{scratch}/index")
        git(folder, "add", "-u", "--", ".", env=env)
        if adding:
            git(folder, "update-index", "--add", "-z", "--stdin", given=b"\0".join(os.fsencode(name) for name in adding) + b"\0", env=env)
        yield env


def tree_of(folder: Path, env: dict[str, str]) -> str:
    """Git's name of all that the index holds. Raises GitFailed."""
    return git(folder, "write-tree", env=env).decode().strip()


def diff_of(folder: Path, commit: str, env: dict[str, str]) -> bytes:
    """What the index has that the commit has not; applied to it, it gives the same tree. Raises GitFailed."""
    return git(folder, "diff", "--cached", *_DIFF, commit, env=env)


def has_commit(folder: Path, commit: str) -> bool:
    """Whether the repository holds it."""
    try:
        git(folder, "cat-file", "-e", f"{commit}^{{commit}}")
    except GitFailed:
        return False
    return True


def clone(source: str, to: Path, commit: str) -> None:
    """A new working tree of ``commit``, from a folder or an address. Raises GitFailed; then ``to`` is not there."""
    try:
        git(to.parent, "clone", "--quiet", "--no-checkout", "--", source, str(to))
        if not has_commit(to, commit):
            git(to, "fetch", "--quiet", "origin", commit)
        git(to, "checkout", "--quiet", "--detach", commit)
    except GitFailed:
        shutil.rmtree(to, ignore_errors=True)
        raise


def apply(folder: Path, diff: Path) -> None:
    """Put a diff of ``diff_of`` onto the working tree. Raises GitFailed."""
    if diff.stat().st_size:
        git(folder, "apply", "--binary", "--whitespace=nowarn", "--", str(diff.absolute()))
