"""Script: what kind of demo is played."""

from __future__ import annotations

import enum

import msgspec


class Kind(enum.StrEnum):
    """A plain move, or one in which something is broken on purpose."""

    MOVE = "move"
    GATE = "gate"
    """The target answers wrongly: the gate breaches and the traffic goes back."""
    CONTROLLER = "controller"
    """The engine is killed (kill -9) at several moments and resumed."""
    NETWORK = "network"
    """The line between the vaults is cut in the middle of a replication, also while training stands still."""
    TRAINER = "trainer"
    """The trainer ignores the request for a checkpoint."""
    SPLIT_BRAIN = "split-brain"
    """The source's trainer comes back after the fence and goes on saving."""


class Proxy(enum.StrEnum):
    """Which proxy spreads the traffic."""

    TRAEFIK = "traefik"
    HAPROXY = "haproxy"


class Script(msgspec.Struct, frozen=True):
    """One demo.

    Attributes:
        quick: fewer requests and shorter gates, the same promises otherwise; for tests.
    """

    kind: Kind
    seed: int
    proxy: Proxy
    quick: bool

    @property
    def least_requests(self) -> int:
        """How many requests the demo sends at least."""
        return 2_000 if self.quick else 10_000
