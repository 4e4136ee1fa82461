"""What the strict fake API server takes: fields, forms and rules of the objects that the drivers use; anything else is refused.

A field that stands here exists in Kubernetes; many that exist do not stand here.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final

Object = dict[str, Any]
MAP: Final = "map of texts"
ANY: Final = "anything"
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_LABEL: Final = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")
_WORD: Final = re.compile(r"([A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?)?")
_KEY: Final = re.compile(r"[-._a-zA-Z0-9]{1,253}")

META: Final[Object] = {
    "name": str, "namespace": str, "uid": str, "resourceVersion": str, "generation": int, "creationTimestamp": str,
    "deletionTimestamp": str, "deletionGracePeriodSeconds": int, "labels": MAP, "annotations": MAP, "finalizers": [str],
    "ownerReferences": [{"apiVersion": str, "kind": str, "name": str, "uid": str, "controller": bool, "blockOwnerDeletion": bool}],
    "managedFields": ANY,
}  # fmt: skip
_CONTAINER: Final[Object] = {
    "name": str, "image": str, "command": [str], "args": [str], "workingDir": str, "env": [{"name": str, "value": str}],
    "envFrom": [{"prefix": str, "secretRef": {"name": str}, "configMapRef": {"name": str}}],
    "resources": {"limits": MAP, "requests": MAP}, "volumeMounts": [{"name": str, "mountPath": str, "readOnly": bool}],
    "readinessProbe": ANY, "ports": [{"containerPort": int, "name": str}], "imagePullPolicy": str, "securityContext": ANY,
}  # fmt: skip
_POD: Final[Object] = {
    "containers": [_CONTAINER], "restartPolicy": str, "terminationGracePeriodSeconds": int, "nodeSelector": MAP, "nodeName": str,
    "serviceAccountName": str, "tolerations": ANY, "volumes": ANY, "affinity": ANY, "securityContext": ANY, "schedulerName": str,
    "hostname": str,
}  # fmt: skip
_TEMPLATE: Final[Object] = {"metadata": META, "spec": _POD}
_SELECTOR: Final[Object] = {"matchLabels": MAP}
_CONDITIONS: Final = [
    {"type": str, "status": str, "reason": str, "message": str, "lastTransitionTime": str, "lastProbeTime": str, "observedGeneration": int}
]
_BACKEND: Final[Object] = {"group": str, "kind": str, "name": str, "namespace": str, "port": int, "weight": int, "filters": ANY}
_PARENT: Final[Object] = {"group": str, "kind": str, "name": str, "namespace": str, "sectionName": str, "port": int}

KINDS: Final[dict[str, Object]] = {
    "Job": {
        "spec": {
            "parallelism": int, "completions": int, "completionMode": str, "backoffLimit": int, "suspend": bool, "template": _TEMPLATE,
            "selector": _SELECTOR, "podReplacementPolicy": str, "ttlSecondsAfterFinished": int, "activeDeadlineSeconds": int,
            "podFailurePolicy": {"rules": [{"action": str, "onPodConditions": [{"type": str, "status": str}], "onExitCodes": ANY}]},
        },
        "status": {
            "active": int, "ready": int, "terminating": int, "succeeded": int, "failed": int, "startTime": str, "completionTime": str,
            "conditions": _CONDITIONS,
        },
    },
    "Pod": {"spec": _POD, "status": ANY},
    "Node": {"spec": {"taints": ANY, "unschedulable": bool}, "status": ANY},
    "Secret": {"type": str, "data": MAP, "stringData": MAP},
    "ConfigMap": {"data": MAP},
    "Deployment": {
        "spec": {
            "replicas": int, "selector": _SELECTOR, "template": _TEMPLATE, "minReadySeconds": int, "progressDeadlineSeconds": int,
            "strategy": ANY,
        },
        "status": {
            "observedGeneration": int, "replicas": int, "updatedReplicas": int, "readyReplicas": int, "availableReplicas": int,
            "unavailableReplicas": int, "conditions": _CONDITIONS,
        },
    },
    "PodDisruptionBudget": {
        "spec": {"minAvailable": int, "maxUnavailable": int, "selector": _SELECTOR},
        "status": {
            "observedGeneration": int, "disruptionsAllowed": int, "currentHealthy": int, "desiredHealthy": int, "expectedPods": int,
        },
    },
    "HTTPRoute": {
        "spec": {
            "hostnames": [str], "parentRefs": [_PARENT],
            "rules": [{"name": str, "matches": ANY, "filters": ANY, "timeouts": ANY, "sessionPersistence": ANY, "backendRefs": [_BACKEND]}],
        },
        "status": {"parents": [{"parentRef": _PARENT, "controllerName": str, "conditions": _CONDITIONS}]},
    },
}  # fmt: skip


class Fault(Exception):
    """An object that is refused: 400 for what cannot be decoded, 422 for what breaks a rule."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def check(kind: str, document: Object) -> None:
    """Raises Fault for an object that is not valid."""
    _shape({"apiVersion": str, "kind": str, "metadata": META, **KINDS[kind]}, document, "")
    _check_meta(document["metadata"], "metadata")
    rule = _RULES.get(kind)
    if rule is not None:
        rule(document)


