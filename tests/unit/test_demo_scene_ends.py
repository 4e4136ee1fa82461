"""A scene ends what it started, whatever goes wrong."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from bridgehead.app.demo.places import SOURCE, TARGET, Places
from bridgehead.app.demo.scene import Scene
from bridgehead.drivers.process.scheduler import ProcessOptions, ProcessScheduler
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Transient
from bridgehead.kernel.ids import JobName
from bridgehead.model.stamp import Stamp
from bridgehead.ports.scheduler import JobRunning, JobSpec, JobState

SLEEPER = JobSpec(name=JobName("sleeper"), command=(sys.executable, "-c", "import time; time.sleep(60)"), grace_s=1.0)


class TwoSleepers(Scene):
    """Starts two jobs and nothing else."""

    def _set_up(self) -> None:
        self.start(SOURCE, SLEEPER)
        self.start(TARGET, SLEEPER)


class Failing(TwoSleepers):
    def _set_up(self) -> None:
        super()._set_up()
        raise RuntimeError("no port")


class Unreachable(ProcessScheduler):
    """Once ``away``, its site cannot be seen."""

    away = False

    def observe(self, name: JobName) -> JobState:
        if self.away:
            raise Transient("no answer", tried="observe a job", subject=name)
        return super().observe(name)

    def kill(self, name: JobName, *, stamp: Stamp) -> None:
        if self.away:
            raise Transient("no answer", tried="kill a job", subject=name)
        super().kill(name, stamp=stamp)


def runs(scene: Scene) -> list[bool]:
    return [isinstance(scene.schedulers[site].observe(SLEEPER.name), JobRunning) for site in (SOURCE, TARGET)]


def test_what_was_started_is_ended_when_setting_up_fails(tmp_path: Path) -> None:
    scene = Failing(Places(tmp_path / "demo"))
    with pytest.raises(RuntimeError, match="no port"):
        scene.__enter__()
    assert runs(scene) == [False, False]


def lose(scene: Scene, scheduler: Unreachable, *, failed: bool) -> None:
    with scene:
        scheduler.away = True
        if failed:
            raise RuntimeError("the first cause")


@pytest.mark.parametrize("failed", [False, True])
def test_one_job_that_cannot_be_ended_is_named_and_the_others_end(tmp_path: Path, failed: bool) -> None:
    places = Places(tmp_path / "demo")
    scene = TwoSleepers(places, settle_s=0.3)
    unreachable = Unreachable(SOURCE, ProcessOptions(directory=str(places.jobs(SOURCE))))
    scene.schedulers[SOURCE] = unreachable
    try:
        with pytest.raises(BridgeheadError) as caught:
            lose(scene, unreachable, failed=failed)
        assert caught.value.code is ErrorCode.PROMISE_BROKEN
        assert caught.value.subject == "sleeper at site-a"
        assert ("the first cause" in caught.value.happened) is failed
        unreachable.away = False
        assert runs(scene) == [True, False]
    finally:
        unreachable.away = False
        unreachable.kill(SLEEPER.name, stamp=scene.stamp())
