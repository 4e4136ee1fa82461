"""Workloads of a draft: what Slurm runs and what Kubernetes keeps running (M5.2). Pure.

Attributes that are read, of parsers whatever their tool:

- ``job:*``: ``state`` (RUNNING), ``gpu-count``, ``memory`` (B)
- ``workload:*/*``: ``kind``, ``owner`` (what has one is a part of something else), ``phase``, ``gpu-count``, ``grace`` (s)

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
    found: dict[WorkloadId, Workload] = {}
    for subject, part in told.items():
        kind, _, name = subject.partition(":")
        if "/" in name and kind == "job":  # a step is a part of its job
            continue
        if kind == "job" and word(part, "state").upper().startswith("RUNNING"):
            _take(found, f"job-{name}", WorkloadKind.BATCH, part, site, notes)
        elif kind == "workload" and not word(part, "owner") and word(part, "phase") not in _GONE and word(part, "kind"):
            _take(found, name.replace("/", "."), _kind(word(part, "kind")), part, site, notes)
    return tuple(found[name] for name in sorted(found, key=lambda name: (natural(name), name)))


def _kind(word_of: str) -> WorkloadKind:
    if word_of in _TRAINING:
        return WorkloadKind.TRAINING
    return WorkloadKind.BATCH if word_of in _BATCH else WorkloadKind.SERVICE


def _take(found: dict[WorkloadId, Workload], name: str, kind: WorkloadKind, part: Part, site: SiteId, notes: Notes) -> None:
    clean = _NOT_IN_ID.sub("-", name)[:63]
    if not _ID.fullmatch(clean):
        notes.lack(name, "name that an estate can hold, and so the workload itself,", "whoever runs it")
        return
    gpus = number(part, "gpu-count")
    if gpus is None or gpus != int(gpus):
        notes.lack(clean, "number of GPUs, and so the workload itself,", "squeue, sacct, or kubectl get pods; and their owners")
        return
    notes.lack(clean, "purpose, checkpoint, times to save and restore", "their owners, and a measurement of each")
    memory, grace = number(part, "memory"), number(part, "grace")
    workload = WorkloadId(clean)
    found[workload] = Workload(
        id=workload,
        kind=kind,
        site=site,
        gpus=int(gpus),
        memory_bytes=None if memory is None else int(memory),
        graces=() if grace is None else (Grace("pod-termination", float(grace)),),
    )
