"""Search: the best choice of slots and days, and the proof of how good it is.

What is lost comes first, then when all has gone over, then trips and who goes first. Whether everything can have gone over by a given
moment is a question that CP-SAT answers much faster than "when at the earliest", in both directions; so the end is found by halving: an end
that is proved impossible is a bound, one that is possible is a plan.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import msgspec
from ortools.sat.python import cp_model

from bridgehead.model.logistics import DAY_S
from bridgehead.planning.conflict import smallest
from bridgehead.planning.demand import Demand
from bridgehead.planning.grid import Calendar, Yard, calendar
from bridgehead.planning.kinds import Kind
from bridgehead.planning.master import Choice, Master

WORKERS = 8
"""Also on two cores: the parts of the solver's portfolio complement each other."""
MOST_DAYS = 240
"""The longest horizon after services are there, where no deadline of the policy is nearer."""
POLISH = 0.15
"""Of the time limit, for trips and who goes first."""
CLOSE = 0.02
"""Trips and who goes first are good enough within this share of the best."""
DAY_MINUTES = 1440
EXACT_MINUTES = 120
"""Ends that differ by less are not told apart."""


class Progress(msgspec.Struct, frozen=True):
    """Where the search stands, in days from ``policy.begins``; ``best_days`` is infinite where no plan came out."""

    what: str
    bound_days: float
    best_days: float
    spent_s: float


class Found(msgspec.Struct, frozen=True):
    """The best choice, and what is proved.

    Attributes:
        calendar: the grid of the choice.
        kinds: what ``leaving`` counts.
        tight: whether workloads had to shrink.
        bound_minutes: no plan on the grid has everything gone over before, from ``policy.begins``.
        shrink_bound: weighted GPU-hours that shrinks cost at least.
        trips_bound: trips of vehicles, at least, of plans that end no later.
        binding: limits that cannot be kept together if all is to have gone over earlier.
    """

    choice: Choice
    calendar: Calendar
    kinds: tuple[Kind, ...]
    tight: bool
    bound_minutes: int
    shrink_bound: float
    trips_bound: int
    binding: tuple[str, ...] = ()


class _Tried(msgspec.Struct, frozen=True):
    master: Master
    choice: Choice
    minutes: int


