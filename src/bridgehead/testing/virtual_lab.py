"""VirtualLab: one run of one runbook in a simulated world, with planned faults, from its opening to its end and a little after."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence

import msgspec

from bridgehead.drivers.world import Calls, WorldJournal, WorldSigner, connect
from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import RunId
from bridgehead.model import event as ev
from bridgehead.model.runbook import ApprovalStep, Runbook, TaskStep
from bridgehead.ports.journal import DriverIdentity, Entry
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook import state as st
from bridgehead.runbook.action import Action
from bridgehead.runbook.apply import fold
from bridgehead.runbook.engine import open_run
from bridgehead.runbook.turning import undoing_of
from bridgehead.simulate import faults as ft
from bridgehead.simulate.blueprint import Blueprint
from bridgehead.simulate.fault_book import FaultBook
from bridgehead.simulate.invariants import Invariants
from bridgehead.simulate.runbook_world import pace_of
from bridgehead.simulate.timeline import Timeline
from bridgehead.simulate.world import World
from bridgehead.testing.virtual_driver import LISTENS_AFTER_S, Shop, VirtualDriver

RUN = RunId("run")
AFTERMATH_S = 12.0
"""How long the world goes on after the run's end: calls that are still under way arrive."""
PEOPLE_ANSWER_S = 5.0

ActionsOf = Callable[[Switchboard], Mapping[str, Action]]


class Finished(msgspec.Struct, frozen=True):
    """How it went. ``state`` None when the run never ended."""

    state: st.RunState
    entries: Sequence[Entry]
    ended: bool
    trace: Sequence[tuple[float, str]]

    @property
    def trace_hash(self) -> str:
        """The same for the same seed."""
        digest = hashlib.sha256()
        for at_s, line in self.trace:
            digest.update(f"{at_s:.6f} {line}\n".encode())
        return digest.hexdigest()


