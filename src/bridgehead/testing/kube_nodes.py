"""Nodes of the fake cluster: a scheduler that binds pods, and kubelets that run a few programs."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from bridgehead.testing.kube_schema import Object
from bridgehead.testing.kube_store import KubeStore

BIND_S: Final = 0.05
BEGIN_S: Final = 0.05
OBEY_S: Final = 0.1
"""How long a program that listens takes to end."""
EVICT_S: Final = 300.0
"""Pods of a silent node are deleted after this."""


class _Run(NamedTuple):
    begun_s: float
    ends_s: float | None
    exit_code: int


class Nodes:
    """Programs are words: ``sleeps`` ends with 0 when asked, ``ignores-stop`` only when killed, ``exits N`` at once; others do not exist.

    Attributes:
        silent: names of nodes that do not answer, with the time since when: what runs there goes on, and nobody hears of it.
        environments: what the programs of pods were given, by uid.
    """

    def __init__(self, store: KubeStore, names: tuple[str, ...] = ("node-1", "node-2")) -> None:
        self._store = store
        self.silent: dict[str, float] = {}
        self.environments: dict[str, dict[str, str]] = {}
        self._due: dict[str, float] = {}
        self._runs: dict[str, _Run] = {}
        for name in names:
            ready = [{"type": "Ready", "status": "True", "lastTransitionTime": store.stamp()}]
            meta = {"name": name, "labels": {"kubernetes.io/hostname": name}}
            document = {"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": {}, "status": {"conditions": ready}}
            store.create("Node", "", document)

    def silence(self, name: str, *, now_s: float) -> None:
        """From now on it does not answer."""
        self.silent[name] = now_s
        self._ready(name, "Unknown")

    def wake(self, name: str) -> None:
        """It answers again."""
        del self.silent[name]
        self._ready(name, "True")

    def running(self, now_s: float) -> list[str]:
        """Uids of pods whose program runs in fact, whoever knows it."""
        return [uid for uid, run in self._runs.items() if run.begun_s <= now_s and (run.ends_s is None or run.ends_s > now_s)]

    def step(self, now_s: float) -> None:
        """Let every node do what is due."""
        for pod in self._store.all("Pod"):
            phase = pod.get("status", {}).get("phase")
            node = pod["spec"].get("nodeName", "")
            if node in self.silent:
                self._neglect(pod, now_s)
            elif phase in ("Succeeded", "Failed"):
                self._forget(pod)
            elif not node:
                self._bind(pod, now_s)
            elif phase == "Pending":
                self._begin(pod, now_s)
            else:
                self._run(pod, now_s)

    def _ready(self, name: str, status: str) -> None:
        node = self._store.get("Node", "", name)
        self._store.replace("Node", "", name, {**node, "status": {"conditions": [{"type": "Ready", "status": status}]}}, status=True)

    def _neglect(self, pod: Object, now_s: float) -> None:
        """What the control plane does with the pods of a silent node: they are marked, later deleted, and never confirmed to have ended."""
        conditions = pod.get("status", {}).get("conditions", [])
        if any(one["type"] == "Ready" and one["status"] == "True" for one in conditions):
            self._store.set_status(pod, {"conditions": [{"type": "Ready", "status": "False"}]})
        if now_s > self.silent[pod["spec"]["nodeName"]] + EVICT_S and "deletionTimestamp" not in pod["metadata"]:
            disrupted = [{"type": "Ready", "status": "False"}, {"type": "DisruptionTarget", "status": "True"}]
            self._store.set_status(pod, {"conditions": disrupted})
            self._store.delete("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"], {})

    def _bind(self, pod: Object, now_s: float) -> None:
        uid, meta = pod["metadata"]["uid"], pod["metadata"]
        if now_s < self._due.setdefault(uid, now_s + BIND_S):
            return
        wanted = (pod["spec"].get("nodeSelector") or {}).items()
        nodes = self._store.all("Node")
        fitting = [
            node["metadata"]["name"]
            for node in nodes
            if wanted <= (node["metadata"].get("labels") or {}).items()
            and not node["spec"].get("unschedulable")
            and node["metadata"]["name"] not in self.silent
        ]
        if not fitting:
            condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
            self._store.set_status(pod, {"phase": "Pending", "conditions": [condition]})
            return
        counts = {name: 0 for name in fitting}
        for other in self._store.all("Pod"):
            if other["spec"].get("nodeName") in counts:
                counts[other["spec"]["nodeName"]] += 1
        self._store.bind(meta["namespace"], meta["name"], min(fitting, key=lambda name: (counts[name], name)))
        self._due[uid] = now_s + BEGIN_S

    def _begin(self, pod: Object, now_s: float) -> None:
        uid = pod["metadata"]["uid"]
        if now_s < self._due.get(uid, 0.0):
            return
        if "deletionTimestamp" in pod["metadata"]:
            self._end(pod, 137)
            return
        container = pod["spec"]["containers"][0]
        command = container.get("command") or ["sleeps"]
        if container["image"] == "no-such-image":
            waiting = [{"name": container["name"], "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
            self._store.set_status(pod, {"phase": "Pending", "containerStatuses": waiting})
            return
        if command[0] not in ("sleeps", "ignores-stop", "exits"):
            self._end(pod, 128)
            return
        self.environments[uid] = self._environment(pod, container)
        ends_s = now_s + 0.02 if command[0] == "exits" else None
        self._runs[uid] = _Run(now_s, ends_s, int(command[1]) if command[0] == "exits" else 0)
        running = {"name": container["name"], "state": {"running": {"startedAt": self._store.stamp()}}, "ready": True}
        ready = [{"type": "PodScheduled", "status": "True"}, {"type": "Ready", "status": "True"}]
        self._store.set_status(pod, {"phase": "Running", "conditions": ready, "containerStatuses": [running]})

    def _run(self, pod: Object, now_s: float) -> None:
        meta = pod["metadata"]
        run = self._runs[meta["uid"]]
        if "deletionTimestamp" in meta and run.ends_s is None:
            grace_s = meta["deletionGracePeriodSeconds"]
            obeys = (pod["spec"]["containers"][0].get("command") or ["sleeps"])[0] == "sleeps"
            run = _Run(run.begun_s, now_s + (min(OBEY_S, grace_s) if obeys else grace_s), 0 if obeys else 137)
        elif "deletionTimestamp" in meta and run.exit_code == 137 and run.ends_s is not None:
            run = run._replace(ends_s=min(run.ends_s, now_s + meta["deletionGracePeriodSeconds"]))
        self._runs[meta["uid"]] = run
        if run.ends_s is not None and now_s >= run.ends_s:
            self._end(pod, run.exit_code)

    def _end(self, pod: Object, code: int) -> None:
        name = pod["spec"]["containers"][0]["name"]
        terminated: dict[str, Any] = {"exitCode": code, "finishedAt": self._store.stamp(), "reason": "Error" if code else "Completed"}
        status = {"phase": "Failed" if code else "Succeeded", "containerStatuses": [{"name": name, "state": {"terminated": terminated}}]}
        conditions = [one for one in pod.get("status", {}).get("conditions", []) if one["type"] == "DisruptionTarget"]
        self._store.set_status(pod, {**status, "conditions": [*conditions, {"type": "Ready", "status": "False"}]})

    def _forget(self, pod: Object) -> None:
        """The kubelet confirms the end of a pod that is to be deleted."""
        meta = pod["metadata"]
        if "deletionTimestamp" in meta and meta["deletionGracePeriodSeconds"] > 0:
            self._store.delete("Pod", meta["namespace"], meta["name"], {"gracePeriodSeconds": 0})

    def _environment(self, pod: Object, container: Object) -> dict[str, str]:
        found: dict[str, str] = {}
        for source in container.get("envFrom") or []:
            found |= self._store.secret(pod["metadata"]["namespace"], source["secretRef"]["name"])
        return found | {one["name"]: one["value"].replace("$$", "$") for one in container.get("env") or []}
