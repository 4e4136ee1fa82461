"""Probes: no exception of a question reaches the terminal, and every unforeseen one is an answer in words."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from bridgehead.app.watch_probes import Probes, Unanswered


@pytest.fixture
def on_the_terminal(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    seen: list[Any] = []
    monkeypatch.setattr(threading, "excepthook", seen.append)
    return seen


def test_an_unforeseen_error_is_an_unknown_with_its_words(on_the_terminal: list[Any]) -> None:
    def asked() -> None:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    answer = Probes().ask({"vault lm@site-b": asked})["vault lm@site-b"]
    assert answer == Unanswered("vault lm@site-b: RuntimeError: cannot schedule new futures after interpreter shutdown")
    assert on_the_terminal == []


def test_a_question_that_outlives_its_look_ends_without_a_word(on_the_terminal: list[Any]) -> None:
    over, ended = threading.Event(), threading.Event()

    def asked() -> None:
        over.wait(30)
        ended.set()
        raise RuntimeError("torn down")

    probes = Probes(budget_s=0.05)
    answer = probes.ask({"slow": asked})["slow"]
    assert (answer.happened, answer.late) == ("no answer within 0.05 s", True)
    threads = [thread for thread in threading.enumerate() if thread.name == "probe slow"]
    over.set()
    for thread in threads:
        thread.join(30)
    assert ended.is_set()
    assert on_the_terminal == []
