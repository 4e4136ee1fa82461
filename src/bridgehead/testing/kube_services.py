"""Services of the fake cluster: Deployments, budgets of disruption, and evictions that respect them."""

from __future__ import annotations

from typing import Final

from bridgehead.testing.kube_schema import Object
from bridgehead.testing.kube_store import KubeStore, Refused

SYNC_S: Final = 0.05


class DeploymentController:
    """Keeps as many pods as a Deployment asks for; without rolling updates.

    Attributes:
        paused: it does nothing, as while its process is down.
    """

    def __init__(self, store: KubeStore) -> None:
        self._store = store
        self.paused = False
        self._seen: dict[str, tuple[str, float]] = {}

    def step(self, now_s: float) -> None:
        """Look at every Deployment that was changed a while ago, or whose pods were."""
        if self.paused:
            return
        for found in self._store.all("Deployment"):
            pods = [pod for pod, _ in self._store.owned(found["metadata"]["uid"])]
            version = "/".join(one["metadata"]["resourceVersion"] for one in (found, *pods))
            seen, since_s = self._seen.get(found["metadata"]["uid"], ("", now_s))
            if seen != version:
                self._seen[found["metadata"]["uid"]] = (version, now_s)
            elif now_s >= since_s + SYNC_S:
                self._sync(found, pods)

    def _sync(self, found: Object, pods: list[Object]) -> None:
        meta, wanted = found["metadata"], found["spec"].get("replicas", 1)
        over = [pod for pod in pods if pod["status"]["phase"] in ("Succeeded", "Failed")]
        active = [pod for pod in pods if pod not in over and "deletionTimestamp" not in pod["metadata"]]
        for pod in [*active[wanted:], *[pod for pod in over if "deletionTimestamp" not in pod["metadata"]]]:
            self._store.delete("Pod", meta["namespace"], pod["metadata"]["name"], {})
        for number in range(wanted - len(active)):
            self._make(found, number)
        ready = sum(_is_ready(pod) for pod in active[:wanted])
        status = {
            "observedGeneration": meta["generation"],
            "replicas": min(len(active), wanted),
            "updatedReplicas": min(len(active), wanted),
        }
        self._store.set_status(found, {**status, "readyReplicas": ready, "availableReplicas": ready})

    def _make(self, found: Object, number: int) -> None:
        meta, template = found["metadata"], found["spec"]["template"]
        reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": meta["name"], "uid": meta["uid"], "controller": True}
        given = {**template.get("metadata", {}), "name": f"{meta['name']}-{self._store.version}-{number}", "ownerReferences": [reference]}
        document = {"apiVersion": "v1", "kind": "Pod", "metadata": given, "spec": template["spec"], "status": {"phase": "Pending"}}
        self._store.create("Pod", meta["namespace"], document)


def evict(store: KubeStore, space: str, name: str, eviction: Object) -> Object:
    """Delete a pod, unless a budget says that it is needed: 429 then."""
    pod = store.get("Pod", space, name)
    if eviction.get("apiVersion") != "policy/v1" or eviction.get("kind") != "Eviction" or eviction["metadata"].get("name") != name:
        raise Refused(400, "BadRequest", "the eviction names another pod, or is none")
    unknown = eviction.keys() - {"apiVersion", "kind", "metadata", "deleteOptions"}
    if unknown:
        raise Refused(400, "BadRequest", f"strict decoding error: unknown field {sorted(unknown)[0]}")
    labels = pod["metadata"].get("labels") or {}
    for budget in store.all("PodDisruptionBudget", space):
        wanted = budget["spec"]["selector"]["matchLabels"]
        if not wanted.items() <= labels.items() or not _is_ready(pod):
            continue
        pods = [one for one in store.all("Pod", space, wanted) if "deletionTimestamp" not in one["metadata"]]
        healthy = sum(_is_ready(one) for one in pods)
        least = budget["spec"].get("minAvailable", len(pods) - budget["spec"].get("maxUnavailable", len(pods)))
        if healthy - 1 < least:
            message = "Cannot evict pod as it would violate the pod's disruption budget."
            raise Refused(429, "TooManyRequests", message, name=name, kind="pods")
    conditions = [
        *(pod["status"].get("conditions") or []),
        {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"},
    ]
    store.set_status(pod, {"conditions": conditions})
    store.delete("Pod", space, name, eviction.get("deleteOptions") or {})
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}


def _is_ready(pod: Object) -> bool:
    return any(one["type"] == "Ready" and one["status"] == "True" for one in (pod.get("status") or {}).get("conditions", []))
