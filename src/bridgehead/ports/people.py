"""People: answers to what a run asks, as they come from outside. Who brings one vouches for the person with a secret of its own."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Annotated

import msgspec

from bridgehead.kernel.ids import Person, RunId, StepId

MAX_BODY_BYTES = 64 * 1024
"""A longer answer is refused."""


class AnswerKind(enum.StrEnum):
    """What a person says."""

    APPROVE = "approve"
    REJECT = "reject"
    DONE = "done"
    """A task is done; ``evidence`` for each of its items."""


class Refusal(enum.StrEnum):
    """Why an answer was not recorded."""

    UNKNOWN_SENDER = "unknown-sender"
    FORGED = "forged"
    """Its signature or its time is wrong."""
    MALFORMED = "malformed"
    NOT_ALLOWED = "not-allowed"
    """Who brought it may not answer for that person."""
    NOT_THIS = "not-this-question"
    """Its nonce is not of this question, round and person."""
    ANSWERED = "answered-before"
    NOT_NOW = "not-now"
    """The run does not take it: too late, not asked, not by this person, evidence missing."""
    NO_SUCH_RUN = "no-such-run"
    LATER = "later"
    """Nothing is wrong with it; it cannot be recorded now."""


class AnswerRefused(Exception):
    """Nothing was recorded."""

    def __init__(self, why: Refusal, happened: str) -> None:
        self.why = why
        self.happened = happened
        super().__init__(f"{why.value}: {happened}")


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An answer.

    Attributes:
        nonce: as the ask gave it for this person.
        comment: goes into the ledger.
        evidence: for each item of a task, in order.
    """

    run: RunId
    step: StepId
    person: Person
    answer: AnswerKind
    nonce: str
    comment: Annotated[str, msgspec.Meta(max_length=2000)] = ""
    evidence: Annotated[tuple[str, ...], msgspec.Meta(max_length=200)] = ()

    @classmethod
    def read(cls, body: bytes) -> Answer:
        """From JSON. Raises AnswerRefused (MALFORMED)."""
        try:
            return msgspec.json.decode(body, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise AnswerRefused(Refusal.MALFORMED, f"it is no answer: {error}") from error


class Delivered(msgspec.Struct, frozen=True):
    """What was posted. ``headers``: with names in lower case."""

    responder: str
    headers: Mapping[str, str]
    body: bytes


class Recorded(msgspec.Struct, frozen=True):
    """What was recorded. ``driven``: whether somebody drives the run, so that something comes of it now."""

    run: RunId
    step: StepId
    person: Person
    answer: AnswerKind
    driven: bool
