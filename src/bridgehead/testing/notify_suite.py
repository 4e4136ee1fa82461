"""Conformance suite of the notify port. A driver inherits the class and gives it a rig with a real receiver."""

from __future__ import annotations

import abc

import msgspec
import pytest

from bridgehead.kernel.errors import Permanent, Transient, Unknown
from bridgehead.kernel.ids import Person, RunId, StepId
from bridgehead.model.notice import Ask, Notice, NoticeKind, NoticeState, Severity
from bridgehead.ports.notify import Notify

SINCE_S = 1_700_000_000.0
SECRET = "correct horse battery staple, and more"


def notice(number: int = 1, *, title: str = "move waits for an approval: agree", since_s: float = SINCE_S) -> Notice:
    """An ask that ann and bob are told of."""
    ask = Ask(RunId("move"), StepId("agree"), False, "Is it good?", (Person("ann"), Person("bob")), since_s, expires_s=since_s + 600)
    key, labels = f"run/move/agree/{number}", {"run": "move", "step": "agree", "n": str(number)}
    return Notice(
        key=key, thread=key, kind=NoticeKind.ASK, title=title, text="Is it good?\nLost: 3 steps.", at_s=since_s, since_s=since_s,
        people=(Person("ann"), Person("bob")), labels=labels, ask=ask,
    )  # fmt: skip


def over(told: Notice, *, at_s: float | None = None) -> Notice:
    """The end of its thread."""
    at_s = told.since_s + 60.0 if at_s is None else at_s
    return msgspec.structs.replace(told, key=f"{told.key}/over", state=NoticeState.RESOLVED, at_s=at_s, text="It is over.", ask=None)


class Heard(msgspec.Struct, frozen=True):
    """What a receiver made of a notice."""

    id: str
    title: str
    text: str
    is_over: bool


class NotifyRig(abc.ABC):
    """A receiver that ann and bob can be reached by."""

    @abc.abstractmethod
    def driver(self) -> Notify:
        """The driver to it."""

    @abc.abstractmethod
    def heard(self) -> list[Heard]:
        """What arrived, in order, without what the receiver recognises as a repetition."""

    @abc.abstractmethod
    def later(self) -> None:
        """The next notice is to come again later."""

    @abc.abstractmethod
    def refuse(self) -> None:
        """The next notice is refused."""

    @abc.abstractmethod
    def hang_up(self) -> None:
        """The next notice is taken, and its sender never hears of it."""

    @abc.abstractmethod
    def unplug(self) -> None:
        """From now on it cannot be reached."""


def tell(driver: Notify, told: Notice) -> None:
    """To each receiver."""
    for receiver in driver.receivers(told):
        driver.send(told, receiver)


class NotifySuite:
    """What every notify driver must do. Override the fixture ``rig``."""

    @pytest.fixture
    def rig(self) -> NotifyRig:
        """A fresh receiver; its teardown ends what the test started."""
        raise NotImplementedError

    def test_tells_title_and_text(self, rig: NotifyRig) -> None:
        """And has somebody to tell."""
        driver = rig.driver()
        assert driver.receivers(notice())
        tell(driver, notice())
        heard = rig.heard()
        assert {one.title for one in heard} == {notice().title}
        assert all("Lost: 3 steps." in one.text and not one.is_over for one in heard)

    def test_repetition_is_recognised(self, rig: NotifyRig) -> None:
        """At least once: the receiver can drop what it has."""
        driver = rig.driver()
        tell(driver, notice())
        once = len(rig.heard())
        tell(driver, notice())
        assert len(rig.heard()) == once
        tell(driver, notice(2))
        assert len(rig.heard()) == 2 * once

    def test_end_of_a_thread_is_told(self, rig: NotifyRig) -> None:
        """What was open is over."""
        driver = rig.driver()
        tell(driver, notice())
        tell(driver, over(notice()))
        assert [one.is_over for one in rig.heard()][-1]

    @pytest.mark.parametrize(
        "title", ["naïve — 漢字 ✓", "two\nlines\r\nBcc: eve@example.org", "x" * 3000, '"; DROP TABLE --', "\u0000\u001b[2J"]
    )
    def test_any_title_arrives_and_changes_nothing_else(self, rig: NotifyRig, title: str) -> None:
        """Titles hold what people wrote."""
        driver = rig.driver()
        tell(driver, notice(title=title))
        words = "".join(sign for sign in title.split()[0] if sign.isprintable())
        assert all(words[:20] in one.title for one in rig.heard())
        assert len(rig.heard()) == len(driver.receivers(notice()))

    def test_receiver_that_wants_it_later_is_transient(self, rig: NotifyRig) -> None:
        """And takes it then."""
        driver = rig.driver()
        receiver = driver.receivers(notice())[0]
        rig.later()
        with pytest.raises(Transient):
            driver.send(notice(), receiver)
        assert rig.heard() == []
        driver.send(notice(), receiver)
        assert len(rig.heard()) == 1

    def test_refusal_is_permanent(self, rig: NotifyRig) -> None:
        """It says so, and says nothing secret."""
        driver = rig.driver()
        rig.refuse()
        with pytest.raises(Permanent) as refused:
            driver.send(notice(), driver.receivers(notice())[0])
        assert SECRET not in f"{refused.value} {refused.value.__cause__} {driver!r} {vars(driver)}"

    def test_lost_answer_is_unknown_and_a_repetition_harmless(self, rig: NotifyRig) -> None:
        """It may have been taken."""
        driver = rig.driver()
        receiver = driver.receivers(notice())[0]
        rig.hang_up()
        with pytest.raises(Unknown):
            driver.send(notice(), receiver)
        driver.send(notice(), receiver)
        assert len(rig.heard()) == 1

    def test_receiver_out_of_reach_is_transient(self, rig: NotifyRig) -> None:
        """Nothing was told."""
        driver = rig.driver()
        receiver = driver.receivers(notice())[0]
        rig.unplug()
        with pytest.raises(Transient):
            driver.send(notice(), receiver)

    def test_severity_is_a_part_of_the_notice(self, rig: NotifyRig) -> None:
        """A change of it arrives in the same thread."""
        driver = rig.driver()
        tell(driver, notice())
        worse = msgspec.structs.replace(notice(), key="worse", severity=Severity.CRITICAL, was=Severity.WARNING)
        tell(driver, worse)
        assert len(rig.heard()) == 2 * len(driver.receivers(notice()))
