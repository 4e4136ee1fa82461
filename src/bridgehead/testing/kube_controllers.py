"""Controllers of the fake cluster: Jobs, and the collector of garbage."""

from __future__ import annotations

from typing import Any, Final

from bridgehead.testing.kube_schema import Object
from bridgehead.testing.kube_store import FOREGROUND, ORPHAN, KubeStore

TRACKED: Final = "batch.kubernetes.io/job-tracking"
OF_A_JOB: Final = "batch.kubernetes.io/controller-uid"
INDEX: Final = "batch.kubernetes.io/job-completion-index"
SYNC_S: Final = 0.05
"""A controller acts this long after it has seen a change."""


class JobController:
    """Makes and ends pods of Jobs: suspend, backoffLimit, podFailurePolicy (Ignore), podReplacementPolicy Failed, time to live.

    Attributes:
        paused: it does nothing, as while its process is down.
    """

    def __init__(self, store: KubeStore) -> None:
        self._store = store
        self.paused = False
        self._seen: dict[str, tuple[str, float]] = {}
        self._counted: dict[str, set[str]] = {}
        self._done: dict[str, set[str]] = {}

    def step(self, now_s: float) -> None:
        """Look at every Job that was changed a while ago, or whose pods were."""
        if self.paused:
            return
        managed = {job["metadata"]["uid"] for job in self._store.all("Job") if "deletionTimestamp" not in job["metadata"]}
        for pod in self._store.all("Pod"):
            # Pods whose Job is gone, or going, are tracked no more.
            meta = pod["metadata"]
            if TRACKED in meta.get("finalizers", []) and meta.get("labels", {}).get(OF_A_JOB) not in managed:
                self._untrack(pod)
        for job in self._store.all("Job"):
            uid = job["metadata"]["uid"]
            pods = self._store.all("Pod", job["metadata"]["namespace"], {OF_A_JOB: uid})
            version = "/".join(one["metadata"]["resourceVersion"] for one in (job, *pods))
            seen, since_s = self._seen.get(uid, ("", now_s))
            if seen != version:
                self._seen[uid] = (version, now_s)
            elif now_s >= since_s + SYNC_S:
                self._sync(job, pods, now_s)

    def _sync(self, job: Object, pods: list[Object], now_s: float) -> None:
        spec, status = job["spec"], dict(job.get("status") or {})
        conditions = {one["type"]: one for one in status.get("conditions", [])}
        if "Complete" in conditions or "Failed" in conditions:
            self._expire(job, conditions, now_s)
            return
        if "deletionTimestamp" in job["metadata"]:
            return
        status = self._count(job, pods, status)
        living = [pod for pod in pods if _phase(pod) not in ("Succeeded", "Failed")]
        active = [pod for pod in living if "deletionTimestamp" not in pod["metadata"]]
        parallel, wanted = spec.get("parallelism", 1), spec.get("completions", spec.get("parallelism", 1))
        if status.get("failed", 0) > spec.get("backoffLimit", 6):
            self._delete(active)
            kind = "Failed" if not living else "FailureTarget"
            self._condition(conditions, kind, "True", "BackoffLimitExceeded")
        elif status.get("succeeded", 0) >= wanted and not living:
            self._condition(conditions, "Complete", "True", "CompletionsReached")
            status["completionTime"] = self._store.stamp()
        elif spec.get("suspend"):
            for pod in active:
                self._untrack(pod)
            self._delete(active)
            self._condition(conditions, "Suspended", "True", "JobSuspended")
            status.pop("startTime", None)
            active = []
        else:
            if "Suspended" in conditions:
                self._condition(conditions, "Suspended", "False", "JobResumed")
            status.setdefault("startTime", self._store.stamp())
            taken = {pod["metadata"]["annotations"][INDEX] for pod in living} | self._done.get(job["metadata"]["uid"], set())
            free = [index for index in range(wanted) if str(index) not in taken]
            for index in free[: max(0, parallel - len(living))]:
                self._make(job, index)
        terminating = len(living) - len(active)
        status |= {"active": len(active), "terminating": terminating, "conditions": list(conditions.values())}
        self._store.set_status(job, status)

    def _count(self, job: Object, pods: list[Object], status: Object) -> Object:
        """Count what has ended and is tracked, each pod once."""
        counted = self._counted.setdefault(job["metadata"]["uid"], set())
        for pod in pods:
            if _phase(pod) not in ("Succeeded", "Failed") or TRACKED not in pod["metadata"].get("finalizers", []):
                continue
            if pod["metadata"]["uid"] not in counted and not (_phase(pod) == "Failed" and _ignored(job, pod)):
                key = "succeeded" if _phase(pod) == "Succeeded" else "failed"
                status[key] = status.get(key, 0) + 1
                if key == "succeeded":
                    self._done.setdefault(job["metadata"]["uid"], set()).add(pod["metadata"]["annotations"][INDEX])
            counted.add(pod["metadata"]["uid"])
            self._untrack(pod)
        return status

    def _make(self, job: Object, index: int) -> None:
        template, meta = job["spec"]["template"], job["metadata"]
        given = template.get("metadata", {})
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": meta["name"], "uid": meta["uid"], "controller": True}
        document = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{meta['name']}-{index}-{self._store.version}",
                "labels": {**given.get("labels", {}), OF_A_JOB: meta["uid"], "job-name": meta["name"]},
                "annotations": {**given.get("annotations", {}), INDEX: str(index)},
                "finalizers": [*given.get("finalizers", []), TRACKED],
                "ownerReferences": [{**reference, "blockOwnerDeletion": True}],
            },
            "spec": template["spec"],
            "status": {"phase": "Pending"},
        }
        self._store.create("Pod", meta["namespace"], document)

    def _untrack(self, pod: Object) -> None:
        meta = pod["metadata"]
        rest = [one for one in meta.get("finalizers", []) if one != TRACKED]
        self._store.patch("Pod", meta["namespace"], meta["name"], {"metadata": {"finalizers": rest}})

    def _delete(self, pods: list[Object]) -> None:
        for pod in pods:
            self._store.delete("Pod", pod["metadata"]["namespace"], pod["metadata"]["name"], {})

    def _expire(self, job: Object, conditions: dict[str, Object], now_s: float) -> None:
        keep_s = job["spec"].get("ttlSecondsAfterFinished")
        meta = job["metadata"]
        if keep_s is None or "deletionTimestamp" in meta:
            return
        since_s = self._seen[meta["uid"]][1]
        if now_s >= since_s + keep_s:
            self._store.delete("Job", meta["namespace"], meta["name"], {"propagationPolicy": "Foreground"})

    def _condition(self, conditions: dict[str, Any], kind: str, status: str, reason: str) -> None:
        if conditions.get(kind, {}).get("status") != status:
            moment = self._store.stamp()
            conditions[kind] = {"type": kind, "status": status, "reason": reason, "lastTransitionTime": moment}


