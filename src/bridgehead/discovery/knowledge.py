"""Knowledge: of the merged facts, those that the draft of an estate reads, in little memory. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

import msgspec

from bridgehead.discovery.merge import View
from bridgehead.model.fact import Status, Value


class Told(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What is known of one attribute: a value exactly when the status is KNOWN."""

    value: Value
    status: Status


EVIDENCE: Final = "evidence"
"""Beside the results of a test: the file in which they stand."""
AT: Final = "at"
"""And when they were captured, seconds since 1970."""
NAMELESS: Final = "node:?"
"""The subject of captures of which nobody says whose they are."""
Knowledge = dict[str, dict[str, Told]]
"""Attributes by subject."""
KINDS: Final = frozenset(
    {"node", "site", "device-type", "switch", "adapter", "job", "workload", "service", "slurm", "partition", "cluster"}
)
"""Roots of the subjects that are read."""
ATTRIBUTES: Final = frozenset(
    {
        *("gpu-count", "memory", "model", "driver-version", "cuda-version", "bios-version", "bmc-version", "ofed-version", "power-draw"),
        *("capacity", "pci-bus-id", "vbios-version", "nvlinks-active", "rate", "link-layer", "firmware-version", "state"),
        *("rack", "position", "location", "status", "units", "weight", "max-weight", "device-type", "nameplate-power"),
        *("voltage", "amperage", "wiring", "memory-installed"),
        *("kind", "owner", "phase", "grace"),
        *("peer", "name", "port-count", "guid", "port-guid", "role", "uuid"),
        *("grace-after-pre-stop", "grace-signal", "kill-wait", "preempt-mode", "partition"),
        *("selector", "endpoints", "pod-labels", "calls", "external-name", "service-type"),
        *("hosts", "ranks", "protocol", "local-address", "remote-address", "ip-addresses", "internal-address", "scheduler-address"),
        *("measured-rate-received", "measured-streams", "measured-round-trip-min", "measured-out-of-bounds"),
        *("measured-bus-bandwidth-peak-out-of-place", "measured-bus-bandwidth-peak-in-place"),
    }
)
"""All that ``draft`` reads, beside what begins with one of ``BEGINS``, and ``link-to:nic:*`` of GPUs."""
MOUNT_TYPE: Final = "mount-type:"
MOUNT_SOURCE: Final = "mount-source:"
RATE: Final = "measured-rate-average:"
"""Rate of a test at a size of messages."""
WRONG: Final = "measured-wrong-"
INGRESS: Final = "ingress:"
BEGINS: Final = (MOUNT_TYPE, MOUNT_SOURCE, "filesystem-size:", "filesystem-used:", RATE, WRONG, INGRESS)
"""How attributes begin that carry a name and are read."""
BESIDE: Final = "link-to:nic:"
"""How a GPU says which adapters are near it."""


@lru_cache(maxsize=1 << 12)
def is_read(attribute: str) -> bool:
    """Whether the draft may read attributes of that name."""
    return attribute in ATTRIBUTES or attribute.startswith(BESIDE) or attribute.startswith(BEGINS)


def known_of(views: Iterable[View]) -> Knowledge:
    """What the draft reads of some views."""
    found: Knowledge = {}
    subject, wanted = "", False
    for view in views:
        if view.subject != subject:  # views of one subject stand together
            subject = view.subject
            kind = subject.partition(":")[0]
            wanted = kind in KINDS
            if kind == "node":  # that it is there counts, whatever is said of it
                found.setdefault(subject.partition("/")[0], {})
        attribute = view.attribute
        if wanted and (attribute in ATTRIBUTES or attribute.startswith(BEGINS) or (attribute.startswith(BESIDE) and "/gpu:" in subject)):
            found.setdefault(subject, {})[attribute] = Told(view.value, view.status)
            if attribute.startswith("measured-") and view.status is Status.KNOWN:  # a result of a test, which says where its output lies
                source = view.claims[0].sources[0]
                found[subject][EVIDENCE] = Told(source.file, Status.KNOWN)
                if source.at_s is not None:
                    found[subject][AT] = Told(source.at_s, Status.KNOWN)
    return found
