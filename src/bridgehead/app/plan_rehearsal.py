"""PlanRehearsal: one run of a plan in virtual time, under hazards. The engine's own ``decide`` says what begins when (design rule 3).

The runbook is compact: one task for each activity of the plan. Here are the people, trucks and lines that sign the tasks off: an activity
begins when ``decide`` starts its task, but not before its planned moment, and when it is late, not before its shift or window.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Callable
from functools import partial

import msgspec
import numpy as np

from bridgehead.kernel.ids import Person, RunId
from bridgehead.model import event as ev
from bridgehead.model.logistics import CrewId
from bridgehead.model.plan import TaskKind
from bridgehead.model.runbook import Runbook, TaskStep
from bridgehead.runbook import state as st
from bridgehead.runbook.apply import apply, opened
from bridgehead.runbook.decide import decide
from bridgehead.simulate.calendar import Calendar
from bridgehead.simulate.chance import Numbers
from bridgehead.simulate.plan_account import Blame, Losses, Times, checkpoint_loss, delays_of_the_end, losses_of, reserve_broken_s
from bridgehead.simulate.plan_model import PlanModel
from bridgehead.simulate.plan_network import Activity, Kind
from bridgehead.simulate.plan_sample import Delays, damage_of, delays_of, interruptions_of

PATIENCE_S = 1e9
"""In a simulation nobody gives up: a plan that is late is what it is to show."""
_WORLD = Person("world")


class Played(msgspec.Struct, frozen=True):
    """What came of one run. Seconds, GPU-hours; workloads in the order of the model's jobs.

    Attributes:
        over_s: when everything had gone over.
        ends_s: when the last activity, the decommissioning, was over.
        trace: the same for the same plan, hazards, seed and run.
    """

    run: int
    over_s: float
    ends_s: float
    losses: Losses
    blames: list[Blame]
    reserve_longest_s: float
    reserve_total_s: float
    checkpoints: dict[str, float]
    trace: str


class Rehearsal:
    """Plays runs of one plan. ``intervals_s``: other intervals between checkpoints, by name, that are judged on the same interruptions."""

    def __init__(self, model: PlanModel, *, intervals_s: dict[str, Numbers] | None = None) -> None:
        self.model = model
        self._intervals_s = intervals_s or {}
        calendar = Calendar(model.policy)
        self._begins_s: list[float] = model.activities.begins_s.tolist()
        self._ends_s: list[float] = model.activities.ends_s.tolist()
        self._slots = [_slot(one, model, calendar) for one in model.network]
        self._shifts = [calendar.shifts.get(CrewId(one.owner)) for one in model.network]
        steps = tuple(TaskStep(one.id, _WORLD, ("done",), PATIENCE_S, one.needs) for one in model.network)
        self._start_s = min([model.plan.begins_s, *self._begins_s])
        first = ev.RunOpened(self._start_s, RunId("rehearsal"), Runbook("rehearsal", steps), "", {}, "world", "")
        self._opened = opened(first)

    def play(self, run: int, *, seed: int) -> Played:
        """Play one run. The same seed and run give the same."""
        model = self.model
        delays = delays_of(model, seed=seed, run=run)
        times = self._times(delays)
        over_s = float(times.ends_s[model.over].max()) if len(model.over) else self._start_s
        swung_s = np.where(model.jobs.swing >= 0, times.ends_s[model.jobs.swing], over_s)
        hit = interruptions_of(model, seed=seed, run=run, begins_s=model.plan.begins_s, over_s=over_s, swung_s=swung_s)
        damaged = damage_of(model, seed=seed, run=run)
        longest_s, total_s = reserve_broken_s(model, times, damaged, over_s=over_s)
        runs_s = over_s - model.plan.begins_s
        return Played(
            run=run,
            over_s=over_s,
            ends_s=float(times.ends_s.max()),
            losses=losses_of(model, times, delays, hit),
            blames=delays_of_the_end(model, times, delays),
            reserve_longest_s=longest_s,
            reserve_total_s=total_s,
            checkpoints={
                name: checkpoint_loss(model, hit, interval_s=interval_s, runs_s=runs_s) for name, interval_s in self._intervals_s.items()
            },
            trace=_trace(times, delays.lost_s, hit.counts, damaged.missing_s),
        )

    def _times(self, delays: Delays) -> Times:
        """Drive the compact runbook to its end."""
        extra_s: list[float] = delays.extra_s.tolist()
        absent: list[bool] = (delays.by_hazard[0] > 0).tolist()
        begins_s, ends_s = [0.0] * len(extra_s), [0.0] * len(extra_s)
        state, now_s, place = self._opened, self._start_s, self.model.place
        under_way: list[tuple[float, int]] = []
        ids = [one.id for one in self.model.network]
        while True:
            decision = decide(state, {}, now_s)
            for event in decision.records:
                state = apply(state, event)
                if isinstance(event, ev.StepStarted):
                    at = place[event.step]
                    begins_s[at], ends_s[at] = self._span(at, now_s, extra_s[at], absent[at])
                    heapq.heappush(under_way, (ends_s[at], at))
            if isinstance(state.mode, st.Ended):
                return Times(np.array(begins_s), np.array(ends_s))
            if decision.records:
                continue
            now_s = under_way[0][0]
            while under_way and under_way[0][0] <= now_s:
                step = ids[heapq.heappop(under_way)[1]]
                state = apply(state, ev.TaskSignedOff(now_s, step, _WORLD, ["done"]))

    def _span(self, at: int, free_s: float, extra_s: float, absent: bool) -> tuple[float, float]:
        planned_s, ends_s = self._begins_s[at], self._ends_s[at]
        begins_s = planned_s if free_s <= planned_s else self._slots[at](free_s)
        shift = self._shifts[at]
        if absent and shift is not None:
            begins_s = shift.next(shift.after(begins_s), ends_s - planned_s)
        if begins_s == planned_s and not extra_s:
            return begins_s, ends_s
        return begins_s, begins_s + (ends_s - planned_s) + extra_s


def _slot(one: Activity, model: PlanModel, calendar: Calendar) -> Callable[[float], float]:
    """When an activity that is late may begin, from the moment at which it could."""
    shift = calendar.shifts.get(CrewId(one.owner))
    if one.kind is Kind.SWING:
        return partial(calendar.window, lasts_s=one.lasts_s)
    if one.kind is Kind.HANDLING and shift is not None:
        return partial(shift.next, lasts_s=one.lasts_s)
    if one.kind is Kind.HANDLING:
        wave = next(wave for wave in model.plan.waves if wave.id == one.of)
        unloaded_s = next((task.ends_s for task in wave.tasks if task.id is TaskKind.UNLOAD), one.ends_s)
        if wave.tasks[0].id is one.task:
            return partial(calendar.clear, lasts_s=unloaded_s - one.begins_s)
    return _at_once


def _at_once(moment_s: float) -> float:
    return moment_s


def _trace(times: Times, *more: Numbers) -> str:
    """In milliseconds, so that the last bits of a library's logarithm do not matter."""
    digest = hashlib.sha256()
    for numbers in (times.begins_s, times.ends_s, *more):
        digest.update(np.rint(numbers * 1000).astype("<i8").tobytes())
    return digest.hexdigest()
