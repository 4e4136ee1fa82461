"""FaultPlan: which faults a seed brings. It stays within what docs/failure-model.md promises to survive, so that a red run is a bug."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import msgspec

from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.simulate import faults as ft
from bridgehead.simulate.network import EDGE
from bridgehead.simulate.vault import WriteFault

MOVE_S = 28.0
"""About as long as a simulated move takes."""
APPENDS = 150
"""About as often as a driver writes to the journal during one."""
MAX_FAULTS = 4

WRITES = (
    "scheduler.start",
    "scheduler.stop",
    "scheduler.kill",
    "training.request",
    "traffic.write",
    "vaults.replicate",
    "vaults.receipt",
    "vaults.fence",
)
READS = (
    "scheduler.observe",
    "training.progress",
    "traffic.read",
    "traffic.in_flight",
    "metrics.read",
    "serving.health",
    "vaults.newest",
    "vaults.find",
    "vaults.newest_fence",
)
OFTEN = {"vaults.replicate": 30, "metrics.read": 40, "traffic.read": 20, "scheduler.observe": 60, "serving.health": 30, "vaults.find": 30}
"""How often the busier calls come; the others about ``SELDOM`` times."""
SELDOM = 6


class Ground(msgspec.Struct, frozen=True):
    """Names in the world that faults may strike: the jobs are those that the move starts at the target."""

    source: SiteId
    target: SiteId
    trainer: JobName
    backend: JobName


def draw_faults(dice: Random, ground: Ground) -> tuple[ft.Fault, ...]:
    """None to ``MAX_FAULTS`` draws, most often one or two; a draw may bring a pair that belongs together."""
    faults: list[ft.Fault] = []
    for _ in range(dice.choices(range(MAX_FAULTS + 1), weights=(1, 6, 6, 4, 3))[0]):
        faults += dice.choice(_DRAWS)(dice, ground)
    return tuple(faults)


def _call(dice: Random, calls: tuple[str, ...]) -> tuple[str, int]:
    call = dice.choice(calls)
    return call, dice.randint(1, OFTEN.get(call, SELDOM))


def _slow(dice: Random, ground: Ground) -> list[ft.Fault]:
    call, nth = _call(dice, WRITES + READS)
    return [ft.SlowCall(call, nth, dice.uniform(0.1, 20.0))]


def _fail_before(dice: Random, ground: Ground) -> list[ft.Fault]:
    call, nth = _call(dice, WRITES + READS)
    return [ft.FailBefore(call, nth, dice.randint(1, 6))]


def _fail_after(dice: Random, ground: Ground) -> list[ft.Fault]:
    call, nth = _call(dice, WRITES + READS)
    return [ft.FailAfter(call, nth)]


def _repeated(dice: Random, ground: Ground) -> list[ft.Fault]:
    call, nth = _call(dice, WRITES)
    return [ft.RepeatedCall(call, nth)]


def _stale(dice: Random, ground: Ground) -> list[ft.Fault]:
    call, nth = _call(dice, ("traffic.read", "training.progress"))
    return [ft.StaleRead(call, nth)]


def _die_in_call(dice: Random, ground: Ground) -> list[ft.Fault]:
    call, nth = _call(dice, WRITES + READS)
    return [ft.DieInCall(call, nth, dice.choice(tuple(ft.Side)), dice.uniform(0.1, 10.0))]


def _late_call(dice: Random, ground: Ground) -> list[ft.Fault]:
    call, nth = _call(dice, WRITES)
    return [ft.LateCall(call, nth, dice.uniform(0.1, 30.0), dice.uniform(0.1, 10.0))]


def _die_at_append(dice: Random, ground: Ground) -> list[ft.Fault]:
    zombie_s = dice.uniform(0.5, 30.0) if dice.random() < 0.3 else None
    return [ft.DieAtAppend(dice.randint(2, APPENDS), dice.choice(tuple(ft.Side)), dice.uniform(0.1, 10.0), zombie_s)]


def _journal(dice: Random, ground: Ground) -> list[ft.Fault]:
    nth = dice.randint(2, APPENDS)
    return [ft.LostAppend(nth) if dice.random() < 0.5 else ft.JournalFull(nth)]


def _cut_off(dice: Random, ground: Ground) -> list[ft.Fault]:
    site = dice.choice((ground.source, ground.target, EDGE))
    return [ft.CutOff(site, dice.uniform(0.0, MOVE_S), dice.uniform(0.5, 25.0))]


def _cut_link(dice: Random, ground: Ground) -> list[ft.Fault]:
    return [ft.CutLink(dice.uniform(0.0, MOVE_S), dice.uniform(0.5, 25.0))]


def _job_death(dice: Random, ground: Ground) -> list[ft.Fault]:
    job = dice.choice((ground.trainer, ground.backend))
    return [ft.JobDeath(ground.target, job, dice.uniform(0.0, MOVE_S))]


def _bad_write(dice: Random, ground: Ground) -> list[ft.Fault]:
    site = dice.choice((ground.source, ground.target))
    return [ft.BadWrite(site, dice.randint(1, 6), dice.choice(tuple(WriteFault)))]


def _disk_full(dice: Random, ground: Ground) -> list[ft.Fault]:
    site = dice.choice((ground.source, ground.target))
    return [ft.DiskFull(site, dice.uniform(0.0, MOVE_S), dice.uniform(0.5, 15.0))]


def _clock_jump(dice: Random, ground: Ground) -> list[ft.Fault]:
    """Seen only by a process that starts later: so one dies."""
    by_s = dice.choice((-3600.0, -5.0, 2.0, 30.0, 3600.0))
    return [ft.ClockJump(dice.uniform(0.0, MOVE_S / 2), by_s), *_die_at_append(dice, ground)]


def _abort(dice: Random, ground: Ground) -> list[ft.Fault]:
    return [ft.Word(dice.uniform(0.0, MOVE_S), ft.Saying.ABORT)]


def _pause(dice: Random, ground: Ground) -> list[ft.Fault]:
    at_s = dice.uniform(0.0, MOVE_S)
    end = ft.Saying.RESUME if dice.random() < 0.7 else ft.Saying.ABORT
    return [ft.Word(at_s, ft.Saying.PAUSE), ft.Word(at_s + dice.uniform(0.5, 40.0), end)]


def _proxy_forgets(dice: Random, ground: Ground) -> list[ft.Fault]:
    return [ft.ProxyForgets(dice.uniform(5.0, MOVE_S))]


def _old_primary(dice: Random, ground: Ground) -> list[ft.Fault]:
    return [ft.OldPrimary(dice.uniform(0.0, 10.0), dice.uniform(1.0, 20.0))]


_DRAWS: tuple[Callable[[Random, Ground], list[ft.Fault]], ...] = (
    _slow,
    _fail_before,
    _fail_after,
    _repeated,
    _stale,
    _die_in_call,
    _late_call,
    _die_at_append,
    _die_at_append,
    _journal,
    _cut_off,
    _cut_link,
    _job_death,
    _bad_write,
    _disk_full,
    _clock_jump,
    _abort,
    _abort,
    _pause,
    _proxy_forgets,
    _old_primary,
)
