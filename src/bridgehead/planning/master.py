"""Master: which workload goes over in which slot, and how many parcels of each kind leave on which day, for CP-SAT (M7.3, M7.4).

Parcels of one kind can be exchanged for each other, so the model counts them; its size does not grow with the number of racks. Every
constraint belongs to a ``Limit``, which a literal can switch off: a conflict is a smallest set of limits that cannot be kept together.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
from ortools.sat.python import cp_model

from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.logistics import DAY_S
from bridgehead.planning.demand import Demand, Job
from bridgehead.planning.grid import Calendar, Yard
from bridgehead.planning.kinds import kinds_of

Linear = Any
"""A linear expression of CP-SAT; its own type for them is too wide for arithmetic."""
MINUTE_S = 60.0
_PERCENT = 1000
"""Shares are counted in thousandths, so that the model has whole numbers only."""


class Limit(enum.StrEnum):
    """What can stop a plan; the rules of ``docs/reference/plan-files.md`` in groups that people can relax."""

    RESERVE_SOURCE = "reserve-source"
    RESERVE_TARGET = "reserve-target"
    BRIDGEHEAD = "bridgehead"
    WINDOWS = "windows"
    LANES = "lanes"
    PACKERS = "crew-source"
    FITTERS = "crew-target"
    VEHICLES = "vehicles"
    DOCK = "dock"
    BLACKOUTS = "blackouts"
    DEADLINE = "deadline"


class Choice(msgspec.Struct, frozen=True):
    """What was chosen.

    Attributes:
        slots: the slot of each job, by its number.
        leaving: for each day, how many parcels of each kind leave.
        shrunk: for each job and day, GPUs that it does without from that day's shift to the next.
    """

    slots: Mapping[WorkloadId, int]
    leaving: Mapping[int, Mapping[int, int]]
    shrunk: Mapping[tuple[WorkloadId, int], int]


class Master:
    """The model. ``build`` it once for a calendar, then ``solve`` it for one goal after the other.

    Args:
        tight: whether workloads may run on fewer GPUs for a while; without, the model is smaller and finds the plan that loses least where
            there is room for it.
    """

    def __init__(self, demand: Demand, yard: Yard | None, calendar: Calendar, *, tight: bool, switched: bool = False) -> None:
        self.demand, self.yard, self.calendar, self.tight = demand, yard, calendar, tight
        self.kinds = kinds_of(demand.parcels, yard) if yard is not None else ()
        self.model = cp_model.CpModel()
        self.switches: dict[Limit, cp_model.IntVar] = {}
        self._switched = switched
        self._over: dict[tuple[WorkloadId, int], cp_model.IntVar] = {}
        self._leaving: dict[tuple[int, int], cp_model.IntVar] = {}
        self._less: dict[tuple[WorkloadId, int], cp_model.IntVar] = {}
        self._trips: dict[tuple[int, int], cp_model.IntVar] = {}
        self._build()

    # building

    def _keep(self, constraint: cp_model.Constraint, limit: Limit) -> None:
        """The constraint belongs to a limit that can be switched off."""
        if self._switched:
            if limit not in self.switches:
                self.switches[limit] = self.model.new_bool_var(limit.value)
            constraint.only_enforce_if(self.switches[limit])

    def _build(self) -> None:
        self._swings()
        if self.yard is not None:
            self._waves(self.yard)
        if self.tight:
            self._shrinks()
        self._source()
        self._target()
        self._bridgehead()
        self._finish()

    def over(self, job: Job, slot: int) -> Linear:
        """Whether a job goes over in the slot or before it."""
        return 0 if slot < 0 else self._over[job.id, slot]

    def _swings(self) -> None:
        slots = self.calendar.slots
        for job in self.demand.jobs:
            for number, slot in enumerate(slots):
                here = self._over[job.id, number] = self.model.new_bool_var(f"{job.id}@{number}")
                if number:
                    self.model.add_implication(self._over[job.id, number - 1], here)
                if job.crossing.length_s > slot.ends_s - slot.begins_s:
                    self._keep(self.model.add(here == self.over(job, number - 1)), Limit.WINDOWS)
            if slots:
                self._keep(self.model.add(self._over[job.id, len(slots) - 1] == 1), Limit.DEADLINE)
            else:
                self._keep(self.model.add_bool_or([]), Limit.WINDOWS)
        for number, slot in enumerate(slots):
            used = sum(math.ceil(job.crossing.length_s) * (self.over(job, number) - self.over(job, number - 1)) for job in self.demand.jobs)
            self._keep(self.model.add(used <= self._lane_seconds(slot.ends_s - slot.begins_s)), Limit.LANES)
        names = {job.id: job for job in self.demand.jobs}
        for job in self.demand.jobs:
            for other in job.others:
                for number in range(len(slots)):
                    self.model.add(self.over(job, number) <= self.over(names[other], number - 1))

    def _lane_seconds(self, length_s: float) -> int:
        """Seconds of swings that surely find a place in a slot side by side, in any order (Graham's bound for lists)."""
        longest = max((job.crossing.length_s for job in self.demand.jobs if job.crossing.length_s <= length_s), default=0.0)
        lanes = self.demand.policy.limits.concurrent_moves
        return math.floor(max(longest, lanes * (length_s - longest) + longest))

    def _waves(self, yard: Yard) -> None:
        calendar, days = self.calendar, range(self.calendar.days)
        rounds: dict[int, tuple[cp_model.IntVar, cp_model.IntVar]] = {}
        racks: dict[int, Linear] = {}
        crossings: dict[int, Linear] = {}
        for day in days:
            for kind, what in enumerate(self.kinds):
                count = self._leaving[kind, day] = self.model.new_int_var(0, len(what.parcels), f"x{kind}@{day}")
                trips = self._trips[kind, day] = self.model.new_int_var(0, yard.fleet.vehicles, f"t{kind}@{day}")
                if day not in calendar.leave:
                    self._keep(self.model.add(count == 0), Limit.BLACKOUTS)
                self._keep(self.model.add(count * what.racks <= trips * what.per_vehicle), Limit.VEHICLES)
            racks[day] = sum(self._leaving[kind, day] * what.racks for kind, what in enumerate(self.kinds))
            wet = sum(self._leaving[kind, day] * what.parcels[0].liquid for kind, what in enumerate(self.kinds))
            crossings[day] = sum(self._trips[kind, day] for kind in range(len(self.kinds)))
            rounds[day] = self._rounds(day, racks[day], wet, yard)
        for day in days:
            self._hands(day, rounds, yard)
            away = sum(crossings[other] for other in range(max(0, day - yard.cycle_days + 1), day + 1))
            self._keep(self.model.add(away <= yard.fleet.vehicles), Limit.VEHICLES)
            if yard.logistics.dock_places is not None:
                docked = sum(racks[other] for other in range(max(0, day - yard.install_day), day + 1))
                self._keep(self.model.add(docked <= yard.logistics.dock_places), Limit.DOCK)
        for kind, what in enumerate(self.kinds):
            left = sum(self._leaving[kind, day] for day in days)
            self._keep(self.model.add(left == len(what.parcels)), Limit.DEADLINE)
        self._apart(yard)

    def _rounds(self, day: int, racks: Linear, wet: Linear, yard: Yard) -> tuple[cp_model.IntVar, cp_model.IntVar]:
        total = sum(len(kind.parcels) * kind.racks for kind in self.kinds)
        one, two = (self.model.new_int_var(0, total, f"m{what}@{day}") for what in ("all", "wet"))
        self.model.add(racks <= one * yard.teams)
        self.model.add(wet <= two * yard.teams)
        return one, two

    def _hands(self, day: int, rounds: Mapping[int, tuple[cp_model.IntVar, cp_model.IntVar]], yard: Yard) -> None:
        """Shifts of both crews: the source on the day of leaving, the target on those of unloading and installing."""
        work, (all_, wet) = yard.handling, rounds[day]
        packing = all_ * _s(work.pack_s + work.load_s) + wet * _s(work.drain_coolant_s)
        self._keep(self.model.add(packing <= math.floor(yard.packers.shift_s)), Limit.PACKERS)
        shift = math.floor(yard.fitters.shift_s)
        fitting = all_ * _s(work.inspect_s + work.install_s) + wet * _s(work.leak_test_s)
        self._keep(self.model.add(fitting + all_ * _s(work.load_s) + _s(yard.late_s) <= shift), Limit.FITTERS)
        self._keep(self.model.add(fitting <= shift), Limit.FITTERS)
        other = day + yard.install_day - yard.unload_day
        if other in rounds:
            self._keep(self.model.add(fitting + rounds[other][0] * _s(work.load_s) <= shift), Limit.FITTERS)

    def _apart(self, yard: Yard) -> None:
        """The later one of two leaves when the earlier one has joined."""
        lead = math.ceil((yard.away_s - yard.packers.begins_s) / DAY_S)
        number = {one.rack.id: kind for kind, what in enumerate(self.kinds) for one in what.parcels[0].racks if one.rack.apart_from}
        for first, kind in number.items():
            for rack in next(one.rack for one in self.kinds[kind].parcels[0].racks if one.rack.id == first).apart_from:
                other = number.get(rack)
                if other is None or other <= kind:
                    continue
                days = range(self.calendar.days)
                before = self.model.new_bool_var(f"{first}<{rack}")
                mine = sum(day * self._leaving[kind, day] for day in days)
                its = sum(day * self._leaving[other, day] for day in days)
                self.model.add(mine + lead <= its).only_enforce_if(before)
                self.model.add(its + lead <= mine).only_enforce_if(before.negated())

    def _shrinks(self) -> None:
        for job in self.demand.jobs:
            if job.least < job.gpus:
                for day in range(self.calendar.days):
                    self._less[job.id, day] = self.model.new_int_var(0, job.gpus - job.least, f"q{job.id}@{day}")

    def less(self, job: Job, day: int) -> Linear:
        """GPUs that a job does without on a day."""
        return self._less.get((job.id, day), 0)

    def gone(self, model: str, day: int) -> Linear:
        """GPUs that have left up to and with a day."""
        terms = [
            self._leaving[kind, other] * what.gpus(model)
            for kind, what in enumerate(self.kinds)
            if what.gpus(model)
            for other in range(min(day, self.calendar.days - 1) + 1)
        ]
        return sum(terms) if terms else 0

    def _moment(self, day: int) -> float:
        """The beginning of the source's shift: waves leave, shrinks change."""
        begins = self.yard.packers.begins_s if self.yard is not None else 0.0
        return self.calendar.midnight_s + day * DAY_S + begins

    def _day(self, at_s: float) -> int:
        """The day, from shift to shift, in which a moment lies."""
        return math.floor((at_s - self._moment(0)) / DAY_S)

    def _source(self) -> None:
        keep = _PERCENT + math.ceil(self.demand.policy.reserve * _PERCENT - 1e-9)
        standing = self.demand.standing[self.demand.source.id]
        for model in self.demand.models:
            jobs = [job for job in self.demand.jobs if job.model == model and job.gpus]
            before = self.model.new_constant(sum(job.gpus for job in jobs))  # nobody has shrunk yet
            self._keep(self.model.add(keep * before <= _PERCENT * standing.get(model, 0)), Limit.RESERVE_SOURCE)
            for day in range(self.calendar.days):
                ended = sum(1 for slot in self.calendar.slots if slot.ends_s <= self._moment(day)) - 1
                runs = sum(job.gpus * (1 - self.over(job, ended)) - self._less_here(job, day, ended) for job in jobs)
                stands = standing.get(model, 0) - self.gone(model, day)
                self._keep(self.model.add(keep * runs <= _PERCENT * stands), Limit.RESERVE_SOURCE)

    def _less_here(self, job: Job, day: int, ended: int) -> Linear:
        """What a shrink saves at the source: nothing once the job has gone over."""
        if (job.id, day) not in self._less:
            return 0
        saved = self.model.new_int_var(0, job.gpus - job.least, f"s{job.id}@{day}")
        self.model.add(saved <= self._less[job.id, day])
        self.model.add(saved <= (job.gpus - job.least) * (1 - self.over(job, ended)))
        return saved

    def _target(self) -> None:
        keep = _PERCENT + math.ceil(self.demand.policy.reserve * _PERCENT - 1e-9)
        moments = [(slot.begins_s, number) for number, slot in enumerate(self.calendar.slots)]
        if self.tight:
            starts = [slot.begins_s for slot in self.calendar.slots]
            ends = range(self.calendar.days + 1)  # also when the last shrink has ended
            moments += [(self._moment(day), sum(1 for at in starts if at < self._moment(day)) - 1) for day in ends]
        for model in self.demand.models:
            jobs = [job for job in self.demand.jobs if job.model == model and job.gpus]
            for at, number in moments:
                runs = self.demand.running.get(model, 0) + sum(
                    job.gpus * self.over(job, number) - self._less_there(job, self._day(at), number) for job in jobs
                )
                self._keep(self.model.add(keep * runs <= _PERCENT * self._stands(model, at)), Limit.RESERVE_TARGET)

    def _less_there(self, job: Job, day: int, number: int) -> Linear:
        if (job.id, day) not in self._less or number < 0:
            return 0
        saved = self.model.new_int_var(0, job.gpus - job.least, f"z{job.id}@{day}.{number}")
        self.model.add(saved <= self._less[job.id, day])
        self.model.add(saved <= (job.gpus - job.least) * self.over(job, number))
        return saved

    def _stands(self, model: str, at_s: float) -> Linear:
        there = self.demand.standing[self.demand.target.id].get(model, 0)
        if self.yard is None:
            return there
        return there + self.gone(model, math.floor((at_s - self.calendar.midnight_s - self.yard.away_s) / DAY_S))

    def _bridgehead(self) -> None:
        share = self.demand.policy.bridgehead
        total = sum(sum(site.values()) for site in self.demand.standing.values())
        for number, slot in enumerate(self.calendar.slots):
            some = self.model.new_bool_var(f"some@{number}")
            for job in self.demand.jobs:
                self.model.add_implication(self._over[job.id, number], some)
            there = sum(self._stands(model, slot.begins_s) for model in self.demand.models)
            self._keep(self.model.add(there >= math.ceil(share.least * total) * some), Limit.BRIDGEHEAD)
        early = max((day for day in range(self.calendar.days) if self._moment(day) < self.calendar.services_s), default=-1)
        if self.yard is not None and early >= 0:
            moved = sum(self.gone(model, early) for model in self.demand.models)
            self._keep(self.model.add(moved <= math.floor(share.most * total)), Limit.BRIDGEHEAD)

    # goals

    def _finish(self) -> None:
        """When all has gone over: minutes from ``policy.begins``."""
        begins = self.demand.policy.begins_s
        assert begins is not None, "demand() has checked it"
        horizon = math.ceil((self.calendar.midnight_s - begins + (self.calendar.days + 40) * DAY_S) / MINUTE_S)
        self.finish = self.model.new_int_var(0, horizon, "finish")
        for job in self.demand.jobs:
            ends = [math.floor((slot.begins_s + job.crossing.length_s - begins) / MINUTE_S) for slot in self.calendar.slots]
            if ends:
                # The slot's own end, written as what remains after each slot that has passed.
                steps = sum((ends[at + 1] - ends[at]) * (1 - self._over[job.id, at]) for at in range(len(ends) - 1))
                self.model.add(self.finish >= ends[0] + steps)
        if self.yard is not None:
            lead = self.calendar.midnight_s - begins + self.shortest_away_s
            busy = [self.model.new_bool_var(f"a@{day}") for day in range(self.calendar.days)]
            for day, some in enumerate(busy):
                if day:
                    self.model.add_implication(some, busy[day - 1])  # busy: something leaves on this day or later
                for kind, what in enumerate(self.kinds):
                    self.model.add(self._leaving[kind, day] <= len(what.parcels) * some)
            self.model.add(self.finish >= math.floor(lead / MINUTE_S) + sum(math.floor(DAY_S / MINUTE_S) * some for some in busy[1:]))

    @property
    def shortest_away_s(self) -> float:
        """From midnight of the day of leaving until the smallest wave has joined."""
        assert self.yard is not None, "only waves are away"
        work = self.yard.handling
        unload = self.yard.unload_day * DAY_S + self.yard.fitters.begins_s + work.load_s + work.acclimatise_s
        shift = self.yard.install_day * DAY_S + self.yard.fitters.begins_s
        return max(unload, shift) + work.inspect_s + work.install_s + work.burn_in_s + work.join_s

    def lost(self) -> Linear:
        """GPU-hours that shrinks cost, each times 1 + priority."""
        jobs = {job.id: job for job in self.demand.jobs}
        return sum(24 * (1 + jobs[name].priority) * less for (name, _), less in self._less.items())

    def trips(self) -> Linear:
        """Trips of vehicles, and days with a wave: what of the cost the plan decides."""
        return sum(self._trips.values())

    def lateness(self) -> Linear:
        """Sum of slots before each job goes over, times its priority and more for inference: who goes first (M7.3)."""
        return sum(
            (1 + job.priority + (20 if job.crossing.lost_s == 0 else 0)) * (1 - self._over[job.id, number])
            for job in self.demand.jobs
            for number in range(len(self.calendar.slots))
        )

    def hints(self, choice: Choice) -> Iterator[tuple[cp_model.IntVar, int]]:
        """The variables of a choice with their values; the choice may be one of a shorter horizon."""
        for (job, number), variable in self._over.items():
            yield variable, int(number >= choice.slots[job])
        for (kind, day), variable in self._leaving.items():
            yield variable, choice.leaving.get(day, {}).get(kind, 0)
        for (name, day), variable in self._less.items():
            yield variable, choice.shrunk.get((name, day), 0)

    def choice(self, solver: cp_model.CpSolver) -> Choice:
        """What a solver found."""
        slots = {
            job.id: next(number for number in range(len(self.calendar.slots)) if solver.value(self._over[job.id, number]))
            for job in self.demand.jobs
        }
        leaving: dict[int, dict[int, int]] = {}
        for (kind, day), count in self._leaving.items():
            if solver.value(count):
                leaving.setdefault(day, {})[kind] = solver.value(count)
        shrunk = {key: solver.value(less) for key, less in self._less.items() if solver.value(less)}
        return Choice(slots, dict(sorted(leaving.items())), shrunk)


def _s(seconds: float) -> int:
    """Whole seconds, upwards."""
    return math.ceil(seconds - 1e-9)
