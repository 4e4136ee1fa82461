"""Restores and starts of random graphs in virtual time: the runbook of a failover, driven as in production, with actions that take time.

The order is never violated, never more restores than streams are under way, and no workload is ready later than list scheduling allows
(R14). Also when restores fail midway and are tried again, and when the driver dies.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, permutations
from typing import Any

import hypothesis.strategies as some
import msgspec
import pytest
from hypothesis import given, settings

from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.model import event as ev
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Deadlines, Protected, Recovery, Role, SiteJob
from bridgehead.model.runbook import ActionStep
from bridgehead.recovery.failover import Failover, failover_runbook
from bridgehead.recovery.order import needed, ordered, restore_order
from bridgehead.recovery.steps import RETRY, Case
from bridgehead.runbook import state as st
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending
from bridgehead.simulate import faults as ft
from bridgehead.simulate.blueprint import Blueprint
from bridgehead.testing.virtual_lab import Finished, VirtualLab

LOST, SAVED, WITNESS, ARCHIVE = SiteId("a"), SiteId("b"), SiteId("w"), SiteId("archive")
OVERHEAD_S = 0.05
"""What the driver takes for the phases of a step."""
HOPELESS = 1000


class Work(msgspec.Struct, frozen=True):
    """One workload: how long its restore and its start take, and after which share of the restore it fails, how often."""

    needs: tuple[int, ...]
    role: Role
    priority: int
    restore_s: float
    start_s: float
    fails: int = 0
    fails_after: float = 0.5

    @property
    def pauses_s(self) -> float:
        """Waits before its next tries: each is twice the one before, and as long as the port asks at least."""
        return sum(max(0.5, RETRY.backoff_s * 2**number) for number in range(self.fails))

    @property
    def busy_s(self) -> float:
        """How long its restore has a stream in all."""
        return self.restore_s * (1 + self.fails * self.fails_after) + OVERHEAD_S * (1 + self.fails)


class Timed:
    """Stands for every action: takes as long as the step's work, and fails when it says so."""

    params_type = dict
    undoable = True

    def __init__(self, name: str, work: dict[str, Work]) -> None:
        self.name, self._work = name, work
        self._begun: dict[str, float] = {}
        self._failed: Counter[str] = Counter()

    def precheck(self, params: Any, call: Call) -> Outcome:
        return Done()

    def apply(self, params: Any, call: Call) -> Outcome:
        verb, _, name = call.stamp.step.partition("-")
        one = self._work.get(name)
        if one is None or verb not in ("fetch", "ready"):
            return Done()
        begun_s = self._begun.setdefault(call.stamp.step, call.now_s)
        restores = verb == "fetch"
        fails = restores and self._failed[name] < one.fails
        takes_s = (one.restore_s if restores else one.start_s) * (one.fails_after if fails else 1.0)
        if call.now_s - begun_s < takes_s:
            return Pending(begun_s + takes_s - call.now_s)
        if not fails:
            return Done()
        self._failed[name] += 1
        del self._begun[call.stamp.step]
        if one.fails == HOPELESS:
            return Failed("the archive's copy is damaged", "Find another one.")
        raise Transient("the line broke", tried="copy", subject=name, retry_after_s=0.5)

    def verify(self, params: Any, call: Call) -> Outcome:
        return Done()

    def undo(self, params: Any, call: Call) -> Outcome:
        return Done()


