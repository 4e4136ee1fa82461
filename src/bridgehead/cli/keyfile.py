"""``--key-file FILE``: may stand with every verb of ``vault``, so that none has to declare it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from bridgehead.kernel.errors import BridgeheadError, ErrorCode

OPTION: Final = "--key-file"
VARIABLE: Final = "BRIDGEHEAD_KEY_FILE"
GROUP: Final = "vault"


@contextmanager
def key_file_taken(arguments: Sequence[str]) -> Iterator[list[str]]:
    """The arguments without the option; meanwhile the variable stands for it. Raises BAD_USAGE when it has no value."""
    left, file = _divided(arguments)
    if file is None:
        yield left
        return
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = file
    try:
        yield left
    finally:
        if before is None:
            del os.environ[VARIABLE]
        else:
            os.environ[VARIABLE] = before


def _divided(arguments: Sequence[str]) -> tuple[list[str], str | None]:
    words = list(arguments)
    if words[:1] != [GROUP]:
        return words, None
    end = words.index("--") if "--" in words else len(words)
    for at in range(1, end):
        name, equals, value = words[at].partition("=")
        if name != OPTION:
            continue
        if equals:
            return words[:at] + words[at + 1 :], _checked(value)
        return words[:at] + words[at + 2 :], _checked(words[at + 1] if at + 1 < end else "")
    return words, None


def _checked(value: str) -> str:
    if value:
        return value
    raise BridgeheadError(
        ErrorCode.BAD_USAGE,
        tried="understand the command",
        subject=OPTION,
        happened="it needs a file",
        remedy=f"Write {OPTION} FILE: an age identity, or a raw key.",
    )
