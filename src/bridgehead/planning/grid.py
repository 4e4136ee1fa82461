"""Grid: the days, windows and timetables that the planner chooses among (M7.3, M7.4, M12; rules section 10).

One wave leaves on a day at most, at the beginning of the source's shift. Every wave has the same days for unloading and for installing,
those of the longest possible wave, so that choosing its day is choosing its whole timetable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.logistics import DAY_S, Crew, Logistics
from bridgehead.model.plan import TaskKind
from bridgehead.model.policy import Period, Policy
from bridgehead.planning.demand import Demand


class Slot(msgspec.Struct, frozen=True):
    """A time in which swings may be; each lies in one slot."""

    begins_s: float
    ends_s: float


class Rounds(msgspec.Struct, frozen=True):
    """How often each team takes a rack, of a wave: all racks, and those with liquid cooling."""

    racks: int
    liquid: int


class Times(msgspec.Struct, frozen=True):
    """When the steps of a wave begin and end, from midnight of the day on which it leaves; in order."""

    steps: tuple[tuple[TaskKind, float, float], ...]

    def end_s(self, kind: TaskKind) -> float:
        """When a step ends."""
        return next(ends for step, _, ends in self.steps if step is kind)


class Yard:
    """The timetable of waves.

    Attributes:
        unload_day, install_day: days after the departure on which a wave is unloaded and installed.
        away_s: from midnight of the day of departure until the longest wave has joined.
        most: rounds that fit the shifts at both ends.
        cycle_days: days until a vehicle can leave again.
    """

    def __init__(self, logistics: Logistics, demand: Demand) -> None:
        self.logistics, self.handling, self.fleet = logistics, logistics.handling, logistics.fleet
        self.packers = _crew(logistics, demand.policy.source)
        self.fitters = _crew(logistics, demand.policy.target)
        work, wet = self.handling, any(parcel.liquid for parcel in demand.parcels)
        leave = self.packers.begins_s + self.packers.shift_s
        self.unload_day = max(0, math.ceil((leave + self.fleet.transit_s - self.fitters.begins_s) / DAY_S))
        ready = self.fitters.begins_s + self.unload_day * DAY_S + work.load_s + work.acclimatise_s
        self.install_day = math.floor(ready / DAY_S)
        if ready + self._fitting_s(Rounds(1, int(wet))) > self.install_day * DAY_S + self.fitters.begins_s + self.fitters.shift_s:
            self.install_day += 1
        self.away_s = self.install_day * DAY_S + self.fitters.begins_s + self.fitters.shift_s + work.burn_in_s + work.join_s
        self.cycle_days = max(1, math.ceil((leave + 2 * self.fleet.transit_s - self.packers.begins_s) / DAY_S))

    @property
    def teams(self) -> int:
        """Teams that work on a wave, at both ends."""
        return min(self.packers.teams, self.fitters.teams)

    def packing_s(self, rounds: Rounds) -> float:
        """Hands-on time at the source."""
        return rounds.racks * (self.handling.pack_s + self.handling.load_s) + rounds.liquid * self.handling.drain_coolant_s

    def _fitting_s(self, rounds: Rounds) -> float:
        return rounds.racks * (self.handling.inspect_s + self.handling.install_s) + rounds.liquid * self.handling.leak_test_s

    def fitting_s(self, rounds: Rounds) -> float:
        """Hands-on time at the target on the day of installing."""
        return self._fitting_s(rounds)

    @property
    def late_s(self) -> float:
        """From the shift of the day of installing until a wave has acclimatised, its time of unloading left out; may be less than 0."""
        return (self.unload_day - self.install_day) * DAY_S + self.handling.acclimatise_s

    def timetable(self, rounds: Rounds, *, others_unload_s: float = 0.0) -> Times:
        """Steps of a wave; ``others_unload_s`` is how long another wave is unloaded on the day on which this one is installed."""
        work, at = self.handling, self.packers.begins_s
        steps: list[tuple[TaskKind, float, float]] = [(TaskKind.DRAIN, at, at)]

        def add(kind: TaskKind, length_s: float) -> None:
            begins = steps[-1][2]
            steps.append((kind, begins, begins + length_s))

        add(TaskKind.PACK, rounds.racks * work.pack_s)
        if rounds.liquid:
            add(TaskKind.DRAIN_COOLANT, rounds.liquid * work.drain_coolant_s)
        add(TaskKind.LOAD, rounds.racks * work.load_s)
        add(TaskKind.TRANSIT, self.fleet.transit_s)
        unload = self.unload_day * DAY_S + self.fitters.begins_s
        steps.append((TaskKind.UNLOAD, unload, unload + rounds.racks * work.load_s))
        add(TaskKind.ACCLIMATISE, work.acclimatise_s)
        shift = self.install_day * DAY_S + self.fitters.begins_s
        inspect = max(steps[-1][2], shift + others_unload_s)
        steps.append((TaskKind.INSPECT, inspect, inspect + rounds.racks * work.inspect_s))
        add(TaskKind.INSTALL, rounds.racks * work.install_s)
        if rounds.liquid:
            add(TaskKind.LEAK_TEST, rounds.liquid * work.leak_test_s)
        add(TaskKind.BURN_IN, work.burn_in_s)
        add(TaskKind.JOIN, work.join_s)
        return Times(tuple(steps))


def _crew(logistics: Logistics, site: str) -> Crew:
    """The largest crew of a site. Raises BAD_INPUT when there is none."""
    crews = sorted((crew for crew in logistics.crews if crew.site == site), key=lambda crew: (-crew.teams * crew.shift_s, crew.id))
    if not crews:
        raise BridgeheadError(
            ErrorCode.BAD_INPUT,
            tried="plan the move",
            subject="policy.logistics.crews",
            happened=f"nobody works at {site}",
            remedy=f"Name a crew of {site}; racks do not carry themselves.",
        )
    return crews[0]


class Calendar(msgspec.Struct, frozen=True):
    """The days of a plan.

    Attributes:
        midnight_s: of day 0: the first at or after ``policy.begins``.
        bridgehead_s, services_s: when these phases end.
        days: length of the horizon.
        leave: days on which a wave may leave.
        slots: in which swings may be, in order.
    """

    midnight_s: float
    bridgehead_s: float
    services_s: float
    days: int
    leave: frozenset[int]
    slots: tuple[Slot, ...]


def calendar(demand: Demand, yard: Yard | None, *, days: int, services_s: float, ready_s: float) -> Calendar:
    """The calendar of a horizon of ``days``.

    Args:
        services_s: when critical services are there.
        ready_s: when the first workload's data is there.
    """
    policy = demand.policy
    assert policy.begins_s is not None, "demand() has checked it"
    midnight = math.ceil(policy.begins_s / DAY_S) * DAY_S
    last = midnight + days * DAY_S
    slots = [slot for slot in _slots(policy, midnight, last) if slot.ends_s > max(services_s, ready_s)]
    begins = max(services_s, ready_s)
    slots = [Slot(max(slot.begins_s, begins), slot.ends_s) for slot in slots]
    leave = frozenset(day for day in range(days) if yard is not None and _may_leave(policy, yard, midnight + day * DAY_S))
    return Calendar(midnight, policy.begins_s + policy.phases.bridgehead_s, services_s, days, leave, tuple(slots))


def _may_leave(policy: Policy, yard: Yard, midnight_s: float) -> bool:
    begins = midnight_s + yard.packers.begins_s
    ends = midnight_s + yard.unload_day * DAY_S + yard.fitters.begins_s + yard.fitters.shift_s
    return not any(begins < period.ends_s and period.begins_s < ends for period in policy.blackouts)


def _slots(policy: Policy, first_s: float, last_s: float) -> list[Slot]:
    """Windows without blackouts; where none are given, every day. Long ones are cut at midnight."""
    windows: Iterable[Period] = policy.windows or (Period(first_s, last_s),)
    found: list[Slot] = []
    for window in sorted(windows, key=lambda one: (one.begins_s, one.ends_s)):
        begins = max(window.begins_s, first_s, found[-1].ends_s if found else first_s)
        for low, high in _without(begins, min(window.ends_s, last_s), policy.blackouts):
            while high - low > 1.5 * DAY_S:
                cut = math.floor(low / DAY_S + 1) * DAY_S
                found.append(Slot(low, cut))
                low = cut
            found.append(Slot(low, high))
    return found


def _without(low: float, high: float, blackouts: Iterable[Period]) -> list[tuple[float, float]]:
    pieces = [(low, high)] if high > low else []
    for black in blackouts:
        pieces = [
            piece
            for begins, ends in pieces
            for piece in ((begins, min(ends, black.begins_s)), (max(begins, black.ends_s), ends))
            if piece[1] > piece[0]
        ]
    return sorted(pieces)
