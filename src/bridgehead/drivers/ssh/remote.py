"""What is run on the other machine, and how its standard error is read back."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

import msgspec

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Said(msgspec.Struct, frozen=True):
    """Standard error, taken apart.

    Attributes:
        missing: the program was not there, so nothing was executed.
        ended: the program's own exit code.
        rest: what the program wrote.
    """

    begun: bool
    missing: bool
    ended: int | None
    rest: bytes

    @property
    def text(self) -> str:
        """The last lines of the rest, in one line."""
        return "; ".join(line.strip() for line in self.rest.decode("utf-8", "replace").splitlines()[-3:] if line.strip())


class Marks:
    """Lines that no program writes by chance: they hold a fresh random word."""

    def __init__(self, word: str) -> None:
        self.begun = f"bridgehead-{word}-begun"
        self.missing = f"bridgehead-{word}-missing"
        self.ended = f"bridgehead-{word}-ended"

    def read(self, errors: bytes) -> Said:
        """Take the marks out of standard error."""
        begun, missing, ended = self.begun.encode() + b"\n", self.missing.encode() + b"\n", None
        rest = errors.replace(begun, b"").replace(missing, b"")
        found = re.search(rb"\n?" + re.escape(self.ended.encode()) + rb" (\d+)\n", rest)
        if found is not None:
            # The line break before it is ours: the program's last line may have none.
            ended, rest = int(found[1]), rest[: found.start()] + rest[found.end() :]
        return Said(begun=begun in errors, missing=missing in errors, ended=ended, rest=rest)


def remote_command(words: Sequence[str], *, env: Mapping[str, str], marks: Marks) -> str:
    """One line for the login shell of the other machine. Raises ValueError for what no command line can carry."""
    if not words or not words[0]:
        raise ValueError("there is no program")
    wrong = [name for name in env if not _NAME.fullmatch(name)]
    if wrong:
        raise ValueError(f"{wrong[0]!r} is no name of a variable")
    program = shlex.quote(words[0])
    there = f"[ -x {program} ] && [ ! -d {program} ]" if "/" in words[0] else f"command -v {program} >/dev/null 2>&1"
    assignments = "".join(f"export {name}={shlex.quote(value)}; " for name, value in env.items())
    script = (
        f"{assignments}"
        f"{{ {there}; }} || {{ echo {marks.missing} >&2; exit 127; }}; "
        f"echo {marks.begun} >&2; "
        f"{shlex.join(words)}; code=$?; printf '\\n{marks.ended} %s\\n' $code >&2; exit $code"
    )
    return f"exec sh -c {shlex.quote(script)}"
