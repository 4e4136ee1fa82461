"""Objects of the strict fake API server: uid, resourceVersion, generation, conflicts, preconditions, finalizers, graceful deletion."""

from __future__ import annotations

import base64
import copy
import datetime
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from bridgehead.testing.kube_schema import Fault, Object, check, check_change, check_name


class Kind(NamedTuple):
    """A kind of objects, and where it is served."""

    name: str
    version: str
    plural: str
    namespaced: bool = True
    counts_generations: bool = False

    @property
    def root(self) -> str:
        """Path in front of ``/namespaces``."""
        return f"/apis/{self.version}" if "/" in self.version else f"/api/{self.version}"


KINDS: Final = {
    kind.name: kind
    for kind in (
        Kind("Job", "batch/v1", "jobs", counts_generations=True),
        Kind("Pod", "v1", "pods"),
        Kind("Node", "v1", "nodes", namespaced=False),
        Kind("Secret", "v1", "secrets"),
        Kind("ConfigMap", "v1", "configmaps"),
        Kind("Deployment", "apps/v1", "deployments", counts_generations=True),
        Kind("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", counts_generations=True),
        Kind("HTTPRoute", "gateway.networking.k8s.io/v1", "httproutes", counts_generations=True),
    )
}
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
_KEPT: Final = ("uid", "creationTimestamp", "generation", "deletionTimestamp", "deletionGracePeriodSeconds", "namespace", "name")
"""Metadata that only the server writes."""


class Refused(Exception):
    """An answer other than success."""

    def __init__(self, status: int, reason: str, message: str, *, name: str = "", kind: str = "") -> None:
        super().__init__(message)
        self.status, self.reason, self.message, self.name, self.kind = status, reason, message, name, kind


