"""Checkpoint arithmetic: sizes, intervals, failures, spares (rules section 7, vectors SZ1 to SZ6 and CK1 to CK7). Pure formulas."""

from __future__ import annotations

import math
from typing import Final

GPU_HOURS_PER_INTERRUPTION: Final = 50_677.0
"""Prior, H100 class, one published run: 54 days on 16,384 GPUs with 419 unexpected interruptions. A site's own records are better."""
GPU_HOURS_PER_HARDWARE_FAULT: Final = 82_944.0
"""The same run, hardware only (256). Interruptions are more than replaced parts, so what follows for spares is an upper guess."""


def checkpoint_bytes(parameters: float, *, bytes_per_parameter: float) -> float:
    """Size of a checkpoint: all parameters (not the active ones only) by the bytes that weights and optimizer take (SZ1 to SZ3)."""
    return parameters * bytes_per_parameter


def transfer_s(size_bytes: float, *, rate_bps: float, ratio: float = 1.0) -> float:
    """Time of a save, transfer or restore at the slowest of writers, store and link; ``ratio`` of a lossless codec (SZ4 to SZ6)."""
    return size_bytes * 8 / ratio / rate_bps


def young_s(save_s: float, *, between_s: float) -> float:
    """Best interval by Young: √(2CM) (CK1)."""
    return math.sqrt(2 * save_s * between_s)


def daly_s(save_s: float, *, between_s: float) -> float:
    """Best interval by Daly, first order: √(2CM) - C."""
    return young_s(save_s, between_s=between_s) - save_s


def saxena_s(save_s: float, *, between_s: float, restart_s: float) -> float:
    """Best interval by Saxena: C + √(2(M+R)C + C²)."""
    return save_s + math.sqrt(2 * (between_s + restart_s) * save_s + save_s**2)


def lost_share(save_s: float, *, between_s: float, interval_s: float) -> float:
    """Share of the work lost to saving and to repeating: C/T + T/(2M); restarts, R/M, come on top."""
    return save_s / interval_s + interval_s / (2 * between_s)


def whole_steps(interval_s: float, *, step_s: float) -> int:
    """An interval in training steps, rounded down."""
    return math.floor(interval_s / step_s)


def between_interruptions_s(gpus: int, *, gpu_hours: float = GPU_HOURS_PER_INTERRUPTION) -> float:
    """Mean time between interruptions of ``gpus`` GPUs: M_1/n, which is an assumption (CK5)."""
    return gpu_hours / gpus * 3600


def no_interruption(duration_s: float, *, between_s: float) -> float:
    """Chance of none within a time: e^(-t/M) (CK5)."""
    return math.exp(-duration_s / between_s)


def spares_needed(expected: float, *, chance: float) -> int:
    """Smallest k with P(at most k failures) >= ``chance``, by Poisson (CK6)."""
    if expected == 0:
        return 0
    total = 0.0
    highest = math.ceil(expected + 40 * math.sqrt(expected) + 40)
    for count in range(highest):
        total += math.exp(count * math.log(expected) - expected - math.lgamma(count + 1))
        if total >= chance:
            return count
    return highest


def at_most_probability(count: int, *, expected: float) -> float:
    """P(at most ``count`` failures), by Poisson (CK6)."""
    return math.fsum(math.exp(-expected) * expected**number / math.factorial(number) for number in range(count + 1))


def lost_gpu_hours(since_checkpoint_s: float, *, restore_s: float, warm_up_s: float, gpus: int) -> float:
    """Compute that a cut-over costs: time since the last verified checkpoint, restore and warm-up, of all GPUs (CK7)."""
    return (since_checkpoint_s + restore_s + warm_up_s) * gpus / 3600
