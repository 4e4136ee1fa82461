"""Data: it is there before what uses it, complete and kept in step (PLAN-DATA; M8.4, M9.1 to M9.3; rules section 8). Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator

import msgspec

from bridgehead.kernel.units import Dimension
from bridgehead.model.finding import Finding
from bridgehead.model.plan import PhaseId, SwingMode, Transfer
from bridgehead.planning.check_case import SLACK, TICK_S, Case, amount, lasting, when
from bridgehead.planning.check_ground import Ground
from bridgehead.planning.check_swing_cost import change_bps

_REST = "store."
_STATE = "checkpoint."


class _Piece(msgspec.Struct, frozen=True):
    """Data of the source that has to be at the target.

    Attributes:
        size_bytes: None while unknown; 0 when there is nothing to carry.
        change_bps: None while unknown.
        lacks: what to give when one of both is unknown.
    """

    id: str
    size_bytes: int | None
    change_bps: float | None
    lacks: str = ""


def check_data(ground: Ground) -> Iterator[Finding]:
    """``PLAN-DATA``: of each transfer, of each workload, and of what lies at the source in the end."""
    pieces = {piece.id: piece for piece in _pieces(ground)}
    users = _users(ground)
    for transfer in ground.plan.transfers:
        yield _transfer(ground, transfer, pieces.get(transfer.id), users.get(transfer.id, []))
    for name in sorted(ground.moving):
        yield from _workload(ground, name, pieces, users)
    yield from _left_behind(ground, pieces)


def _pieces(ground: Ground) -> Iterator[_Piece]:
    source = ground.policy.source
    beside: defaultdict[str, list[tuple[int, float]]] = defaultdict(list)
    for data in ground.estate.datasets:
        if data.site == source:
            yield _Piece(data.id, data.size_bytes, data.change_bps, f"datasets.{data.id}.change")
            beside[data.store].append((data.size_bytes, data.change_bps or 0.0))
    for store in ground.source.stores:
        sizes, changes = [size for size, _ in beside[store.id]], math.fsum(change for _, change in beside[store.id])
        path = f"sites.{source}.stores.{store.id}"
        if store.used_bytes is None:
            yield _Piece(_REST + store.id, None, None, f"{path}.used")
            continue
        rest = max(0, store.used_bytes - sum(sizes))
        change = None if store.change_bps is None else max(0.0, store.change_bps - changes)
        yield _Piece(_REST + store.id, rest, change if rest else 0.0, f"{path}.change")
    for name, workload in ground.moving.items():
        swing, size = ground.swings.get(name), workload.total_checkpoint_bytes
        if size is None:
            continue  # without a checkpoint there is none to carry; PLAN-MODE and PLAN-LOSS ask for one where it is needed
        changes = 0.0 if swing is None or swing.mode is SwingMode.CANARY else change_bps(ground, workload) or 0.0
        yield _Piece(_STATE + name, size, changes if math.isfinite(changes) else None, f"workloads.{name}.checkpoint_every")


def _users(ground: Ground) -> dict[str, list[str]]:
    """Workloads of the source by the data that they use."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for name, workload in ground.moving.items():
        for data in workload.datasets:
            found[data].append(name)
        if workload.store:
            found[_REST + workload.store].append(name)
        found[_STATE + name].append(name)
    return found


def _transfer(ground: Ground, transfer: Transfer, piece: _Piece | None, users: list[str]) -> Finding:
    case = Case("PLAN-DATA", f"transfer:{transfer.id}")
    how = f"by {transfer.courier}" if transfer.courier else "by line"
    if piece is None:
        text = f"transfer {transfer.id}: there is no such data at {ground.source.id}"
        case.fault(text, remedy="name a data set, store.ID or checkpoint.ID of the source, or take the transfer out")
        return case.finding("")
    if piece.size_bytes is None:
        case.lack(f"nobody knows how much {transfer.id} is", measurement=f"give {piece.lacks}")
    elif transfer.size_bytes != piece.size_bytes:
        shown = (amount(transfer.size_bytes, Dimension.SIZE), amount(piece.size_bytes, Dimension.SIZE))
        text = f"transfer {transfer.id} carries {shown[0]}, and it is {shown[1]}"
        case.fault(
            text, value=transfer.size_bytes, limit=piece.size_bytes, unit="B", remedy=f"set its size to {shown[1]} and give it the time"
        )
    if transfer.courier:
        _by_courier(ground, case, transfer)
    else:
        _by_line(ground, case, transfer, piece)
    _in_step(ground, case, transfer, piece, users)
    return case.finding(f"{transfer.id} is there {when(transfer.ends_s)}, {how}")


