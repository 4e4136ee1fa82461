"""Machines: nodes as bare metal, which are told to build themselves anew and say what they have become (R15)."""

from __future__ import annotations

from typing import Protocol

import msgspec

from bridgehead.model.equipment import NodeId
from bridgehead.model.stamp import Stamp


class NodeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a node says of itself after its first start from its own disk.

    Attributes:
        build: the hash of what it was built from.
        gpus: how many GPUs its driver shows.
        driver: version of that driver; "" without one.
        gpu_model: of its GPUs; several kinds are joined by ``+``.
    """

    build: str
    gpus: int
    driver: str
    gpu_model: str


class MachineState(msgspec.Struct, frozen=True):
    """What is known of a node.

    Attributes:
        ordered: key of the order that is in force; "" without one.
        ordered_s: when that was given, for the last time.
        orders: how often it was given under this key.
        told: its controller has taken the newest order; else the same call is to be made again.
        installed_s: when its installer said that it had ended, after that order; None: not yet.
        report: what it said after that order; None: nothing yet.
        reported_s: when.
    """

    ordered: str = ""
    ordered_s: float = 0.0
    orders: int = 0
    told: bool = True
    installed_s: float | None = None
    report: NodeReport | None = None
    reported_s: float | None = None


class Machines(Protocol):
    """The nodes of one site."""

    def rebuild(self, node: NodeId, *, build: str, attempt: int, stamp: Stamp) -> None:
        """Let the node start from the network and install ``build``, whatever it does now. A repeat of key and attempt does nothing more.

        Args:
            attempt: counts from 1; a higher one begins again.

        Raises:
            NotFound: the node is not known.
            Conflict: the epoch is old, or the files there are of another build.
            Transient: its controller (BMC) does not answer.
            Unknown: it may have been told; the same call may be made again.
        """
        ...

    def observe(self, node: NodeId) -> MachineState:
        """What is known of it. Raises NotFound, Transient."""
        ...
