"""Ballots: what controllers write at voters when they decide together who opens an epoch (design rules 7 to 9; ADR 17)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import Epoch, WorkloadId
from bridgehead.model.snapshot import Fence


class Ballot(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bid (without a fence) or a vote (with one) of one proposer for one epoch of one workload; never changed once written.

    Attributes:
        number: the proposer's round; a higher one takes precedence.
        proposer: who bids; no two controllers, and no two calls of one, ever have the same.
        fence: None in a bid, which only says "no lower number may win here any more"; in a vote, what shall be in force.
    """

    workload: WorkloadId
    epoch: Epoch
    number: int
    proposer: str
    fence: Fence | None

    @property
    def rank(self) -> tuple[int, str]:
        """Total order of ballots of one epoch."""
        return self.number, self.proposer
