"""Manifest: the Job and the Secret of one execution."""

from __future__ import annotations

import copy
import hashlib
import math
import re
from pathlib import Path
from typing import Any, Final

import yaml

from bridgehead.drivers.kubernetes.api import Object
from bridgehead.drivers.kubernetes.options import KubernetesOptions, OnDisruption, PodRequest
from bridgehead.kernel.errors import Permanent
from bridgehead.kernel.ids import JobName
from bridgehead.ports.scheduler import JobSpec

TOKEN: Final = "bridgehead/token"
NAME: Final = "bridgehead/name"
RELEASED: Final = "bridgehead/released-by"
ASKED: Final = "bridgehead/asked-to-end-by"
ASKED_AT: Final = "bridgehead/asked-to-end-at"
HELD: Final = "bridgehead/end-not-on-record"
"""Finalizer of pods: they stay, with their exit codes, until their end is in the book; also when the Job is deleted in the meantime."""
OF_A_NAME: Final = "bridgehead/job"
"""Label: a hash of the job's name, which may hold signs that labels may not."""
_TRIED: Final = "start a job"
_LEAST_GRACE_S: Final = 1


def name_label(name: JobName) -> str:
    """Of all Jobs of that name."""
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def job_name(name: JobName, token: str) -> str:
    """Of the Job: short enough for the names of its pods."""
    plain = re.sub(r"[^a-z0-9-]", "-", name.lower()).strip("-")[:36].rstrip("-")
    return f"{plain or 'job'}-{token[:16]}"


def job_manifest(spec: JobSpec, options: KubernetesOptions, *, job: str, token: str, key: str) -> Object:
    """The Job, suspended. Raises Permanent for what can never run."""
    request = options.request(spec.name)
    if request is None or not (request.template or request.image) or request.pods < 1:
        happened = "no pattern under jobs gives it an image or a template" if request is None or request.pods > 0 else "pods is below 1"
        raise _wrong(spec.name, happened, "Say in the estate file what its pods are.")
    template = _template(request, spec.name)
    pod = template["spec"]
    container = pod["containers"][0]
    # Kubernetes expands $(NAME) in these words, and takes $$ for $.
    container["command"] = [word.replace("$", "$$") for word in spec.command]
    container.pop("args", None)
    if spec.workdir:
        container["workingDir"] = spec.workdir
    if request.image:
        container["image"] = request.image
    if options.env:
        plain = [{"name": name, "value": value.replace("$", "$$")} for name, value in options.env.items() if name not in spec.env]
        container["env"] = [one for one in container.get("env") or [] if one.get("name") not in {*options.env, *spec.env}] + plain
    if spec.env:
        container["env"] = [one for one in container.get("env") or [] if one.get("name") not in spec.env]
        container["envFrom"] = [*(container.get("envFrom") or []), {"secretRef": {"name": job}}]
    if request.gpus:
        container.setdefault("resources", {}).setdefault("limits", {})[request.gpu_resource] = str(request.gpus)
    if request.node_labels:
        pod["nodeSelector"] = {**(pod.get("nodeSelector") or {}), **request.node_labels}
    pod["restartPolicy"] = "Never"
    pod["terminationGracePeriodSeconds"] = max(_LEAST_GRACE_S, math.ceil(spec.grace_s))
    meta = template.setdefault("metadata", {})
    meta["labels"] = {**(meta.get("labels") or {}), TOKEN: token}
    meta["finalizers"] = [*(meta.get("finalizers") or []), HELD]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": job,
            "labels": {OF_A_NAME: name_label(spec.name), "app.kubernetes.io/managed-by": "bridgehead"},
            "annotations": {TOKEN: token, NAME: spec.name, "bridgehead/started-by": key},
        },
        "spec": {**_rules(request), "suspend": True, "template": template},
    }


def secret_manifest(spec: JobSpec, *, owner: Object) -> Object:
    """The environment that the run gives, which goes with its Job."""
    meta = owner["metadata"]
    reference = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"]}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": meta["name"], "ownerReferences": [reference]},
        "type": "Opaque",
        "stringData": dict(spec.env),
    }


def check_words(spec: JobSpec) -> None:
    """Raises Permanent for words that no program can be given."""
    wrong = "" if spec.command and spec.command[0] else "there is no command"
    if any("\0" in word for word in (*spec.command, spec.workdir, *spec.env.values())):
        wrong = "a word holds a zero byte"
    if any(not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) for name in spec.env):
        wrong = "a variable has a name that cannot be passed"
    try:
        "".join((*spec.command, spec.workdir, *spec.env.values())).encode()
    except UnicodeEncodeError:
        wrong = "a word is no UTF-8"
    if wrong:
        raise _wrong(spec.name, wrong, "Correct the job's command and environment.")


def _rules(request: PodRequest) -> dict[str, Any]:
    """A new pod comes only when the old one has surely ended: never two writers."""
    rules: dict[str, Any] = {
        "backoffLimit": 0,
        "parallelism": request.pods,
        "completions": request.pods,
        "completionMode": "Indexed",
        "podReplacementPolicy": "Failed",
    }
    if request.on_disruption is OnDisruption.RESTART:
        disrupted = {"type": "DisruptionTarget", "status": "True"}
        rules["podFailurePolicy"] = {"rules": [{"action": "Ignore", "onPodConditions": [disrupted]}]}
    if request.keep_s >= 0:
        rules["ttlSecondsAfterFinished"] = math.ceil(request.keep_s)
    return rules


def _template(request: PodRequest, name: JobName) -> dict[str, Any]:
    if not request.template:
        return {"spec": {"containers": [{"name": "job"}]}}
    try:
        read = yaml.safe_load(Path(request.template).read_bytes())
    except OSError as error:
        raise _wrong(name, f"{request.template}: {error.strerror}", "Check the template's path.") from error
    except yaml.YAMLError:
        raise _wrong(name, f"{request.template} is no YAML", "Check the template.") from None
    spec = read.get("spec") if isinstance(read, dict) else None
    containers = spec.get("containers") if isinstance(spec, dict) else None
    if not isinstance(containers, list) or not containers or not isinstance(containers[0], dict):
        raise _wrong(name, f"{request.template} holds no spec with containers", "Give it the form of a PodTemplateSpec.")
    found: dict[str, Any] = copy.deepcopy({key: read[key] for key in ("metadata", "spec") if read.get(key)})
    return found


def _wrong(name: JobName, happened: str, remedy: str) -> Permanent:
    return Permanent(happened, tried=_TRIED, subject=f"job {name}", remedy=remedy)
