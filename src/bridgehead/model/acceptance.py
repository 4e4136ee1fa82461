"""Acceptance: results of tests that a site must pass before it is trusted (P5; rules section 5)."""

from __future__ import annotations

import enum
from typing import Annotated, NewType

import msgspec

from bridgehead.kernel.moment import Moment
from bridgehead.kernel.quantity import BitsPerSecond

AcceptanceId = NewType("AcceptanceId", str)


class Scale(enum.StrEnum):
    """How much of a site took part; some faults show at full scale only."""

    NODE = "node"
    RACK = "rack"
    FULL = "full"


class Acceptance(msgspec.Struct, frozen=True):
    """One result.

    Attributes:
        test: what was run (``nccl-all-reduce``, ``iperf3``, ``ib-write-bw``, ``storage-write``).
        scale: how much took part.
        nodes: how many nodes.
        measured_bps: what came out, received and not sent; of NCCL tests the bus bandwidth.
        expected_bps: what must come out at least.
        wrong: results that were wrong; None where the test did not check.
        at_s: when.
        evidence: where the output lies.
    """

    id: AcceptanceId
    test: str
    scale: Scale
    nodes: Annotated[int, msgspec.Meta(ge=1)] | None = None
    measured_bps: BitsPerSecond | None = None
    expected_bps: BitsPerSecond | None = None
    wrong: Annotated[int, msgspec.Meta(ge=0)] | None = None
    at_s: Moment | None = None
    evidence: str = ""
