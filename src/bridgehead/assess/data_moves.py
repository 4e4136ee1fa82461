"""Moving data: bandwidth that checkpoints need, and time that all data takes, by line or courier (M8.3, M9.3; rules section 8)."""

from __future__ import annotations

import math
from collections.abc import Iterator

import msgspec

from bridgehead.assess.carriage import KEEPS_STATE, RATES, SIZES, free_rate, moved, size_bytes
from bridgehead.assess.checking import Case, Check
from bridgehead.assess.fleet import few, shown
from bridgehead.assess.scope import Scope
from bridgehead.assess.wan_math import LINE_EFFICIENCY, NEED_FACTOR, Carriage, break_even_bps, courier_s, needed_bps, transfer_s
from bridgehead.assess.windows import usable
from bridgehead.kernel.units import Dimension
from bridgehead.model.estate import Courier
from bridgehead.model.finding import Finding, FindingStatus, Origin, Severity

_WINDOW = "give the windows of the move in the policy"
_STORES = "read the bytes used, and the bytes that change, of each store (df, snapshots)"


def _checkpoints(scope: Scope) -> Iterator[Finding]:
    workloads = [one for one in moved(scope) if one.kind in KEEPS_STATE]
    if not workloads:
        return
    case = Case(CHECKPOINTS, scope.target.id)
    sizes = {one.id: size_bytes(case, one) for one in workloads}
    unknown = [name for name, size in sizes.items() if size is None]
    pieces = _lengths_s(scope)
    if not pieces:
        yield case.unknown("no window says within which time checkpoints must be at the target", measurement=_WINDOW)
        return
    window = max(pieces)
    case.take("window", window, "s", "policy.windows.*")
    if not scope.links:
        yield case.unknown("no line is described that could bring checkpoints over", measurement="describe the lines between the sites")
        return
    case.take("factor", NEED_FACTOR, "", "requirement M8.3", origin=Origin.DEFAULT)
    total = sum(size for size in sizes.values() if size is not None)
    need = needed_bps(total, window_s=window)
    bare = needed_bps(total, window_s=window, factor=1.0)
    free = free_rate(case, scope)
    per_gpu = [one.id for one in workloads if one.checkpoint_per_gpu_bytes is not None]
    kind = f" (sizes of {few(per_gpu)} are per GPU)" if per_gpu else ""
    size = case.at_least_words(shown(int(total), Dimension.SIZE), "checkpoint")
    text = (
        f"{size} of checkpoints{kind} in {shown(window, Dimension.DURATION)} need"
        f" {shown(bare, Dimension.RATE)}, with 30 % {shown(need, Dimension.RATE)}; the lines leave {shown(free, Dimension.RATE)}"
    )
    ask = "; ".join(([SIZES] if unknown else []) + [RATES])
    remedy = "replicate ahead so that only the last change goes within the window, add bandwidth, or give more time"
    yield case.at_least(free, need, "bit/s", text, remedy=remedy, measurement=ask)


class _Way(msgspec.Struct, frozen=True):
    """One way to bring all data over: its finding, and how long it takes."""

    finding: Finding
    takes_s: float


def _data(scope: Scope) -> Iterator[Finding]:
    if scope.source is None or not scope.source.stores:
        return
    ways = [_by_line(scope)] if scope.links else []
    couriers = sorted((one for one in scope.estate.couriers if _joins(one, scope)), key=lambda one: one.id)
    ways += [_by_courier(scope, courier) for courier in couriers]
    if not ways:
        case = Case(DATA, scope.target.id)
        _bytes_to_move(case, scope)
        yield case.unknown("neither a line nor a courier is described", measurement="describe the lines between the sites")
        return
    rank = (FindingStatus.PASS, FindingStatus.UNKNOWN, FindingStatus.FAIL)
    best = min(ways, key=lambda way: (rank.index(way.finding.status), way.takes_s, way.finding.text)).finding
    others = [way.finding.text for way in ways if way.finding is not best]
    yield msgspec.structs.replace(best, text="; ".join([best.text, *others]))


def _lengths_s(scope: Scope) -> list[float]:
    """How long each piece of time is in which something may move."""
    return [ends - begins for begins, ends in usable(scope.policy.windows, scope.policy.blackouts)]


def _joins(courier: Courier, scope: Scope) -> bool:
    return set(courier.between) == {site.id for site in scope.sites}


def _bytes_to_move(case: Case, scope: Scope) -> float:
    assert scope.source is not None, "data is moved away from a source"
    total = 0.0
    for store in sorted(scope.source.stores, key=lambda one: one.id):
        total += case.take("used", store.used_bytes, "B", f"sites.{scope.source.id}.stores.{store.id}.used") or 0
    return total


def _bytes_words(scope: Scope, total: float) -> str:
    assert scope.source is not None, "data is moved away from a source"
    some = any(store.used_bytes is None for store in scope.source.stores)
    return f"{'at least ' if some else ''}{shown(int(total), Dimension.SIZE)}"


