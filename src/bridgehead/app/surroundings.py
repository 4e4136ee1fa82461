"""Surroundings: the container and the job that a process runs in, as far as they show from inside. Nothing is asked of a server."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from bridgehead.vault.context import Container, Job

_JOBS: Final = (
    *(("slurm", "SLURM_JOB_ID", "SLURM_JOB_NAME"), ("pbs", "PBS_JOBID", "PBS_JOBNAME"), ("lsf", "LSB_JOBID", "LSB_JOBNAME")),
    *(("grid engine", "JOB_ID", "JOB_NAME"), ("ray", "RAY_JOB_ID", ""), ("aws batch", "AWS_BATCH_JOB_ID", "AWS_BATCH_JQ_NAME")),
    *(("torchrun", "TORCHELASTIC_RUN_ID", ""), ("kubernetes", "JOB_COMPLETION_INDEX", "")),
)
_IMAGES: Final = ("BRIDGEHEAD_CONTAINER_IMAGE", "CONTAINER_IMAGE", "APPTAINER_CONTAINER", "SINGULARITY_CONTAINER", "SLURM_CONTAINER_IMAGE")
_DIGESTS: Final = ("BRIDGEHEAD_CONTAINER_DIGEST", "CONTAINER_DIGEST", "IMAGE_DIGEST")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_ID: Final = re.compile(r"(?:/|-|:)([0-9a-f]{64})(?:/|\.scope|$)", re.MULTILINE)
_MAX_BYTES: Final = 1 << 20


def job_of(env: Mapping[str, str]) -> Job | None:
    """The job, from the variables of the usual schedulers; in Kubernetes the pod's name, which is the host's."""
    for scheduler, variable, name in _JOBS:
        if env.get(variable):
            if scheduler == "kubernetes":
                return Job(scheduler, env.get("HOSTNAME", ""), env[variable])
            if scheduler == "grid engine" and not env.get("SGE_ROOT"):
                continue  # a name that others use too
            return Job(scheduler, env[variable], env.get(name, "") if name else "")
    if env.get("KUBERNETES_SERVICE_HOST"):
        return Job("kubernetes", env.get("HOSTNAME", ""))
    return None


def container_of(env: Mapping[str, str], root: Path) -> Container | None:
    """The container; None when nothing speaks for one. ``root``: where ``/proc``, ``/run`` and ``/.dockerenv`` are."""
    podman = dict(re.findall(r'^(\w+)="?([^"\n]*)"?$', _text(root / "run" / ".containerenv"), re.MULTILINE))
    image = next((env[name] for name in _IMAGES if env.get(name)), "") or podman.get("image", "")
    digest = next((env[name] for name in _DIGESTS if env.get(name)), "")
    found = _DIGEST.search(digest or image)
    shown = _ID.search(_text(root / "proc/self/cgroup")) or re.search(r"/containers/([0-9a-f]{64})/", _text(root / "proc/self/mountinfo"))
    runtime = _runtime(env, root)
    if not (runtime or image or digest):
        return None
    return Container(
        runtime=runtime or "unknown",
        image=image,
        digest=found[0] if found else digest or podman.get("imageid", ""),
        id=podman.get("id", "") or (shown[1] if shown else ""),
    )


def _runtime(env: Mapping[str, str], root: Path) -> str:
    if env.get("APPTAINER_CONTAINER") or env.get("SINGULARITY_CONTAINER"):
        return "apptainer"
    if (root / "run" / ".containerenv").exists():
        return "podman"
    if (root / ".dockerenv").exists():
        return "docker"
    return "kubernetes" if env.get("KUBERNETES_SERVICE_HOST") else ""


def _text(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return stream.read(_MAX_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
