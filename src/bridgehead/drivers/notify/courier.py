"""Courier: brings what is in the outbox to the receivers of one channel. One at work for each channel, whatever processes there are."""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from bridgehead.drivers.notify.outbox import LONGEST_REST_S, Outbox
from bridgehead.kernel.errors import Permanent, PortError, Transient
from bridgehead.model.notice import Delivery
from bridgehead.ports.notify import Notify

LOOK_S: Final = 0.5
"""How often it looks for something new."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 300.0
AT_ONCE: Final = 100
"""Deliveries of a round."""
_Key = tuple[int, str]
"""Of a delivery of this channel: number and receiver."""


class Courier:
    """``start`` begins a thread, ``stop`` ends it; or ``round`` by hand.

    A refusal is tried again like any other failure, at once with the longest pause: an address can be mended. After ``give_up_s`` it ends.

    What the outbox cannot keep, for want of space say, is remembered here: a pager is not called at each look until somebody makes room.

    Args:
        lock: file whose holder works; the system gives it back when the process dies.
        say: told of the first failure of a series, of its end, and of what is given up.
        now_s: wall clock.
    """

    def __init__(
        self,
        channel: str,
        notify: Notify,
        outbox: Outbox,
        *,
        lock: Path,
        give_up_s: float,
        say: Callable[[str], None] = lambda text: None,
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self._channel, self._notify, self._outbox = channel, notify, outbox
        self._lock_path = lock
        self._lock: int | None = None
        self._give_up_s = give_up_s
        self._say = say
        self._now_s = now_s
        self._trouble = ""
        self._refreshed_s = 0.0
        self._brought: set[_Key] = set()
        self._resting: dict[_Key, tuple[int, float]] = {}
        self._unkept: PortError | None = None
        self._stop = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"courier {channel}", daemon=True)

    def start(self) -> None:
        """Begin to work."""
        self._thread.start()

    def wake(self) -> None:
        """Something is new: look now."""
        self._wake.set()

    def stop(self) -> None:
        """End; what is on its way comes to its end first, for up to a second."""
        self._stop.set()
        self._wake.set()
        if self._thread.ident is not None:
            self._thread.join(1.0)

    def round(self) -> bool:
        """Deliver what is due. False when another process does that for this channel.

        Raises port errors of the outbox; those of its writing at the end, when the others have been told.
        """
        if not self._is_mine():
            return False
        self._unkept = None
        most = AT_ONCE + len(self._brought) + len(self._resting)  # what was brought but not kept as told hides nothing new
        for delivery in self._outbox.due(self._channel, now_s=self._now_s(), most=most):
            if self._stop.is_set() or not self._deliver(delivery):
                break  # the receiver is in trouble: the next round begins with another
        else:
            self._refresh()
        if self._unkept is not None:
            raise self._unkept
        return True

    def _run(self) -> None:
        trouble = ""
        try:
            while not self._stop.is_set():
                try:
                    self.round()
                    trouble = ""
                except Exception as error:  # whatever it is, there is no other who brings what this channel is to tell
                    happened = error.happened if isinstance(error, PortError) else _unforeseen(error)
                    if happened != trouble and not self._stop.is_set():
                        self._tell(str(error) if isinstance(error, PortError) else f"{self._channel}: {happened}")
                    trouble = happened
                self._wake.wait(LOOK_S)
                self._wake.clear()
        finally:
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None

    def _is_mine(self) -> bool:
        if self._lock is None:
            try:
                descriptor = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                happened = error.strerror or str(error)
                raise Permanent(
                    happened, tried="deliver notices", subject=str(self._lock_path), remedy="Check space and rights."
                ) from error
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                return False
            self._lock = descriptor
        return True

    def _deliver(self, delivery: Delivery) -> bool:
        """Whether the channel works: a notice that is refused says nothing about the others."""
        key = delivery.number, delivery.receiver
        if 0 < self._resting.get(key, (0, 0.0))[1] - self._now_s() <= LONGEST_REST_S:
            return True
        error = None if key in self._brought else self._sent(delivery)
        if error is not None:
            self._failed(delivery, error)
            return isinstance(error, Permanent)
        self._brought.add(key)
        if self._keep(lambda: self._outbox.told(delivery, now_s=self._now_s())):
            self._brought.discard(key)
            self._resting.pop(key, None)
        if self._trouble:
            self._tell(f"{self._channel} works again")
            self._trouble = ""
        return True

    def _sent(self, delivery: Delivery) -> PortError | None:
        """Why it was not."""
        try:
            if delivery.unreadable:
                remedy = "The version that wrote it can tell it."
                return Permanent(f"it cannot be read: {delivery.unreadable}", tried="tell", subject=delivery.receiver, remedy=remedy)
            self._notify.send(delivery.notice, delivery.receiver)
        except PortError as error:
            return error
        except Exception as error:  # whatever it is, the others are told
            return Permanent(_unforeseen(error), tried="tell", subject=delivery.receiver, remedy="Report this.")
        return None

    def _keep(self, write: Callable[[], None]) -> bool:
        """Whether the outbox has taken it; the round says at its end why not."""
        try:
            write()
        except PortError as error:
            self._unkept = error
            return False
        return True

    def _tell(self, text: str) -> None:
        """Where nobody listens, or a log is full, people are told all the same."""
        with contextlib.suppress(Exception):
            self._say(text)

    def _failed(self, delivery: Delivery, error: PortError) -> None:
        now_s, key, trouble = self._now_s(), (delivery.number, delivery.receiver), _words(error, delivery)
        attempts = max(delivery.attempts, self._resting.pop(key, (0, 0.0))[0])
        pause_s = LONGEST_PAUSE_S if isinstance(error, Permanent) else min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** min(attempts, 20))
        if isinstance(error, Transient):
            pause_s = max(pause_s, error.retry_after_s)
        if now_s - delivery.posted_s > self._give_up_s:
            if self._keep(lambda: self._outbox.give_up(delivery, now_s=now_s, trouble=trouble)):
                self._tell(f"{self._channel}: gives up to tell {delivery.receiver}: {delivery.notice.title}: {trouble}")
                return
            self._resting[key] = attempts + 1, now_s + pause_s
        elif not self._keep(lambda: self._outbox.postpone(delivery, next_s=now_s + pause_s, trouble=trouble)):
            self._resting[key] = attempts + 1, now_s + pause_s
        if trouble != self._trouble:
            self._tell(f"{self._channel}: cannot tell {delivery.receiver} yet: {trouble}. {error.remedy}".rstrip(". ") + ".")
        self._trouble = trouble

    def _refresh(self) -> None:
        """Tell receivers that forget what still stands."""
        every_s, now_s = self._notify.refresh_s, self._now_s()
        if every_s is None or abs(now_s - self._refreshed_s) < every_s:
            return
        self._refreshed_s = now_s
        for delivery in self._outbox.standing(self._channel):
            error = self._sent(delivery)
            if error is not None:
                trouble = _words(error, delivery)
                if trouble != self._trouble:
                    self._tell(f"{self._channel}: cannot be told what still stands: {trouble}")
                self._trouble = trouble
                return


def _words(error: PortError, delivery: Delivery) -> str:
    """What happened; to what, where that is not the receiver itself: the file of a secret, a mail server."""
    return error.happened if error.subject.startswith(delivery.receiver) else f"{error.subject}: {error.happened}"


def _unforeseen(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
