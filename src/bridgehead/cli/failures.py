"""How a command tells of an error: always in words on stderr, and with ``--json`` as a document on stdout too."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

import bridgehead
from bridgehead.kernel.errors import BridgeheadError, ExitCode

_ROOT: Final = Path(bridgehead.__file__).resolve().parents[2]


class Failure(msgspec.Struct, frozen=True):
    """An error as scripts read it. ``more``: where the page on its code is, as in the text."""

    code: str
    tried: str
    subject: str
    happened: str
    remedy: str
    more: str
    exit_code: int


class WatchedStdout:
    """Stdout, and whether anything was written to it: a second document behind the first is no help to who reads one."""

    def __init__(self, stdout: Any) -> None:
        self._stdout = stdout
        self.used = False

    def write(self, text: str) -> int:
        """As of the stream."""
        self.used = self.used or bool(text)
        return int(self._stdout.write(text))

    @property
    def buffer(self) -> Any:
        """As of the stream: whoever takes it writes bytes, which no JSON may follow."""
        self.used = True
        return self._stdout.buffer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stdout, name)


@contextlib.contextmanager
def watched() -> Iterator[WatchedStdout]:
    """Within it, ``sys.stdout`` is watched."""
    stdout = WatchedStdout(sys.stdout)
    with contextlib.redirect_stdout(stdout):
        yield stdout


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether a command was given ``--json``, however wrong the rest of it is."""
    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in options


def tell(error: BridgeheadError, *, as_document: bool) -> ExitCode:
    """Print an error, and return its exit code. ``as_document``: on stdout too."""
    more = page_of(error.anchor)
    lines = [f"error [{error.code.value}]: could not {error.tried}", f"  on:   {error.subject}"]
    lines.append("  what: " + error.happened.replace("\n", "\n        "))
    if error.remedy:
        lines.append(f"  do:   {error.remedy}")
    lines.append(f"  more: {more}")
    with contextlib.suppress(OSError):  # nobody reads it: the exit code still tells
        print("\n".join(lines), file=sys.stderr, flush=True)
    if as_document:
        found = Failure(error.code.value, error.tried, error.subject, error.happened, error.remedy, more, int(error.exit_code))
        with contextlib.suppress(OSError):
            print(_document(found), flush=True)
    return error.exit_code


def page_of(anchor: str) -> str:
    """Where a reader of this terminal finds a page of the documentation: a path that opens from where he is, if it is on this machine."""
    page, _, part = anchor.partition("#")
    path = _ROOT / page
    if not path.is_file():
        return f"{anchor} in the documentation of Bridgehead {bridgehead.__version__}"
    with contextlib.suppress(OSError, ValueError):  # the present folder may be gone, or another
        return f"{path.relative_to(os.getcwd())}#{part}"
    return f"{path}#{part}"


def _document(found: Failure) -> str:
    try:
        return msgspec.json.encode({"error": found}).decode()
    except UnicodeEncodeError:  # a name that is not UTF-8
        fields = {name: str(value).encode("utf-8", "backslashreplace").decode() for name, value in msgspec.structs.asdict(found).items()}
        return msgspec.json.encode({"error": {**fields, "exit_code": found.exit_code}}).decode()
