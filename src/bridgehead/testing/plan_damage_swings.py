"""Damage to swings, copies of services, shrinks and data."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.logistics import DAY_S, HOUR_S
from bridgehead.model.plan import PhaseId, Shrink, Swing, SwingMode, Transfer
from bridgehead.testing.plan_bed import Bed, Damaged, swapped, without

_replace = msgspec.structs.replace


def wrong_mode(bed: Bed) -> Damaged | None:
    """Training goes over as if it were inference."""
    swing = bed.pick_where(bed.plan.swings, lambda one: bed.work[one.id].kind is not WorkloadKind.INFERENCE)
    if swing is None:
        return None
    return bed.changed("wrong_mode", "MODE", swing.id, swings=swapped(bed.plan.swings, swing, _replace(swing, mode=SwingMode.CANARY)))


def _claims(bed: Bed, kind: str, swing: Swing, share: float) -> Damaged:
    """A swing that claims another loss, with all sums to match."""
    hours, score = swing.lost_gpu_hours * share, bed.plan.score
    less, weight = swing.lost_gpu_hours - hours, 1 + bed.work[swing.id].priority
    levels = tuple(_replace(one, value=one.value - less * weight) if one.id == "lost-gpu-hours" else one for one in score.levels)
    claimed = _replace(swing, lost_s=swing.lost_s * share, lost_gpu_hours=hours)
    return bed.changed(
        kind,
        "LOSS",
        swing.id,
        swings=swapped(bed.plan.swings, swing, claimed),
        score=_replace(score, levels=levels, lost_gpu_hours=score.lost_gpu_hours - less),
    )


def less_lost(bed: Bed) -> Damaged | None:
    """A workload claims to stand still for less than it must."""
    swing = bed.pick_where(bed.plan.swings, lambda one: one.lost_s > 1 and bed.work[one.id].gpus > 0)
    return None if swing is None else _claims(bed, "less_lost", swing, bed.chance.uniform(0.0, 0.9))


def wrong_gpu_hours(bed: Bed) -> Damaged | None:
    """Lost GPU-hours that are not the time and the GPUs."""
    swing = bed.pick_where(bed.plan.swings, lambda one: one.lost_gpu_hours > 0.01)
    if swing is None:
        return None
    odd = _replace(swing, lost_gpu_hours=swing.lost_gpu_hours * 0.5)
    return bed.changed("wrong_gpu_hours", "LOSS", swing.id, swings=swapped(bed.plan.swings, swing, odd))


def wrong_sum(bed: Bed) -> Damaged | None:
    """The score counts less than what is lost."""
    score = bed.plan.score
    if score.lost_gpu_hours < 0.1:
        return None
    return bed.changed("wrong_sum", "LOSS", "lost_gpu_hours", score=_replace(score, lost_gpu_hours=score.lost_gpu_hours * 0.9))


def short_swing(bed: Bed) -> Damaged | None:
    """A swing that ends before its prechecks are done."""
    swing = bed.pick(bed.plan.swings)
    if swing is None or not bed.policy.canary.soak_s:
        return None
    short = _replace(swing, ends_s=swing.begins_s + 60.0)
    return bed.changed("short_swing", "LOSS", swing.id, swings=swapped(bed.plan.swings, swing, short))


def swing_backwards(bed: Bed) -> Damaged | None:
    """A swing that ends before it begins."""
    swing = bed.pick(bed.plan.swings)
    if swing is None:
        return None
    back = _replace(swing, ends_s=swing.begins_s - HOUR_S)
    return bed.changed("swing_backwards", "LOSS", swing.id, swings=swapped(bed.plan.swings, swing, back))


def outside_its_window(bed: Bed) -> Damaged | None:
    """A swing over the edge of its window."""
    swing = bed.pick(bed.plan.swings)
    ends = [one.ends_s for one in bed.policy.windows if swing is not None and one.begins_s <= swing.begins_s < one.ends_s]
    if swing is None or not ends:
        return None
    edge = max(ends)
    begins = edge - min(60.0, (swing.ends_s - swing.begins_s) / 2)
    if any(one.begins_s <= begins and one.ends_s > edge for one in bed.policy.windows):
        return None
    return bed.changed("outside_its_window", "WINDOW", swing.id, swings=bed.swing_to(swing, begins))


def in_a_blackout(bed: Bed) -> Damaged | None:
    """A swing when nothing may move."""
    swing, black = bed.pick(bed.plan.swings), bed.pick(bed.policy.blackouts)
    if swing is None or black is None:
        return None
    return bed.changed("in_a_blackout", "WINDOW", swing.id, swings=bed.swing_to(swing, (black.begins_s + black.ends_s) / 2))


def too_many_at_once(bed: Bed) -> Damaged | None:
    """One swing more than there are lanes."""
    count = bed.policy.limits.concurrent_moves + 1
    longest = sorted(bed.plan.swings, key=lambda one: one.begins_s - one.ends_s)
    together = longest[:count]
    if len(together) < count or any(one.ends_s <= one.begins_s for one in together):
        return None
    begins, names = together[0].begins_s, [one.id for one in together]
    swings = tuple(
        _replace(one, begins_s=begins, ends_s=begins + one.ends_s - one.begins_s) if one in together else one for one in bed.plan.swings
    )
    return bed.changed("too_many_at_once", "LANES", *names, swings=swings)


def after_the_deadline(bed: Bed) -> Damaged | None:
    """A swing after the last day."""
    swing, ends = bed.pick(bed.plan.swings), bed.policy.ends_s
    if swing is None or ends is None:
        return None
    return bed.changed("after_the_deadline", "DEADLINE", swing.id, swings=bed.swing_to(swing, ends + DAY_S))


def before_its_need(bed: Bed) -> Damaged | None:
    """A workload swings before what it needs is there."""
    there = {one.id: one.ends_s for one in bed.plan.services} | {one.id: one.ends_s for one in bed.plan.swings}
    swing = bed.pick_where(bed.plan.swings, lambda one: any(WorkloadId(need) in there for need in bed.work[one.id].needs))
    if swing is None:
        return None
    need = max((there[WorkloadId(name)], name) for name in bed.work[swing.id].needs if WorkloadId(name) in there)
    return bed.changed("before_its_need", "NEEDS", need[1], swings=bed.swing_to(swing, need[0] - 60.0))


def service_before_its_need(bed: Bed) -> Damaged | None:
    """A service is copied before what it needs."""
    there = {one.id: one for one in bed.plan.services}
    copy = bed.pick_where(bed.plan.services, lambda one: any(WorkloadId(need) in there for need in bed.work[one.id].needs))
    if copy is None:
        return None
    need = next(there[WorkloadId(name)] for name in bed.work[copy.id].needs if WorkloadId(name) in there)
    early = _replace(copy, begins_s=need.begins_s - 60.0)
    return bed.changed("service_before_its_need", "NEEDS", need.id, services=swapped(bed.plan.services, copy, early))


def _transfer(bed: Bed, kind: str, codes: str, transfer: Transfer | None, **fields: object) -> Damaged | None:
    if transfer is None:
        return None
    return bed.changed(kind, codes, transfer.id, transfers=swapped(bed.plan.transfers, transfer, _replace(transfer, **fields)))


def transfer_dropped(bed: Bed) -> Damaged | None:
    """Data never comes."""
    one = bed.pick(bed.plan.transfers)
    return None if one is None else bed.changed("transfer_dropped", "DATA", one.id, transfers=without(bed.plan.transfers, one))


def transfer_late(bed: Bed) -> Damaged | None:
    """State comes after its workload has begun to swing."""
    begins = {f"checkpoint.{one.id}": one.begins_s for one in bed.plan.swings}
    one = bed.pick_where(bed.plan.transfers, lambda one: one.id in begins)
    return None if one is None else _transfer(bed, "transfer_late", "DATA", one, ends_s=begins[one.id] + 60.0)


def wrong_size(bed: Bed) -> Damaged | None:
    """A part of the data is carried."""
    one = bed.pick_where(bed.plan.transfers, lambda one: one.size_bytes > 1)
    return None if one is None else _transfer(bed, "wrong_size", "DATA", one, size_bytes=one.size_bytes // 2)


def too_slow(bed: Bed) -> Damaged | None:
    """The rate does not carry it in its time."""
    one = bed.pick_where(bed.plan.transfers, lambda one: one.rate_bps > 0)
    if one is None:
        return None
    return _transfer(bed, "too_slow", "DATA", one, rate_bps=4 * one.size_bytes / max(1.0, one.ends_s - one.begins_s))


def not_kept_in_step(bed: Bed) -> Damaged | None:
    """Nothing is reserved for what changes."""
    changing = {data.id for data in bed.estate.datasets if data.change_bps}
    one = bed.pick_where(bed.plan.transfers, lambda one: one.id in changing)
    return _transfer(bed, "not_kept_in_step", "DATA", one, sync_bps=0.0)


def sync_ends_early(bed: Bed) -> Damaged | None:
    """What changes is no longer sent while somebody still uses it."""
    changing = {data.id for data in bed.estate.datasets if data.change_bps}
    one = bed.pick_where(bed.plan.transfers, lambda one: one.id in changing and one.sync_bps > 0)
    return None if one is None else _transfer(bed, "sync_ends_early", "DATA", one, sync_ends_s=one.ends_s - 60.0)


def before_the_lines(bed: Bed) -> Damaged | None:
    """Data is sent before the bridgehead has lines."""
    phase, one = bed.phase(PhaseId.BRIDGEHEAD), bed.pick_where(bed.plan.transfers, lambda one: one.rate_bps > 0)
    if phase is None or one is None:
        return None
    return _transfer(bed, "before_the_lines", "DATA", one, begins_s=phase.ends_s - HOUR_S)


def fast_courier(bed: Bed) -> Damaged | None:
    """Drives that are there before they can be."""
    one = bed.pick_where(bed.plan.transfers, lambda one: bool(one.courier))
    return None if one is None else _transfer(bed, "fast_courier", "DATA", one, ends_s=one.begins_s + HOUR_S)


def over_the_line(bed: Bed) -> Damaged | None:
    """A transfer takes more than all lines have."""
    most = sum(link.rate_bps for link in bed.estate.links)
    one = bed.pick_where(bed.plan.transfers, lambda one: one.rate_bps > 0 and one.ends_s > one.begins_s)
    return _transfer(bed, "over_the_line", "LINE", one, rate_bps=2 * most)


def shrunk_too_far(bed: Bed) -> Damaged | None:
    """On fewer GPUs than still make sense."""
    work = bed.pick_where(
        (bed.work[one.id] for one in bed.plan.swings), lambda one: not one.pausable and one.min_gpus is not None and one.min_gpus > 0
    )
    if work is None:
        return None
    least = (work.min_gpus or 1) - 1
    begins = bed.plan.begins_s
    odd = Shrink(work.id, bed.policy.source, least, begins, begins + 60.0)
    return bed.changed("shrunk_too_far", "MINIMUM", work.id, shrinks=(*bed.plan.shrinks, odd))


def shrunk_where_it_is_not(bed: Bed) -> Damaged | None:
    """At the target before it has gone over."""
    swing = bed.pick_where(bed.plan.swings, lambda one: bed.work[one.id].pausable)
    if swing is None:
        return None
    odd = Shrink(swing.id, bed.policy.target, 0, swing.begins_s - HOUR_S, swing.begins_s)
    return bed.changed("shrunk_where_it_is_not", "MINIMUM", swing.id, shrinks=(*bed.plan.shrinks, odd))


def shrinks_overlap(bed: Bed) -> Damaged | None:
    """Two shrinks of one workload at the same time."""
    one = bed.pick_where(bed.plan.shrinks, lambda one: one.ends_s > one.begins_s + 1)
    return None if one is None else bed.changed("shrinks_overlap", "MINIMUM", one.workload, shrinks=(*bed.plan.shrinks, one))


KINDS = (
    wrong_mode,
    less_lost,
    wrong_gpu_hours,
    wrong_sum,
    short_swing,
    swing_backwards,
    outside_its_window,
    in_a_blackout,
    too_many_at_once,
    after_the_deadline,
    before_its_need,
    service_before_its_need,
    transfer_dropped,
    transfer_late,
    wrong_size,
    too_slow,
    not_kept_in_step,
    sync_ends_early,
    before_the_lines,
    fast_courier,
    over_the_line,
    shrunk_too_far,
    shrunk_where_it_is_not,
    shrinks_overlap,
)
