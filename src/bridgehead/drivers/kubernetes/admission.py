"""The doors of a Kubernetes site: nodes that are cordoned, Jobs that are suspended before they begin (ports.admission.Admission)."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from bridgehead.drivers.kubernetes.api import JOBS, NODES, KubeApi, Object, repeated
from bridgehead.drivers.kubernetes.book import BookKeeper
from bridgehead.drivers.kubernetes.evidence import Evidence
from bridgehead.drivers.kubernetes.objects import JobView, PodView, condition, pods_of
from bridgehead.drivers.kubernetes.options import KubernetesOptions, OnDrain
from bridgehead.kernel.errors import NotFound, Permanent, Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.equipment import NodeId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.admission import GraceTerms, NodeView, QueuedJob, Reservation

DRAINED_BY: Final = "bridgehead/drained-by"
OPENED_BY: Final = "bridgehead/opened-by"
REASON: Final = "bridgehead/drain-reason"
HELD_BY: Final = "bridgehead/held-by"
_MIRROR: Final = "kubernetes.io/config.mirror"
_DEFAULT_GRACE_S: Final = 30.0
_LATER_S: Final = 5.0


class KubernetesAdmission:
    """Implements :class:`bridgehead.ports.admission.Admission`, without reservations: Kubernetes has none.

    - A drained node is cordoned: no new pod comes to it, and what runs there goes on. With ``on_drain: evict`` the pods of services are
      asked away through the eviction API; while a PodDisruptionBudget needs one, the drain is Transient, and a repeat asks again.
    - A node is empty when no pod is on it but those that belong to the node (DaemonSets, static pods). One that does not answer is not.
    - A Job that waits is held by suspending it. One whose pod begins in that very moment is ended by it, and runs anew when released.

    Args:
        site: the site whose doors these are.
        options: those of the scheduler.
        now: the wall clock.
    """

    def __init__(self, site: SiteId, options: KubernetesOptions, *, now: Callable[[], float] = time.time) -> None:
        self._site, self._options = site, options
        self._api = KubeApi(options.login, namespace=options.namespace)
        self._books = BookKeeper(site, self._api)
        self._evidence = Evidence(site, self._api, self._books, now=now)

    def nodes(self, names: Sequence[NodeId]) -> tuple[NodeView, ...]:
        """See the port."""
        tried = "look at nodes"
        return tuple(self._view(found, tried) for found in self._found(names, tried))

    def drain(self, names: Sequence[NodeId], *, reason: str, stamp: Stamp) -> None:
        """See the port. Raises Transient also while a budget of disruption needs a pod that is to be evicted."""
        tried = "drain nodes"

        def once() -> None:
            for found in self._admitted(names, stamp, tried):
                if not found["spec"].get("unschedulable"):
                    notes = {DRAINED_BY: stamp.run, REASON: reason}
                    self._api.patch(NODES, found, {"metadata": {"annotations": notes}, "spec": {"unschedulable": True}}, tried=tried)

        repeated(once)
        if self._options.on_drain is OnDrain.EVICT:
            self._evict(names, tried)

    def resume(self, names: Sequence[NodeId], *, stamp: Stamp) -> None:
        """See the port."""
        tried = "resume nodes"

        def once() -> None:
            for found in self._admitted(names, stamp, tried):
                # Noted on every node, so that a drain by an older driver, which is on its way, finds another version of it.
                change: Object = {"metadata": {"annotations": {OPENED_BY: f"{stamp.run}@{stamp.epoch}"}}}
                if DRAINED_BY in (found["metadata"].get("annotations") or {}):
                    change["metadata"]["annotations"] |= {DRAINED_BY: None, REASON: None}
                    change["spec"] = {"unschedulable": False}
                self._api.patch(NODES, found, change, tried=tried)

        repeated(once)

    def reservation(self, name: str) -> Reservation | None:
        """There are none. Raises Transient when the site cannot be seen."""
        self._books.read(tried="look at a reservation")
        return None

    def reserve(self, reservation: Reservation, *, stamp: Stamp) -> None:
        """Raises Permanent: Kubernetes cannot keep nodes for a user; taints and node pools are for its administrators."""
        tried = "reserve nodes"
        self._admitted(reservation.nodes, stamp, tried)
        remedy = "Keep the nodes by a taint that the job's template tolerates."
        raise Permanent("Kubernetes has no reservations", tried=tried, subject=f"site {self._site}", remedy=remedy)

    def unreserve(self, name: str, *, stamp: Stamp) -> None:
        """No effect: there are none. Raises Conflict, Transient."""
        self._admitted((), stamp, "remove a reservation")

    def queue(self, name: JobName) -> tuple[QueuedJob, ...]:
        """See the port. The Jobs by that name that were released, and have no pod that has begun."""
        tried = "look at the queue"
        return tuple(QueuedJob(f"{self._api.namespace}/{job.uid}", held=job.suspended) for job in self._waiting(name, tried))

    def hold(self, name: JobName, *, stamp: Stamp) -> None:
        """See the port."""
        self._suspend(name, stamp, "hold jobs", held=True)

    def release(self, name: JobName, *, stamp: Stamp) -> None:
        """See the port."""
        self._suspend(name, stamp, "release jobs", held=False)

    def graces(self, name: JobName) -> GraceTerms:
        """See the port: the pods' own grace. Preemption by a pod of higher priority gives the same, without a word before."""
        jobs = [job for job in self._jobs(name, "look at graces") if not job.finished]
        return GraceTerms(kill_wait_s=min((job.grace_s for job in jobs), default=_DEFAULT_GRACE_S), preempted="cancel")

    def _suspend(self, name: JobName, stamp: Stamp, tried: str, *, held: bool) -> None:
        def once() -> None:
            waiting = [job for job in self._waiting(name, tried) if job.suspended is not held]
            self._books.change(lambda book: book.admitted(stamp, tried=tried), tried=tried)
            for job in waiting:
                notes = {HELD_BY: stamp.key if held else None}
                self._api.patch(JOBS, job.document, {"metadata": {"annotations": notes}, "spec": {"suspend": held}}, tried=tried)

        repeated(once)

    def _jobs(self, name: JobName, tried: str) -> list[JobView]:
        look = self._evidence.look(name, tried=tried)
        return [*look.ours, *([look.foreign] if look.foreign is not None else [])]

    def _waiting(self, name: JobName, tried: str) -> list[JobView]:
        open_jobs = [job for job in self._jobs(name, tried) if job.released and not (job.finished or job.asked or job.deleted)]
        return [job for job in open_jobs if not any(pod.begun for pod in pods_of(self._api, job.uid, tried=tried))]

    def _admitted(self, names: Sequence[NodeId], stamp: Stamp, tried: str) -> list[Object]:
        """The nodes, seen before the epoch was noted: a change of one that a newer driver has changed since is stale."""
        found = self._found(names, tried)
        self._books.change(lambda book: book.admitted(stamp, tried=tried), tried=tried)
        return found

    def _found(self, names: Sequence[NodeId], tried: str) -> list[Object]:
        found = []
        for name in names:
            node = self._api.find(NODES, name, tried=tried)
            if node is None:
                raise NotFound("there is no such node", tried=tried, subject=f"node {name} at site {self._site}", remedy="Check its name.")
            found.append(node)
        return found

    def _view(self, node: Object, tried: str) -> NodeView:
        name = NodeId(node["metadata"]["name"])
        notes = node["metadata"].get("annotations") or {}
        closed, answers = bool((node.get("spec") or {}).get("unschedulable")), condition(node, "Ready") == "True"
        reason = "" if answers else "it does not answer"
        if closed:
            reason = f"{notes.get(REASON, '')} ({notes[DRAINED_BY]})" if DRAINED_BY in notes else "cordoned"
        empty = answers and all(pod.over or _of_the_node(pod) for pod in map(PodView, self._api.on_node(name, tried=tried)))
        return NodeView(name, closed is False and answers, empty, drained_here=closed and DRAINED_BY in notes, reason=reason)

    def _evict(self, names: Sequence[NodeId], tried: str) -> None:
        kept = []
        for name in names:
            for pod in map(PodView, self._api.on_node(name, tried=tried)):
                if pod.over or _of_the_node(pod) or "Job" in pod.owners or pod.document["metadata"].get("deletionTimestamp"):
                    continue
                try:
                    self._api.evict(pod.document, tried=tried)
                except Transient as error:
                    kept.append((pod.name, error.happened))
        if kept:
            named = ", ".join(name for name, _ in kept)
            remedy = "Let the service have replicas elsewhere first, or look at its PodDisruptionBudget."
            raise Transient(
                f"{named} cannot go yet: {kept[0][1]}", tried=tried, subject=f"site {self._site}", remedy=remedy, retry_after_s=_LATER_S
            )


def _of_the_node(pod: PodView) -> bool:
    """It goes with the node, and not before."""
    return "DaemonSet" in pod.owners or _MIRROR in (pod.document["metadata"].get("annotations") or {})