class Play:
    """A failover of this work, played to the milestone and on."""

    def __init__(self, work: Sequence[Work], *, streams: int, faults: Sequence[ft.Fault] = ()) -> None:
        self.work = {f"w{number:02}": one for number, one in enumerate(work)}
        self.protected = {name: _protected(name, one) for name, one in self.work.items()}
        deadlines = Deadlines(step_s=3600.0, restore_s=3600.0, copy_s=3600.0)
        whole = (LOST, SAVED), tuple(self.protected.values())
        recovery = Recovery("r", *whole, witness=WITNESS, archives=(ARCHIVE,), streams=streams, deadlines=deadlines)
        cases = tuple(Case(one, LOST, SAVED, copy_from=ARCHIVE) for one in self.protected.values())
        book = failover_runbook(Failover("failover", recovery, LOST, cases, 0.0))
        actions = {step.action: Timed(step.action, self.work) for step in book.steps if isinstance(step, ActionStep)}
        self.lab = VirtualLab(Blueprint(sites=(LOST, SAVED, WITNESS)), book, lambda ports: actions, faults=faults)
        self.streams = streams
        self.finished: Finished = self.lab.run()

    def needs(self, name: str) -> tuple[WorkloadId, ...]:
        return needed(self.protected[name], list(self.protected.values()))

    def at_s(self, kind: type[Any], step: str, phase: ev.Phase, *, last: bool = False) -> float | None:
        """When that was journalled, for the first time or the last."""
        found = [at_s for at_s, event in self.lab.happened if isinstance(event, kind) and (event.step, event.phase) == (step, phase)]
        return found[-1 if last else 0] if found else None

    def done_s(self, step: str) -> float:
        """When the step was done."""
        at_s = self.at_s(ev.PhaseDone, step, ev.Phase.VERIFY)
        assert at_s is not None, step
        return at_s

    def streams_used(self) -> Iterator[int]:
        """How many restores had a stream, after each event."""
        under_way: set[str] = set()
        for _, event in self.lab.happened:
            match event:
                case ev.DriverTook():
                    under_way.clear()
                case ev.Intent() if event.step.startswith("fetch-"):
                    under_way.add(event.step)
                case ev.PhaseFailed() | ev.StepFailed():
                    under_way.discard(event.step)
                case ev.PhaseDone(phase=ev.Phase.VERIFY):
                    under_way.discard(event.step)
            yield len(under_way)

    def check_order(self) -> None:
        """Nothing was begun before its data and all that it needs were there."""
        for name in self.work:
            begun_s = self.at_s(ev.Intent, f"ready-{name}", ev.Phase.PRECHECK)
            if begun_s is None:
                continue
            for step in (f"fetch-{name}", *(f"ready-{need}" for need in self.needs(name))):
                assert self.done_s(step) <= begun_s, (name, step)

    def latest_s(self, *, streams: float | None = None) -> dict[str, float]:
        """When each is ready at the latest: its restore gets a stream as soon as one is free, and its start waits for nothing but that and
        what it needs. A restore waits only while all streams have others (Graham's argument): for (all work - its own) / streams."""
        total_s = sum(one.busy_s for one in self.work.values())
        latest: dict[str, float] = {}
        while len(latest) < len(self.work):
            for name, one in self.work.items():
                if all(need in latest for need in self.needs(name)):
                    restored_s = (total_s - one.busy_s) / (streams or self.streams) + one.busy_s + one.pauses_s
                    begins_s = max([restored_s, *(latest[need] for need in self.needs(name))])
                    latest[name] = begins_s + one.start_s + OVERHEAD_S
        return latest


def _protected(name: str, one: Work) -> Protected:
    kind = WorkloadKind.INFERENCE if one.role is Role.OTHER else WorkloadKind.SERVICE
    jobs = tuple(SiteJob(site, ("run",), f"{name}-{site}") for site in (LOST, SAVED))
    needs = tuple(WorkloadId(f"w{need:02}") for need in one.needs)
    size = round(one.restore_s * 1e6)
    return Protected(WorkloadId(name), kind, LOST, SAVED, jobs, role=one.role, needs=needs, priority=one.priority, restore_bytes=size)


@some.composite
def graphs(draw: some.DrawFn, *, fails: bool = False, most: int = 16) -> list[Work]:
    """Up to ``most`` workloads; each may need earlier ones, and the foundations need what lies below them."""
    work = []
    for number in range(draw(some.integers(2, most))):
        needs = tuple(sorted(draw(some.sets(some.sampled_from(range(number)), max_size=3)))) if number else ()
        work.append(
            Work(
                needs=needs,
                role=draw(some.sampled_from([*Role, Role.OTHER, Role.OTHER, Role.OTHER])),
                priority=draw(some.integers(0, 3)),
                restore_s=draw(some.floats(0.5, 200.0)),
                start_s=draw(some.floats(0.1, 30.0)),
                fails=draw(some.integers(0, 3)) if fails else 0,
                fails_after=draw(some.floats(0.0, 0.99)) if fails else 0.5,
            )
        )
    return work


@settings(max_examples=40)
@given(work=graphs(), streams=some.integers(1, 6))
def test_R14_order_streams_and_makespan_of_random_graphs(work: list[Work], streams: int) -> None:
    play = Play(work, streams=streams)
    play.check_order()
    assert max(play.streams_used()) == min(streams, len(work))
    begun_s = play.done_s("confirm")
    latest = play.latest_s()
    for name in play.work:
        assert play.done_s(f"ready-{name}") - begun_s <= latest[name]
    # No schedule beats the work over the streams, nor the longest path of a restore and starts; this one takes no more than both together.
    longest_s = max(play.latest_s(streams=math.inf).values())
    assert play.done_s("serving") - begun_s <= sum(one.busy_s for one in work) / streams + longest_s


@settings(max_examples=40)
@given(work=graphs(fails=True), streams=some.integers(1, 6))
def test_R14_restores_that_fail_midway_are_tried_again_and_hold_up_nobody(work: list[Work], streams: int) -> None:
    play = Play(work, streams=streams)
    play.check_order()
    assert max(play.streams_used()) <= streams
    begun_s, latest = play.done_s("confirm"), play.latest_s()
    for name in play.work:
        assert play.done_s(f"ready-{name}") - begun_s <= latest[name]