class Search:
    """Looks for a plan of a demand.

    Args:
        services_s: when critical services are there.
        ready_s: when the first workload's data is there.
        seed: of the solver.
        time_limit_s: for everything together.
        now_s: a clock that only goes forward.
        progress: told now and then.
    """

    def __init__(
        self,
        demand: Demand,
        yard: Yard | None,
        *,
        services_s: float,
        ready_s: float,
        seed: int,
        time_limit_s: float,
        now_s: Callable[[], float],
        progress: Callable[[Progress], None],
    ) -> None:
        self._demand, self._yard = demand, yard
        self._services_s, self._ready_s = services_s, ready_s
        self._seed, self._until_s, self._began_s = seed, now_s() + time_limit_s, now_s()
        self._now_s, self._progress = now_s, progress
        self._polish_s = max(2.0, POLISH * time_limit_s)
        self._proved = False
        assert demand.policy.begins_s is not None, "demand() has checked it"
        self._begins_s: float = demand.policy.begins_s

    def calendar(self, days: int) -> Calendar:
        """The grid of a horizon."""
        return calendar(self._demand, self._yard, days=days, services_s=self._services_s, ready_s=self._ready_s)

    def longest_days(self) -> int:
        """Days until the deadline of the policy; very many where there is none."""
        ends = self._demand.policy.ends_s
        return 10**6 if ends is None else max(1, math.floor((ends - self._begins_s) / DAY_S))

    def run(self) -> Found | None:
        """The best plan that was found; None when it is proved that there is none, or the time is over before the first."""
        first, bound = self._first(tight=False)
        if first is not None:
            best, bound = self._halved(first, bound)
            return self._polished(best, bound, shrink_bound=0.0)
        first, bound = self._first(tight=True)
        if first is None:
            return None
        best, shrink_bound = self._least_lost(first)
        return self._polished(best, bound, shrink_bound=shrink_bound)

    # the end

    def _first(self, *, tight: bool) -> tuple[_Tried | None, int]:
        """The first plan in ever longer horizons, and a bound of its end in minutes."""
        least = max(1, math.floor((max(self._services_s, self._ready_s) - self._begins_s) / DAY_S))
        longest = min(self.longest_days(), least + MOST_DAYS)
        days, bound = min(least + 1, longest), 0
        while True:
            tried = self._try(days, days * DAY_MINUTES, tight=tight)
            if tried is not None:
                return tried, bound
            if self._proved:
                bound = days * DAY_MINUTES + 1
            if days >= longest or self._left_s() <= 0:
                return None, bound
            days = min(longest, days + max(2, days - least))

    def _halved(self, best: _Tried, bound: int) -> tuple[_Tried, int]:
        """Halves the time between what is impossible and what was found."""
        while best.minutes - bound > EXACT_MINUTES and self._left_s() > 0:
            middle = (best.minutes + bound) // 2
            tried = self._try(math.ceil(middle / DAY_MINUTES) + 1, middle, tight=False)
            if tried is not None:
                best = tried
            elif self._proved:
                bound = middle + 1
            else:
                break
        return best, min(bound, best.minutes)

    def _least_lost(self, first: _Tried) -> tuple[_Tried, float]:
        """With shrinks, what is lost comes before the end: the least of it within half as much time again as the first plan takes."""
        days = min(self.longest_days(), math.ceil(first.minutes / DAY_MINUTES * 1.5))
        master = Master(self._demand, self._yard, self.calendar(days), tight=True)
        weight = (days + 60) * DAY_MINUTES
        master.model.minimize(weight * master.lost() + master.finish)
        self._hint(master, first.choice)
        solver = self._solver(self._left_s() * 0.7)
        status = solver.solve(master.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return first, 0.0
        bound = max(0.0, math.ceil((solver.best_objective_bound - weight) / weight))
        return _Tried(master, master.choice(solver), solver.value(master.finish)), bound

    def _try(self, days: int, minutes: int, *, tight: bool) -> _Tried | None:
        master = Master(self._demand, self._yard, self.calendar(days), tight=tight)
        master.model.add(master.finish <= minutes)
        solver = self._solver(self._left_s() * 0.5)
        status = solver.solve(master.model)
        self._proved = status == cp_model.INFEASIBLE
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            self._tell("impossible" if self._proved else "cannot tell", minutes / DAY_MINUTES, math.inf)
            return None
        ends = solver.value(master.finish)
        self._tell("a plan", 0.0, ends / DAY_MINUTES)
        return _Tried(master, master.choice(solver), ends)

    def _solver(self, limit_s: float) -> cp_model.CpSolver:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = WORKERS
        solver.parameters.random_seed = self._seed
        solver.parameters.max_time_in_seconds = max(1.0, limit_s)
        solver.parameters.interleave_search = True  # the same seed gives the same plan
        return solver

    def _left_s(self) -> float:
        return self._until_s - self._now_s()

    def _tell(self, what: str, bound_days: float, best_days: float) -> None:
        self._progress(Progress(what, bound_days, best_days, self._now_s() - self._began_s))

    # what comes after the end

    def _polished(self, best: _Tried, bound: int, *, shrink_bound: float) -> Found:
        """Fewest trips, then who goes first, without losing more or ending later."""
        old = best.master
        again = Master(self._demand, self._yard, old.calendar, tight=old.tight)
        again.model.add(again.finish <= best.minutes)
        if old.tight:
            again.model.add(again.lost() <= weighted_lost(best.choice, self._demand))
        weight = 1 + sum(27 + job.priority for job in self._demand.jobs) * len(old.calendar.slots)
        again.model.minimize(weight * again.trips() + again.lateness())
        self._hint(again, best.choice)
        solver = self._solver(min(self._left_s(), self._polish_s))
        solver.parameters.relative_gap_limit = CLOSE
        status = solver.solve(again.model)
        choice, trips = best.choice, 0
        if status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            choice = again.choice(solver)
            trips = max(0, math.floor(solver.best_objective_bound / weight))
        self._tell("fewest trips", bound / DAY_MINUTES, best.minutes / DAY_MINUTES)
        return Found(choice, old.calendar, old.kinds, old.tight, bound, shrink_bound, trips, self._binding(bound))

    def _binding(self, bound: int) -> tuple[str, ...]:
        """Why it does not end earlier: a smallest set of limits that an earlier end breaks."""
        master = Master(self._demand, self._yard, self.calendar(math.ceil(bound / DAY_MINUTES) + 1), tight=False, switched=True)
        master.model.add(master.finish <= max(0, bound - 1))
        return tuple(limit.value for limit in smallest(master, seed=self._seed, limit_s=min(4.0, max(1.0, self._left_s()))) or ())

    def _hint(self, master: Master, choice: Choice) -> None:
        for variable, value in master.hints(choice):
            master.model.add_hint(variable, value)


def weighted_lost(choice: Choice, demand: Demand) -> int:
    """GPU-hours that shrinks cost, each times 1 + priority."""
    priority = {job.id: job.priority for job in demand.jobs}
    return sum(24 * (1 + priority[name]) * less for (name, _), less in choice.shrunk.items())
