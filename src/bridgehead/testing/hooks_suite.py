"""Conformance suite of the hooks port (R16; J13). A driver inherits the class and gives a rig, which knows how hooks behave.

Call ``pytest.register_assert_rewrite("bridgehead.testing.hooks_suite")`` in a ``conftest.py`` to see values in failed assertions.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId
from bridgehead.model.recovery import Hook, HookPoint
from bridgehead.model.stamp import Stamp
from bridgehead.ports.hooks import HookRun, Hooks

SITE = SiteId("site-a")


class HooksRig:
    """The outside of hooks."""

    def driver(self) -> Hooks:
        """A driver; several are as one controller after the other."""
        raise NotImplementedError

    def well(self, name: str) -> Hook:
        """A hook that ends well after a moment."""
        raise NotImplementedError

    def failing(self, name: str) -> Hook:
        """A hook that fails."""
        raise NotImplementedError

    def slow(self, name: str) -> Hook:
        """A hook that would take longer than its ``timeout_s``, which is under a second."""
        raise NotImplementedError

    def begun(self, name: str) -> int:
        """How often the hook was begun."""
        raise NotImplementedError

    def advance(self, seconds_s: float) -> None:
        """Let time pass."""
        time.sleep(seconds_s)


def stamp(step: str = "before", *, attempt: int = 1, epoch: int = 1) -> Stamp:
    """A stamp of one run."""
    return Stamp(RunId("run-1"), StepId(step), attempt, Epoch(epoch))


class HooksSuite:
    """What every driver of the hooks port must do."""

    @pytest.fixture
    def rig(self, tmp_path: Path) -> HooksRig:
        """No hook was ever run."""
        raise NotImplementedError

    @pytest.fixture
    def folder(self, tmp_path: Path) -> str:
        """Where results are kept."""
        return str(tmp_path / "points" / "run-1")

    def ended(self, rig: HooksRig, driver: Hooks, hook: Hook, folder: str, by: Stamp) -> HookRun:
        """Run it to its end."""
        for _ in range(500):
            run = driver.run(hook, site=SITE, folder=folder, env={}, stamp=by)
            if run is not None:
                return run
            rig.advance(0.02)
        raise AssertionError("the hook does not end")

    def test_a_hook_is_begun_once_and_its_end_is_known(self, rig: HooksRig, folder: str) -> None:
        """The first call only begins it; what has ended well is not run again in this folder, by whichever step or attempt."""
        driver, hook = rig.driver(), rig.well("flush")
        assert driver.run(hook, site=SITE, folder=folder, env={}, stamp=stamp()) is None
        run = self.ended(rig, driver, hook, folder, stamp())
        assert run.well
        assert run.happened == ""
        assert run.took_s > 0
        for by in (stamp(), stamp(attempt=2), stamp("after")):
            assert driver.run(hook, site=SITE, folder=folder, env={}, stamp=by) == run
        assert rig.begun("flush") == 1
        assert self.ended(rig, driver, hook, f"{folder}-other", stamp()).well
        assert rig.begun("flush") == 2

    def test_one_that_fails_is_run_once_for_each_attempt(self, rig: HooksRig, folder: str) -> None:
        """And says how it failed."""
        driver, hook = rig.driver(), rig.failing("thaw")
        first = self.ended(rig, driver, hook, folder, stamp())
        assert not first.well
        assert first.exit_code not in (None, 0)
        assert first.happened
        assert self.ended(rig, driver, hook, folder, stamp()) == first
        assert rig.begun("thaw") == 1
        self.ended(rig, driver, hook, folder, stamp(attempt=2))
        assert rig.begun("thaw") == 2

    def test_one_that_takes_too_long_has_no_exit_code(self, rig: HooksRig, folder: str) -> None:
        """It is ended, and that is a failure."""
        run = self.ended(rig, rig.driver(), rig.slow("stuck"), folder, stamp())
        assert run.exit_code is None
        assert not run.well
        assert "within" in run.happened
        assert 0 < run.took_s < 5

    def test_J13_a_driver_that_was_replaced_runs_nothing(self, rig: HooksRig, folder: str) -> None:
        """Nor does it begin anything."""
        driver = rig.driver()
        self.ended(rig, driver, rig.well("flush"), folder, stamp(epoch=2))
        with pytest.raises(Conflict):
            driver.run(rig.well("thaw"), site=SITE, folder=folder, env={}, stamp=stamp("after", epoch=1))
        assert rig.begun("thaw") == 0


def hook(name: str, *command: str, timeout_s: float = 5.0) -> Hook:
    """A hook before a snapshot."""
    return Hook(name, HookPoint.BEFORE_SNAPSHOT, command, timeout_s=timeout_s)
