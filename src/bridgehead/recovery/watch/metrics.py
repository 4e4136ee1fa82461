"""Metrics: a report as Prometheus reads it. What is not known has no sample: a gap is no zero (G03). Times are in seconds since 1970."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from bridgehead.model.finding import FindingStatus
from bridgehead.recovery.watch.liveness import SiteState
from bridgehead.recovery.watch.readiness import WatchReport, WorkloadLine

Sample = tuple[dict[str, str], float | None]


class Metric(msgspec.Struct, frozen=True):
    """One family; every one is a gauge."""

    name: str
    help: str
    labels: tuple[str, ...]
    samples: Callable[[WatchReport], Iterator[Sample]]


_STATUS: Final = {FindingStatus.PASS: 0.0, FindingStatus.UNKNOWN: 1.0, FindingStatus.FAIL: 2.0}
_WORKLOAD: Final = ("workload", "site", "recovery_site")


def _of_workload(name: str, help: str, value: Callable[[WorkloadLine], float | None]) -> Metric:
    def samples(made: WatchReport) -> Iterator[Sample]:
        for one in made.workloads:
            yield {"workload": one.workload, "site": one.site, "recovery_site": one.recovery_site}, value(one)

    return Metric(name, help, _WORKLOAD, samples)


def _gpu_seconds(gpu_hours: float | None) -> float | None:
    return None if gpu_hours is None else gpu_hours * 3600


def _findings(made: WatchReport) -> Iterator[Sample]:
    for one in made.findings:
        yield {"code": one.code, "subject": one.subject, "workload": one.workload, "site": one.site}, _STATUS[one.status]


def _foreseen(made: WatchReport) -> Iterator[Sample]:
    for one in made.findings:
        yield {"code": one.code, "subject": one.subject, "workload": one.workload, "site": one.site}, float(one.foreseen)


def _measured(made: WatchReport) -> Iterator[Sample]:
    for one in made.findings:
        yield {"code": one.code, "subject": one.subject, "workload": one.workload, "site": one.site}, one.measured_s


def _alarms(made: WatchReport) -> Iterator[Sample]:
    for one in made.alarms:
        code, _, subject = one.key.partition(" ")
        yield {"code": code, "subject": subject, "kind": one.kind.value if one.kind is not None else ""}, one.raised_s


def _states(made: WatchReport) -> Iterator[Sample]:
    for one in made.sites:
        for state in SiteState:
            yield {"site": one.site, "state": state.value}, float(one.state is state)


METRICS: Final[tuple[Metric, ...]] = (
    Metric("bridgehead_watch_last_look_timestamp_seconds", "When the last look was made.", (), lambda made: iter([({}, made.at_s)])),
    Metric("bridgehead_watch_status", "All findings together: 0 pass, 1 unknown, 2 fail.", (), lambda m: iter([({}, _STATUS[m.status])])),
    Metric("bridgehead_finding_status", "A finding: 0 pass, 1 unknown, 2 fail.", ("code", "subject", "workload", "site"), _findings),
    Metric("bridgehead_finding_foreseen", "1: it passes, and will not for long.", ("code", "subject", "workload", "site"), _foreseen),
    Metric(
        "bridgehead_finding_measured_timestamp_seconds",
        "When the oldest of what a finding rests on was seen.",
        ("code", "subject", "workload", "site"),
        _measured,
    ),
    Metric("bridgehead_alarm_since_timestamp_seconds", "An alarm that stands, and since when.", ("code", "subject", "kind"), _alarms),
    Metric("bridgehead_site_state", "1 for the state that a site is in.", ("site", "state"), _states),
    Metric(
        "bridgehead_site_contact_timestamp_seconds",
        "The last sign of life that any observer had.",
        ("site",),
        lambda made: iter([({"site": one.site}, one.contact_s) for one in made.sites]),
    ),
    Metric(
        "bridgehead_site_grace_left_seconds",
        "Until a silent site may be failed over; no sample while it is not missed.",
        ("site",),
        lambda made: iter([({"site": one.site}, one.grace_left_s) for one in made.sites]),
    ),
    Metric(
        "bridgehead_observer_age_seconds",
        "How long ago another observer last said something new.",
        ("of",),
        lambda made: iter([({"of": name}, age) for name, age in made.observers.items()]),
    ),
    _of_workload("bridgehead_rpo_objective_seconds", "How much work may be lost.", lambda one: one.rpo_s),
    _of_workload("bridgehead_rto_objective_seconds", "How soon it must work again.", lambda one: one.rto_s),
    _of_workload("bridgehead_loss_seconds", "Work that losing its site now would lose.", lambda one: one.lost_s),
    _of_workload("bridgehead_loss_steps", "The same in training steps.", lambda one: one.lost_steps),
    _of_workload("bridgehead_loss_gpu_seconds", "The same in GPU-seconds.", lambda one: _gpu_seconds(one.lost_gpu_hours)),
    _of_workload("bridgehead_copy_lag_seconds", "By which the proved copy is behind the newest snapshot.", lambda one: one.lag_s),
    _of_workload("bridgehead_copy_lag_steps", "The same in training steps.", lambda one: one.lag_steps),
    _of_workload("bridgehead_copy_lag_gpu_seconds", "The same in GPU-seconds.", lambda one: _gpu_seconds(one.lag_gpu_hours)),
    _of_workload(
        "bridgehead_snapshot_timestamp_seconds",
        "When the newest usable snapshot at home was saved.",
        lambda one: one.newest.created_s if one.newest is not None else None,
    ),
    _of_workload(
        "bridgehead_copy_timestamp_seconds",
        "When the newest snapshot that the recovery site has proved was saved.",
        lambda one: one.copy.created_s if one.copy is not None else None,
    ),
    _of_workload("bridgehead_rpo_breaks_timestamp_seconds", "When the RPO is missed unless another copy comes.", lambda one: one.breaks_s),
    _of_workload("bridgehead_copy_due_timestamp_seconds", "When the next copy is due, as the last ones came.", lambda one: one.next_copy_s),
    _of_workload("bridgehead_loss_worst_seconds", "Lost work at the worst moment of a cycle.", lambda one: one.worst_s),
    _of_workload("bridgehead_rpo_burn_rate", "Seconds of lost work gained for each second, over the last hour.", lambda one: one.burn_rate),
    _of_workload("bridgehead_restore_seconds", "Predicted restore, from measured speed.", lambda one: one.restore_s),
    _of_workload("bridgehead_recovery_seconds", "Detection, restore and warm-up.", lambda one: one.recovery_s),
    _of_workload(
        "bridgehead_drill_timestamp_seconds",
        "When a restore at the recovery site was tested last.",
        lambda one: one.drill.at_s if one.drill is not None else None,
    ),
    _of_workload(
        "bridgehead_drill_passed",
        "1: that test passed.",
        lambda one: float(one.drill.passed) if one.drill is not None else None,
    ),
    _of_workload("bridgehead_workload_gpus", "GPUs that it uses.", lambda one: one.gpus),
    _of_workload("bridgehead_spare_gpus", "GPUs that are left for it at the recovery site.", lambda one: one.spare_gpus),
    _of_workload("bridgehead_diverse_paths", "Lines to the recovery site that fail apart, at least.", lambda one: one.diverse_paths),
)
"""Every metric family. Each sample also carries ``estate`` and ``observer``."""


def exposition(made: WatchReport) -> str:
    """The page in the text exposition format (version 0.0.4)."""
    lines: list[str] = []
    for metric in METRICS:
        samples = [(labels, value) for labels, value in metric.samples(made) if value is not None]
        if not samples:
            continue
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} gauge"]
        for labels, value in samples:
            named = {**labels, "estate": made.estate, "observer": made.observer}
            shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in named.items())
            lines.append(f"{metric.name}{{{shown}}} {float(value)!r}")
    return "\n".join(lines) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
