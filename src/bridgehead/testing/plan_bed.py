"""PlanBed: a plan that somebody damages, with the few look-ups that this takes. It knows nothing of the checker that shall find it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from random import Random
from typing import TypeVar

import msgspec

from bridgehead.model.equipment import Node
from bridgehead.model.estate import Estate, Site, Workload
from bridgehead.model.fabric import RackId
from bridgehead.model.plan import PhaseId, Plan, PlannedPhase, Swing, Task, TaskKind, Wave
from bridgehead.model.policy import Policy

_T = TypeVar("_T")


class Damaged(msgspec.Struct, frozen=True):
    """A plan with one fault.

    Attributes:
        kind: what was done to it.
        codes: the rules that are broken for certain.
        names: words of which a finding that fails for one of these rules must have one.
    """

    kind: str
    plan: Plan
    codes: tuple[str, ...]
    names: tuple[str, ...]


class Bed:
    """A plan with what it is for."""

    def __init__(self, plan: Plan, estate: Estate, policy: Policy, chance: Random) -> None:
        self.plan, self.estate, self.policy, self.chance = plan, estate, policy, chance
        sites = {site.id: site for site in estate.sites}
        self.source: Site = sites[policy.source]
        self.target: Site = sites[policy.target]
        self.work: dict[str, Workload] = {one.id: one for one in estate.workloads}
        self.racks = {rack.id: rack for rack in self.source.racks}
        self.places = {rack.id: rack for rack in self.target.racks}
        self.full = {node.rack for node in self.target.nodes}

    def pick(self, items: Iterable[_T]) -> _T | None:
        """One of them by chance; None of none."""
        found = list(items)
        return self.chance.choice(found) if found else None

    def pick_where(self, items: Iterable[_T], holds: Callable[[_T], bool]) -> _T | None:
        """One for which something holds."""
        return self.pick(one for one in items if holds(one))

    def nodes(self, rack: RackId) -> list[Node]:
        """In a rack of the source."""
        return [node for node in self.source.nodes if node.rack == rack]

    def gpus(self, rack: RackId) -> Counter[str]:
        """Of a rack of the source by model."""
        found: Counter[str] = Counter()
        for node in self.nodes(rack):
            found[node.gpu_model] += node.gpus
        return found

    def phase(self, kind: PhaseId) -> PlannedPhase | None:
        """Of the plan."""
        return next((one for one in self.plan.phases if one.id is kind), None)

    def wet(self, rack: RackId) -> bool:
        """Whether it is cooled by liquid."""
        return any(node.liquid_share for node in self.nodes(rack))

    def changed(self, kind: str, codes: str, *names: str, **fields: object) -> Damaged:
        """The plan with other fields; ``codes`` parted by spaces, without ``PLAN-``."""
        plan = msgspec.structs.replace(self.plan, **fields)
        return Damaged(kind, plan, tuple(f"PLAN-{code}" for code in codes.split()), names)

    def swing_to(self, swing: Swing, begins_s: float) -> tuple[Swing, ...]:
        """All swings, one of them at another time."""
        moved = msgspec.structs.replace(swing, begins_s=begins_s, ends_s=begins_s + swing.ends_s - swing.begins_s)
        return swapped(self.plan.swings, swing, moved)

    def with_task(self, wave: Wave, task: Task, **fields: object) -> tuple[Wave, ...]:
        """All waves, one task of one of them changed."""
        tasks = swapped(wave.tasks, task, msgspec.structs.replace(task, **fields))
        return self.with_wave(wave, tasks=tasks)

    def with_wave(self, wave: Wave, **fields: object) -> tuple[Wave, ...]:
        """All waves, one of them changed."""
        return swapped(self.plan.waves, wave, msgspec.structs.replace(wave, **fields))

    def task(self, wave: Wave, *kinds: TaskKind) -> Task | None:
        """One of these steps, which takes time."""
        return self.pick_where(wave.tasks, lambda task: task.id in kinds and task.ends_s > task.begins_s)


def swapped(items: tuple[_T, ...], old: _T, new: _T) -> tuple[_T, ...]:
    """With one of them replaced."""
    return tuple(new if one is old else one for one in items)


def without(items: tuple[_T, ...], gone: _T) -> tuple[_T, ...]:
    """Without one of them."""
    return tuple(one for one in items if one is not gone)


def shifted(wave: Wave, by_s: float) -> Wave:
    """A wave with all that belongs to it at another time."""
    tasks = tuple(
        msgspec.structs.replace(
            one,
            begins_s=one.begins_s + by_s,
            ends_s=one.ends_s + by_s,
            prepared_from_s=None if one.prepared_from_s is None else one.prepared_from_s + by_s,
        )
        for one in wave.tasks
    )
    vehicles = tuple(msgspec.structs.replace(one, leaves_s=one.leaves_s + by_s, arrives_s=one.arrives_s + by_s) for one in wave.vehicles)
    return msgspec.structs.replace(wave, out_s=wave.out_s + by_s, joins_s=wave.joins_s + by_s, tasks=tasks, vehicles=vehicles)
