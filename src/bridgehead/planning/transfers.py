"""Transfers: which data goes when, by line or by courier, so that it is there before what uses it (M8.4, M9.1 to M9.3; rules section 8).

Cold data first, hot data last; one copy after the other takes what the line leaves, until swings begin and half of it is theirs. State of
workloads is copied in the days before their swing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import msgspec

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.quantity import format_rate
from bridgehead.model.estate import Courier, Temperature
from bridgehead.model.logistics import DAY_S
from bridgehead.model.plan import Swing, Transfer
from bridgehead.planning.demand import Demand, Job, rest_bytes

_ORDER = (Temperature.COLD, Temperature.WARM, Temperature.HOT)
_LEAD_S = 3600.0
"""A checkpoint is there so long before the swing begins."""


class _Piece(msgspec.Struct, frozen=True):
    """Data that goes as one."""

    id: str
    size_bytes: int
    change_bps: float


def bulk(demand: Demand, *, begins_s: float, swings_s: float) -> tuple[Transfer, ...]:
    """Copies of data sets and of what stores hold beside them.

    Args:
        begins_s: when the lines are there.
        swings_s: when swings may begin; half of the line is theirs from then on.

    Raises BAD_INPUT when the data changes faster than the line carries (MV6: it would never end).
    """
    couriers = sorted((one for one in demand.estate.couriers if set(one.between) == {demand.source.id, demand.target.id}), key=_name)
    free_s: dict[str, float] = {one.id: demand.policy.begins_s or begins_s for one in couriers}
    found: list[Transfer] = []
    at, synced = begins_s, 0.0
    for piece in _pieces(demand):
        by_line = _by_line(demand, piece, at, synced, swings_s)
        carried = None if piece.change_bps else _by_courier(piece, couriers, free_s)
        if carried is not None and carried.ends_s < by_line.ends_s:
            free_s[carried.courier] = carried.ends_s
            found.append(carried)
            continue
        found.append(by_line)
        at, synced = by_line.ends_s, synced + piece.change_bps
    return tuple(found)


def _name(courier: Courier) -> str:
    return courier.id


def _pieces(demand: Demand) -> list[_Piece]:
    """Critical metadata first, then by temperature; what stores hold beside data sets comes as warm."""
    site = demand.source.id
    ranked: list[tuple[tuple[int, str], _Piece]] = [
        ((0 if data.critical else 1 + _ORDER.index(data.temperature), data.id), _Piece(data.id, data.size_bytes, data.change_bps or 0.0))
        for data in demand.estate.datasets
        if data.site == site
    ]
    for store in demand.source.stores:
        rest = rest_bytes(demand.estate, site, store.id)
        if rest:
            known = sum(data.change_bps or 0.0 for data in demand.estate.datasets if data.site == site and data.store == store.id)
            change = max(0.0, (store.change_bps or 0.0) - known)
            ranked.append(((1 + _ORDER.index(Temperature.WARM), f"store.{store.id}"), _Piece(f"store.{store.id}", rest, change)))
    return [piece for _, piece in sorted(ranked, key=lambda one: one[0])]


def _by_line(demand: Demand, piece: _Piece, at_s: float, synced_bps: float, swings_s: float) -> Transfer:
    rate = ends = 0.0
    for rate in (demand.line_bps - synced_bps, demand.line_bps / 2 - synced_bps):
        if rate <= piece.change_bps:
            raise BridgeheadError(
                ErrorCode.BAD_INPUT,
                tried="plan the transfers",
                subject=piece.id,
                happened=f"{format_rate(max(rate, 0.0), digits=4)} of the lines are left for it, "
                f"and {format_rate(piece.change_bps, digits=4)} change, so that no copy ever ends",
                remedy="Add bandwidth, raise limits.rate in the policy, or stop what changes the data.",
            )
        ends = math.ceil(at_s + 8 * piece.size_bytes / (rate - piece.change_bps))  # files know no fractions of microseconds
        if ends <= swings_s:
            break
    return Transfer(piece.id, piece.size_bytes, at_s, ends, rate_bps=rate, sync_bps=piece.change_bps)


def _by_courier(piece: _Piece, couriers: Iterable[Courier], free_s: Mapping[str, float]) -> Transfer | None:
    """Order, fill, transport, unload, verify, one after the other; only for data that does not change meanwhile."""
    ways = []
    for one in couriers:
        if one.order_s is None or not one.devices or not one.fill_bps or one.transport_s is None or not one.verify_bps:
            continue
        bits, begins = 8 * piece.size_bytes, free_s[one.id]
        unload = one.unload_bps or one.fill_bps
        takes = one.order_s + bits / (one.devices * one.fill_bps) + one.transport_s + bits / (one.devices * unload) + bits / one.verify_bps
        ways.append(Transfer(piece.id, piece.size_bytes, begins, math.ceil(begins + takes), courier=one.id))
    return min(ways, key=lambda way: (way.ends_s, way.courier), default=None)


def with_sync(transfers: Iterable[Transfer], jobs: Iterable[Job], swings: Iterable[Swing]) -> list[Transfer]:
    """Kept in step until the last user has gone over; what nobody uses, until everything has."""
    ends = {swing.id: swing.ends_s for swing in swings}
    last = max(ends.values(), default=0.0)
    users: dict[str, list[float]] = {}
    for job in jobs:
        for name in job.data:
            users.setdefault(name, []).append(ends[job.id])
    return [
        msgspec.structs.replace(one, sync_ends_s=max(one.ends_s, max(users.get(one.id, [last])))) if one.sync_bps else one
        for one in transfers
    ]


def checkpoints(
    demand: Demand, jobs: Mapping[str, Job], swings: Iterable[Swing], others: Iterable[Transfer], *, begins_s: float
) -> list[Transfer]:
    """Copies of the workloads' state, each as slowly as the days before its swing allow. Raises BAD_INPUT when the line is too narrow."""
    taken: list[tuple[float, float, float]] = []
    for one in others:
        if one.rate_bps:
            taken.append((one.begins_s, one.ends_s, one.rate_bps))
        if one.sync_bps and one.sync_ends_s is not None:
            taken.append((one.ends_s, one.sync_ends_s, one.sync_bps))
    found: list[Transfer] = []
    for swing in sorted(swings, key=lambda one: (one.begins_s, one.id)):
        crossing = jobs[swing.id].crossing
        if not crossing.checkpoint_bytes:
            continue
        copy = _copy_before(demand, swing, crossing.checkpoint_bytes, crossing.sync_bps, taken, begins_s)
        found.append(copy)
        taken.append((copy.begins_s, copy.ends_s, copy.rate_bps))
        if copy.sync_bps:
            taken.append((copy.ends_s, swing.ends_s, copy.sync_bps))
    return found