def check_change(kind: str, old: Object, new: Object) -> None:
    """Raises Fault when a field changes that may not."""
    for path in _IMMUTABLE.get(kind, ()):
        if _at(old, path) != _at(new, path):
            raise Fault(422, f"{path}: Invalid value: field is immutable")


_IMMUTABLE: Final[dict[str, tuple[str, ...]]] = {
    "Job": ("spec.template", "spec.completions", "spec.completionMode", "spec.selector", "spec.podFailurePolicy"),
    "Deployment": ("spec.selector",),
    "Pod": ("spec",),
    "Secret": ("type",),
}


def _shape(form: Any, value: Any, path: str) -> None:
    if form is ANY:
        return
    if form is MAP:
        if not isinstance(value, dict) or not all(isinstance(key, str) and isinstance(one, str) for key, one in value.items()):
            raise Fault(400, f"{path}: not a map of texts")
        return
    if isinstance(form, list):
        if not isinstance(value, list):
            raise Fault(400, f"{path}: not a list")
        for number, one in enumerate(value):
            _shape(form[0], one, f"{path}[{number}]")
        return
    if isinstance(form, dict):
        if not isinstance(value, dict):
            raise Fault(400, f"{path}: not an object")
        for key, one in value.items():
            if key not in form:
                raise Fault(400, f'strict decoding error: unknown field "{path}.{key}"'.replace('".', '"'))
            _shape(form[key], one, f"{path}.{key}".lstrip("."))
        return
    if not isinstance(value, form) or (form is int and isinstance(value, bool)):
        raise Fault(400, f"{path}: json: cannot unmarshal {type(value).__name__} into {form.__name__}")


def _check_meta(meta: Object, path: str) -> None:
    for key, value in (meta.get("labels") or {}).items():
        _check_key(key, f"{path}.labels")
        if len(value) > 63 or not _WORD.fullmatch(value):
            raise Fault(422, f"{path}.labels: Invalid value for {key}")
    for key in meta.get("annotations") or {}:
        _check_key(key.lower(), f"{path}.annotations")
    if sum(len(key) + len(value) for key, value in (meta.get("annotations") or {}).items()) > 256 * 1024:
        raise Fault(422, f"{path}.annotations: Too long: may not be more than 262144 bytes")
    for name in meta.get("finalizers") or []:
        _check_key(name, f"{path}.finalizers")
        if "/" not in name and name not in ("foregroundDeletion", "orphan"):
            raise Fault(
                422, f"{path}.finalizers: Invalid value: {name}: name is neither a standard finalizer name nor is it fully qualified"
            )


def _check_key(key: str, path: str) -> None:
    prefix, _, name = key.rpartition("/")
    if not name or not _WORD.fullmatch(name) or (prefix and not _SUBDOMAIN.fullmatch(prefix)):
        raise Fault(422, f"{path}: Invalid key {key}")


def check_name(kind: str, name: str) -> None:
    """Raises Fault for a name that the kind cannot have."""
    form, most = (_LABEL, 63) if kind == "Job" else (_SUBDOMAIN, 253)
    if not name or len(name) > most or not form.fullmatch(name):
        raise Fault(422, f"metadata.name: Invalid value: {name!r}")


def _pod_spec(spec: Object, path: str) -> None:
    if not spec.get("containers"):
        raise Fault(422, f"{path}.containers: Required value")
    for number, container in enumerate(spec["containers"]):
        where = f"{path}.containers[{number}]"
        if not _LABEL.fullmatch(container.get("name", "")):
            raise Fault(422, f"{where}.name: Required value")
        if not container.get("image"):
            raise Fault(422, f"{where}.image: Required value")
        limits = container.get("resources", {}).get("limits", {})
        requests = container.get("resources", {}).get("requests", {})
        for key, value in limits.items():
            # Extended resources are whole, and not overcommitted.
            if "/" in key and (not value.isdigit() or requests.get(key, value) != value):
                raise Fault(422, f"{where}.resources.limits[{key}]: Invalid value: {value}")
    if spec.get("restartPolicy", "Always") not in ("Always", "OnFailure", "Never"):
        raise Fault(422, f"{path}.restartPolicy: Unsupported value")


