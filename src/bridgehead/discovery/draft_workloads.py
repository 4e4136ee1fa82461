"""Workloads of a draft: what Slurm runs and what Kubernetes keeps running (M5.2). Pure.

Attributes that are read, of parsers whatever their tool:

- ``job:*``: ``state`` (RUNNING), ``gpu-count``, ``memory`` (B), ``grace`` (s, from its own signal to its end), ``partition``
- ``slurm:*``: ``kill-wait`` (s); ``partition:*``: ``preempt-mode``, ``grace`` (s)
- ``workload:*/*``: ``kind``, ``owner`` (what has one is a part of something else), ``phase``, ``gpu-count``, ``grace`` (s),
  ``grace-after-pre-stop`` (s)

What a workload is for (training, inference) no scheduler says: the kind here is only how it is run, and what people declare counts instead.
"""

from __future__ import annotations

import re
from typing import Final

from bridgehead.discovery.draft_notes import Notes, Part, number, word
from bridgehead.discovery.knowledge import Knowledge
from bridgehead.discovery.merge import natural
from bridgehead.kernel.ids import SiteId, WorkloadId
from bridgehead.kernel.shape import ID_PATTERN
from bridgehead.model.estate import Grace, Workload, WorkloadKind

_ID: Final = re.compile(ID_PATTERN)
_NOT_IN_ID: Final = re.compile(r"[^A-Za-z0-9._-]+")
_TRAINING: Final = frozenset({"PyTorchJob", "MPIJob", "TFJob", "JAXJob", "TrainJob", "XGBoostJob", "PaddleJob"})
"""Kinds of Kubeflow's training operators."""
_BATCH: Final = frozenset({"Job", "CronJob"})
_GONE: Final = frozenset({"Succeeded", "Failed"})


def workloads_of(told: Knowledge, site: SiteId, notes: Notes) -> tuple[Workload, ...]:
    """What runs at one place, sorted. The order of facts changes nothing."""
    return tuple(drawn_of(told, site, notes).values())


def drawn_of(told: Knowledge, site: SiteId, notes: Notes) -> dict[str, Workload]:
    """The same by subject."""
    found: dict[str, Workload] = {}
    killing = _kill_wait(told, site, notes)
    for subject, part in told.items():
        kind, _, name = subject.partition(":")
        if "/" in name and kind == "job":  # a step is a part of its job
            continue
        if kind == "job" and word(part, "state").upper().startswith("RUNNING"):
            _take(found, subject, f"job-{name}", WorkloadKind.BATCH, part, site, notes, graces=_job_graces(told, part, killing))
        elif kind == "workload" and not word(part, "owner") and word(part, "phase") not in _GONE and word(part, "kind"):
            clean = name.replace("/", ".")
            _take(found, subject, clean, _kind(word(part, "kind")), part, site, notes, graces=_pod_graces(clean, part, notes))
    jobs = [one for one in found if one.startswith("job:")]
    if jobs and killing is None and not any(one.startswith("slurm:") for one in told):
        notes.lack(site, "time from the signal to the kill of Slurm's jobs", "scontrol show config")
    return {subject: found[subject] for subject in sorted(found, key=lambda subject: (natural(found[subject].id), found[subject].id))}


def _kill_wait(told: Knowledge, site: SiteId, notes: Notes) -> float | None:
    """Slurm's KillWait, where all clusters of the site have one."""
    waits = {number(part, "kill-wait") for subject, part in told.items() if subject.startswith("slurm:")}
    if len(waits) > 1:
        notes.lack(
            site, "one KillWait of its Slurm clusters, and so of its jobs,", "the captures of each cluster as a site of its own (--site)"
        )
    [wait] = waits if len(waits) == 1 else {None}
    return None if wait is None else float(wait)


def _job_graces(told: Knowledge, part: Part, killing: float | None) -> tuple[Grace, ...]:
    """From the outermost: its own signal before its end, the warning before it is preempted, and the time from TERM to KILL."""
    graces = []
    if (lead := number(part, "grace")) is not None:
        graces.append(Grace("signal-lead", float(lead)))
    partition = told.get(f"partition:{word(part, 'partition')}", {})
    mode = word(partition, "preempt-mode").upper()
    if mode and mode != "OFF" and (warning := number(partition, "grace")):  # of 0, the time from TERM to KILL counts
        graces.append(Grace("slurm-preemption", float(warning)))
    if killing is not None:
        graces.append(Grace("slurm-killwait", killing))
    return tuple(graces)


def _pod_graces(name: str, part: Part, notes: Notes) -> tuple[Grace, ...]:
    """From the order to end until the kill; and what a hook that runs before the signal leaves of it."""
    whole, after = number(part, "grace"), number(part, "grace-after-pre-stop")
    if whole is None:
        return ()
    if after is None and "grace-after-pre-stop" in part:
        notes.lack(name, "time that its pre-stop hook takes of its grace", "a measurement")
    short = (Grace("after-pre-stop", float(after)),) if after is not None and after < whole else ()
    return (Grace("pod-termination", float(whole)), *short)


def _kind(word_of: str) -> WorkloadKind:
    if word_of in _TRAINING:
        return WorkloadKind.TRAINING
    return WorkloadKind.BATCH if word_of in _BATCH else WorkloadKind.SERVICE


def _take(
    found: dict[str, Workload],
    subject: str,
    name: str,
    kind: WorkloadKind,
    part: Part,
    site: SiteId,
    notes: Notes,
    *,
    graces: tuple[Grace, ...],
) -> None:
    clean = _NOT_IN_ID.sub("-", name)[:63]
    if not _ID.fullmatch(clean):
        notes.lack(name, "name that an estate can hold, and so the workload itself,", "whoever runs it")
        return
    if any(one.id == clean for one in found.values()):
        notes.lack(clean, "name of its own, since another one is written the same way, and so the second workload", "whoever runs them")
        return
    gpus = number(part, "gpu-count")
    if gpus is None or gpus != int(gpus):
        notes.lack(clean, "number of GPUs, and so the workload itself,", "squeue, sacct, or kubectl get pods; and their owners")
        return
    notes.lack(clean, "purpose, checkpoint, times to save and restore", "their owners, and a measurement of each")
    memory = number(part, "memory")
    found[subject] = Workload(
        id=WorkloadId(clean),
        kind=kind,
        site=site,
        gpus=int(gpus),
        memory_bytes=None if memory is None else int(memory),
        graces=graces,
    )
