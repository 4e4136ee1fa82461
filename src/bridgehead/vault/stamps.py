"""Stamps: an effect asked for by a driver that was replaced is refused (J13). The newest driving epoch of each run lies in the vault."""

from __future__ import annotations

from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import Epoch, RunId
from bridgehead.model.stamp import Stamp
from bridgehead.vault.layout import drivers_prefix
from bridgehead.vault.objects import Objects


def accept(objects: Objects, stamp: Stamp) -> None:
    """Raises Conflict when the vault has seen a newer driver of the run. Costs one listing, and one write when the driver is new."""
    prefix, seen = drivers_prefix(stamp.run), _seen(objects, stamp.run)
    newest = max(seen, default=-1)
    if newest > stamp.epoch:
        raise Conflict(
            f"driver {newest} of the run has taken over",
            tried="change a vault",
            subject=f"step {stamp.step} of run {stamp.run}, driver {stamp.epoch}",
            remedy="This process no longer drives the run; end it.",
        )
    if stamp.epoch not in seen:
        objects.add(f"{prefix}{stamp.epoch:08d}", stamp)


def newest_driver(objects: Objects, run: RunId) -> Epoch:
    """The newest driving epoch that changed this vault for a run; 0 for none. One listing."""
    return Epoch(max(_seen(objects, run), default=0))


def _seen(objects: Objects, run: RunId) -> set[int]:
    prefix = drivers_prefix(run)
    return {int(name) for key in objects.blobs.list(prefix) if (name := key.removeprefix(prefix)).isdigit()}
