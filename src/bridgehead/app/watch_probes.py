"""Probes: many questions at once, none of which can hold up the others.

Each question has a thread. One that has not answered in time stays where it is, and is not asked again before it answers: a store that
hangs costs one thread, not one for each look.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from bridgehead.kernel.errors import BridgeheadError


class Unanswered(msgspec.Struct, frozen=True):
    """A question that has no answer, and why. ``late``: it may still come."""

    happened: str
    late: bool = False


class Probes:
    """Asks. ``budget_s``: how long one round waits for its answers."""

    def __init__(self, *, budget_s: float = 10.0) -> None:
        self._budget_s = budget_s
        self._running: dict[str, threading.Thread] = {}

    def ask(self, questions: Mapping[str, Callable[[], Any]]) -> dict[str, Any]:
        """The answers by name; ``Unanswered`` where there is none: an error, whatever it is, or no answer in time."""
        answers: dict[str, Any] = {}
        for name, question in questions.items():
            running = self._running.get(name)
            if running is not None and running.is_alive():
                continue
            thread = threading.Thread(target=_answer, args=(name, question, answers), name=f"probe {name}", daemon=True)
            self._running[name] = thread
            thread.start()
        until_s = time.monotonic() + self._budget_s
        for name in questions:
            self._running[name].join(max(0.0, until_s - time.monotonic()))
        late = Unanswered(f"no answer within {self._budget_s:g} s", late=True)
        return {name: answers.get(name, late) for name in questions}


def _answer(name: str, question: Callable[[], Any], answers: dict[str, Any]) -> None:
    try:
        answers[name] = question()
    except BridgeheadError as error:
        answers[name] = Unanswered(f"{error.subject}: {error.happened}")
    except OSError as error:
        answers[name] = Unanswered(f"{error.filename or name}: {error.strerror or error}")
    except Exception as error:  # nobody foresaw it, or the process is ending around a thread that outlived its look
        answers[name] = Unanswered(f"{name}: {type(error).__name__}: {error}")
