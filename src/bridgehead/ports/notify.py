"""Notify: tells people, and the systems that call them, that something waits for them, stands still, or is in danger (G06, G08, R14)."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from bridgehead.kernel.ids import Person
from bridgehead.model.notice import Notice


class AnswerWay(msgspec.Struct, frozen=True):
    """How an ask is answered by a web hook.

    Attributes:
        url: where the answer is posted.
        nonces: for each who may answer, a word that holds for one answer to this round of this ask.
    """

    url: str
    nonces: dict[Person, str]

    def document(self) -> dict[str, Any]:
        """For JSON."""
        return msgspec.structs.asdict(self)


class Notify(Protocol):
    """A way to tell.

    At least once: whoever calls ``send`` keeps the notice until it returns, and repeats it with the same key after any error.
    """

    refresh_s: float | None
    """How often an open thread must be sent again because the receiver forgets; None: never."""

    def receivers(self, notice: Notice) -> tuple[str, ...]:
        """Who is reached by it, each by a ``send`` of its own; none when it has nobody for those people."""
        ...

    def send(self, notice: Notice, receiver: str) -> None:
        """Tell; returns when the receiver has taken it.

        Raises Transient (not taken; later perhaps), Permanent (refused), Unknown (it may have been taken).
        """
        ...
