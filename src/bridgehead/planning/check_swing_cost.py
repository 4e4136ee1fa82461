"""What a swing costs by the table of docs/reference/plan-files.md, computed anew. Pure; None wherever a value is missing."""

from __future__ import annotations

import math

import msgspec

from bridgehead.model.estate import Workload, WorkloadKind
from bridgehead.model.logistics import HOUR_S
from bridgehead.model.plan import SwingMode
from bridgehead.planning.check_ground import Ground

PRECHECKS_S = 600.0
WARM_UP_S = 300.0
_ROUNDS = 3


class Price(msgspec.Struct, frozen=True):
    """What one swing costs.

    Attributes:
        lost_s, length_s: None while unknown.
        lacks: what is missing for them.
    """

    lost_s: float | None
    length_s: float | None
    lacks: tuple[str, ...] = ()


def delta_bits(ground: Ground, workload: Workload) -> float | None:
    """What of a checkpoint has changed when the next one is made."""
    size = workload.total_checkpoint_bytes
    return None if size is None else 8 * ground.policy.precopy.delta_share * size


def change_bps(ground: Ground, workload: Workload) -> float | None:
    """How fast its state changes: what has changed by the next checkpoint, each time; None while the size is unknown."""
    bits = delta_bits(ground, workload)
    if bits is None or workload.checkpoint_every_s is None:
        return None if bits is None else 0.0
    return bits / workload.checkpoint_every_s if workload.checkpoint_every_s else (math.inf if bits else 0.0)


def price(ground: Ground, workload: Workload, mode: SwingMode) -> Price:
    """By the table."""
    match mode:
        case SwingMode.CANARY:
            canary = ground.policy.canary
            return Price(0.0, len(canary.steps) * canary.soak_s)
        case SwingMode.REQUEUE:
            lost_s = (HOUR_S if workload.checkpoint_every_s is None else workload.checkpoint_every_s) / 2
            bits = delta_bits(ground, workload) or 0.0
            copies_s = 0.0 if not bits else _over(bits, ground.lane_bps)
            return Price(lost_s, PRECHECKS_S + _ROUNDS * copies_s + lost_s)
        case SwingMode.PRECOPY | SwingMode.RESTART:
            return _copied(ground, workload, mode)


def _copied(ground: Ground, workload: Workload, mode: SwingMode) -> Price:
    precopy, path = ground.policy.precopy, f"workloads.{workload.id}"
    bits, save_s, restore_s = delta_bits(ground, workload), _save_s(ground, workload), _restore_s(ground, workload)
    lacks = [f"{path}.checkpoint"] if bits is None else []
    lacks += [f"{path}.save"] if save_s is None else []
    lacks += [f"{path}.restore"] if restore_s is None else []
    lacks += ["links between the two sites"] if ground.lane_bps <= 0 else []
    if bits is None or save_s is None or restore_s is None or ground.lane_bps <= 0:
        return Price(None, None, tuple(lacks))
    last_s = bits / ground.lane_bps
    if mode is SwingMode.PRECOPY:
        lost_s = save_s + last_s + restore_s * precopy.delta_share + precopy.release_s
    else:
        lost_s = save_s + last_s + restore_s + (WARM_UP_S if workload.warm_up_s is None else workload.warm_up_s)
    return Price(lost_s, PRECHECKS_S + _ROUNDS * last_s + lost_s)


def _save_s(ground: Ground, workload: Workload) -> float | None:
    if workload.save_s is not None:
        return workload.save_s
    store = next((one for one in ground.source.stores if one.id == workload.store), None)
    size = workload.total_checkpoint_bytes
    return None if store is None or size is None or not store.write_bps else 8 * size / store.write_bps


def _restore_s(ground: Ground, workload: Workload) -> float | None:
    if workload.restore_s is not None:
        return workload.restore_s
    fastest = max((store.read_bps or 0.0 for store in ground.target.stores), default=0.0)
    size = workload.total_checkpoint_bytes
    return None if size is None or not fastest else 8 * size / fastest


def _over(bits: float, rate_bps: float) -> float:
    return bits / rate_bps if rate_bps > 0 else math.inf


def fits(ground: Ground, workload: Workload, mode: SwingMode) -> tuple[bool | None, str]:
    """Whether a mode is for a workload, None while that is not known; and why not, or what is missing."""
    kind, bits = workload.kind, delta_bits(ground, workload)
    match mode:
        case SwingMode.CANARY:
            return kind is WorkloadKind.INFERENCE, f"canary is for inference, and it is {kind}"
        case SwingMode.REQUEUE:
            if kind is not WorkloadKind.BATCH:
                return False, f"requeue is for batch, and it is {kind}"
            return bits is None, "it has a checkpoint, which requeue throws away"
        case SwingMode.RESTART:
            if kind not in (WorkloadKind.TRAINING, WorkloadKind.BATCH):
                return False, f"checkpoint-restart is for training and batch, and it is {kind}"
            if bits is None and kind is WorkloadKind.BATCH:
                return False, "it has no checkpoint to restart from"
            return (None, f"workloads.{workload.id}.checkpoint") if bits is None else (True, "")
        case SwingMode.PRECOPY:
            return _fits_precopy(ground, workload, bits)


def _fits_precopy(ground: Ground, workload: Workload, bits: float | None) -> tuple[bool | None, str]:
    if workload.kind is not WorkloadKind.TRAINING:
        return False, f"pre-copy is for training, and it is {workload.kind}"
    if workload.checkpoint_every_s is None:
        return False, "nobody says how often it makes checkpoints, so that no pre-copy can be told to end"
    rate = change_bps(ground, workload)
    if bits is None or rate is None:
        return None, f"workloads.{workload.id}.checkpoint"
    if ground.lane_bps <= 0:
        return None, "links between the two sites"
    half = ground.lane_bps / 2
    return rate < half, f"its checkpoints change by {rate / 1e9:,.3g} Gb/s, and half a lane is {half / 1e9:,.3g} Gb/s: it would never end"
