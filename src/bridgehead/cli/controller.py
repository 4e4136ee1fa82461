"""``bridgehead controller``: processes that stand by and drive runs, on one machine or several."""

from __future__ import annotations

import signal
import sys
import threading
import time

from cyclopts import App

from bridgehead.cli.options import HomeOption
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode

app = App(name="controller", help="Stand by and drive every run that nobody drives; several may stand by.")


@app.command
def run(*, at_once: int = 16, copy_to: str | None = None, home: HomeOption = None) -> int:
    """Drive every open run whose driver is gone, until SIGTERM, SIGINT or SIGHUP, which hands all of them over.

    With a journal in PostgreSQL (BRIDGEHEAD_JOURNAL, or `journal:` in home.yaml) controllers on several machines stand by for each other.

    Args:
        at_once: upper bound of runs that this process drives at a time.
        copy_to: a vault, best the witness's, to which the journal is copied every ten seconds (`bridgehead journal restore` takes it back).
    """
    from bridgehead.app.controller import Controller
    from bridgehead.app.home import Home

    if at_once < 1:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="start a controller",
            subject=f"--at-once {at_once}",
            happened="it would never drive anything",
            remedy="Name at least 1.",
        )
    lock = threading.Lock()

    def say(text: str) -> None:
        with lock:
            print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}", file=sys.stderr, flush=True)

    controller = Controller(Home(home), say=say, at_once=at_once, copies=copy_to)

    def stop(number: int, _frame: object) -> None:
        controller.stop()
        signal.signal(number, signal.SIG_DFL)  # a second one ends the process at once

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
            signal.signal(number, stop)
    controller.run()
    say("has handed over")
    return ExitCode.DONE
