"""Conformance suite of the traffic port (M7.3; G04, G09, G10, J13). A driver inherits the class and gives it a rig.

Usable under real and under virtual time: the suite never sleeps by itself, it calls ``TrafficRig.advance``.
"""

from __future__ import annotations

import abc
import math
import time
from collections import Counter
from collections.abc import Callable
from typing import Protocol

import pytest

from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient
from bridgehead.kernel.ids import Epoch, RunId, ServiceId, SiteId, StepId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.traffic import Traffic

A, B = SiteId("a"), SiteId("b")
SERVICE = ServiceId("chat")
IN_FORCE_S = 1.0
"""New weights are in force within this."""


class Session(Protocol):
    """A client that keeps its cookies."""

    def send(self) -> SiteId:
        """One request; the site that answered."""
        ...


class Stream(Protocol):
    """An open response that takes a few seconds."""

    @property
    def site(self) -> SiteId:
        """The site that sends it."""
        ...

    def finish(self) -> bool:
        """Read to the end; True when nothing of it was missing."""
        ...


class TrafficRig(abc.ABC):
    """A proxy with two backends, sites ``a`` and ``b`` of service ``chat``, started with 100 % at ``a``."""

    @abc.abstractmethod
    def driver(self) -> Traffic:
        """A new driver object for the same proxy and state: what a controller has after a restart."""

    @abc.abstractmethod
    def send(self, count: int) -> Counter[SiteId]:
        """Send requests without cookies; which site answered how many. Fails the test when one is not answered."""

    @abc.abstractmethod
    def session(self) -> Session:
        """A new client."""

    @abc.abstractmethod
    def stream(self) -> Stream:
        """Open a stream without cookies."""

    @abc.abstractmethod
    def lose_weights(self) -> None:
        """Make the proxy have other weights than desired, as an edited file and a reload do."""

    @abc.abstractmethod
    def kill(self) -> None:
        """End the proxy without warning."""

    def now_s(self) -> float:
        """Time, real or virtual."""
        return time.monotonic()

    def advance(self, duration_s: float) -> None:
        """Let time pass."""
        time.sleep(duration_s)

    def eventually(self, holds: Callable[[], bool], *, within_s: float) -> float:
        """Wait until ``holds``; the seconds it took. Fails the test after ``within_s``."""
        start_s = self.now_s()
        while not holds():
            if self.now_s() - start_s > within_s:
                pytest.fail(f"not within {within_s} s")
            self.advance(0.01)
        return self.now_s() - start_s


def stamp(*, run: str = "run-1", epoch: int = 1) -> Stamp:
    """A stamp of one step."""
    return Stamp(run=RunId(run), step=StepId("shift"), attempt=1, epoch=Epoch(epoch))


def shift(rig: TrafficRig, driver: Traffic, a: int, b: int, *, epoch: int = 1) -> float:
    """Write weights and wait until they are in force; the seconds it took. A repeat of the wait costs nothing."""
    driver.write(SERVICE, {A: a, B: b}, stamp=stamp(epoch=epoch))
    return rig.eventually(lambda: driver.read(SERVICE) == {A: a, B: b}, within_s=5 * IN_FORCE_S)


