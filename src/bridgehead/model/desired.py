"""The traffic that a proxy should have, as its driver remembers it (G09), with the newest epoch of each run (J13)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import Epoch, RunId, ServiceId, SiteId
from bridgehead.model.stamp import Stamp


class DesiredTraffic(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the proxy should do, and the newest epoch seen of each run."""

    weights: dict[ServiceId, dict[SiteId, int]] = {}
    epochs: dict[RunId, Epoch] = {}

    def admitted(self, stamp: Stamp, *, subject: str) -> DesiredTraffic:
        """The state after ``stamp`` was seen. Raises Conflict when a newer epoch of its run was seen before."""
        newest = self.epochs.get(stamp.run, stamp.epoch)
        if stamp.epoch < newest:
            raise Conflict(
                f"epoch {stamp.epoch} of run {stamp.run} is over; epoch {newest} drives it",
                tried="set traffic weights",
                subject=subject,
                remedy="Another process took this run over; stop the old one.",
            )
        return msgspec.structs.replace(self, epochs={**self.epochs, stamp.run: stamp.epoch})

    def wanting(self, service: ServiceId, weights: dict[SiteId, int]) -> DesiredTraffic:
        """The state with other weights for one service."""
        return msgspec.structs.replace(self, weights={**self.weights, service: weights})
