"""Exposure: what would be lost if a site were lost now, in seconds, steps and GPU-hours, and when that becomes too much (R1, R6, R8)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from bridgehead.model.finding import FindingStatus
from bridgehead.ports.training import TrainerState
from bridgehead.recovery.watch.facts import CopyPoint, Point, TrainerFacts, VaultFacts, at
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.forecast import Cycle, Forecast, cycle_of, forecast
from bridgehead.recovery.watch.scene import COMPUTES, DAY_S, Code, Draft, Protected, Scene, shown_age, shown_s

SNAPSHOT: Final = Code(
    "WCH-SNAPSHOT",
    "Is the newest usable snapshot at home younger than the RPO?",
    "now - created(newest usable) <= RPO; 0 when the trainer tells now that nothing was computed since, counting on from an old report",
    ("R1", "R6"),
    "look at the trainer's saves (`bridgehead vault alarms`, its log); save more often",
)
RPO: Final = Code(
    "WCH-RPO",
    "How much work would be lost if its site were lost now?",
    "now - created(newest snapshot with a receipt of the recovery site) <= RPO; 0 when the trainer tells now that nothing was computed "
    "since, counting on from an old report. Where nothing is computed: now - created(oldest snapshot that was not copied)",
    ("R1", "R6", "R8"),
    "replicate now (`bridgehead vault replicate`), then find out why copies are late",
)


class Exposure(msgspec.Struct, frozen=True):
    """What a loss of its site would cost now. None: not known.

    Attributes:
        newest: at home.
        copy: the newest with a receipt of the recovery site.
        lost_s, lost_steps, lost_gpu_hours: work that would have to be done again.
        lag_s, lag_steps, lag_gpu_hours: by which the copy is behind the newest snapshot at home.
        forecast: None when it computes nothing, or has no copy or no RPO.
    """

    newest: Point | None = None
    copy: CopyPoint | None = None
    lost_s: float | None = None
    lost_steps: int | None = None
    lost_gpu_hours: float | None = None
    lag_s: float | None = None
    lag_steps: int | None = None
    lag_gpu_hours: float | None = None
    cycle: Cycle = Cycle(None, None)
    forecast: Forecast | None = None


def exposure_of(scene: Scene, one: Protected) -> Exposure:
    """Of one workload."""
    home, refuge = scene.known(scene.vault(one.kept, one.home)), scene.known(scene.vault(one.kept, one.refuge))
    trainer = scene.known(scene.trainer(one))
    newest = home.points[0] if home and home.points else None
    copy = refuge.copies[0] if refuge and refuge.copies else None
    if copy is None or _ahead(copy.point, scene):
        return Exposure(newest=newest, copy=copy)
    lost_s = _computed_s(scene, one, copy.point) if one.workload.kind in COMPUTES else _uncopied_s(scene, home, copy.point)
    gpus = one.workload.gpus
    lag_s = None if newest is None else max(0.0, newest.created_s - copy.point.created_s) if newest.id != copy.point.id else 0.0
    cycle = _cycle(home, refuge)
    works = (
        lost_s is not None and lost_s > 0 and one.workload.kind in COMPUTES and not (trainer is not None and _rests(scene, one, trainer))
    )
    return Exposure(
        newest=newest,
        copy=copy,
        lost_s=lost_s,
        lost_steps=_lost_steps(scene, one, copy.point, trainer, lost_s),
        lost_gpu_hours=None if lost_s is None else lost_s * gpus / 3600,
        lag_s=lag_s,
        lag_steps=None if newest is None else max(0, newest.step - copy.point.step),
        lag_gpu_hours=None if lag_s is None else lag_s * gpus / 3600,
        cycle=cycle,
        forecast=None
        if one.rpo_s is None or not works
        else forecast(
            copied_s=copy.point.created_s,
            newest_s=newest.created_s if newest else copy.point.created_s,
            rpo_s=one.rpo_s,
            cycle=cycle,
            now_s=scene.now_s,
        ),
    )


def _computed_s(scene: Scene, one: Protected, point: Point) -> float:
    """Work since ``point`` in seconds, at most. What nobody has told counts as work: without a report, all the time since ``point``."""
    trainer = scene.known(scene.trainer(one))
    since_s = max(0.0, scene.now_s - point.created_s)
    if trainer is None or trainer.reported_s > scene.now_s + scene.terms.skew_s:  # from the future: nobody knows how old it is
        return since_s
    rests = _rests(scene, one, trainer)
    if trainer.step <= point.step:
        # It said that it had computed nothing. Whether it has since, only a report of now tells.
        return 0.0 if rests or _is_fresh(scene, trainer) else min(since_s, scene.now_s - trainer.reported_s)
    if rests and trainer.step_ended_s > point.created_s:
        return max(0.0, trainer.step_ended_s - point.created_s)
    return since_s


def _uncopied_s(scene: Scene, home: VaultFacts | None, copy: Point) -> float | None:
    """How long something lies at home that was not copied; None when nobody knows what lies there."""
    if home is None or not home.points:
        return None
    uncopied = [point for point in home.points if _rank(point) > _rank(copy)]
    if any(_ahead(point, scene) for point in uncopied):
        return None
    if uncopied and len(uncopied) == len(home.points) < home.usable:
        return max(0.0, scene.now_s - copy.created_s)  # there are more than were listed, and older ones may not be copied either
    return max((max(0.0, scene.now_s - point.created_s) for point in uncopied), default=0.0)


def _rank(point: Point) -> tuple[int, int]:
    return point.epoch, point.step


def _is_fresh(scene: Scene, trainer: TrainerFacts) -> bool:
    """Whether the report itself is of now. A file that can be read may have been written long ago."""
    return -scene.terms.skew_s <= scene.now_s - trainer.reported_s < scene.terms.stale_s


def _rests(scene: Scene, one: Protected, trainer: TrainerFacts) -> bool:
    """It computes nothing now. That it once said so is not enough, unless it has ended and its job is seen to be over."""
    if trainer.state is TrainerState.FINISHED:
        job = scene.facts.jobs.get(at(one.jobs.get(one.home, ""), one.home))
        over = scene.known(job) if job is not None else None
        return _is_fresh(scene, trainer) or (over is not None and over.state != "running")
    return trainer.state in (TrainerState.HOLDING, TrainerState.STANDBY) and _is_fresh(scene, trainer)


def _lost_steps(scene: Scene, one: Protected, copy: Point, trainer: TrainerFacts | None, lost_s: float | None) -> int | None:
    """As the trainer told it, when it told it now."""
    if trainer is not None and (_is_fresh(scene, trainer) or _rests(scene, one, trainer)):
        return max(0, trainer.step - copy.step)
    return 0 if lost_s == 0 else None


def _cycle(home: VaultFacts | None, refuge: VaultFacts | None) -> Cycle:
    points = home.points if home else refuge.points if refuge else ()
    delays = [(one.point.created_s, one.proved_s - one.point.created_s) for one in (refuge.copies if refuge else ())]
    return cycle_of([point.created_s for point in points], delays)


def _ahead(point: Point, scene: Scene) -> bool:
    """Saved in our future: its writer's clock, or ours, is wrong, and nothing can be said of its age."""
    return point.created_s > scene.now_s + scene.terms.skew_s