class KubeStore:
    """All objects. Each is a value that is never changed in place: what is given out is not to be changed either.

    Args:
        now: the server's clock, in seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._version = 100
        self._objects: dict[tuple[str, str, str], Object] = {}
        self.dropped: tuple[str, ...] = ()
        """Fields of a Job's spec that this server does not know, and drops without a word as one before 1.25 does."""

    def create(self, kind: str, space: str, document: Object, *, dry_run: bool = False) -> Object:
        """A new object; in a dry run only what it would be."""
        document = copy.deepcopy(document)
        meta = document.setdefault("metadata", {})
        if meta.get("resourceVersion"):
            raise Refused(400, "BadRequest", "resourceVersion should not be set on objects to be created")
        if document.get("kind") != kind or document.get("apiVersion") != KINDS[kind].version:
            raise Refused(400, "BadRequest", f"the object provided is {document.get('kind')}, expected {kind}")
        _valid(lambda: check(kind, document), kind, meta.get("name", ""))
        _valid(lambda: check_name(kind, meta.get("name", "")), kind, meta.get("name", ""))
        key = (kind, space, meta["name"])
        if key in self._objects:
            plural = KINDS[kind].plural
            raise Refused(409, "AlreadyExists", f'{plural} "{meta["name"]}" already exists', name=meta["name"], kind=plural)
        if kind not in ("Node", "Pod"):
            document.pop("status", None)
        if kind == "Job":
            document["spec"] = {field: value for field, value in document["spec"].items() if field not in self.dropped}
        _encode(document)
        meta |= {"uid": str(uuid.uuid4()), "creationTimestamp": self.stamp(), "namespace": space}
        if KINDS[kind].counts_generations:
            meta["generation"] = 1
        if dry_run:
            return document
        self._objects[key] = document
        return self._touched(document)

    def get(self, kind: str, space: str, name: str) -> Object:
        """One object."""
        return self._found(kind, space, name)

    def all(self, kind: str, space: str | None = None, labels: dict[str, str] | None = None) -> list[Object]:
        """Objects with these labels, by name."""
        return [
            document
            for (one, place, _), document in sorted(self._objects.items())
            if one == kind
            and space in (None, place)
            and all((document["metadata"].get("labels") or {}).get(k) == v for k, v in (labels or {}).items())
        ]

    def replace(self, kind: str, space: str, name: str, document: Object, *, status: bool = False) -> Object:
        """Put ``document`` in its place; its spec, or with ``status`` its status alone."""
        old = self._found(kind, space, name)
        given = document.get("metadata", {})
        plural = KINDS[kind].plural
        if given.get("uid", old["metadata"]["uid"]) != old["metadata"]["uid"]:
            raise Refused(409, "Conflict", "Precondition failed: UID in precondition", name=name, kind=plural)
        if given.get("resourceVersion", old["metadata"]["resourceVersion"]) != old["metadata"]["resourceVersion"]:
            message = f'Operation cannot be fulfilled on {plural} "{name}": the object has been modified'
            raise Refused(409, "Conflict", message, name=name, kind=plural)
        if status:
            new = {**old, "metadata": dict(old["metadata"]), "status": document.get("status", {})}
        else:
            new = {**document, "metadata": dict(given)}
            self._keep_what_is_the_servers(kind, old, new)
        for key in ("annotations", "labels", "finalizers"):
            if not new["metadata"].get(key, True):
                del new["metadata"][key]  # an empty one is none
        _valid(lambda: check(kind, new), kind, name)
        _valid(lambda: check_change(kind, old, new), kind, name)
        _encode(new)
        if new == old:
            return old
        if KINDS[kind].counts_generations and new.get("spec") != old.get("spec"):
            new["metadata"]["generation"] = old["metadata"]["generation"] + 1
        self._objects[(kind, space, name)] = new
        answer = self._touched(new)
        self._remove_if_due(kind, space, name)
        return answer

    def patch(self, kind: str, space: str, name: str, change: Object, *, status: bool = False) -> Object:
        """A merge patch (RFC 7396)."""
        merged = _merged(self.get(kind, space, name), change)
        return self.replace(kind, space, name, merged, status=status)

    def set_status(self, document: Object, status: Object) -> None:
        """What a controller does."""
        meta = document["metadata"]
        self.patch(document["kind"], meta["namespace"], meta["name"], {"status": status}, status=True)

    def delete(self, kind: str, space: str, name: str, options: Object) -> Object:
        """Mark for deletion; removed once finalizers, and for pods the node, agree."""
        found = self._found(kind, space, name)
        found = {**found, "metadata": dict(found["metadata"])}
        meta = found["metadata"]
        for key, value in (options.get("preconditions") or {}).items():
            if meta[key] != value:
                raise Refused(409, "Conflict", f"Precondition failed: {key}", name=name, kind=KINDS[kind].plural)
        policy = options.get("propagationPolicy") or ("Orphan" if kind == "Job" else "Background")
        if policy not in ("Background", "Foreground", "Orphan"):
            raise Refused(422, "Invalid", f"propagationPolicy: {policy}")
        extra = {"Foreground": FOREGROUND, "Orphan": ORPHAN}.get(policy)
        if extra and kind != "Pod" and extra not in meta.get("finalizers", []):
            meta["finalizers"] = [*meta.get("finalizers", []), extra]
        grace_s = 0
        if kind == "Pod" and found.get("status", {}).get("phase") not in ("Succeeded", "Failed") and found["spec"].get("nodeName"):
            grace_s = int(options.get("gracePeriodSeconds", found["spec"].get("terminationGracePeriodSeconds", 30)))
        if "deletionTimestamp" in meta:
            grace_s = min(grace_s, meta.get("deletionGracePeriodSeconds", grace_s))
        if "deletionTimestamp" not in meta or grace_s < meta["deletionGracePeriodSeconds"]:
            meta |= {"deletionTimestamp": self.stamp(grace_s), "deletionGracePeriodSeconds": grace_s}
        self._objects[(kind, meta["namespace"], name)] = found
        answer = self._touched(found)
        self._remove_if_due(kind, space, name)
        return answer

    def bind(self, space: str, name: str, node: str) -> None:
        """What the scheduler does: the one change of a pod's spec."""
        pod = self._found("Pod", space, name)
        pod = {**pod, "metadata": dict(pod["metadata"]), "spec": {**pod["spec"], "nodeName": node}}
        self._objects[("Pod", space, name)] = pod
        pod["status"] = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "True"}]}
        self._touched(pod)

    def secret(self, space: str, name: str) -> dict[str, str]:
        """What a kubelet reads."""
        data = self._found("Secret", space, name).get("data") or {}
        return {key: base64.b64decode(value).decode() for key, value in data.items()}

    def stamp(self, later_s: float = 0.0) -> str:
        """The time as Kubernetes writes it."""
        return datetime.datetime.fromtimestamp(self._now() + later_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    def owned(self, uid: str) -> Iterator[tuple[Object, Object]]:
        """Objects that name this owner, with the reference."""
        for document in list(self._objects.values()):
            for reference in document["metadata"].get("ownerReferences") or []:
                if reference["uid"] == uid:
                    yield document, reference

    def uids(self) -> set[str]:
        """Of all objects."""
        return {document["metadata"]["uid"] for document in self._objects.values()}

    def everything(self) -> list[Object]:
        """All objects, as they are now."""
        return list(self._objects.values())

    @property
    def version(self) -> int:
        """The newest resourceVersion."""
        return self._version

    def _found(self, kind: str, space: str, name: str) -> Object:
        found = self._objects.get((kind, space if KINDS[kind].namespaced else "", name))
        if found is None:
            plural = KINDS[kind].plural
            raise Refused(404, "NotFound", f'{plural} "{name}" not found', name=name, kind=plural)
        return found

    def _touched(self, document: Object) -> Object:
        self._version += 1
        document["metadata"]["resourceVersion"] = str(self._version)
        return document

    def _keep_what_is_the_servers(self, kind: str, old: Object, new: Object) -> None:
        meta = new.setdefault("metadata", {})
        for key in _KEPT:
            meta.pop(key, None)
            if key in old["metadata"]:
                meta[key] = old["metadata"][key]
        meta["resourceVersion"] = old["metadata"]["resourceVersion"]
        if kind not in ("ConfigMap", "Secret"):
            new.pop("status", None)
            if "status" in old:
                new["status"] = old["status"]
        added = set(meta.get("finalizers") or []) - set(old["metadata"].get("finalizers") or [])
        if added and "deletionTimestamp" in meta:
            raise Refused(422, "Invalid", "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted")

    def _remove_if_due(self, kind: str, space: str, name: str) -> None:
        found = self._objects.get((kind, space, name))
        if found is None or "deletionTimestamp" not in found["metadata"] or found["metadata"].get("finalizers"):
            return
        if found["metadata"].get("deletionGracePeriodSeconds", 0) == 0:
            del self._objects[(kind, space, name)]


def _encode(document: Object) -> None:
    plain = document.pop("stringData", None) or {}
    if plain:
        document["data"] = {
            **(document.get("data") or {}),
            **{key: base64.b64encode(text.encode()).decode() for key, text in plain.items()},
        }


def _merged(old: Any, change: Any) -> Any:
    if not isinstance(change, dict):
        return copy.deepcopy(change)
    found = dict(old) if isinstance(old, dict) else {}
    for key, value in change.items():
        if value is None:
            found.pop(key, None)
        else:
            found[key] = _merged(found.get(key), value)
    return found


def _valid(how: Callable[[], None], kind: str, name: str) -> None:
    try:
        how()
    except Fault as fault:
        reason = "Invalid" if fault.status == 422 else "BadRequest"
        raise Refused(fault.status, reason, f'{kind} "{name}" is invalid: {fault.message}', name=name, kind=KINDS[kind].plural) from fault
