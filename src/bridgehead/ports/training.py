"""Training control: asks a trainer for a checkpoint, holds and releases it, and sees its progress (R16; rule 11).

A signal is a request; a verified snapshot is a fact. An order is delivered at least once and obeyed at most once (by its id);
whether it was obeyed is seen in the progress, never assumed.
"""

from __future__ import annotations

import enum
from typing import Protocol

import msgspec

from bridgehead.kernel.ids import Epoch, JobName, SnapshotId
from bridgehead.model.stamp import Stamp


class TrainerState(enum.StrEnum):
    """What a trainer says of itself."""

    STARTING = "starting"
    STANDBY = "standby"
    """Restored and warm, waiting for release."""
    RUNNING = "running"
    HOLDING = "holding"
    """Saved on request and computing no further step until continued or stopped."""
    FINISHED = "finished"


class SaveAndHold(msgspec.Struct, frozen=True, tag="save-and-hold", forbid_unknown_fields=True):
    """Finish the current step, save, commit the snapshot, compute nothing more. A standby stays what it is, and says that it obeyed."""


class Continue(msgspec.Struct, frozen=True, tag="continue", forbid_unknown_fields=True):
    """Go on after a hold, in the same epoch: the move was called off before its fence."""


class Release(msgspec.Struct, frozen=True, tag="release", forbid_unknown_fields=True):
    """A standby, or a trainer on hold, becomes the writer: load exactly ``snapshot`` unless it is what it holds already, then compute,
    saving in ``epoch``."""

    snapshot: SnapshotId
    epoch: Epoch


Order = SaveAndHold | Continue | Release


class OrderEnvelope(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An order on its way, as control files carry it (``order.json``; the trainer answers in ``progress.json``)."""

    id: str
    order: Order


class TrainingProgress(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The trainer's own report.

    Attributes:
        step: last completed step.
        saved: newest snapshot that it committed, if any.
        loaded: snapshot that it was restored from, if any.
        obeyed: id of the last order that it carried out ("" for none).
        reported_s: when it wrote this; old means that the trainer is silent, not that it failed.
        step_ended_s: when ``step`` was completed (0 when none was in this process).
    """

    state: TrainerState
    step: int
    epoch: Epoch
    saved: SnapshotId | None
    loaded: SnapshotId | None
    obeyed: str
    reported_s: float
    step_ended_s: float = 0.0
    first_step_s: float = 0.0
    """When this process completed its first new step (0 when none yet): the end of the lost compute."""


class TrainingControl(Protocol):
    """Control of the trainers of one site."""

    def request(self, job: JobName, order: Order, *, order_id: str, stamp: Stamp) -> None:
        """Hand ``order`` to the trainer of ``job``; a repeat with the same id is the same order."""
        ...

    def progress(self, job: JobName) -> TrainingProgress:
        """The newest report. Raises NotFound when the trainer has not reported yet, Transient when it cannot be read."""
        ...
