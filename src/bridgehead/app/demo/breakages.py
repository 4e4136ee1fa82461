"""Breakages: what is broken on purpose, at which moment of the move (issue: ``--break``)."""

from __future__ import annotations

import time

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
HELD_BYTES = 400_000
"""So much of a snapshot (about 4 MB) is at the target when the line is cut: enough to see whether it is sent again."""
RECEIPT_S = 0.2
"""After so long the source has the receipts of these blocks."""
QUIET_S = 0.3
"""The line is quiet when nothing was counted for so long; the relay writes its count every 0.1 s."""
BLOCK_NAME = 64
"""Hex digits in the name of a block's file."""
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

    def settle(self, state: st.RunState) -> None:
        """Called once when the run has ended, before anything else uses the line."""

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


class Cut(msgspec.Struct, frozen=True):
    """One cut of the line, and what crossed it once it was healed.

    Attributes:
        held_bytes: blocks of the step's transfer that had come to the target well before the cut, so that the source knows of them.
        late_bytes: those that came so shortly before it that their receipts may have been lost; they may be sent again.
        arrived_bytes: blocks that came to the target between the healing and the end of the transfer.
        sent_bytes: bytes that crossed the line towards the target in that time.
    """

    held_bytes: int
    late_bytes: int
    arrived_bytes: int
    sent_bytes: int

    @property
    def nothing_sent_twice(self) -> bool:
        """What was held was not sent again.

        If it were, the line would carry all of it on top of what arrived and of what came late. Half of it is let pass for the requests
        themselves and the snapshot's record.
        """
        in_the_middle = self.held_bytes >= HELD_BYTES and self.arrived_bytes > 0
        most_bytes = self.arrived_bytes + self.late_bytes + self.held_bytes // 2
        return in_the_middle and self.arrived_bytes <= self.sent_bytes <= most_bytes


class _Mark(msgspec.Struct, frozen=True):
    """Bytes that have crossed the line, and the sizes of the blocks at the target."""

    sent_bytes: int
    blocks: dict[str, int]

    def since(self, before: _Mark) -> int:
        """Bytes of blocks that were not there before."""
        return sum(size_bytes for block, size_bytes in self.blocks.items() if block not in before.blocks)


class CutNetwork(Breaker):
    """Cut the line when a transfer is under way: once while training goes on, once while it stands still for the final copy."""

    poll_s = 0.01

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene)
        self._left = [StepId("precopy"), StepId("final-copy")]
        self._before: _Mark | None = None
        self._held: tuple[_Mark, float] | None = None
        self._heal_at_s: float | None = None
        self._healed: _Mark | None = None
        self._end: _Mark | None = None
        self._quiet_since_s = 0.0
        self.cuts: list[Cut] = []
        """Those whose transfer has come to its end since."""

    def during(self, state: st.RunState, engine: EngineProcess, now_s: float) -> None:
        """Cut, heal after ``CUT_S``, and see what crosses the line from then to the end of the transfer."""
        if self._heal_at_s is not None:
            if now_s >= self._heal_at_s:
                self._heal()
        elif self._healed is not None:
            self._follow(state.steps[self._left[0]], now_s)
        elif self._left:
            self._wait_for_the_middle(state.steps[self._left[0]], now_s)

    def settle(self, state: st.RunState) -> None:
        """The last transfer may have come to its end so shortly before the run's that the line has still to become quiet."""
        while self._heal_at_s is None and self._healed is not None and isinstance(state.steps[self._left[0]], st.Finished):
            self._follow(state.steps[self._left[0]], time.time())
            time.sleep(self.poll_s)

    def _wait_for_the_middle(self, step: st.StepState, now_s: float) -> None:
        if not (isinstance(step, st.Working) and step.phase is Phase.APPLY):
            if self._before is None or self._scene.wan_status().to_bytes != self._before.sent_bytes:
                self._before = self._mark()
            self._held = None
            return
        if self._before is not None and self._held is None and (mark := self._mark()).since(self._before) >= HELD_BYTES:
            self._held = (mark, now_s)
        if self._held is not None and now_s - self._held[1] >= RECEIPT_S:
            self._scene.places.cut_file.touch()
            self._heal_at_s = now_s + CUT_S

    def _heal(self) -> None:
        self._healed = self._mark()  # while nothing can move
        self._heal_at_s = None
        self._scene.places.cut_file.unlink()

    def _follow(self, step: st.StepState, now_s: float) -> None:
        ended = isinstance(step, st.Finished) or (isinstance(step, st.Working) and step.phase is Phase.VERIFY and not step.looking)
        if not ended:
            self._end = None
        elif self._end is None:
            self._end = self._mark()  # from here on the target's own trainer may save there
            self._quiet_since_s = now_s
        elif (sent_bytes := self._scene.wan_status().to_bytes) != self._end.sent_bytes:
            self._end = msgspec.structs.replace(self._end, sent_bytes=sent_bytes)
            self._quiet_since_s = now_s
        elif now_s - self._quiet_since_s >= QUIET_S:
            self._count(self._end)

    def _count(self, end: _Mark) -> None:
        assert self._before is not None
        assert self._held is not None
        assert self._healed is not None
        held, healed = self._held[0], self._healed
        self.cuts.append(Cut(held.since(self._before), healed.since(held), end.since(healed), end.sent_bytes - healed.sent_bytes))
        self._left.pop(0)
        self._before, self._held, self._healed, self._end = end, None, None, None

    def _mark(self) -> _Mark:
        """Blocks as the target's own disk shows them; one that is being written has no name yet."""
        files = (self._scene.places.vault(TARGET) / "data").glob("*/*")
        return _Mark(self._scene.wan_status().to_bytes, {file.name: file.stat().st_size for file in files if len(file.name) == BLOCK_NAME})


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
