"""Relaxations: by how little each limit of a conflict would have to give way, so that a plan becomes possible; the cheapest first."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec
from ortools.sat.python import cp_model

from bridgehead.model.logistics import DAY_S
from bridgehead.model.policy import Policy
from bridgehead.planning.conflict import Conflict, horizon
from bridgehead.planning.demand import demand
from bridgehead.planning.grid import Yard, calendar
from bridgehead.planning.master import Limit, Master
from bridgehead.planning.no_plan import NoPlan
from bridgehead.planning.search import WORKERS

_GROWTH = (1.1, 1.25, 1.5, 2.0, 3.0, 5.0)
_replace = msgspec.structs.replace


class Relaxation(msgspec.Struct, frozen=True):
    """One limit that gives way.

    Attributes:
        change: by what share it gives way.
        text: in plain words, with the path of the field.
    """

    limit: Limit
    change: float
    text: str


def relaxations(none: NoPlan, conflict: Conflict, *, seed: int, limit_s: float) -> tuple[Relaxation, ...]:
    """For each limit of the conflict the smallest of some changes that makes a plan possible.

    Args:
        limit_s: for each question to the solver; what it cannot answer in that time counts as impossible.
    """
    found = []
    for limit in conflict.limits:
        tries = list(changes(limit, none.demand.policy, none.yard))
        low, high = -1, len(tries) - 1
        if not tries or not _possible(none, tries[high][1], seed, limit_s):
            continue
        while high - low > 1:
            middle = (low + high) // 2
            if _possible(none, tries[middle][1], seed, limit_s):
                high = middle
            else:
                low = middle
        change, _, text = tries[high]
        found.append(Relaxation(limit, change, text))
    return tuple(sorted(found, key=lambda one: (one.change, one.limit)))


def _possible(none: NoPlan, policy: Policy, seed: int, limit_s: float) -> bool:
    """Whether another policy has a plan within the days in which this one has none."""
    asked = demand(none.demand.estate, policy)
    yard = None if none.yard is None or policy.logistics is None else Yard(policy.logistics, asked)
    other = NoPlan(asked, yard, none.services_s, none.ready_s)
    days = horizon(other)
    for tight in (False, True):
        grid = calendar(asked, yard, days=days, services_s=none.services_s, ready_s=none.ready_s)
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = WORKERS
        solver.parameters.random_seed = seed
        solver.parameters.max_time_in_seconds = limit_s
        if solver.solve(Master(asked, yard, grid, tight=tight).model) in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return True
    return False


def changes(limit: Limit, policy: Policy, yard: Yard | None) -> Iterator[tuple[float, Policy, str]]:
    """Ever larger changes of one limit: share, the policy with it, and in words."""
    logistics = policy.logistics
    for growth in _GROWTH:
        share = growth - 1
        match limit:
            case Limit.RESERVE_SOURCE | Limit.RESERVE_TARGET:
                less = max(0.0, policy.reserve * (1 - share))
                if share <= 1:
                    yield share, _replace(policy, reserve=less), f"policy.reserve: {less:.1%} instead of {policy.reserve:.1%}"
            case Limit.BRIDGEHEAD:
                rule = policy.bridgehead
                wider = _replace(rule, least=max(0.0, rule.least * (1 - share)), most=min(1.0, rule.most * growth))
                yield share, _replace(policy, bridgehead=wider), f"policy.bridgehead: {wider.least:.0%} to {wider.most:.0%}"
            case Limit.LANES:
                more = math.ceil(policy.limits.concurrent_moves * growth)
                yield (
                    share,
                    _replace(policy, limits=_replace(policy.limits, concurrent_moves=more)),
                    f"policy.limits.concurrent_moves: {more}",
                )
            case Limit.PACKERS | Limit.FITTERS:
                if yard is not None and logistics is not None:
                    crew = yard.packers if limit is Limit.PACKERS else yard.fitters
                    teams, shift = math.ceil(crew.teams * growth), min(0.9 * DAY_S, crew.shift_s * growth)
                    longer = tuple(_replace(one, teams=teams, shift_s=shift) if one.id == crew.id else one for one in logistics.crews)
                    text = f"policy.logistics.crews.{crew.id}: {teams} teams and shifts of {shift / 3600:.3g} h"
                    yield share, _replace(policy, logistics=_replace(logistics, crews=longer)), text
            case Limit.VEHICLES:
                if logistics is not None:
                    fleet = logistics.fleet
                    more = math.ceil(fleet.vehicles * growth)
                    insured = None if fleet.insured is None else fleet.insured * growth
                    payload = None if fleet.payload_kg is None else fleet.payload_kg * growth
                    larger = _replace(fleet, vehicles=more, insured=insured, payload_kg=payload)
                    text = f"policy.logistics.fleet: {more} vehicles, with payload and insured value {share:.0%} higher"
                    yield share, _replace(policy, logistics=_replace(logistics, fleet=larger)), text
            case Limit.DOCK:
                if logistics is not None and logistics.dock_places is not None:
                    more = math.ceil(logistics.dock_places * growth)
                    yield share, _replace(policy, logistics=_replace(logistics, dock_places=more)), f"policy.logistics.dock_places: {more}"
            case Limit.DEADLINE:
                if policy.ends_s is not None and policy.begins_s is not None:
                    later = policy.begins_s + (policy.ends_s - policy.begins_s) * growth
                    text = f"policy.ends: {(later - policy.ends_s) / DAY_S:.1f} days later"
                    yield share, _replace(policy, ends_s=later), text
            case Limit.WINDOWS:
                longer_windows = tuple(_replace(one, ends_s=one.begins_s + (one.ends_s - one.begins_s) * growth) for one in policy.windows)
                yield share, _replace(policy, windows=longer_windows), f"policy.windows: each {share:.0%} longer"
            case Limit.BLACKOUTS:
                yield 1.0, _replace(policy, blackouts=()), "policy.blackouts: none"
