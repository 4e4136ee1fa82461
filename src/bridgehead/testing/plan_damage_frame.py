"""Damage to the frame of a plan: what it is for, phases, what is missing or foreign, and the score."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import WorkloadId
from bridgehead.model.fabric import RackId
from bridgehead.model.logistics import HOUR_S
from bridgehead.model.plan import Level, PhaseId, PlannedPhase, Vehicle
from bridgehead.testing.plan_bed import Bed, Damaged, swapped, without

_replace = msgspec.structs.replace


def other_estate(bed: Bed) -> Damaged | None:
    """Made for an estate that has changed since."""
    return bed.changed("other_estate", "FOR", "estate", estate=f"{bed.chance.getrandbits(256):064x}")


def other_policy(bed: Bed) -> Damaged | None:
    """Made for a policy that has changed since."""
    return bed.changed("other_policy", "FOR", "policy", policy=f"{bed.chance.getrandbits(256):064x}")


def turned_round(bed: Bed) -> Damaged | None:
    """From the target to the source."""
    return bed.changed("turned_round", "FOR", bed.plan.source, source=bed.plan.target, target=bed.plan.source)


def phase_dropped(bed: Bed) -> Damaged | None:
    """A phase is missing."""
    phase = bed.pick_where(bed.plan.phases, lambda one: one.id not in (PhaseId.HARDWARE, PhaseId.SWING))
    return None if phase is None else bed.changed("phase_dropped", "PHASES", str(phase.id), phases=without(bed.plan.phases, phase))


def _phase(bed: Bed, kind: str, phase: PlannedPhase | None, begins_s: float, ends_s: float) -> Damaged | None:
    if phase is None:
        return None
    changed = _replace(phase, begins_s=phase.begins_s + begins_s, ends_s=phase.ends_s + ends_s)
    return bed.changed(kind, "PHASES", str(phase.id), phases=swapped(bed.plan.phases, phase, changed))


def phase_too_short(bed: Bed) -> Damaged | None:
    """A phase lasts hours less than the policy says; the planner makes none longer than it must."""
    lengths = bed.policy.phases
    least = {PhaseId.BRIDGEHEAD: lengths.bridgehead_s, PhaseId.SERVICES: lengths.services_s, PhaseId.DECOMMISSION: lengths.decommission_s}
    phase = bed.phase(bed.chance.choice(list(least)))
    if phase is None or least[phase.id] < HOUR_S:
        return None
    return _phase(bed, "phase_too_short", phase, 0.0, phase.begins_s + least[phase.id] - HOUR_S - phase.ends_s)


def link_cut(bed: Bed) -> Damaged | None:
    """The lines are given up too early."""
    kept, last, least = bed.phase(PhaseId.LINK_KEPT), bed.phase(PhaseId.DECOMMISSION), bed.policy.phases.keep_link_s
    if kept is None or last is None or not least:
        return None
    return _phase(bed, "link_cut", kept, 0.0, last.ends_s + least / 2 - kept.ends_s)


def phase_beside_its_swings(bed: Bed) -> Damaged | None:
    """The phase of swings begins a day late."""
    return _phase(bed, "phase_beside_its_swings", bed.phase(PhaseId.SWING), 24 * HOUR_S, 0.0)


def decommissioned_early(bed: Bed) -> Damaged | None:
    """The source is given up while something still runs there."""
    return _phase(bed, "decommissioned_early", bed.phase(PhaseId.DECOMMISSION), -12 * HOUR_S, 0.0)


def swing_dropped(bed: Bed) -> Damaged | None:
    """A workload is forgotten."""
    swing = bed.pick(bed.plan.swings)
    return None if swing is None else bed.changed("swing_dropped", "COMPLETE", swing.id, swings=without(bed.plan.swings, swing))


def swing_of_a_stranger(bed: Bed) -> Damaged | None:
    """A workload that the estate does not have."""
    swing = bed.pick(bed.plan.swings)
    if swing is None:
        return None
    stranger = _replace(swing, id=WorkloadId(f"{swing.id}-copy"))
    return bed.changed("swing_of_a_stranger", "COMPLETE", stranger.id, swings=(*bed.plan.swings, stranger))


def service_dropped(bed: Bed) -> Damaged | None:
    """A critical service is forgotten."""
    copy = bed.pick(bed.plan.services)
    return None if copy is None else bed.changed("service_dropped", "COMPLETE", copy.id, services=without(bed.plan.services, copy))


def rack_left_behind(bed: Bed) -> Damaged | None:
    """A rack is taken out of its vehicle."""
    wave = bed.pick(bed.plan.waves)
    vehicle = None if wave is None else bed.pick(wave.vehicles)
    if wave is None or vehicle is None or not vehicle.racks:
        return None
    gone = bed.chance.choice(vehicle.racks)
    lighter: Vehicle = _replace(vehicle, racks=tuple(rack for rack in vehicle.racks if rack != gone), value=None)
    waves = bed.with_wave(wave, vehicles=swapped(wave.vehicles, vehicle, lighter))
    return bed.changed("rack_left_behind", "COMPLETE", gone, waves=waves)


def rack_carried_twice(bed: Bed) -> Damaged | None:
    """A rack is in two waves."""
    wave = bed.pick(bed.plan.waves)
    other = bed.pick_where(bed.plan.waves, lambda one: one is not wave and bool(one.vehicles))
    if wave is None or other is None or not wave.racks:
        return None
    rack, vehicle = bed.chance.choice(wave.racks), other.vehicles[0]
    fuller = _replace(vehicle, racks=(*vehicle.racks, rack), value=None)
    waves = bed.with_wave(other, vehicles=swapped(other.vehicles, vehicle, fuller))
    return bed.changed("rack_carried_twice", "COMPLETE", rack, waves=waves)


def placement_dropped(bed: Bed) -> Damaged | None:
    """A rack that comes has no place."""
    one = bed.pick(bed.plan.placements)
    return None if one is None else bed.changed("placement_dropped", "COMPLETE", one.id, placements=without(bed.plan.placements, one))


def rack_that_is_not_there(bed: Bed) -> Damaged | None:
    """A place for a rack that the source does not have."""
    one = bed.pick(bed.plan.placements)
    if one is None:
        return None
    odd = _replace(one, id=RackId("no-such-rack"))
    return bed.changed("rack_that_is_not_there", "COMPLETE", "no-such-rack", placements=(*bed.plan.placements, odd))


def wrong_gap(bed: Bed) -> Damaged | None:
    """The gap is made to look small."""
    score = bed.plan.score
    return bed.changed("wrong_gap", "SCORE", "gap", score=_replace(score, gap=score.gap / 2 if score.gap > 1e-3 else score.gap + 0.1))


def bound_over_value(bed: Bed) -> Damaged | None:
    """A bound that the plan itself disproves."""
    level = bed.pick(bed.plan.score.levels)
    if level is None:
        return None
    levels = swapped(bed.plan.score.levels, level, Level(level.id, level.value, 1.5 * level.value + 1))
    return bed.changed("bound_over_value", "SCORE", level.id, score=_replace(bed.plan.score, levels=levels))


def fewer_days(bed: Bed) -> Damaged | None:
    """The score claims less time than the plan takes."""
    level = bed.pick_where(bed.plan.score.levels, lambda one: one.id == "days" and one.value > 1)
    if level is None:
        return None
    levels = swapped(bed.plan.score.levels, level, _replace(level, value=level.value - 1))
    return bed.changed("fewer_days", "SCORE", "days", score=_replace(bed.plan.score, levels=levels))


def too_few_spares(bed: Bed) -> Damaged | None:
    """Half of the spares stand ready."""
    part = bed.pick_where(bed.plan.spares, lambda one: one.count > 0)
    if part is None or not any(part.model in bed.gpus(rack) for wave in bed.plan.waves for rack in wave.racks):
        return None
    return bed.changed("too_few_spares", "SPARES", part.model, spares=swapped(bed.plan.spares, part, _replace(part, count=part.count // 2)))


KINDS = (
    other_estate,
    other_policy,
    turned_round,
    phase_dropped,
    phase_too_short,
    link_cut,
    phase_beside_its_swings,
    decommissioned_early,
    swing_dropped,
    swing_of_a_stranger,
    service_dropped,
    rack_left_behind,
    rack_carried_twice,
    placement_dropped,
    rack_that_is_not_there,
    wrong_gap,
    bound_over_value,
    fewer_days,
    too_few_spares,
)
