"""Pods and what makes them, as facts: GPUs, node, owner, and the chain of grace before they are killed (M5.2). Pure."""

from __future__ import annotations

import re
from typing import Any, Final

from bridgehead.discovery.kube import Resource, inner, listed, quantity
from bridgehead.discovery.kube_services import state_calls, state_labels
from bridgehead.discovery.parsing import Statements
from bridgehead.discovery.tables import path_part

TEMPLATES: Final = {
    "Deployment": ("spec", "template"),
    "StatefulSet": ("spec", "template"),
    "DaemonSet": ("spec", "template"),
    "ReplicaSet": ("spec", "template"),
    "Job": ("spec", "template"),
    "CronJob": ("spec", "jobTemplate", "spec", "template"),
}
"""Where the pod of each kind is described."""
_GPU: Final = re.compile(r"(?:nvidia\.com/gpu(?:\.shared)?|amd\.com/gpu|gpu\.intel\.com/(?:i915|xe)|alibabacloud\.com/gpu-count)")
_SLEEP: Final = re.compile(r"(?:(?:/usr)?/bin/)?sleep (\d{1,6})s?", re.ASCII)
_SHELLS: Final = frozenset({"sh", "/bin/sh", "bash", "/bin/bash"})


def state_workload(say: Statements, resource: Resource, kind: str) -> None:
    """A pod, a controller with a template of pods, or a job of a training operator with several."""
    meta = inner(resource.values, "metadata")
    name, space = meta.get("name") or meta.get("generateName"), meta.get("namespace") or "default"
    if not isinstance(name, str) or not isinstance(space, str):
        say.skip(resource.place("metadata"), f"a {kind} without a name")
        return
    subject = f"workload:{path_part(space)}/{path_part(name)}"
    line = resource.place("metadata", "name")
    say.known(subject, "kind", kind, line=line)
    spec = inner(resource.values, "spec")
    for owner in listed(resource.values, "metadata", "ownerReferences")[:1]:
        say.known(subject, "owner", f"{owner.get('kind')}.{owner.get('name')}", line=resource.place("metadata", "ownerReferences"))
    if isinstance(phase := inner(resource.values, "status").get("phase"), str):
        say.word(subject, "phase", phase, line=resource.place("status", "phase"))
    _limits(say, subject, spec, resource)
    if kind == "Pod":
        state_labels(say, subject, meta, line=line)
        _pod(say, subject, spec, resource, ("spec",), pods=1)
    elif kind in TEMPLATES:
        path = (*TEMPLATES[kind], "spec")
        state_labels(say, subject, inner(resource.values, *TEMPLATES[kind], "metadata"), line=line)
        _pod(say, subject, inner(resource.values, *path), resource, path, pods=_pods(spec, kind))
    else:
        _roles(say, subject, spec, resource)


def _pods(spec: dict[str, Any], kind: str) -> int | None:
    """How many pods there are at a time; None where the file does not say."""
    found = spec.get("parallelism" if kind == "Job" else "replicas")
    number = quantity(found)
    return number if isinstance(number, int) else None


def _limits(say: Statements, subject: str, spec: dict[str, Any], resource: Resource) -> None:
    for key, attribute, unit in (
        ("replicas", "replicas", ""),
        ("parallelism", "replicas", ""),
        ("activeDeadlineSeconds", "time-limit", "s"),
        ("minReadySeconds", "ready-after", "s"),
    ):
        if (number := quantity(spec.get(key))) is not None:
            say.known(subject, attribute, number, line=resource.place("spec", key), unit=unit)


def _pod(say: Statements, subject: str, spec: dict[str, Any], resource: Resource, path: tuple[str, ...], *, pods: int | None) -> None:
    line = resource.place(*path)
    if not spec:
        say.skip(line, f"{subject} has no pod in it")
        return
    if isinstance(node := spec.get("nodeName"), str):
        say.word(subject, "node", node, line=resource.place(*path, "nodeName"))
    for key, attribute in (("priorityClassName", "priority-class"), ("restartPolicy", "restart-policy"), ("schedulerName", "scheduler")):
        if isinstance(spec.get(key), str):
            say.word(subject, attribute, spec[key], line=resource.place(*path, key))
    each = _gpus(spec)
    if each is None:
        say.unknown(subject, "gpu-count", line=line, note="a count of GPUs cannot be read")
    else:
        if pods is None:
            say.unknown(subject, "gpu-count", line=line, note=f"{each} of each pod, and the file does not say how many pods there are")
        else:
            note = "" if pods == 1 else f"{each} of each of {pods} pods"
            say.known(subject, "gpu-count", each * pods, line=line, note=note)
        say.known(subject, "gpus-per-pod", each, line=line)
    for key, attribute, unit in (("memory", "memory-requested", "B"), ("cpu", "cpu-count", "")):
        wanted = [quantity(_wanted(one, key)) for one in listed(spec, "containers") if _wanted(one, key) is not None]
        numbers = [one for one in wanted if one is not None]
        if numbers and len(numbers) == len(wanted):
            say.known(subject, attribute, sum(numbers), line=line, unit=unit)
    claims = [inner(one, "persistentVolumeClaim").get("claimName") for one in listed(spec, "volumes")]
    if names := tuple(sorted({one for one in claims if isinstance(one, str)})):
        say.known(subject, "claims", names, line=resource.place(*path, "volumes"))
    state_calls(say, subject, [*listed(spec, "containers"), *listed(spec, "initContainers")], line=resource.place(*path, "containers"))
    _grace(say, subject, spec, resource, path)


