"""Terminal: a console whose output can be cut off (``| head``) and read by programs. Rich is imported here."""

from __future__ import annotations

import os
import re
import sys
from typing import IO, Final, TextIO, cast

from rich.console import Console

PIPE_COLUMNS: Final = 200
"""Width where there is no terminal and COLUMNS does not say: lines that programs read are better not folded."""


class Terminal(Console):
    """Texts come from files and other programs: they are shown as they are, never read as markup."""

    def __init__(self) -> None:
        seen = sys.stdout.isatty()
        width = None if seen or "COLUMNS" in os.environ else PIPE_COLUMNS
        file = None if seen else cast(IO[str], _Unpadded(sys.stdout))
        super().__init__(file=file, width=width, markup=False, highlight=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """The reader has left: it is for the entry point to end the process. Rich itself would exit with 1, which says no-go."""
        raise BrokenPipeError


class _Unpadded:
    """Output without the blanks by which tables fill their lines up to the width of the terminal: no one sees them in a file."""

    def __init__(self, behind: TextIO) -> None:
        self._behind = behind
        self.encoding = behind.encoding

    def write(self, text: str) -> int:
        self._behind.write(re.sub(r" +(?=\n)", "", text))
        return len(text)

    def flush(self) -> None:
        self._behind.flush()

    def isatty(self) -> bool:
        return False
