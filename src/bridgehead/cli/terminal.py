"""Terminal: a console whose output can be cut off (``| head``) and read by programs. Rich is imported here."""

from __future__ import annotations

import os
import sys
from typing import Final

from rich.console import Console

PIPE_COLUMNS: Final = 200
"""Width where there is no terminal and COLUMNS does not say: lines that programs read are better not folded."""


class Terminal(Console):
    """Texts come from files and other programs: they are shown as they are, never read as markup."""

    def __init__(self) -> None:
        width = None if sys.stdout.isatty() or "COLUMNS" in os.environ else PIPE_COLUMNS
        super().__init__(width=width, markup=False, highlight=False, emoji=False)

    def on_broken_pipe(self) -> None:
        """The reader has left: it is for the entry point to end the process. Rich itself would exit with 1, which says no-go."""
        raise BrokenPipeError