def snapshots(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-SNAPSHOT of each workload that saves."""
    for one in scene.protected:
        seen = scene.vault(one.kept, one.home)
        draft = Draft(SNAPSHOT, f"{one.id}@{one.home}", workload=one.id, site=one.home)
        draft.measured(seen)
        known = scene.known(seen)
        if known is None:
            yield draft.unseen(f"the vault of {one.home}", seen, now_s=scene.now_s)
            continue
        if not known.points:
            yield draft.fails(f"there is no usable snapshot at {one.home}" + (f": {known.passed_over}" if known.passed_over else ""))
            continue
        point = known.points[0]
        if _ahead(point, scene):
            yield draft.unknown(
                f"its newest snapshot was saved {shown_s(point.created_s - scene.now_s)} in our future", measurement=_CLOCKS
            )
            continue
        age_s = _computed_s(scene, one, point) if one.workload.kind in COMPUTES else 0.0
        draft.measured(scene.trainer(one))
        draft.given("RPO", one.rpo_s, "s", f"objectives.{one.objective or '?'}.rpo")
        torn = f"; a newer one is not usable: {known.passed_over}" if known.passed_over else ""
        text = f"the newest usable snapshot is of step {point.step}, {shown_age(scene.now_s, point.created_s)} old{torn}"
        if one.workload.kind in COMPUTES:
            text += "; nothing was computed since" if age_s == 0 else _silence(scene, one)
        if one.rpo_s is None:
            yield _timeless(draft, text, one)
            continue
        status = FindingStatus.FAIL if age_s > one.rpo_s else FindingStatus.PASS
        yield draft.made(status, text, value=age_s, limit=one.rpo_s, unit="s", foreseen=bool(torn))


def copies(scene: Scene) -> Iterator[WatchFinding]:
    """WCH-RPO of each workload."""
    for one in scene.protected:
        draft = Draft(RPO, f"{one.id}@{one.home}", workload=one.id, site=one.home)
        if one.refuge is None:
            yield draft.fails("it has no recovery site", remedy="name one in the recovery file")
            continue
        seen = scene.vault(one.kept, one.refuge)
        draft.measured(seen)
        if scene.known(seen) is None:
            yield draft.unseen(f"the vault of {one.refuge}", seen, now_s=scene.now_s)
            continue
        yield _copy(draft, scene, one)


def _copy(draft: Draft, scene: Scene, one: Protected) -> WatchFinding:
    found = exposure_of(scene, one)
    draft.given("RPO", one.rpo_s, "s", f"objectives.{one.objective or '?'}.rpo")
    draft.given("recovery site", one.refuge, "", f"workloads.{one.id}.recovery_site")
    if found.copy is None:
        return draft.fails(f"{one.refuge} has no proved copy: everything would be lost")
    draft.take("copy", found.copy.point.id, "", f"receipts at {one.refuge}")
    if one.workload.kind in COMPUTES:
        draft.measured(scene.trainer(one))
    else:
        draft.measured(scene.vault(one.kept, one.home))
    if found.lost_s is None:
        return _untold(draft, scene, one, found.copy.point)
    text = _words(found, one) + (_silence(scene, one) if found.lost_s > 0 else "")
    if one.rpo_s is None:
        return _timeless(draft, text, one)
    if found.lost_s > one.rpo_s:
        return draft.fails(f"{text}; {shown_s(one.rpo_s)} are allowed", value=found.lost_s, limit=one.rpo_s, unit="s")
    why, breaks_s = foreseen(found, rpo_s=one.rpo_s, scene=scene)
    text = f"{text}; {why}" if why else text
    status = FindingStatus.PASS
    return draft.made(status, text, value=found.lost_s, limit=one.rpo_s, unit="s", foreseen=bool(why), breaks_s=breaks_s)


def _untold(draft: Draft, scene: Scene, one: Protected, copy: Point) -> WatchFinding:
    """Why nobody can tell what would be lost."""
    seen = scene.vault(one.kept, one.home)
    home = scene.known(seen)
    if _ahead(copy, scene):
        return draft.unknown(f"its copy was saved {shown_s(copy.created_s - scene.now_s)} in our future", measurement=_CLOCKS)
    if home is None:
        return draft.unseen(f"the vault of {one.home}", seen, now_s=scene.now_s)
    if not home.points:
        torn = f" ({home.passed_over})" if home.passed_over else ""
        text = f"there is no usable snapshot at {one.home}{torn}: whether more was saved there than was copied is not known"
        return draft.unknown(text, measurement=f"find out why there is none at {one.home} (`bridgehead vault list`)")
    return draft.unknown(f"what was saved at {one.home} since lies in our future", measurement=_CLOCKS)


def _silence(scene: Scene, one: Protected) -> str:
    """That its trainer told nothing lately, where there is one; what is stated is then the most that it can be."""
    seen = scene.trainer(one)
    if seen.value is None or one.workload.kind not in COMPUTES:
        return ""
    known = scene.known(seen)
    if known is not None and (_is_fresh(scene, known) or _rests(scene, one, known)):
        return ""
    return f"; its trainer last reported {shown_age(scene.now_s, seen.value.reported_s)} ago, so that this is the most it can be"


def _timeless(draft: Draft, text: str, one: Protected) -> WatchFinding:
    if one.objective:
        return draft.passes(f"{text}; '{one.objective}' sets no time")
    return draft.unknown(f"{text}; nobody said how much may be lost", measurement=_OBJECTIVE)


def foreseen(found: Exposure, *, rpo_s: float, scene: Scene) -> tuple[str, float | None]:
    """Why, and when, the RPO will be missed if nothing changes; empty when it will not, as far as can be told."""
    ahead = found.forecast
    if ahead is None:
        return "", None
    left_s = ahead.breaks_s - scene.now_s
    within = f"the objective is missed in {shown_s(max(0.0, left_s))}"
    if ahead.worst_s is not None and ahead.worst_s > rpo_s:
        cycle = f"each cycle of {shown_s(ahead.worst_s)} (interval and delay of the copy) misses the RPO of {shown_s(rpo_s)}"
        return f"{cycle}; this one in {shown_s(max(0.0, left_s))}", ahead.breaks_s
    if ahead.late_s is not None and ahead.next_copy_s is not None and ahead.late_s > 0:
        return f"{within}, and the next copy is due in {shown_s(ahead.next_copy_s - scene.now_s)}", ahead.breaks_s
    if ahead.next_copy_s is None and left_s < scene.terms.lead_s:
        return f"{within}, and when the next copy comes is not known", ahead.breaks_s
    if ahead.drifts_over_s is not None and ahead.drifts_over_s - scene.now_s < DAY_S:
        return f"copies grow slower; at this rate the RPO is missed in {shown_s(ahead.drifts_over_s - scene.now_s)}", ahead.drifts_over_s
    return "", ahead.breaks_s


def _words(found: Exposure, one: Protected) -> str:
    assert found.copy is not None
    assert found.lost_s is not None
    if found.lost_s == 0:
        return f"{one.refuge} has all of it (step {found.copy.point.step})"
    steps = "" if found.lost_steps is None else f", {found.lost_steps} steps"
    hours = f", {found.lost_gpu_hours:.3g} GPU-hours" if one.workload.gpus else ""
    return f"losing {one.home} now loses {shown_s(found.lost_s)}{steps}{hours}; the copy is of step {found.copy.point.step}"


_CLOCKS: Final = "set the clocks of the sites and of this observer by one source (NTP)"
_OBJECTIVE: Final = "give it an objective"