def _copy_before(
    demand: Demand, swing: Swing, size_bytes: int, sync_bps: float, taken: list[tuple[float, float, float]], begins_s: float
) -> Transfer:
    ends = swing.begins_s - _LEAD_S
    sync_ends = swing.ends_s if sync_bps else None
    days = 1.0
    while ends - days * DAY_S >= begins_s:
        begins = ends - days * DAY_S
        rate = 8 * size_bytes / (ends - begins) + sync_bps
        peak = max(_peak(taken, begins, ends) + rate, _peak(taken, ends, swing.ends_s) + sync_bps)
        if peak <= demand.line_bps / 2:
            return Transfer(f"checkpoint.{swing.id}", size_bytes, begins, ends, rate_bps=rate, sync_bps=sync_bps, sync_ends_s=sync_ends)
        days *= 2
    raise BridgeheadError(
        ErrorCode.BAD_INPUT,
        tried="plan the transfers",
        subject=f"checkpoint of {swing.id}",
        happened=f"half of the line ({format_rate(demand.line_bps / 2, digits=4)}) does not carry it beside all else before its swing",
        remedy="Add bandwidth, raise limits.rate in the policy, or lower limits.concurrent_moves.",
    )


def _peak(taken: Iterable[tuple[float, float, float]], begins_s: float, ends_s: float) -> float:
    """The most that is taken at one moment of a period."""
    here = [(max(low, begins_s), high, rate) for low, high, rate in taken if low < ends_s and begins_s < high]
    moments = {low for low, _, _ in here}
    return max((math.fsum(rate for low, high, rate in here if low <= moment < high) for moment in moments), default=0.0)
