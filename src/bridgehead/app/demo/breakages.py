"""Breakages: what is broken on purpose, at which moment of the move (issue: ``--break``)."""

from __future__ import annotations

import msgspec

from bridgehead.app.demo import commands
from bridgehead.app.demo.commands import Training
from bridgehead.app.demo.engine_process import EngineProcess
from bridgehead.app.demo.places import SOURCE, TARGET, WORKLOAD
from bridgehead.app.demo.scene import Scene
from bridgehead.app.demo.script import Kind
from bridgehead.kernel.ids import JobName, SnapshotId, StepId
from bridgehead.model.event import Phase
from bridgehead.runbook import state as st

KILL_AT = ("standby", "gate-25", "shift-50", "hold", "final-copy", "fence", "release", "stop-training")
"""The engine is killed when each of these steps is first seen under way or done: eight moments, four of them in the cut-over."""
CUT_S = 2.0
ZOMBIE = JobName("lm-a-zombie")


class Breaker:
    """Breaks nothing; a plain move. Subclasses break one thing each."""

    poll_s = 0.1
    revives_engine = False
    """True for one that resumes the engine itself when it finds it dead."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene

    def during(self, state: st.RunState, engine: EngineProcess, now_s: float) -> None:
        """Called again and again while the run goes on."""

    def after(self, training: Training) -> None:
        """Called once when the run has ended and training goes on."""


class KillController(Breaker):
    """kill -9 at each moment of ``KILL_AT``, and resume."""

    poll_s = 0.005

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._left = list(KILL_AT)

    def during(self, state: st.RunState, engine: EngineProcess, now_s: float) -> None:
        """Kill at the next moment that was reached."""
        if not engine.alive:
            return
        reached = [step for step in self._left if not isinstance(state.steps[StepId(step)], st.Waiting)]
        if reached:
            self._left.remove(reached[0])
            engine.kill()
            engine.resume()


class CutNetwork(Breaker):
    """Cut the line when a transfer is half way: once while training goes on, once while it stands still for the final copy."""

    poll_s = 0.01

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._left = [StepId("precopy"), StepId("final-copy")]
        self._sent_before = 0
        self._heal_at_s: float | None = None
        self.cuts: list[int] = []
        """Bytes of the step's transfer that had crossed the line when it was cut."""

    def during(self, state: st.RunState, engine: EngineProcess, now_s: float) -> None:
        """Cut, and heal after ``CUT_S``."""
        cut_file = self._scene.places.cut_file
        if self._heal_at_s is not None:
            if now_s >= self._heal_at_s:
                cut_file.unlink()
                self._heal_at_s = None
            return
        if not self._left:
            return
        step = state.steps[self._left[0]]
        sent = self._scene.wan_status().to_bytes
        if not (isinstance(step, st.Working) and step.phase is Phase.APPLY):
            self._sent_before = sent
        elif sent - self._sent_before > 1_000_000:
            self.cuts.append(sent - self._sent_before)
            self._left.pop(0)
            cut_file.touch()
            self._heal_at_s = now_s + CUT_S


class Zombie(Breaker):
    """A trainer of the old epoch comes up again at the source, deaf to fences, and saves."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self.saved: SnapshotId | None = None
        self.counts_at_source: bool | None = None
        self.counts_at_target: bool | None = None
        self.newest_is_the_targets: bool | None = None

    def after(self, training: Training) -> None:
        """Let it come back, and see what its snapshot is worth."""
        scene = self._scene
        deaf = msgspec.structs.replace(training, ignore_orders=True)
        scene.start(SOURCE, commands.trainer(scene.places, deaf, ZOMBIE, site=SOURCE, workload=WORKLOAD))

        def zombie_saved() -> SnapshotId | None:
            progress = scene.progress(SOURCE, ZOMBIE)
            return progress.saved if progress is not None else None

        self.saved = scene.until(zombie_saved, "the returned trainer to save")
        assert self.saved is not None
        vaults = scene.vaults()
        at_source = vaults.find(self.saved, site=SOURCE)
        self.counts_at_source = None if at_source is None else at_source.counts
        # The worst case: its snapshot even reaches the other site.
        while not vaults.replicate(self.saved, source=SOURCE, target=TARGET, budget_s=5.0, stamp=scene.stamp()).done:
            pass
        at_target = vaults.find(self.saved, site=TARGET)
        self.counts_at_target = None if at_target is None else at_target.counts
        newest = vaults.newest(WORKLOAD, site=TARGET)
        self.newest_is_the_targets = newest is not None and newest.site == TARGET
        scene.stop(SOURCE, ZOMBIE)


def breaker_for(kind: Kind, scene: Scene) -> Breaker:
    """The breaker of a kind; wrong answers and a deaf trainer are set up before the run and break nothing during it."""
    match kind:
        case Kind.CONTROLLER:
            return KillController(scene)
        case Kind.NETWORK:
            return CutNetwork(scene)
        case Kind.SPLIT_BRAIN:
            return Zombie(scene)
        case Kind.MOVE | Kind.GATE | Kind.TRAINER:
            return Breaker(scene)
