"""Readiness: all that the watch judges, as one report (R1, R2, R6, R8, R13, M10.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from bridgehead.model.finding import FindingStatus
from bridgehead.recovery.watch import capacity, coverage, exposure, plans, restoring, serving, sites
from bridgehead.recovery.watch.alarm import AlarmState
from bridgehead.recovery.watch.facts import DrillPoint, Point
from bridgehead.recovery.watch.finding import WatchFinding, worst
from bridgehead.recovery.watch.forecast import burn_rate
from bridgehead.recovery.watch.liveness import SiteVerdict
from bridgehead.recovery.watch.scene import Code, Protected, Scene

SCHEMA: Final = 1
BURN_S: Final = 3600.0

CODES: Final[tuple[tuple[Code, Callable[[Scene], Iterator[WatchFinding]]], ...]] = (
    (sites.SITE, sites.liveness),
    (sites.WITNESS, sites.witnesses),
    (sites.CLOCK, sites.clocks),
    (exposure.SNAPSHOT, exposure.snapshots),
    (exposure.RPO, exposure.copies),
    (restoring.RTO, restoring.times),
    (restoring.DRILL, restoring.drills),
    (capacity.SPARE, capacity.spare),
    (capacity.PATHS, capacity.paths),
    (coverage.OBJECTIVE, coverage.objectives),
    (coverage.COVER, coverage.cover),
    (coverage.DATA, coverage.data),
    (serving.BACKEND, serving.backends),
    (plans.CREDENTIAL, plans.credentials),
    (plans.VERSIONS, plans.versions),
    (plans.GRACE, plans.graces),
    (plans.GPU, plans.gpus),
    (plans.NEEDS, plans.needs),
    (plans.FENCE, plans.fences),
)
"""Every kind of finding, and what makes it."""
_ANYWHERE: Final = (coverage.OBJECTIVE.code, serving.BACKEND.code)
"""What is judged of a workload wherever it is; all else is about its home and its recovery site."""


class SnapshotLine(msgspec.Struct, frozen=True):
    """A snapshot in a report.

    Attributes:
        id: of the snapshot.
        step: that it is after.
        created_s: when it was saved.
        age_s: since then.
        raw_bytes: size of its files.
        proved_s: when the recovery site read it back; None for the one at home.
    """

    id: str
    step: int
    created_s: float
    age_s: float
    raw_bytes: int
    proved_s: float | None = None


class WorkloadLine(msgspec.Struct, frozen=True):
    """One workload in a report; None: not known.

    Attributes:
        workload: its id.
        kind: training, batch, inference or service.
        site: where it runs; while nobody can tell, where it was when that was told last, and no number is known.
        recovery_site: where it is recovered; empty: nobody said.
        pattern: how much of it stands ready there; empty: nobody said.
        objective: name of its objective; empty: it has none, and the numbers are those of its kind.
        rpo_s, rto_s: what is allowed.
        gpus: that it uses.
        drill: the last restore test at the recovery site.
        status: the worst of its findings.
        newest: usable, at home.
        copy: with a receipt of the recovery site.
        lost_s, lost_steps, lost_gpu_hours: what the loss of its site would cost now.
        lag_s, lag_steps, lag_gpu_hours: by which the copy is behind.
        restore_s: predicted from measured speed.
        recovery_s: detection, restore and warm-up, as far as they are known.
        breaks_s: when the RPO is missed unless another copy comes.
        next_copy_s: when the next one is due.
        worst_s: lost work at the worst moment of a cycle.
        burn_rate: seconds of lost work gained for each second, over the last hour.
        spare_gpus: GPUs left for it at the recovery site.
        diverse_paths: lines to the recovery site that fail independently, at least.
        measured_s: when the oldest of this was seen.
    """

    workload: str
    kind: str
    site: str
    recovery_site: str
    pattern: str
    objective: str
    rpo_s: float | None
    rto_s: float | None
    status: FindingStatus
    newest: SnapshotLine | None
    copy: SnapshotLine | None
    lost_s: float | None
    lost_steps: int | None
    lost_gpu_hours: float | None
    lag_s: float | None
    lag_steps: int | None
    lag_gpu_hours: float | None
    restore_s: float | None
    recovery_s: float | None
    breaks_s: float | None
    next_copy_s: float | None
    worst_s: float | None
    burn_rate: float | None
    gpus: int
    spare_gpus: int | None
    diverse_paths: int | None
    drill: DrillPoint | None
    measured_s: float | None


class WatchReport(msgspec.Struct, frozen=True):
    """What ``bridgehead watch --once --json`` prints. Times are seconds since 1970-01-01 UTC.

    Attributes:
        version: of this form; it grows when a field changes its meaning or goes away.
        observer: who looked.
        estate: its name.
        at_s: when.
        status: fail when any finding fails, else unknown when any is unknown, else pass.
        sites: what is known of each.
        workloads: one line for each, with the numbers.
        findings: every judgement: what fails first, then what is unknown, then what will fail.
        alarms: those that stand, the oldest first.
        observers: who else looks, with the age of what they said.
    """

    version: int
    observer: str
    estate: str
    at_s: float
    status: FindingStatus
    sites: tuple[SiteVerdict, ...]
    workloads: tuple[WorkloadLine, ...]
    findings: tuple[WatchFinding, ...]
    alarms: tuple[AlarmState, ...]
    observers: dict[str, float]


def judge(scene: Scene) -> tuple[WatchFinding, ...]:
    """All findings: those that fail first, then what is unknown, then what will fail."""
    unplaced = {str(one.id): one.unplaced for one in scene.protected if one.unplaced}
    found = [_unplaced(finding, unplaced) for _, make in CODES for finding in make(scene)]
    rank = {FindingStatus.FAIL: 0, FindingStatus.UNKNOWN: 1, FindingStatus.PASS: 3}
    return tuple(sorted(found, key=lambda one: (rank[one.status] - one.foreseen, one.margin or 0.0, one.code, one.subject)))


def _unplaced(finding: WatchFinding, unplaced: Mapping[str, str]) -> WatchFinding:
    """Of a workload of which nobody can tell where it is, nothing is known that hangs on it."""
    if finding.workload not in unplaced or finding.code in _ANYWHERE:
        return finding
    nothing: dict[str, Any] = dict.fromkeys(("value", "limit", "margin", "breaks_s"))
    text, ask = unplaced[finding.workload], "make its proxy reachable for this observer"
    status = FindingStatus.UNKNOWN
    return msgspec.structs.replace(finding, status=status, text=text, measurement=ask, remedy="", unit="", foreseen=False, **nothing)


def report(
    scene: Scene,
    findings: tuple[WatchFinding, ...],
    *,
    observer: str,
    alarms: Mapping[str, AlarmState],
    observers: Mapping[str, float],
) -> WatchReport:
    """The report of one look."""
    rooms = capacity.rooms(scene)
    lines = tuple(_line(scene, one, findings, rooms.get(one.id)) for one in scene.protected)
    standing = sorted((one for one in alarms.values() if one.kind is not None), key=lambda one: (one.raised_s or 0.0, one.key))
    return WatchReport(
        version=SCHEMA,
        observer=observer,
        estate=scene.estate.name,
        at_s=scene.now_s,
        status=worst(findings),
        sites=tuple(verdict for _, verdict in sorted(scene.verdicts.items())),
        workloads=lines,
        findings=findings,
        alarms=tuple(standing),
        observers=dict(observers),
    )


def _line(scene: Scene, one: Protected, findings: tuple[WatchFinding, ...], room: capacity.Room | None) -> WorkloadLine:
    found = exposure.Exposure() if one.unplaced else exposure.exposure_of(scene, one)
    own = tuple(finding for finding in findings if finding.workload == one.id)
    times = [finding.measured_s for finding in own if finding.measured_s is not None and finding.code == exposure.RPO.code]
    refuge = None if one.unplaced else scene.known(scene.vault(one.kept, one.refuge))
    known_s, complete = restoring.recovery_s(scene, one)
    return WorkloadLine(
        workload=one.id,
        kind=one.workload.kind.value,
        site=one.home,
        recovery_site=one.refuge or "",
        pattern=one.pattern,
        objective=one.objective,
        rpo_s=one.rpo_s,
        rto_s=one.rto_s,
        status=worst(own),
        newest=_snapshot(found.newest, None, scene.now_s),
        copy=_snapshot(found.copy.point, found.copy.proved_s, scene.now_s) if found.copy else None,
        lost_s=found.lost_s,
        lost_steps=found.lost_steps,
        lost_gpu_hours=found.lost_gpu_hours,
        lag_s=found.lag_s,
        lag_steps=found.lag_steps,
        lag_gpu_hours=found.lag_gpu_hours,
        restore_s=restoring.restore_s(refuge, now_s=scene.now_s, keeps_s=scene.terms.speed_keeps_s),
        recovery_s=known_s if complete and not one.unplaced else None,
        breaks_s=found.forecast.breaks_s if found.forecast else None,
        next_copy_s=found.forecast.next_copy_s if found.forecast else None,
        worst_s=found.forecast.worst_s if found.forecast else None,
        burn_rate=burn_rate(scene.used.get(one.id, ()), window_s=BURN_S, now_s=scene.now_s),
        gpus=one.workload.gpus,
        spare_gpus=room.free if room is not None and not one.unplaced else None,
        diverse_paths=capacity.diverse(scene, one.home, one.refuge),
        drill=refuge.drill if refuge is not None else None,
        measured_s=min(times, default=None),
    )


def _snapshot(point: Point | None, proved_s: float | None, now_s: float) -> SnapshotLine | None:
    if point is None:
        return None
    return SnapshotLine(point.id, point.step, point.created_s, max(0.0, now_s - point.created_s), point.raw_bytes, proved_s)