class TrafficSuite:
    """What every traffic driver must do. Override the fixture ``rig``."""

    @pytest.fixture
    def rig(self) -> TrafficRig:
        """A fresh proxy; its teardown ends what the test started."""
        raise NotImplementedError

    def test_starts_with_initial_weights(self, rig: TrafficRig) -> None:
        """The rig's promise, and the base of all that follows."""
        assert rig.driver().read(SERVICE) == {A: 100, B: 0}
        assert rig.send(50) == {A: 50}

    def test_M7_3_weights_are_in_force_within_a_second(self, rig: TrafficRig) -> None:
        """Median of seven changes, by reading back."""
        driver = rig.driver()
        took = sorted(shift(rig, driver, a, 100 - a) for a in (95, 75, 50, 0, 100, 60, 30))
        assert took[len(took) // 2] < IN_FORCE_S, took

    @pytest.mark.parametrize("share", [95, 75, 50, 5])
    def test_M7_3_split_is_what_was_asked(self, rig: TrafficRig, share: int) -> None:
        """Requests without cookies, within the statistical error."""
        shift(rig, rig.driver(), share, 100 - share)
        count = 1000
        seen = rig.send(count)
        # Four standard deviations of independent draws; proxies that take turns stay well inside.
        margin = 4 * math.sqrt(count * share / 100 * (1 - share / 100))
        assert abs(seen[A] - count * share / 100) <= margin, seen
        assert seen.total() == count

    @pytest.mark.parametrize("drained", [A, B])
    def test_G10_zero_percent_is_zero_requests(self, rig: TrafficRig, drained: SiteId) -> None:
        """From the read-back on, not one."""
        driver = rig.driver()
        shift(rig, driver, 50, 50)
        shift(rig, driver, *((0, 100) if drained == A else (100, 0)))
        assert rig.send(1000)[drained] == 0

    @pytest.mark.parametrize(
        "weights", [{A: 1, B: 1}, {A: 0, B: 0}, {A: 120, B: -20}, {A: 100}, {A: 50, B: 25, SiteId("c"): 25}, {}, {A: 50.0, B: 50.0}]
    )
    def test_G10_what_is_not_percent_is_refused(self, rig: TrafficRig, weights: dict[SiteId, int]) -> None:
        """And changes nothing."""
        driver = rig.driver()
        with pytest.raises(Permanent):
            driver.write(SERVICE, weights, stamp=stamp())
        rig.advance(0.3)
        assert driver.read(SERVICE) == {A: 100, B: 0}

    def test_unknown_service_and_site_are_not_found(self, rig: TrafficRig) -> None:
        """For every method."""
        driver, unknown = rig.driver(), ServiceId("unknown")
        with pytest.raises(NotFound):
            driver.read(unknown)
        with pytest.raises(NotFound):
            driver.write(unknown, {A: 100, B: 0}, stamp=stamp())
        with pytest.raises(NotFound):
            driver.in_flight(unknown, A)
        with pytest.raises(NotFound):
            driver.in_flight(SERVICE, SiteId("c"))

    def test_J13_older_epoch_is_refused_also_after_a_restart(self, rig: TrafficRig) -> None:
        """Epochs are durable; a refused write is not remembered as desired."""
        shift(rig, rig.driver(), 75, 25, epoch=2)
        old = rig.driver()
        with pytest.raises(Conflict, match="epoch"):
            old.write(SERVICE, {A: 0, B: 100}, stamp=stamp(epoch=1))
        assert old.read(SERVICE) == {A: 75, B: 25}
        old.reconcile(SERVICE)
        assert old.read(SERVICE) == {A: 75, B: 25}

    def test_epochs_of_other_runs_do_not_matter_and_repeats_are_harmless(self, rig: TrafficRig) -> None:
        """Epochs are counted for each run."""
        driver = rig.driver()
        shift(rig, driver, 75, 25, epoch=7)
        driver.write(SERVICE, {A: 75, B: 25}, stamp=stamp(epoch=7))
        driver.write(SERVICE, {A: 40, B: 60}, stamp=stamp(run="run-2", epoch=1))
        rig.eventually(lambda: driver.read(SERVICE) == {A: 40, B: 60}, within_s=5 * IN_FORCE_S)
        driver.write(SERVICE, {A: 40, B: 60}, stamp=stamp(run="run-2", epoch=1))
        rig.advance(0.3)
        assert driver.read(SERVICE) == {A: 40, B: 60}

    def test_G09_lost_weights_are_found_and_corrected(self, rig: TrafficRig) -> None:
        """Within one reconcile, by a controller that did not write them itself."""
        shift(rig, rig.driver(), 20, 80)
        driver = rig.driver()
        assert driver.reconcile(SERVICE) is False
        rig.lose_weights()
        rig.eventually(lambda: driver.read(SERVICE) != {A: 20, B: 80}, within_s=5.0)
        assert driver.reconcile(SERVICE) is True
        rig.eventually(lambda: driver.read(SERVICE) == {A: 20, B: 80}, within_s=IN_FORCE_S)
        rig.eventually(lambda: driver.reconcile(SERVICE) is False, within_s=IN_FORCE_S)

    def test_G09_change_on_its_way_is_no_drift(self, rig: TrafficRig) -> None:
        """Upkeep that looks at any moment reports nothing while all is as desired."""
        driver = rig.driver()
        assert driver.reconcile(SERVICE) is False
        for a in (70, 0, 100):
            driver.write(SERVICE, {A: a, B: 100 - a}, stamp=stamp())
            assert driver.reconcile(SERVICE) is False
            rig.eventually(lambda a=a: driver.read(SERVICE) == {A: a, B: 100 - a}, within_s=5 * IN_FORCE_S)  # type: ignore[misc]  # mypy cannot infer a lambda with a default
            assert driver.reconcile(SERVICE) is False

    def test_sessions_stay_at_their_site(self, rig: TrafficRig) -> None:
        """Whatever the weights, as long as none is 0."""
        driver = rig.driver()
        shift(rig, driver, 50, 50)
        sessions = [rig.session() for _ in range(20)]
        homes = [session.send() for session in sessions]
        assert set(homes) == {A, B}
        for a in (90, 10, 50):
            shift(rig, driver, a, 100 - a)
            assert [session.send() for session in sessions] == homes

    def test_sessions_leave_a_site_of_weight_zero_for_good(self, rig: TrafficRig) -> None:
        """They move at once, and do not move back."""
        driver = rig.driver()
        shift(rig, driver, 100, 0)
        session = rig.session()
        assert [session.send(), session.send()] == [A, A]
        shift(rig, driver, 0, 100)
        assert [session.send(), session.send()] == [B, B]
        shift(rig, driver, 50, 50)
        assert {session.send() for _ in range(6)} == {B}

    def test_streams_of_a_drained_site_end_by_themselves(self, rig: TrafficRig) -> None:
        """Nothing is cut, and they are counted until they end."""
        driver = rig.driver()
        rig.eventually(lambda: driver.in_flight(SERVICE, A) == 0, within_s=5.0)
        streams = [rig.stream() for _ in range(3)]
        assert [stream.site for stream in streams] == [A, A, A]
        rig.eventually(lambda: driver.in_flight(SERVICE, A) == 3, within_s=1.0)
        shift(rig, driver, 0, 100)
        assert driver.in_flight(SERVICE, A) == 3
        assert rig.send(100) == {B: 100}
        assert all(stream.finish() for stream in streams)
        rig.eventually(lambda: driver.in_flight(SERVICE, A) == 0, within_s=1.0)

    def test_killed_proxy_is_transient(self, rig: TrafficRig) -> None:
        """Not seen is not 0."""
        driver = rig.driver()
        rig.kill()
        with pytest.raises(Transient):
            driver.read(SERVICE)
        with pytest.raises(Transient):
            driver.reconcile(SERVICE)
