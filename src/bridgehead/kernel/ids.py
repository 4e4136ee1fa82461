"""Identifiers as distinct types, so that a site can never be passed where a workload is meant.

They are strings on the wire and in files; the type checker keeps them apart (house rule: no bare ``str`` ids in signatures).
"""

from __future__ import annotations

from typing import NewType

SiteId = NewType("SiteId", str)
WorkloadId = NewType("WorkloadId", str)
ServiceId = NewType("ServiceId", str)
JobName = NewType("JobName", str)
RunId = NewType("RunId", str)
StepId = NewType("StepId", str)
SnapshotId = NewType("SnapshotId", str)
BlockId = NewType("BlockId", str)
PackId = NewType("PackId", str)
Epoch = NewType("Epoch", int)
"""A numbered period in which exactly one holder may write: the driver of a run, or the writer of a workload."""

Person = NewType("Person", str)