def _by_line(ground: Ground, case: Case, transfer: Transfer, piece: _Piece) -> None:
    bridgehead = ground.phase(PhaseId.BRIDGEHEAD)
    if bridgehead is not None and transfer.begins_s < bridgehead.ends_s - TICK_S:
        early = bridgehead.ends_s - transfer.begins_s
        text = f"transfer {transfer.id} begins {when(transfer.begins_s)}, {lasting(early)} before the lines are there"
        case.fault(text, value=early, limit=0.0, unit="s", remedy=f"begin it at {when(bridgehead.ends_s)} or later")
    length = max(0.0, transfer.ends_s - transfer.begins_s)
    carried, need = transfer.rate_bps * length, transfer.size_bytes * 8 + (piece.change_bps or 0.0) * length
    if carried < need * (1 - SLACK):
        short = amount((need - carried) / 8, Dimension.SIZE)
        text = f"transfer {transfer.id} has {lasting(length)} at {amount(transfer.rate_bps, Dimension.RATE)}"
        text += f", which is {short} too little for {amount(transfer.size_bytes, Dimension.SIZE)} and what changes meanwhile"
        case.fault(text, value=carried / 8, limit=need / 8, unit="B", remedy="give it more time or a higher rate")


def _by_courier(ground: Ground, case: Case, transfer: Transfer) -> None:
    ends = {ground.policy.source, ground.policy.target}
    courier = next((one for one in ground.estate.couriers if one.id == transfer.courier), None)
    if courier is None or set(courier.between) != ends:
        why = f"the estate has no courier '{transfer.courier}'" if courier is None else f"{courier.id} does not drive between both sites"
        case.fault(f"transfer {transfer.id}: {why}", remedy="name a courier between both sites, or send it by line")
        return
    begins = ground.policy.begins_s
    if begins is not None and transfer.begins_s < begins - TICK_S:
        text = f"transfer {transfer.id} begins {when(transfer.begins_s)}, {lasting(begins - transfer.begins_s)} before the move begins"
        case.fault(text, value=begins - transfer.begins_s, limit=0.0, unit="s", remedy=f"begin it at {when(begins)} or later")
    bits, path = 8 * transfer.size_bytes, f"couriers.{courier.id}"
    given: dict[str, float | None] = {"order": courier.order_s, "devices": courier.devices, "fill": courier.fill_bps}
    given |= {"transport": courier.transport_s, "verify": courier.verify_bps}
    lacks = [f"{path}.{name}" for name, value in given.items() if value is None]
    at_once = courier.devices or 0
    parts = [courier.order_s or 0.0, courier.transport_s or 0.0]
    unload = courier.unload_bps if courier.unload_bps is not None else courier.fill_bps
    for rate, drives in ((courier.fill_bps, at_once), (unload, at_once), (courier.verify_bps, 1)):
        if rate is not None and drives:
            parts.append(bits / (rate * drives) if rate else math.inf)
    least, length = math.fsum(parts), transfer.ends_s - transfer.begins_s
    text = f"transfer {transfer.id} has {lasting(length)} by {courier.id}"
    text += f", which takes {lasting(least)} to order, fill, drive, unload and verify"
    if not case.at_least(length, least, text, unit="s", remedy=f"let it end {lasting(least - length)} later"):
        return
    lacks += [f"{path}.unload"] if courier.unload_bps is None else []
    if lacks:
        case.lack(f"nobody knows how long {courier.id} takes for {transfer.id}", measurement="give " + ", ".join(lacks))


