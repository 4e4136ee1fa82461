"""What a Job, its pods and their nodes say of themselves."""

from __future__ import annotations

import datetime
from collections.abc import Sequence

from bridgehead.drivers.kubernetes.api import NODES, PODS, Forbidden, KubeApi, Object
from bridgehead.drivers.kubernetes.manifest import ASKED, ASKED_AT, RELEASED, TOKEN

OF_A_JOB = "batch.kubernetes.io/controller-uid"
OVERDUE_S = 60.0
"""A pod that should have ended this long ago, and has not, stands on a node that does not answer."""
LATE_S = 10.0
"""A Job's controller makes no pod this long after the Job was suspended."""


class PodView:
    """One pod."""

    def __init__(self, document: Object) -> None:
        self.document = document
        self._status = document.get("status") or {}
        self.name: str = document["metadata"]["name"]
        self.uid: str = document["metadata"]["uid"]
        self.owners: set[str] = {one["kind"] for one in document["metadata"].get("ownerReferences") or []}
        self.finalizers: list[str] = document["metadata"].get("finalizers") or []
        self.node: str = (document.get("spec") or {}).get("nodeName") or ""

    @property
    def over(self) -> bool:
        """All its containers have ended, as the node itself says, or it never will begin."""
        return self.never_begins or self._status.get("phase") in ("Succeeded", "Failed")

    @property
    def never_begins(self) -> bool:
        """It is to be deleted before it came to a node."""
        return bool(self.document["metadata"].get("deletionTimestamp")) and not self.node

    @property
    def succeeded(self) -> bool:
        """All its containers have ended with code 0."""
        return bool(self._status.get("phase") == "Succeeded")

    @property
    def begun(self) -> bool:
        """Some container has begun."""
        return self._status.get("phase") not in (None, "Pending")

    @property
    def ready(self) -> bool:
        """It says that it can serve, and is not on its way out."""
        return condition(self.document, "Ready") == "True" and not self.document["metadata"].get("deletionTimestamp")

    @property
    def exit_code(self) -> int | None:
        """The worst of its containers; None when none tells one."""
        states = [one.get("state", {}).get("terminated") for one in self._status.get("containerStatuses") or []]
        codes = [int(state["exitCode"]) for state in states if state and state.get("exitCode") is not None]
        return max(codes, key=abs) if codes else None

    @property
    def ended_s(self) -> float | None:
        """When its last container ended."""
        states = [one.get("state", {}).get("terminated") for one in self._status.get("containerStatuses") or []]
        times = [seconds(state["finishedAt"]) for state in states if state and state.get("finishedAt")]
        return max(times) if times else None

    @property
    def waiting_for(self) -> str:
        """Why it has not begun."""
        for one in self._status.get("containerStatuses") or []:
            if reason := (one.get("state", {}).get("waiting") or {}).get("reason"):
                return str(reason)
        for one in self._status.get("conditions") or []:
            if one.get("type") == "PodScheduled" and one.get("status") == "False":
                return str(one.get("reason") or "Unschedulable")
        return "Pending"

    def overdue(self, now_s: float) -> bool:
        """It was to end long ago. The time of deletion has the grace in it."""
        due = self.document["metadata"].get("deletionTimestamp")
        return bool(due) and now_s > seconds(due) + OVERDUE_S


class JobView:
    """One Job."""

    def __init__(self, document: Object) -> None:
        self.document = document
        self._meta, self._spec, self._status = document["metadata"], document.get("spec") or {}, document.get("status") or {}
        self._notes = self._meta.get("annotations") or {}
        self.name: str = self._meta["name"]
        self.uid: str = self._meta["uid"]
        self.submitted_s = seconds(self._meta["creationTimestamp"])

    @property
    def token(self) -> str:
        """Of the execution; "" for a Job that somebody else made."""
        return str(self._notes.get(TOKEN, ""))

    @property
    def parallel(self) -> int:
        """Pods at once."""
        return int(self._spec.get("parallelism", 1))

    @property
    def suspended(self) -> bool:
        """It shall have no pods."""
        return bool(self._spec.get("suspend"))

    @property
    def released(self) -> bool:
        """It was let go once."""
        return RELEASED in self._notes or not self.token

    @property
    def grace_s(self) -> float:
        """From SIGTERM to SIGKILL of its pods."""
        return float(self._spec["template"]["spec"].get("terminationGracePeriodSeconds", 30))

    @property
    def asked(self) -> bool:
        """It was asked to end, and nobody let it go again since."""
        return ASKED in self._notes and self.suspended

    @property
    def deleted(self) -> bool:
        """It is on its way out: its controller makes no pods for it any more."""
        return "deletionTimestamp" in self._meta

    @property
    def succeeded(self) -> bool:
        """Complete."""
        return condition(self.document, "Complete") == "True"

    @property
    def finished(self) -> bool:
        """Complete or failed, for good. (While pods are still ending, newer servers say only FailureTarget or SuccessCriteriaMet.)"""
        return self.succeeded or condition(self.document, "Failed") == "True"

    @property
    def ended_s(self) -> float | None:
        """When it was seen to be over."""
        if told := self._status.get("completionTime"):
            return seconds(told)
        for kind in ("Failed", "Suspended"):
            for one in self._status.get("conditions") or []:
                if one.get("type") == kind and one.get("status") == "True" and one.get("lastTransitionTime"):
                    return seconds(one["lastTransitionTime"])
        return None

    def surely_suspended(self, *, pods_seen: int, now_s: float) -> bool:
        """Its controller knows that it shall have no pods, and makes none any more.

        A Job's status says not which version of the Job it speaks of. So either all pods that there can be have been seen, or the time has
        passed in which one may still have been on its way.
        """
        if not self.suspended or condition(self.document, "Suspended") != "True":
            return False
        if self._status.get("active") or self._status.get("terminating"):
            return False
        no_more = self._spec.get("backoffLimit") == 0 and "podFailurePolicy" not in self._spec
        if no_more and pods_seen >= self.parallel:
            return True
        asked_at = self._notes.get(ASKED_AT, "")
        return bool(asked_at) and now_s > seconds(asked_at) + LATE_S


def silent_nodes(api: KubeApi, pods: Sequence[PodView], *, now_s: float, tried: str) -> list[str]:
    """Nodes of living pods that do not answer: what they run nobody can tell. Raises Transient.

    Without the right to look at nodes, a pod that should have ended long ago, or whose phase nobody knows, tells it.
    """
    silent = {pod.node or pod.name for pod in pods if pod.overdue(now_s) or (pod.document.get("status") or {}).get("phase") == "Unknown"}
    for node in {pod.node for pod in pods if pod.node} - silent:
        try:
            found = api.find(NODES, node, tried=tried)
        except Forbidden:
            continue
        if found is None or condition(found, "Ready") != "True":
            silent.add(node)
    return sorted(silent)


def pods_of(api: KubeApi, uid: str, *, tried: str) -> list[PodView]:
    """The pods of a Job, by its uid. Raises Transient."""
    return [PodView(pod) for pod in api.all(PODS, labels={OF_A_JOB: uid}, tried=tried)]


def condition(document: Object, kind: str) -> str:
    """The status of a condition; "" when it is not there."""
    for one in (document.get("status") or {}).get("conditions") or []:
        if one.get("type") == kind:
            return str(one.get("status", ""))
    return ""


def seconds(text: str) -> float:
    """A time of Kubernetes."""
    return datetime.datetime.fromisoformat(text).timestamp()


def time_text(now_s: float) -> str:
    """As Kubernetes writes it."""
    return datetime.datetime.fromtimestamp(now_s, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
