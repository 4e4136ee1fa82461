"""Answers of people by web hook: who may bring one, to which question, and once (issue 6, ``people``; G06).

An answer is recorded exactly as `bridgehead run approve`, `reject` and `done` record it, and the run's own journal says what was answered
before: there is no second book that could say otherwise.
"""

from __future__ import annotations

import hashlib
import hmac
import threading
import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

from bridgehead.app import runs
from bridgehead.app.home import Home
from bridgehead.app.secrets import secret_value
from bridgehead.host.webhook_signature import Forged, check, secret_bytes
from bridgehead.kernel.encoding import canonical
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Permanent
from bridgehead.kernel.ids import Person, RunId, StepId
from bridgehead.model.notice import Notice
from bridgehead.model.notifyfile import Answers, Responder
from bridgehead.ports.notify import AnswerWay
from bridgehead.ports.people import Answer, AnswerKind, AnswerRefused, Delivered, Recorded, Refusal
from bridgehead.runbook import state as st

Fetch = Callable[[str], str]
PATH: Final = "/answers/"


def answer_way(answers: Answers | None, *, fetch: Fetch = secret_value) -> Callable[[Notice], AnswerWay | None]:
    """What an ask says about its answer; None where answers come by the command line alone. The function raises port errors."""

    def way(notice: Notice) -> AnswerWay | None:
        ask = notice.ask
        if answers is None or ask is None:
            return None
        secret = _secret(answers.secret, fetch)
        nonces = {person: nonce(secret, ask.run, ask.step, ask.round_s, person) for person in ask.may_answer}
        return AnswerWay(answers.url.rstrip("/") + PATH + "{responder}", nonces)

    return way


def nonce(secret: bytes, run: RunId, step: StepId, round_s: float, person: Person) -> str:
    """The word that holds for one answer of ``person`` to this round of this question, and for nothing else."""
    return hmac.new(secret, canonical(["answer", run, step, round_s, person]), hashlib.sha256).hexdigest()[:40]


class Desk:
    """Takes answers that were brought; safe for threads.

    Args:
        fetch: the value behind a reference to a secret. Raises port errors.
    """

    def __init__(self, home: Home, answers: Answers, *, fetch: Fetch = secret_value, now_s: Callable[[], float] = time.time) -> None:
        self._home, self._answers = home, answers
        self._responders = {one.id: one for one in answers.responders}
        self._fetch = fetch
        self._now_s = now_s
        self._lock = threading.Lock()

    def take(self, brought: Delivered) -> Recorded:
        """Record it. Raises AnswerRefused; nothing was recorded then."""
        responder = self._responders.get(brought.responder)
        if responder is None:
            raise AnswerRefused(Refusal.UNKNOWN_SENDER, "nobody of that name may bring answers")
        try:
            secrets = [_secret(one, self._fetch) for one in responder.secrets]
            check(secrets, brought.headers, body=brought.body, now_s=self._now_s())
        except Forged as error:
            raise AnswerRefused(Refusal.FORGED, str(error)) from error
        except BridgeheadError as error:
            raise AnswerRefused(Refusal.LATER, f"the secret cannot be fetched: {error.happened}") from error
        answer = Answer.read(brought.body)
        _allow(responder, answer)
        with self._lock:
            return self._recorded(answer, responder)

    def _recorded(self, answer: Answer, responder: Responder) -> Recorded:
        secret = self._own_secret()

        def only_if(state: st.RunState) -> None:
            _hold_against(state, answer, secret)

        comment = f"{answer.comment} (brought by {responder.id})".strip()
        try:
            if answer.answer is AnswerKind.DONE:
                runs.sign_off(self._home, answer.run, answer.step, by=answer.person, evidence=answer.evidence, only_if=only_if)
            else:
                yes = answer.answer is AnswerKind.APPROVE
                runs.approve(self._home, answer.run, answer.step, by=answer.person, comment=comment, yes=yes, only_if=only_if)
        except BridgeheadError as error:
            raise AnswerRefused(_refusal(error), f"{error.happened}. {error.remedy}".rstrip(". ") + ".") from error
        journal = self._home.journal()
        try:
            driven = journal.holder(answer.run) is not None
        finally:
            journal.close()
        return Recorded(answer.run, answer.step, answer.person, answer.answer, driven)

    def _own_secret(self) -> bytes:
        try:
            return _secret(self._answers.secret, self._fetch)
        except BridgeheadError as error:
            raise AnswerRefused(Refusal.LATER, f"the secret cannot be fetched: {error.happened}") from error


def address(answers: Answers, responder: str) -> str:
    """Where a responder posts to."""
    return answers.url.rstrip("/") + PATH + quote(responder)


def _secret(reference: str, fetch: Fetch) -> bytes:
    try:
        return secret_bytes(fetch(reference))
    except ValueError as error:
        raise Permanent(f"it cannot sign: {error}", tried="use a secret", subject=reference, remedy="Write a longer one there.") from None


def _allow(responder: Responder, answer: Answer) -> None:
    if answer.person not in responder.people:
        raise AnswerRefused(Refusal.NOT_ALLOWED, f"{responder.id} may not answer for {answer.person}")


def _hold_against(state: st.RunState, answer: Answer, secret: bytes) -> None:
    """The word must be that of the question that is asked now, and must not have been used. What else is wrong, the run itself refuses."""
    now = state.steps.get(answer.step)
    if not isinstance(now, st.Asking | st.Assigned):
        return
    right = nonce(secret, answer.run, answer.step, now.started_s, answer.person)
    if not hmac.compare_digest(right.encode(), answer.nonce.encode()):
        raise AnswerRefused(Refusal.NOT_THIS, "the nonce is not of this question, this round and this person")
    if isinstance(now, st.Asking) and (answer.person in now.approved_by or now.rejected_by is not None):
        who = now.rejected_by if now.rejected_by is not None else answer.person
        word = "rejected" if now.rejected_by is not None else "approved"
        raise AnswerRefused(Refusal.ANSWERED, f"{who} has {word} it before; a nonce holds once")


def _refusal(error: BridgeheadError) -> Refusal:
    match error.code:
        case ErrorCode.RUN_NOT_FOUND:
            return Refusal.NO_SUCH_RUN
        case ErrorCode.RUN_STATE:
            return Refusal.NOT_NOW
        case _:
            return Refusal.LATER
