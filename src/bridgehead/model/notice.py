"""Notice: something that people, or the systems that call them, must know: a question, a run that stands still, an alarm (G06, G08)."""

from __future__ import annotations

import enum

import msgspec

from bridgehead.kernel.hashing import document_hash
from bridgehead.kernel.ids import Person, RunId, StepId


class NoticeKind(enum.StrEnum):
    """What a notice is about."""

    ASK = "ask"
    """Somebody must answer: an approval, or a task of a run."""
    CALL = "call"
    """Nobody has answered in time: the next ones are called."""
    TROUBLE = "trouble"
    """A run stands still and needs a person."""
    ALARM = "alarm"
    """The watch has raised an alarm."""
    TRIAL = "trial"
    """Somebody tries whether notices arrive."""


class NoticeState(enum.StrEnum):
    """Whether it is still so."""

    OPEN = "open"
    RESOLVED = "resolved"
    """It is over: answered, mended, or passed."""


class Severity(enum.StrEnum):
    """How bad it is."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


class Ask(msgspec.Struct, frozen=True):
    """What is asked, for systems that bring an answer back.

    Attributes:
        task: a task that is signed off with evidence; else an approval.
        question: what is to be decided. For a failover it says what is lost if the answer is yes.
        items: what a task needs evidence for, in this order.
        may_answer: who may.
        quorum: how many of them must say yes.
        said_yes: who did already.
        round_s: since when it is asked; the same step asked again is another round.
        expires_s: after this it counts as refused; None while the run is on hold, when no time runs.
        commands: the same by the command line.
        links: pages about it, by name.
    """

    run: RunId
    step: StepId
    task: bool
    question: str
    may_answer: tuple[Person, ...]
    round_s: float
    items: tuple[str, ...] = ()
    quorum: int = 1
    said_yes: tuple[Person, ...] = ()
    expires_s: float | None = None
    commands: tuple[str, ...] = ()
    links: dict[str, str] = {}


class Notice(msgspec.Struct, frozen=True):
    """Something to be told once.

    Attributes:
        key: the same event has the same key, whoever tells it and however often.
        thread: what belongs together, such as an alarm, its changes, and its end. One that is open is followed by one that resolves it.
        title: one line.
        at_s, since_s: when this happened; when the thread began.
        people: who is to be told; nobody in particular where it is empty.
        labels: what it is about, for machines; the same in the whole thread.
        was: the severity that the thread had before, where it changes.
        ask: what is asked, for ``NoticeKind.ASK``.
    """

    key: str
    thread: str
    kind: NoticeKind
    title: str
    text: str
    at_s: float
    since_s: float
    state: NoticeState = NoticeState.OPEN
    severity: Severity = Severity.WARNING
    people: tuple[Person, ...] = ()
    labels: dict[str, str] = {}
    was: Severity | None = None
    ask: Ask | None = None

    @property
    def id(self) -> str:
        """The key as one short word: what receivers drop doubles by."""
        return f"msg_{document_hash(self.key)[:32]}"


class Delivery(msgspec.Struct, frozen=True):
    """One notice on its way to one receiver.

    Attributes:
        receiver: an address without what may be secret in it: it is stored and shown.
        attempts: how often it was tried.
        next_s: not before.
        outcome: "" while it is on its way, else ``told`` or ``given-up``.
        trouble: why the last attempt failed.
        unreadable: why this version cannot read the notice, which stands for it then; "" when it can.
    """

    number: int
    channel: str
    receiver: str
    notice: Notice
    posted_s: float
    attempts: int = 0
    next_s: float = 0.0
    ended_s: float | None = None
    outcome: str = ""
    trouble: str = ""
    unreadable: str = ""
