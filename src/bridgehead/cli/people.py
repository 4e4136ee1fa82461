"""``bridgehead people``: tell people what waits for them, and take their answers."""

from __future__ import annotations

import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from cyclopts import App

from bridgehead.cli.options import HomeOption, JsonOption
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode

if TYPE_CHECKING:
    from bridgehead.model.notice import Delivery

app = App(name="people", help="Tell people what waits for them, and take their answers by web hook.")


@app.command
def serve(*, host: str = "127.0.0.1", port: int = 8460, cert: Path | None = None, key: Path | None = None, home: HomeOption = None) -> int:
    """Tell people of all runs, and take signed answers by web hook, until SIGTERM or SIGINT. `notify.yaml` in the home says how.

    Args:
        host: address to listen at; another one than loopback needs --cert.
        port: where answers are taken; 0 takes a free one.
        cert: certificate chain (PEM) for https. Without it, a proxy on this machine must do TLS.
        key: its private key (PEM), when that is not in the same file.
    """
    from bridgehead.app.home import Home
    from bridgehead.app.people_serving import serving

    stop = threading.Event()
    lock = threading.Lock()

    def say(text: str) -> None:
        with lock:
            print(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {text}", file=sys.stderr, flush=True)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if cert is None and key is not None:
        raise _usage("--key", "there is no --cert", "Give both, or none.")
    tls = None if cert is None else (str(cert), None if key is None else str(key))
    with serving(Home(home), host=host, port=port, tls=tls, say=say) as work:
        work(stop)
    return ExitCode.DONE


@app.command(name="try")
def try_(*, home: HomeOption = None, json: JsonOption = False, timeout: str = "30 s") -> int:
    """Send a notice by every channel, and say what came of it. Exit code 1 when one did not arrive.

    Args:
        timeout: how long it waits.
    """
    from bridgehead.app.home import Home
    from bridgehead.app.people_serving import trial
    from bridgehead.kernel.quantity import parse_duration

    found = trial(Home(home), patience_s=parse_duration(timeout))
    _show(found, json=json)
    return ExitCode.DONE if found and all(one.outcome == "told" for one in found) else ExitCode.NEGATIVE


@app.command
def told(*, pending: bool = False, last: int = 100, home: HomeOption = None, json: JsonOption = False) -> int:
    """Show who was told what, and what is on its way.

    Args:
        pending: only what has not arrived.
        last: how many at most, the newest first.
    """
    from bridgehead.app.home import Home
    from bridgehead.app.people_serving import told as found_told

    _show(found_told(Home(home), pending=pending, most=last), json=json)
    return ExitCode.DONE


def _show(found: list[Delivery], *, json: bool) -> None:
    if json:
        print(msgspec.json.encode({"deliveries": found}).decode())
        return
    from bridgehead.app.views import clock_time

    for one in found:
        when = clock_time(one.ended_s or one.posted_s)
        state = one.outcome or (f"not yet, tried {_times(one.attempts)}" if one.attempts else "on its way")
        trouble = f" ({one.trouble})" if one.trouble and one.outcome != "told" else ""
        print(f"{when}  {one.channel} -> {one.receiver}: {one.notice.title} [{one.notice.state.value}]: {state}{trouble}")
    if not found:
        print("nobody was told of anything", file=sys.stderr)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"


def _usage(subject: str, happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_USAGE, tried="serve answers", subject=subject, happened=happened, remedy=remedy)
