"""Notifying: the channels of a home's ``notify.yaml``, the outbox that loses nothing, and the couriers that empty it (G06, G08).

<home>/notify.yaml            how people are told; where there is none, nobody is
<home>/notify/outbox.db       what was decided on, until it is told; and what was told, so that nobody hears it twice
<home>/notify/<channel>.lock  held by the process that delivers for a channel
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from bridgehead.app.home import Home
from bridgehead.app.runbook_files import read_text
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import Person
from bridgehead.model.notice import Notice, NoticeKind, NoticeState
from bridgehead.model.notifyfile import Notifying, read_notifying
from bridgehead.ports.notify import Notify

if TYPE_CHECKING:
    from bridgehead.drivers.notify import Courier, Outbox

FILE: Final = "notify.yaml"
PATIENCE_S: Final = 5.0
"""So long, a process that ends waits for what it has just decided to tell. What is left is told by the next one."""
Say = Callable[[str], None]


class Bell:
    """Keeps what people must know, and has it told. Use ``open_bell``.

    Args:
        channels: by their names in ``file``.
        folder: of outbox and locks.
        say: told, in a line, of receivers that cannot be reached, and of people that nobody reaches; called from several threads.
    """

    def __init__(self, file: Notifying, channels: Mapping[str, Notify], *, folder: Path, say: Say) -> None:
        from bridgehead.drivers.notify import Courier, Outbox

        self.file = file
        self.channels = channels
        self.outbox: Outbox = Outbox(folder / "outbox.db")
        self._say = say
        self._known: set[str] = set()
        self._couriers: list[Courier] = [
            Courier(name, channel, self.outbox, lock=folder / f"{name}.lock", give_up_s=file.give_up_s, say=say)
            for name, channel in channels.items()
        ]

    def start(self) -> None:
        """Begin to deliver, also what other processes have left. Raises port errors of the outbox."""
        self.outbox.prune(now_s=time.time())
        for courier in self._couriers:
            courier.start()

    def close(self, *, patience_s: float = PATIENCE_S) -> None:
        """End, after waiting for what is on its way; what is left stays in the outbox."""
        end_s = time.monotonic() + patience_s
        with contextlib.suppress(PortError):
            while self.outbox.untried() and time.monotonic() < end_s:
                time.sleep(0.05)
        for courier in self._couriers:
            courier.stop()
        self.outbox.close()

    def post(self, notice: Notice, *, also: Collection[tuple[str, str]] = ()) -> bool:
        """Decide to tell: from now on it will be told. False when that was decided before. Raises port errors of the outbox.

        Args:
            also: (channel, receiver) that are told beside those that the notice reaches by itself.
        """
        if notice.key in self._known:
            return False
        ways = {(name, receiver) for name, channel in self._taking(notice.kind) for receiver in channel.receivers(notice)}
        fresh = self.outbox.post(notice, sorted({*ways, *(way for way in also if way[0] in self.channels)}), now_s=time.time())
        self._known.add(notice.key)
        if fresh:
            if lost := self.unreached(notice) or (() if ways or also else ("anybody",)):
                self._say(f"no channel reaches {', '.join(lost)}: {notice.title}")
            for courier in self._couriers:
                courier.wake()
        return fresh

    def settle(self, opened: Mapping[str, Notice], standing: Collection[str], *, what: Callable[[Notice], str], now_s: float) -> None:
        """Say that it is over of the threads that were ``opened`` and do not stand any more, to all who were told that they did.

        Args:
            opened: threads that were open before it was looked what stands: what was opened since then may be news to the caller.
        """
        for thread, last in opened.items():
            if thread not in standing:
                over = msgspec.structs.replace(
                    last, key=f"{last.key}/over", state=NoticeState.RESOLVED, text=what(last), at_s=now_s, was=None, ask=None
                )
                self.post(over, also=self.outbox.ways(thread))

    def unreached(self, notice: Notice) -> tuple[Person, ...]:
        """Those of its people whom no channel reaches."""
        alone = [(person, msgspec.structs.replace(notice, people=(person,))) for person in notice.people]
        return tuple(person for person, one in alone if not any(channel.receivers(one) for _, channel in self._taking(notice.kind)))

    def _taking(self, kind: NoticeKind) -> Iterator[tuple[str, Notify]]:
        return ((one.id, self.channels[one.id]) for one in self.file.channels.values() if one.takes(kind))


def notify_file(home: Home) -> Path:
    """Where a home says how people are told."""
    return home.folder / FILE


def read_file(home: Home) -> Notifying | None:
    """What a home says; None where it says nothing. Raises BAD_INPUT with every fault."""
    from bridgehead.app.wiring import channel_options

    path = notify_file(home)
    if not path.is_file():
        return None
    return read_notifying(read_text(path, what="notify file"), file=str(path), drivers=channel_options())


def required_file(home: Home) -> Notifying:
    """As ``read_file``. Raises BAD_USAGE where there is none."""
    found = read_file(home)
    if found is None:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="tell people",
            subject=str(notify_file(home)),
            happened="there is no such file, so nobody can be told",
            remedy="Write it: docs/how-to/be-told-and-answer.md shows how.",
        )
    return found


def open_bell(home: Home, *, say: Say) -> Bell | None:
    """The bell of a home; None where ``notify.yaml`` is missing. Raises BAD_INPUT, port errors of the outbox."""
    file = read_file(home)
    return None if file is None else _bell(home, file, say)


def required_bell(home: Home, *, say: Say) -> Bell:
    """As ``open_bell``. Raises BAD_USAGE where there is none."""
    return _bell(home, required_file(home), say)


@contextlib.contextmanager
def ringing(home: Home, *, say: Say) -> Iterator[Bell | None]:
    """A bell that delivers inside the ``with`` block. No work fails for want of telling: that is said instead."""
    bell = None
    try:
        bell = open_bell(home, say=say)
        if bell is not None:
            bell.start()
    except BridgeheadError as error:
        say(f"people cannot be told: {error.subject}: {error.happened}")
        bell = None
    try:
        yield bell
    finally:
        if bell is not None:
            bell.close()


def _bell(home: Home, file: Notifying, say: Say) -> Bell:
    from bridgehead.app.people_hook import answer_way
    from bridgehead.app.wiring import notify_channel

    ways = answer_way(file.answers)
    channels = {one.id: notify_channel(one, answers=ways) for one in file.channels.values()}
    return Bell(file, channels, folder=home.folder / "notify", say=say)