def _in_step(ground: Ground, case: Case, transfer: Transfer, piece: _Piece, users: list[str]) -> None:
    """What changes is sent after the copy until the last user has gone over; without users, until everything has."""
    if piece.change_bps is None:
        if piece.size_bytes is not None:
            case.lack(f"nobody knows how fast {transfer.id} changes", measurement=f"give {piece.lacks}")
        return
    if not piece.change_bps:
        return
    if transfer.sync_bps < piece.change_bps * (1 - SLACK):
        shown = (amount(piece.change_bps, Dimension.RATE), amount(transfer.sync_bps, Dimension.RATE))
        text = f"{transfer.id} changes by {shown[0]}, and {shown[1]} are reserved for that"
        case.fault(text, value=transfer.sync_bps, limit=piece.change_bps, unit="bit/s", remedy=f"set its sync to {shown[0]}")
    gone = [ground.swings[name].ends_s for name in ground.moving if name in users and name in ground.swings]
    last = max(gone, default=None) if users else ground.last_swing_s
    if last is None or not transfer.sync_bps or transfer.sync_ends_s is None:
        return
    if transfer.sync_ends_s < max(last, transfer.ends_s) - TICK_S:
        text = f"{transfer.id} is kept in step until {when(transfer.sync_ends_s)}, and its last user is over only {when(last)}"
        value = max(last, transfer.ends_s) - transfer.sync_ends_s
        case.fault(text, value=value, limit=0.0, unit="s", remedy=f"keep it in step until {when(last)}")


def _workload(ground: Ground, name: str, pieces: dict[str, _Piece], users: dict[str, list[str]]) -> Iterator[Finding]:
    workload = ground.workloads[name]
    swing = ground.swings.get(workload.id)
    if swing is None:
        return
    case = Case("PLAN-DATA", f"workload:{name}")
    asked = [piece for piece in pieces.values() if name in users.get(piece.id, ()) and piece.size_bytes != 0]
    for piece in asked:
        transfer = ground.transfers.get(piece.id)
        if transfer is None and piece.size_bytes is None:
            case.lack(f"nobody knows whether anything lies in {piece.id} that {name} needs", measurement=f"give {piece.lacks}")
        elif transfer is None:
            text = f"{name} swings {when(swing.begins_s)}, and {piece.id} never gets to {ground.target.id}"
            case.fault(text, remedy=f"add a transfer of {piece.id} that ends before then")
        elif transfer.ends_s > swing.begins_s + TICK_S:
            late = transfer.ends_s - swing.begins_s
            text = f"{name} swings {when(swing.begins_s)}, and {piece.id} is there only {when(transfer.ends_s)}, {lasting(late)} later"
            remedy = f"move the swing to after {when(transfer.ends_s)}, or send {piece.id} earlier"
            case.fault(text, value=late, limit=0.0, unit="s", remedy=remedy)
    yield case.finding(f"all data of {name} is there before its swing")


def _left_behind(ground: Ground, pieces: dict[str, _Piece]) -> Iterator[Finding]:
    """Data that nobody uses has to be there before the source is given up."""
    last = ground.phase(PhaseId.DECOMMISSION)
    case = Case("PLAN-DATA", f"site:{ground.source.id}")
    for piece in pieces.values():
        if piece.size_bytes == 0 or piece.id.startswith(_STATE):
            continue
        transfer = ground.transfers.get(piece.id)
        if transfer is None:
            if piece.size_bytes is None:
                case.lack(f"nobody knows whether anything lies in {piece.id}", measurement=f"give {piece.lacks}")
            else:
                shown = amount(piece.size_bytes, Dimension.SIZE)
                case.fault(f"{piece.id} ({shown}) is left at {ground.source.id}", remedy=f"add a transfer of {piece.id}")
        elif last is not None and transfer.ends_s > last.begins_s + TICK_S:
            late = transfer.ends_s - last.begins_s
            text = f"{piece.id} is there {when(transfer.ends_s)}, {lasting(late)} after decommissioning has begun"
            case.fault(text, value=late, limit=0.0, unit="s", remedy="decommission later, or send it earlier")
    yield case.finding(f"nothing is left at {ground.source.id}")