class VirtualLab:
    """Build it, call ``run`` once, then look at ``world``, ``invariants`` and ``book``.

    Args:
        actions_of: the actions of a switchboard; a test plants its faults here.
        calls: makes the way to the world; another class plants faults of drivers.
        people_answer_s: how long people take to answer.
    """

    def __init__(
        self,
        blueprint: Blueprint,
        runbook: Runbook,
        actions_of: ActionsOf,
        *,
        faults: Sequence[ft.Fault] = (),
        calls: type[Calls] = Calls,
        people_answer_s: float = PEOPLE_ANSWER_S,
    ) -> None:
        self._people_answer_s = people_answer_s
        self._pace = pace_of(runbook)
        self.world = World(blueprint, Timeline(self._pace.start_s))
        self.signer = WorldSigner()
        self.journal = WorldJournal(alive=self._is_alive, signer=self.signer)
        self.trace: list[tuple[float, str]] = []
        self.happened: list[tuple[float, ev.Event]] = []
        """All that was journalled, with the time of the world (the drivers' own clock may have jumped)."""
        self._over_s: float | None = None
        self.invariants = Invariants(self.world)
        self.book = FaultBook(self.world, faults, say=self._say, run_lasts=lambda: self._over_s is None)
        self.journal.book = self.book
        self.calls = calls(self.world, book=self.book, trace=self._trace_call)
        self.ports = connect(self.calls)
        self._shop = Shop(
            journal=self.journal,
            actions=dict(actions_of(self.ports)),
            metrics=self.ports.metrics,
            calls=self.calls,
            upkeep=self._keep_weights,
            trace=self._trace_line,
            watch=self._watch_events,
            upkeep_s=self._pace.upkeep_s,
        )
        self._driver: VirtualDriver | None = None
        self._drivers = 0
        self._run, self._watched = RUN, 0
        open_run(self.journal, RUN, runbook, estate={}, by="lab", at_s=self.world.now_s)

    def undo(self) -> Finished:
        """After ``run`` ended as done: roll it back by a run of its own, as ``bridgehead run undo`` does."""
        done = fold(entry.event for entry in self.journal.read(RUN))
        self._run, self._over_s, self._watched = RunId(f"{RUN}-undo"), None, 0
        open_run(self.journal, self._run, done.plan.runbook, estate={}, by="lab", at_s=self.world.now_s, undoes=undoing_of(done))
        return self.run()

    def follow(self, runbook: Runbook) -> Finished:
        """After ``run`` ended: drive a second run in the same world, with the same book of faults."""
        self._run, self._over_s, self._watched = RunId(f"{RUN}-then"), None, 0
        open_run(self.journal, self._run, runbook, estate={}, by="lab", at_s=self.world.now_s)
        return self.run()

    def run(self) -> Finished:
        """Drive the run to its end, through deaths and resumes, and let the world go on for a little."""
        timeline = self.world.timeline
        begun_s = timeline.now_s
        self._resume()
        while (self._over_s is None or timeline.now_s < self._over_s + AFTERMATH_S) and timeline.now_s < begun_s + self._pace.limit_s:
            if not timeline.step():
                break
            self.invariants.look()
        entries = self.journal.read(self._run)
        state = fold(entry.event for entry in entries)
        return Finished(state, entries, self._over_s is not None, self.trace)

    def _resume(self) -> None:
        self._drivers += 1
        self._driver = VirtualDriver(self._shop, self._run, DriverIdentity("lab", self._drivers, "virtual"), left=self._driver_left)
        self._driver.start()

    def _driver_left(self, resume_after_s: float | None) -> None:
        if resume_after_s is None:
            self._over_s = self.world.now_s
        else:
            self.world.timeline.after(resume_after_s, self._resume)

    def _is_alive(self, driver: DriverIdentity) -> bool:
        return self._driver is not None and self._driver.alive and self._driver.identity == driver

    def _keep_weights(self) -> list[str]:
        """What ``app.runs`` does while a run is driven."""
        return [f"weights of {service} put back" for service, traffic in self.ports.traffics.items() if traffic.reconcile(service)]

    # people

    def _say(self, saying: ft.Saying) -> bool:
        if self._over_s is not None:
            return False
        match saying:
            case ft.Saying.ABORT:
                return self._write(ev.AbortAsked(self._wall_s(), "operator", "planned"))
            case ft.Saying.PAUSE:
                return self._write(ev.Paused(self._wall_s(), "operator", "planned"))
            case ft.Saying.RESUME:
                return self._write(ev.Resumed(self._wall_s(), "operator"))

    def _wall_s(self) -> float:
        return self.world.now_s + self.world.wall_ahead_s

    def _write(self, event: ev.Event) -> bool:
        try:
            self.journal.append(self._run, [event], after_seq=self.journal.head_seq(self._run), holder=None)
        except PortError:
            return False
        self._trace_event(event)
        if self._driver is not None:
            self.world.timeline.after(LISTENS_AFTER_S, self._driver.listen)
        return True

    def _answer(self, plan: st.CompiledRunbook, event: ev.StepStarted) -> None:
        """People approve a little later, and sign off when it is due, or a little later when that is past."""
        match plan.steps[event.step]:
            case ApprovalStep(approvers=approvers):
                for person in approvers:
                    self._later(ev.Approved(0.0, event.step, person, "seen"), self._people_answer_s)
            case TaskStep(owner=owner, checklist=checklist, due_s=due_s):
                left_s = max(self._people_answer_s, 0.0 if due_s is None else due_s - self.world.now_s)
                self._later(ev.TaskSignedOff(0.0, event.step, owner, list(checklist)), left_s)
            case _:
                pass

    def _later(self, event: ev.Event, after_s: float) -> None:
        def speak() -> None:
            if self._over_s is None:
                self._write(msgspec.structs.replace(event, at_s=self._wall_s()))

        self.world.timeline.after(after_s, speak)

    # trace

    def _watch_events(self, state: st.RunState, events: Sequence[ev.Event]) -> None:
        """People and the trace follow the journal itself: a driver may die before it tells what it wrote."""
        fresh = [entry.event for entry in self.journal.read(self._run, after_seq=self._watched)]
        self._watched += len(fresh)
        for event in fresh:
            self.happened.append((self.world.now_s, event))
            if isinstance(event, ev.StepStarted):
                self._answer(state.plan, event)
            if not isinstance(event, ev.AbortAsked | ev.Paused | ev.Resumed | ev.Approved | ev.TaskSignedOff):
                self._trace_event(event)

    def _trace_event(self, event: ev.Event) -> None:
        self._trace_line(describe(event))

    def _trace_call(self, name: str, place: str, result: str) -> None:
        self._trace_line(f"    {name} {place}: {result}")

    def _trace_line(self, line: str) -> None:
        self.trace.append((self.world.now_s, line))


def describe(event: ev.Event) -> str:
    """One line for people."""
    tag = str(event.__struct_config__.tag)
    match event:
        case ev.Intent() | ev.PhaseDone():
            return f"{tag} {event.step} {event.phase} attempt {event.attempt} epoch {event.epoch}"
        case ev.PhaseFailed():
            return f"{tag} {event.step} {event.phase} attempt {event.attempt} epoch {event.epoch}: {event.error}: {event.reason}"
        case ev.GateJudged():
            return f"{tag} {event.step} {event.verdict}"
        case ev.RunEnded():
            return f"{tag} {event.verdict}: {event.reason}"
        case ev.StepFailed() | ev.StepStuck() | ev.Frozen() | ev.Paged():
            return f"{tag} {event.step}: {event.reason}"
        case ev.RollbackBegan() | ev.AbortAsked() | ev.Paused():
            return f"{tag}: {event.reason}"
        case ev.DriverTook():
            return f"{tag} epoch {event.epoch} by {event.driver}"
        case ev.RunOpened() | ev.Resumed():
            return tag
        case ev.Noticed():
            return f"{tag}: {event.text}"
        case ev.WorldDiffers():
            return f"{tag}: {'; '.join(event.differences)}"
        case _:
            return f"{tag} {event.step}"