def _grace(say: Statements, subject: str, spec: dict[str, Any], resource: Resource, path: tuple[str, ...]) -> None:
    """The time from the order to end until the kill, and what the hooks before the signal take of it."""
    key = "terminationGracePeriodSeconds"
    grace = quantity(spec.get(key))
    line = resource.place(*path, key) if key in spec else resource.place(*path)
    if grace is None:
        note = f"the file says {spec[key]!r:.40}" if key in spec else "the file does not say; Kubernetes sets 30 s where nobody does"
        say.unknown(subject, "grace", line=line, unit="s", note=note)
    else:
        say.known(subject, "grace", grace, line=line, unit="s")
    longest: int | None = 0
    for container in listed(spec, "containers"):
        hook = inner(container, "lifecycle", "preStop")
        if not hook:
            continue
        name = str(container.get("name") or "?").replace("/", "%2F")
        where = resource.place(*path, "containers", "preStop")
        text, sleep = _hook(hook)
        say.known(subject, f"pre-stop:{name}", text, line=where)
        if sleep is not None:
            say.known(subject, f"pre-stop-sleep:{name}", sleep, line=where, unit="s")
        longest = None if sleep is None or longest is None else max(longest, sleep)
    if grace is not None and longest is None:
        say.unknown(subject, "grace-after-pre-stop", line=line, unit="s", note="a hook runs for a time that the file does not say")
    elif grace is not None and longest is not None:
        note = f"{grace} s less {longest} s that a hook sleeps" if longest else ""
        say.known(subject, "grace-after-pre-stop", max(0, grace - longest), line=line, unit="s", note=note)


def _hook(hook: dict[str, Any]) -> tuple[str, int | None]:
    """What a hook does, in words, and how long where it only sleeps."""
    if "sleep" in hook:
        seconds = quantity(inner(hook, "sleep").get("seconds"))
        return f"sleep {seconds} s", seconds if isinstance(seconds, int) else None
    if "httpGet" in hook:
        return f"httpGet {inner(hook, 'httpGet').get('path', '/')!s:.100}", None
    command = inner(hook, "exec").get("command")
    words = [str(word) for word in command] if isinstance(command, list) else []
    text = " ".join(words)
    plain = words[2] if len(words) == 3 and words[0] in _SHELLS and words[1] == "-c" else text
    found = _SLEEP.fullmatch(plain.strip())
    return f"exec {text}"[:200] if words else "a hook of another kind", int(found[1]) if found else None


def _roles(say: Statements, subject: str, spec: dict[str, Any], resource: Resource) -> None:
    """Training operators: pods of several roles, each with its own number."""
    total: int | float | None = 0
    found = False
    for key, group in spec.items():
        for role, described in group.items() if key.endswith("ReplicaSpecs") and isinstance(group, dict) else ():
            if not isinstance(described, dict):
                continue
            found = True
            pods, pod = quantity(described.get("replicas", 1)), inner(described, "template", "spec")
            each = _gpus(pod)
            total = None if total is None or each is None or pods is None else total + pods * each
            line = resource.place("spec", key, role)
            if pods is not None:
                say.known(subject, f"replicas:{role.lower()}", pods, line=line)
            if (grace := quantity(pod.get("terminationGracePeriodSeconds"))) is not None:
                say.known(subject, f"grace:{role.lower()}", grace, line=line, unit="s")
    line = resource.place("spec")
    if not found:
        say.skip(line, f"no pods are described in {subject}")
    elif total is None:
        say.unknown(subject, "gpu-count", line=line, note="a count of pods or of GPUs cannot be read")
    else:
        say.known(subject, "gpu-count", total, line=line, note="of all roles")


def _wanted(container: dict[str, Any], key: str) -> Any:
    held = inner(container, "resources")
    return inner(held, "requests").get(key, inner(held, "limits").get(key))


def _gpus(spec: dict[str, Any]) -> int | float | None:
    """GPUs of a pod: those of its containers together, or of the one that starts before them with most, whichever is more; helpers that go
    on running count with the containers."""
    running, starting = [0.0], [0.0]
    for place, containers in ((running, listed(spec, "containers")), (starting, listed(spec, "initContainers"))):
        for container in containers:
            for key in {*inner(container, "resources", "limits"), *inner(container, "resources", "requests")}:
                if not _GPU.fullmatch(key):
                    continue
                number = quantity(_wanted(container, key))
                if number is None:
                    return None
                (running if container.get("restartPolicy") == "Always" else place).append(number)
    total = max(sum(running), *starting)
    return int(total) if total == int(total) else total