@settings(max_examples=25)
@given(work=graphs(fails=True), streams=some.integers(1, 6), data=some.data())
def test_R14_order_and_streams_hold_when_the_driver_dies(work: list[Work], streams: int, data: some.DataObject) -> None:
    deaths = data.draw(some.lists(some.tuples(some.integers(2, 60), some.sampled_from([*ft.Side])), min_size=1, max_size=3))
    play = Play(work, streams=streams, faults=[ft.DieAtAppend(nth, side, 1.0) for nth, side in deaths])
    play.check_order()
    assert max(play.streams_used()) <= streams
    for name in play.work:
        play.done_s(f"ready-{name}")


@settings(max_examples=25)
@given(work=graphs(), streams=some.integers(1, 6), data=some.data())
def test_R14_a_restore_that_fails_for_good_holds_up_only_what_needs_it(work: list[Work], streams: int, data: some.DataObject) -> None:
    number = data.draw(some.integers(0, len(work) - 1))
    work[number] = msgspec.structs.replace(work[number], fails=HOPELESS)
    bad = f"w{number:02}"
    play = Play(work, streams=streams)
    play.check_order()
    assert max(play.streams_used()) <= streams
    held = {bad}
    for name in sorted(play.work) * len(work):
        if held & set(play.needs(name)):
            held.add(name)
    done = {name for name in play.work if play.at_s(ev.PhaseDone, f"ready-{name}", ev.Phase.VERIFY) is not None}
    assert done == set(play.work) - held
    frozen = [event for _, event in play.lab.happened if isinstance(event, ev.Frozen)]
    assert [event.step for event in frozen] == [f"fetch-{bad}"]
    assert isinstance(play.finished.state.mode, st.OnHold)


@given(work=graphs(), data=some.data())
def test_the_order_of_restores_is_one_order_whatever_the_file_says(work: list[Work], data: some.DataObject) -> None:
    protected = [_protected(f"w{number:02}", one) for number, one in enumerate(work)]
    assert restore_order(data.draw(some.permutations(protected))) == restore_order(protected)


@settings(max_examples=40)
@given(work=graphs(most=5))
def test_R14_no_other_order_is_quicker_through_one_stream_when_starts_take_equally_long(work: list[Work]) -> None:
    protected = {f"w{number:02}": _protected(f"w{number:02}", one) for number, one in enumerate(work)}
    took_s = {name: one.restore_s for name, one in zip(protected, work, strict=True)}

    def makespan_s(order: Sequence[Protected]) -> float:
        ready_s: dict[str, float] = {}
        restored_s = dict(zip([one.id for one in order], accumulate(took_s[one.id] for one in order), strict=True))
        for one in ordered(order):
            ready_s[one.id] = 7.0 + max([restored_s[one.id], *(ready_s[need] for need in needed(one, order))])
        return max(ready_s.values())

    best_s = min(makespan_s(order) for order in permutations(protected.values()))
    assert makespan_s(restore_order([*protected.values()])) == pytest.approx(best_s)


def test_what_most_starts_wait_for_is_restored_first_then_by_priority_then_the_largest() -> None:
    work = [
        Work((), Role.OTHER, 0, 9.0, 1.0),
        Work((), Role.OTHER, 0, 1.0, 1.0),
        Work((1,), Role.OTHER, 0, 1.0, 1.0),
        Work((), Role.OTHER, 5, 1.0, 1.0),
        Work((), Role.OTHER, 0, 99.0, 1.0),
    ]
    order = [one.id for one in restore_order([_protected(f"w{number:02}", one) for number, one in enumerate(work)])]
    assert order == ["w01", "w03", "w04", "w00", "w02"]


def test_the_longest_chain_first_beats_the_other_order() -> None:
    """One stream, and a chain of starts behind the small restore. By size or by priority alone it would take 230 s."""
    play = Play([Work((), Role.OTHER, 9, 100.0, 1.0), Work((), Role.OTHER, 0, 10.0, 60.0), Work((1,), Role.OTHER, 0, 5.0, 60.0)], streams=1)
    assert play.done_s("serving") - play.done_s("confirm") == pytest.approx(10.0 + 100.0 + 5.0 + 60.0, abs=0.5)


def test_foundations_with_databases_of_their_own_leave_nobody_out() -> None:
    """Each database waited for the other one's foundation: both fell out of the order, and were not recovered."""
    work = [Work((2,), Role.IDENTITY, 0, 1.0, 1.0), Work((3,), Role.IDENTITY, 0, 1.0, 1.0)]
    work += [Work((), Role.OTHER, 0, 1.0, 1.0), Work((), Role.OTHER, 0, 1.0, 1.0), Work((), Role.DNS, 0, 1.0, 1.0)]
    protected = [_protected(f"w{number:02}", one) for number, one in enumerate(work)]
    assert [one.id for one in ordered(protected)] == ["w02", "w00", "w03", "w01", "w04"]
    assert [needed(one, protected) for one in protected] == [("w02",), ("w03",), (), (), ("w00", "w01")]
