"""Conformance suite of the admission port (M7.2, R11; J01, J10, J13). A driver inherits the class and fills in the rig.

Usable under real and under virtual time: the suite lets time pass by :meth:`AdmissionRig.advance` only.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from bridgehead.kernel.errors import Conflict, NotFound, Permanent, Transient
from bridgehead.kernel.ids import JobName
from bridgehead.model.equipment import NodeId
from bridgehead.ports.admission import Admission, NodeView, Reservation
from bridgehead.testing.scheduler_suite import stamp

JOB, OTHER = JobName("batch"), JobName("other")
WHY = "the site is moved"


class AdmissionRig:
    """One site with at least two nodes, ``first`` and ``second``, that are open and empty in the beginning."""

    first = NodeId("site-a-n1")
    second = NodeId("site-a-n2")

    @property
    def both(self) -> tuple[NodeId, NodeId]:
        """Both nodes; the site has no other."""
        return self.first, self.second

    def driver(self) -> Admission:
        """A driver; every call makes another one, which shares no memory with those before."""
        raise NotImplementedError

    def submit(self, name: JobName) -> None:
        """Hand in a job that runs for minutes as soon as it may."""
        raise NotImplementedError

    def begun(self, name: JobName) -> bool:
        """Whether a job of that name runs now, seen past the driver."""
        raise NotImplementedError

    def end(self, name: JobName) -> None:
        """End the jobs of that name; returns at once."""
        raise NotImplementedError

    def close_by_hand(self, node: NodeId, reason: str) -> None:
        """Somebody else drains a node."""
        raise NotImplementedError

    def blinded(self) -> AbstractContextManager[None]:
        """Inside of it the site cannot be seen."""
        raise NotImplementedError

    def advance(self, seconds_s: float) -> None:
        """Let time pass."""
        time.sleep(seconds_s)

    def eventually(self, predicate: Callable[[], bool], *, within_s: float = 30.0, step_s: float = 0.1) -> None:
        """Let time pass until ``predicate`` holds; an assertion fails when it does not within ``within_s``."""
        passed_s = 0.0
        while not predicate():
            assert passed_s < within_s, f"did not happen within {within_s} s"
            self.advance(step_s)
            passed_s += step_s


class AdmissionSuite:
    """What every admission driver must do: inherit from it and give the fixture ``rig``."""

    @pytest.fixture
    def rig(self) -> AdmissionRig:
        """A fresh site; its teardown ends jobs, opens nodes and removes reservations."""
        raise NotImplementedError

    # nodes

    def test_nodes_are_open_and_empty_in_the_beginning(self, rig: AdmissionRig) -> None:
        """In the order that was asked for."""
        assert rig.driver().nodes((rig.second, rig.first)) == (NodeView(rig.second, True, True), NodeView(rig.first, True, True))

    def test_a_drained_node_takes_no_job_and_a_resumed_one_does(self, rig: AdmissionRig) -> None:
        """The reason tells the run."""
        driver = rig.driver()
        driver.drain(rig.both, reason=WHY, stamp=stamp("drain"))
        for view in driver.nodes(rig.both):
            assert (view.open, view.empty, view.drained_here) == (False, True, True)
            assert WHY in view.reason
            assert "run-1" in view.reason
        rig.submit(JOB)
        rig.advance(1.5)
        assert not rig.begun(JOB)
        driver.resume(rig.both, stamp=stamp("resume"))
        rig.eventually(lambda: rig.begun(JOB))
        rig.eventually(lambda: all(view.open and not view.reason for view in driver.nodes(rig.both)))

    def test_what_runs_on_a_drained_node_goes_on_and_the_node_is_empty_when_it_has_ended(self, rig: AdmissionRig) -> None:
        """So a drain can wait for jobs to end by themselves."""
        driver = rig.driver()
        rig.submit(JOB)
        rig.eventually(lambda: rig.begun(JOB))
        driver.drain(rig.both, reason=WHY, stamp=stamp("drain"))
        rig.advance(1.0)
        assert rig.begun(JOB)
        assert not all(view.empty for view in driver.nodes(rig.both))
        rig.end(JOB)
        rig.eventually(lambda: all(view.empty for view in driver.nodes(rig.both)))

    def test_repeats_change_nothing(self, rig: AdmissionRig) -> None:
        """Also by another driver, with another reason."""
        rig.driver().drain((rig.first,), reason=WHY, stamp=stamp("drain"))
        before = rig.driver().nodes(rig.both)
        rig.driver().drain((rig.first,), reason="another", stamp=stamp("drain", epoch=2))
        assert rig.driver().nodes(rig.both) == before
        for _ in range(2):
            rig.driver().resume(rig.both, stamp=stamp("resume", epoch=2))
        rig.eventually(lambda: all(view.open for view in rig.driver().nodes(rig.both)))

    def test_what_somebody_else_drained_keeps_its_reason_and_stays_closed(self, rig: AdmissionRig) -> None:
        """A technician may have his hands in it."""
        rig.close_by_hand(rig.first, "bad fan")
        driver = rig.driver()
        driver.drain(rig.both, reason=WHY, stamp=stamp("drain"))
        driver.resume(rig.both, stamp=stamp("resume"))
        rig.eventually(lambda: driver.nodes((rig.second,))[0].open)
        (view,) = driver.nodes((rig.first,))
        assert (view.open, view.drained_here, view.reason) == (False, False, "bad fan")

    def test_a_node_that_is_not_there_is_an_error(self, rig: AdmissionRig) -> None:
        """And nothing is done to those that are."""
        driver, names = rig.driver(), (rig.first, NodeId("no-such-node"))
        with pytest.raises(NotFound, match="no-such-node"):
            driver.nodes(names)
        with pytest.raises(NotFound):
            driver.drain(names, reason=WHY, stamp=stamp("drain"))
        with pytest.raises(NotFound):
            driver.resume(names, stamp=stamp("resume"))
        assert driver.nodes((rig.first,))[0].open

    # reservations

    def test_a_reservation_is_made_read_and_removed(self, rig: AdmissionRig) -> None:
        """Each may be repeated."""
        driver = rig.driver()
        assert driver.reservation("moved") is None
        for _ in range(2):
            driver.reserve(Reservation("moved", rig.both), stamp=stamp("reserve"))
        found = driver.reservation("moved")
        assert found is not None
        assert (found.name, set(found.nodes), len(found.users)) == ("moved", set(rig.both), 1)
        assert driver.reservation("other") is None
        rig.driver().reserve(found, stamp=stamp("reserve", epoch=2))
        for _ in range(2):
            driver.unreserve("moved", stamp=stamp("unreserve", epoch=2))
        assert driver.reservation("moved") is None

    def test_another_reservation_in_the_way_is_a_conflict(self, rig: AdmissionRig) -> None:
        """Of the same name, or of the same node."""
        driver = rig.driver()
        driver.reserve(Reservation("moved", (rig.first,)), stamp=stamp("reserve"))
        with pytest.raises(Conflict):
            driver.reserve(Reservation("moved", (rig.second,)), stamp=stamp("again"))
        with pytest.raises(Conflict):
            driver.reserve(Reservation("other", rig.both), stamp=stamp("other"))
        assert driver.reservation("other") is None

    def test_a_reservation_of_what_is_not_there_is_refused(self, rig: AdmissionRig) -> None:
        """Nothing is made."""
        with pytest.raises(NotFound):
            rig.driver().reserve(Reservation("moved", (NodeId("no-such-node"),)), stamp=stamp("reserve"))
        with pytest.raises(Permanent):
            rig.driver().reserve(Reservation("moved", (rig.first,), users=("no-such-user",)), stamp=stamp("reserve"))
        assert rig.driver().reservation("moved") is None

    # jobs

    def test_a_held_job_does_not_begin_until_it_is_released(self, rig: AdmissionRig) -> None:
        """Others of another name are not touched."""
        driver = rig.driver()
        driver.drain(rig.both, reason=WHY, stamp=stamp("drain"))
        for name in (JOB, OTHER):
            rig.submit(name)
            assert [job.held for job in driver.queue(name)] == [False]
        for _ in range(2):
            driver.hold(JOB, stamp=stamp("hold"))
        assert ([job.held for job in driver.queue(JOB)], [job.held for job in driver.queue(OTHER)]) == ([True], [False])
        driver.resume(rig.both, stamp=stamp("resume"))
        rig.eventually(lambda: rig.begun(OTHER))
        rig.advance(1.0)
        assert not rig.begun(JOB)
        for _ in range(2):
            rig.driver().release(JOB, stamp=stamp("release"))
        rig.eventually(lambda: rig.begun(JOB))
        rig.eventually(lambda: driver.queue(JOB) == ())

    def test_a_job_that_runs_is_not_held(self, rig: AdmissionRig) -> None:
        """And a name that nobody knows is an empty queue."""
        driver = rig.driver()
        rig.submit(JOB)
        rig.eventually(lambda: rig.begun(JOB))
        driver.hold(JOB, stamp=stamp("hold"))
        rig.advance(0.5)
        assert (rig.begun(JOB), driver.queue(JOB), driver.queue(OTHER)) == (True, (), ())

    def test_J10_the_grace_is_told(self, rig: AdmissionRig) -> None:
        """The last of it comes between TERM and KILL."""
        terms = rig.driver().graces(JOB)
        assert terms.kill_wait_s > 0
        assert min(link.lasts_s for link in terms.chain) == terms.kill_wait_s

    # epochs, blindness

    def test_J13_an_older_epoch_is_refused(self, rig: AdmissionRig) -> None:
        """By every call that changes something, and by drivers that did not see the newer one."""
        rig.driver().drain((rig.first,), reason=WHY, stamp=stamp("drain", epoch=5))
        before = rig.driver().nodes(rig.both)
        driver, late = rig.driver(), stamp("late", epoch=4)
        calls: tuple[Callable[[], None], ...] = (
            lambda: driver.drain((rig.second,), reason=WHY, stamp=late),
            lambda: driver.resume((rig.first,), stamp=late),
            lambda: driver.reserve(Reservation("moved", (rig.second,)), stamp=late),
            lambda: driver.unreserve("moved", stamp=late),
            lambda: driver.hold(JOB, stamp=late),
            lambda: driver.release(JOB, stamp=late),
        )
        for call in calls:
            with pytest.raises(Conflict):
                call()
        assert (driver.nodes(rig.both), driver.reservation("moved")) == (before, None)

    def test_J01_a_site_that_cannot_be_seen_is_no_answer(self, rig: AdmissionRig) -> None:
        """Neither an empty node, nor an empty queue, nor no reservation."""
        driver = rig.driver()
        driver.nodes(rig.both)
        with rig.blinded():
            looks: tuple[Callable[[], object], ...] = (
                lambda: driver.nodes(rig.both),
                lambda: driver.queue(JOB),
                lambda: driver.reservation("moved"),
                lambda: driver.graces(JOB),
            )
            for look in looks:
                with pytest.raises(Transient):
                    look()
