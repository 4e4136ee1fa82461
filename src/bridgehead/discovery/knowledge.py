"""Knowledge: of the merged facts, those that the draft of an estate reads, in little memory. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from bridgehead.discovery.merge import View
from bridgehead.model.fact import Status, Value


class Told(msgspec.Struct, frozen=True):
    """What is known of one attribute: a value exactly when the status is KNOWN."""

    value: Value
    status: Status


NAMELESS: Final = "node:?"
"""The subject of captures of which nobody says whose they are."""
Knowledge = dict[str, dict[str, Told]]
"""Attributes by subject."""
KINDS: Final = frozenset({"node", "site", "device-type", "switch", "adapter", "job", "workload"})
"""Roots of the subjects that are read."""
ATTRIBUTES: Final = frozenset(
    {
        *("gpu-count", "memory", "model", "driver-version", "cuda-version", "bios-version", "bmc-version", "ofed-version", "power-draw"),
        *("capacity", "pci-bus-id", "vbios-version", "nvlinks-active", "rate", "link-layer", "firmware-version", "state"),
        *("rack", "position", "location", "status", "units", "weight", "max-weight", "device-type", "nameplate-power"),
        *("voltage", "amperage", "wiring", "memory-installed"),
        *("kind", "owner", "phase", "grace"),
        *("peer", "name", "port-count", "guid", "port-guid", "role"),
    }
)
"""All that ``draft`` reads, beside ``link-to:nic:*`` of GPUs."""
BESIDE: Final = "link-to:nic:"
"""How a GPU says which adapters are near it."""


def is_read(attribute: str) -> bool:
    """Whether the draft may read attributes of that name."""
    return attribute in ATTRIBUTES or attribute.startswith(BESIDE)


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
        if wanted and (view.attribute in ATTRIBUTES or (view.attribute.startswith(BESIDE) and "/gpu:" in subject)):
            found.setdefault(subject, {})[view.attribute] = Told(view.value, view.status)
    return found
