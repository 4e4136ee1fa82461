"""Stopping: what signals do to a run that this process drives."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bridgehead.runbook.engine import Engine


def stop_on_signals(engine: Engine) -> None:
    """A first SIGTERM, SIGINT or SIGHUP leaves the run where it is, a second one ends the process at once. Ignored ones stay ignored."""

    def stop(number: int, _frame: object) -> None:
        engine.stop()
        signal.signal(number, signal.SIG_DFL)

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, stop)