def _job(document: Object) -> None:
    spec = document["spec"]
    _pod_spec(spec["template"].get("spec", {}), "spec.template.spec")
    _check_meta(spec["template"].get("metadata", {}), "spec.template.metadata")
    restart = spec["template"]["spec"].get("restartPolicy", "Always")
    if restart == "Always":
        raise Fault(422, 'spec.template.spec.restartPolicy: Required value: valid values: "OnFailure", "Never"')
    if "podFailurePolicy" in spec and (restart != "Never" or spec.get("podReplacementPolicy", "Failed") != "Failed"):
        raise Fault(422, "spec.podFailurePolicy: needs restartPolicy Never and podReplacementPolicy Failed")
    if spec.get("completionMode", "NonIndexed") not in ("NonIndexed", "Indexed"):
        raise Fault(422, "spec.completionMode: Unsupported value")
    if spec.get("completionMode") == "Indexed" and "completions" not in spec:
        raise Fault(422, "spec.completions: Required value: when completion mode is Indexed")
    if spec.get("podReplacementPolicy", "Failed") not in ("Failed", "TerminatingOrFailed"):
        raise Fault(422, "spec.podReplacementPolicy: Unsupported value")
    for key in ("parallelism", "completions", "backoffLimit", "ttlSecondsAfterFinished"):
        if spec.get(key, 0) < 0:
            raise Fault(422, f"spec.{key}: Invalid value: must be greater than or equal to 0")


def _deployment(document: Object) -> None:
    spec = document["spec"]
    _pod_spec(spec["template"].get("spec", {}), "spec.template.spec")
    labels = spec["template"].get("metadata", {}).get("labels", {})
    wanted = spec.get("selector", {}).get("matchLabels") or {}
    if not wanted or any(labels.get(key) != value for key, value in wanted.items()):
        raise Fault(422, "spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`")
    if spec.get("replicas", 1) < 0:
        raise Fault(422, "spec.replicas: Invalid value: must be greater than or equal to 0")


def _secret(document: Object) -> None:
    for key, value in (document.get("data") or {}).items():
        try:
            base64.b64decode(value, validate=True)
        except binascii.Error as error:
            raise Fault(400, f"data.{key}: illegal base64 data") from error
    _keys({**(document.get("data") or {}), **(document.get("stringData") or {})})


def _config_map(document: Object) -> None:
    _keys(document.get("data") or {})


def _keys(data: Object) -> None:
    for key in data:
        if not _KEY.fullmatch(key):
            raise Fault(422, f"data[{key}]: Invalid value")
    if sum(len(value) for value in data.values()) > 1024 * 1024:
        raise Fault(422, "data: Too long: may not be more than 1048576 bytes")


def _budget(document: Object) -> None:
    if {"minAvailable", "maxUnavailable"} <= document["spec"].keys():
        raise Fault(422, "spec: Invalid value: minAvailable and maxUnavailable cannot be both set")


def _route(document: Object) -> None:
    for number, rule in enumerate(document["spec"].get("rules") or []):
        for place, backend in enumerate(rule.get("backendRefs") or []):
            where = f"spec.rules[{number}].backendRefs[{place}]"
            if not 0 <= backend.get("weight", 1) <= 1_000_000:
                raise Fault(422, f"{where}.weight: Invalid value: should be between 0 and 1000000")
            if not backend.get("name"):
                raise Fault(422, f"{where}.name: Required value")
            if backend.get("kind", "Service") == "Service" and "port" not in backend:
                raise Fault(422, f"{where}: Must have port for Service reference")


_RULES: Final[dict[str, Callable[[Object], None]]] = {
    "Job": _job,
    "Deployment": _deployment,
    "Secret": _secret,
    "ConfigMap": _config_map,
    "PodDisruptionBudget": _budget,
    "HTTPRoute": _route,
}


def _at(document: Object, path: str) -> Any:
    for key in path.split("."):
        document = document.get(key) if isinstance(document, dict) else None  # type: ignore[assignment]  # the last one is a value
    return document