class GarbageCollector:
    """Deletes what belongs to objects that are gone, or are to go with all that is theirs."""

    def __init__(self, store: KubeStore) -> None:
        self._store = store

    def step(self) -> None:
        """One round."""
        uids = self._store.uids()
        for document in self._store.everything():
            meta = document["metadata"]
            owners = meta.get("ownerReferences") or []
            if owners and all(owner["uid"] not in uids for owner in owners):
                self._delete(document)
            finalizers = meta.get("finalizers", [])
            if "deletionTimestamp" in meta and FOREGROUND in finalizers:
                dependents = [one for one, reference in self._store.owned(meta["uid"]) if reference.get("blockOwnerDeletion")]
                for one in dependents:
                    self._delete(one)
                if not dependents:
                    self._finalized(document, FOREGROUND)
            if "deletionTimestamp" in meta and ORPHAN in finalizers:
                for one, _ in self._store.owned(meta["uid"]):
                    change: Object = {"metadata": {"ownerReferences": []}}
                    self._store.patch(one["kind"], one["metadata"]["namespace"], one["metadata"]["name"], change)
                self._finalized(document, ORPHAN)

    def _delete(self, document: Object) -> None:
        meta = document["metadata"]
        if "deletionTimestamp" not in meta:
            self._store.delete(document["kind"], meta["namespace"], meta["name"], {"propagationPolicy": "Background"})

    def _finalized(self, document: Object, finalizer: str) -> None:
        meta = document["metadata"]
        rest = [one for one in meta["finalizers"] if one != finalizer]
        self._store.patch(document["kind"], meta["namespace"], meta["name"], {"metadata": {"finalizers": rest}})


def _phase(pod: Object) -> str:
    return str((pod.get("status") or {}).get("phase", "Pending"))


def _ignored(job: Object, pod: Object) -> bool:
    """Whether a rule of the policy says that this failure does not count."""
    true = {one["type"] for one in (pod.get("status") or {}).get("conditions", []) if one["status"] == "True"}
    for rule in job["spec"].get("podFailurePolicy", {}).get("rules", []):
        if any(one["type"] in true for one in rule.get("onPodConditions", [])):
            return bool(rule["action"] == "Ignore")
    return False
