"""Services of a draft: what Kubernetes puts before workloads, where it is reached, and who calls whom (M5.2). Pure.

Attributes that are read:

- ``service:NAMESPACE/NAME``: ``selector``, ``endpoints``, ``ingress:*``, ``external-name``
- ``workload:NAMESPACE/NAME``: ``pod-labels``, ``calls``

A service whose pods are those of several workloads, or of none that was captured, is listed and not taken.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from bridgehead.discovery.draft_notes import Notes, Part, known, word
from bridgehead.discovery.knowledge import INGRESS, Knowledge
from bridgehead.discovery.merge import natural
from bridgehead.kernel.ids import ServiceId, SiteId, WorkloadId
from bridgehead.kernel.shape import ID_PATTERN
from bridgehead.model.estate import Service, Workload

_ID: Final = re.compile(ID_PATTERN)
_OWN: Final = frozenset({"service:default/kubernetes"})
"""The cluster's own interface, which is no service of its users."""


class Offer(msgspec.Struct, frozen=True):
    """Services of one site, and its workloads with what they need."""

    services: tuple[Service, ...]
    workloads: tuple[Workload, ...]


def services_of(told: Knowledge, site: SiteId, subjects: Mapping[str, WorkloadId], workloads: Sequence[Workload], notes: Notes) -> Offer:
    """What is told of one place. The order of facts changes nothing.

    Args:
        subjects: the workloads of the draft by their subjects.
        workloads: the same, whole.
    """
    found: dict[str, Service] = {}
    foreign: dict[str, str] = {}
    for subject, part in sorted(told.items()):
        kind, _, name = subject.partition(":")
        if kind != "service" or subject in _OWN:
            continue
        space, _, own = name.partition("/")
        if outside := word(part, "external-name"):
            foreign[name] = outside
            continue
        label = f"{own}.{space}.svc"
        if not _ID.fullmatch(label):
            notes.lack(label[:80], "name that an estate can hold, and so the service itself,", "whoever runs it")
            continue
        behind = _behind(told, space, part, subjects)
        if len(behind) != 1:
            what = "one workload behind it" + (f" ({len(behind)} are)" if behind else "") + ", and so the service itself,"
            notes.lack(label, what, "kubectl get deployments,statefulsets,services -A -o json")
            continue
        found[name] = Service(id=ServiceId(label), sites=(site,), workload=behind[0], endpoints=_endpoints(part))
    needing = tuple(
        msgspec.structs.replace(one, needs=needs) if (needs := _needs(told, subject, one.id, found, foreign, notes)) else one
        for one, subject in ((one, _subject_of(one, subjects)) for one in workloads)
    )
    ordered = sorted(found.values(), key=lambda one: (natural(one.id), one.id))
    for one in ordered:
        if not one.endpoints:
            notes.lack(
                one.id,
                "addresses by which clients outside of the cluster reach it, if any do,",
                "its owners, and the proxies in front of it",
            )
    return Offer(tuple(ordered), needing)


def _subject_of(workload: Workload, subjects: Mapping[str, WorkloadId]) -> str:
    return next((subject for subject, name in subjects.items() if name == workload.id), "")


def _behind(told: Knowledge, space: str, service: Part, subjects: Mapping[str, WorkloadId]) -> list[WorkloadId]:
    """Workloads of the namespace whose pods have all labels of the selector; without a selector nobody says."""
    wanted = known(service, "selector")
    if not isinstance(wanted, tuple) or not wanted:
        return []
    begin = f"workload:{space}/"
    found = []
    for subject, name in sorted(subjects.items()):
        labels = known(told[subject], "pod-labels") if subject.startswith(begin) else None
        if isinstance(labels, tuple) and set(wanted) <= set(labels):
            found.append(name)
    return found


def _endpoints(part: Part) -> tuple[str, ...]:
    ends: set[str] = set()
    for attribute in part:
        listed = known(part, attribute) if attribute == "endpoints" or attribute.startswith(INGRESS) else None
        ends |= set(listed) if isinstance(listed, tuple) else set()
    return tuple(sorted(ends))


def _needs(
    told: Knowledge, subject: str, caller: WorkloadId, found: Mapping[str, Service], foreign: Mapping[str, str], notes: Notes
) -> tuple[str, ...]:
    """Services that a workload calls. What is no service of this cluster is listed, since it must be reached from the other site too."""
    calls = known(told.get(subject, {}), "calls")
    if not isinstance(calls, tuple):
        return ()
    space = subject.removeprefix("workload:").partition("/")[0]
    needs: set[str] = set()
    for call in calls:
        words = call.partition(":")[0].removesuffix(".svc").split(".")
        name = f"{words[1]}/{words[0]}" if len(words) == 2 else f"{space}/{words[0]}" if len(words) == 1 else ""
        if name in found:
            needs |= {found[name].id} if found[name].workload != caller else set()  # pods that call each other
        else:
            host = foreign.get(name, call)
            notes.lack(caller, f"part of the estate that stands behind {host}, which it calls,", "its owners")
    return tuple(sorted(needs))
