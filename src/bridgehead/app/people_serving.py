"""People, served: the process that tells of all runs and takes answers; a trial of all channels; and who was told what."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from bridgehead.app.home import Home
from bridgehead.app.notifying import Say, notify_file, required_bell, required_file
from bridgehead.app.notifying_runs import RunsTelling
from bridgehead.app.people_hook import Desk
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.notice import Delivery, Notice, NoticeKind, NoticeState, Severity

TRIAL = "trial"


@contextlib.contextmanager
def serving(
    home: Home, *, host: str, port: int, tls: tuple[str, str | None] | None, say: Say
) -> Iterator[Callable[[threading.Event], None]]:
    """Serves answers inside the ``with`` block; the function that it gives tells people of all runs until the event.

    Raises:
        BridgeheadError: BAD_USAGE for an address that cannot be used, or that others reach without TLS; BAD_INPUT for the notify file.
    """
    from bridgehead.drivers.notify.webhook import is_loopback
    from bridgehead.drivers.people_hook import AnswerServer

    if tls is None and not is_loopback(host):
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="serve answers",
            subject=host,
            happened="others can reach that address, and without TLS anybody on the way could read what they say",
            remedy="Give --cert, or let a proxy with TLS on this machine pass requests to 127.0.0.1.",
        )
    file = required_file(home)
    with contextlib.ExitStack() as stack:
        if file.answers is not None:
            desk = Desk(home, file.answers)
            server = stack.enter_context(AnswerServer(host=host, port=port, take=desk.take, tls=tls, say=say))
            say(f"takes answers at {'http' if tls is None else 'https'}://{host}:{server.port}")
        else:
            say(f"takes no answers: {notify_file(home)} has no 'answers'")
        bell = required_bell(home, say=say)
        stack.callback(bell.close)
        bell.start()
        yield RunsTelling(home, bell, say=say).run


def trial(home: Home, *, patience_s: float) -> list[Delivery]:
    """Tell something by every channel; what came of it within the time. Raises BAD_USAGE, BAD_INPUT, port errors of the outbox."""
    troubles: list[str] = []
    bell = required_bell(home, say=troubles.append)
    try:
        bell.start()
        now_s = time.time()
        thread = f"{TRIAL}/{now_s:.3f}"
        people = tuple(dict.fromkeys([*bell.file.on_call, *(one for level in bell.file.escalation for one in level.people)]))
        text = "This is a trial: somebody wants to know whether notices arrive. Nothing has happened, and nothing is to be done."
        notice = Notice(
            thread, thread, NoticeKind.TRIAL, "a trial", text, now_s, now_s, severity=Severity.INFO, people=people, labels={"trial": "yes"}
        )
        bell.post(notice)
        end_s = time.time() + patience_s
        while time.time() < end_s and any(not one.outcome and one.next_s < end_s for one in _of(bell.outbox.deliveries(), thread)):
            time.sleep(0.05)
        found = _of(bell.outbox.deliveries(), thread)
        for one in found:
            if not one.outcome:  # nobody wants a trial of days ago
                bell.outbox.give_up(one, now_s=time.time(), trouble=one.trouble or "no answer in time")
        bell.settle({thread: notice}, (), what=lambda one: "The trial is over.", now_s=time.time())
        return found
    finally:
        bell.close()


def told(home: Home, *, pending: bool, most: int) -> list[Delivery]:
    """Deliveries, the newest first. Makes nothing where there is nothing."""
    from bridgehead.drivers.notify import Outbox

    path = home.folder / "notify" / "outbox.db"
    if not path.is_file():
        return []
    outbox = Outbox(path)
    try:
        found = outbox.deliveries(most=most if not pending else -1)
    finally:
        outbox.close()
    return [one for one in found if not pending or not one.outcome][:most]


def _of(found: list[Delivery], thread: str) -> list[Delivery]:
    return [one for one in found if one.notice.thread == thread and one.notice.state is NoticeState.OPEN]
