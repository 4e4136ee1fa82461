"""``bridgehead`` with an engine that dies (kill -9) right after its N-th append to the journal: ``dying_engine.py N run resume ...``."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from bridgehead.cli.main import main
from bridgehead.drivers.sqlite import SqliteJournal


def die_after(appends: int) -> None:
    """Count the appends of this process that were asked for by its engine, and die after the last one allowed."""
    left = appends
    append = SqliteJournal.append

    def dying_append(self: SqliteJournal, *arguments: Any, **options: Any) -> Any:
        nonlocal left
        entries = append(self, *arguments, **options)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return entries

    SqliteJournal.append = dying_append  # type: ignore[method-assign]  # the process under test dies inside it


if __name__ == "__main__":
    die_after(int(sys.argv.pop(1)))
    main()
