"""Bubble: the isolated place in which a drill plays a recovery, and what is made to go wrong in it (R13)."""

from __future__ import annotations

from typing import NewType

import msgspec

from bridgehead.kernel.ids import JobName, SiteId, WorkloadId

BubbleId = NewType("BubbleId", str)


class SlowLine(msgspec.Struct, frozen=True, tag="slow-line", tag_field="fault", forbid_unknown_fields=True):
    """What the bubble reads of the site's vault comes at this rate, in bits per second."""

    rate_bps: float


class DamagedBlock(msgspec.Struct, frozen=True, tag="damaged-block", tag_field="fault", forbid_unknown_fields=True):
    """A block that only the newest snapshot of ``workload`` needs reads as something else, in the bubble and nowhere else."""

    workload: WorkloadId


class DeadNode(msgspec.Struct, frozen=True, tag="dead-node", tag_field="fault", forbid_unknown_fields=True):
    """The job of ``workload`` is killed once it is up, as when its node dies."""

    workload: WorkloadId


class KillRestore(msgspec.Struct, frozen=True, tag="kill-restore", tag_field="fault", forbid_unknown_fields=True):
    """The job of ``workload`` is killed as soon as it runs, in the middle of its restore."""

    workload: WorkloadId


class SiteDown(msgspec.Struct, frozen=True, tag="site-down", tag_field="fault", forbid_unknown_fields=True):
    """Everything that was recovered in the bubble is killed at once, and is recovered a second time."""


BubbleFault = SlowLine | DamagedBlock | DeadNode | KillRestore | SiteDown


def fault_name(fault: BubbleFault) -> str:
    """``slow-line``, ``damaged-block:lm``: how reports and notes of hits name a fault."""
    kind = str(fault.__struct_config__.tag)
    return kind if isinstance(fault, SlowLine | SiteDown) else f"{kind}:{fault.workload}"


class Bubble(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One bubble.

    Attributes:
        site: the name that the bubble's own scheduler, trainers and vault view have among the ports of the run.
        of: the site whose vault it looks at, and whose place it takes.
        jobs: all jobs that may run in it.
        faults: planned; each must be hit.
        network: name of the network namespace that its jobs run in; "" for none.
    """

    id: BubbleId
    site: SiteId
    of: SiteId
    jobs: tuple[JobName, ...]
    faults: tuple[BubbleFault, ...] = ()
    network: str = ""