def _changing(case: Case, scope: Scope) -> float:
    assert scope.source is not None, "data is moved away from a source"
    found = (
        case.take("change", store.change_bps, "bit/s", f"sites.{scope.source.id}.stores.{store.id}.change")
        for store in sorted(scope.source.stores, key=lambda one: one.id)
    )
    return sum(value or 0.0 for value in found)


def _within(case: Case, scope: Scope, *, takes_s: float, text: str, remedy: str, measurement: str) -> Finding:
    if not scope.policy.windows:
        return case.holds(math.isfinite(takes_s), f"{text} (no window limits it)", remedy=remedy, measurement=measurement)
    limit = sum(_lengths_s(scope))
    case.take("windows", limit, "s", "policy.windows.*")
    return case.at_most(
        takes_s, limit, "s", f"{text}; the windows give {shown(limit, Dimension.DURATION)} in all", remedy=remedy, measurement=measurement
    )


def _by_line(scope: Scope) -> _Way:
    case = Case(DATA, scope.target.id)
    total, change, free = _bytes_to_move(case, scope), _changing(case, scope), free_rate(case, scope)
    takes = transfer_s(total, rate_bps=free, change_bps=change) if total else 0.0
    how = f"{_bytes_words(scope, total)} at {shown(free, Dimension.RATE)}"
    changing = case.at_least_words(shown(change, Dimension.RATE), "change")
    if math.isfinite(takes):
        text = f"{how}, while {changing} change, take {shown(takes, Dimension.DURATION)} by line"
    else:
        text = f"{how} never arrive by line, since {changing} change"
    remedy = "add bandwidth, carry the cold data by courier, or give more time"
    finding = _within(case, scope, takes_s=takes, text=text, remedy=remedy, measurement=f"{_STORES}; {RATES}")
    return _Way(finding, takes)


def _by_courier(scope: Scope, courier: Courier) -> _Way:
    case = Case(DATA, scope.target.id)
    total, path = _bytes_to_move(case, scope), f"couriers.{courier.id}"
    order = case.take("order", courier.order_s, "s", f"{path}.order")
    devices = case.take("devices", courier.devices, "", f"{path}.devices")
    fill = case.take("fill", courier.fill_bps, "bit/s", f"{path}.fill")
    transport = case.take("transport", courier.transport_s, "s", f"{path}.transport")
    verify = case.take("verify", courier.verify_bps, "bit/s", f"{path}.verify")
    if order is None or not devices or not fill or transport is None or not verify:
        ask = "ask the courier for its times, and measure filling, reading and verifying one drive"
        return _Way(case.unknown(f"how long courier {courier.id} takes is not known", measurement=ask), math.inf)
    unload = case.guess("unload", courier.unload_bps or None, "bit/s", f"{path}.unload", otherwise=fill, because="as fast as filling")
    carriage = Carriage(order, devices * fill, transport, devices * unload, verify)
    takes = courier_s(total, carriage)
    text = f"courier {courier.id} takes {shown(takes, Dimension.DURATION)}"
    if total:
        even = break_even_bps(total, by_courier_s=takes, efficiency=LINE_EFFICIENCY)
        text += f" (a line above {shown(even, Dimension.RATE)} is faster)"
    remedy = "send more drives at once, or begin earlier"
    return _Way(_within(case, scope, takes_s=takes, text=text, remedy=remedy, measurement=_STORES), takes)


def _converges(scope: Scope) -> Iterator[Finding]:
    if scope.source is None or not scope.source.stores or not scope.links:
        return
    case = Case(CONVERGES, scope.target.id)
    change, free = _changing(case, scope), free_rate(case, scope)
    text = f"{case.at_least_words(shown(change, Dimension.RATE), 'change')} change, the lines leave {shown(free, Dimension.RATE)}"
    if change < free:
        yield case.at_most(change, free, "bit/s", text, remedy="", measurement=f"{_STORES}; {RATES}")
    else:
        remedy = "add bandwidth; replication that is slower than the change never ends"
        yield case.holds(False, f"{text}, so a copy never catches up", remedy=remedy, value=change, limit=free, unit="bit/s")


CHECKPOINTS = Check(
    "MOV-CHECKPOINTS",
    "Do the lines bring all checkpoints over within a window?",
    ("M8.3", "M4"),
    "free rate >= sum of checkpoints · 8 / longest window · 1.3 (rules section 8)",
    _checkpoints,
)
DATA = Check(
    "MOV-DATA",
    "Does all data reach the target in time, by line or courier?",
    ("M9.1", "M9.3", "M4"),
    "line: 8·B / (rate - change); courier: order + fill + transport + unload + verify; the better one <= sum of windows (rules section 8)",
    _data,
    Severity.WARNING,
)
CONVERGES = Check(
    "MOV-CONVERGES",
    "Is the line faster than data changes?",
    ("M9.1",),
    "unique bytes that change < free rate (rules section 8)",
    _converges,
)
CHECKS = (CHECKPOINTS, DATA, CONVERGES)
