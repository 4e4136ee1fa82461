"""ControlFolder: how a trainer takes orders and answers, through three small files in one folder.

``order.json`` (an OrderEnvelope, written by the controller), ``progress.json`` (TrainingProgress) and ``obeyed.json``, the trainer's own
memory, so that an order is obeyed at most once even when the trainer is started again.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from bridgehead.kernel.ids import Epoch, SnapshotId
from bridgehead.ports.training import OrderEnvelope, Release, SaveAndHold, TrainingProgress

ORDER, PROGRESS, OBEYED = "order.json", "progress.json", "obeyed.json"


class Obeyed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a trainer that is started again must know of the orders that were carried out.

    Attributes:
        envelope: the last order.
        epoch: the writer's epoch in which it was obeyed.
        saved: the snapshot that it made or found, for an order to hold.
        released: the newest release, which a later order does not take back: a standby that was released once is a writer.
    """

    envelope: OrderEnvelope
    epoch: Epoch
    saved: SnapshotId | None = None
    released: Release | None = None


class ControlFolder:
    """The trainer's side of the folder; it is created when missing. One trainer at a time uses it.

    Attributes:
        obeyed: the last order that was carried out, by this process or an earlier one.
    """

    def __init__(self, directory: Path, *, report_every_s: float, listen: bool = True) -> None:
        self._directory = directory
        self._report_every_s = report_every_s
        self._listen = listen
        self._order_seen: tuple[int, int, int] | None = None
        self._order: OrderEnvelope | None = None
        self._reported_s = 0.0
        directory.mkdir(parents=True, exist_ok=True)
        self.obeyed = self._read_obeyed()

    def order(self) -> OrderEnvelope | None:
        """The newest order if it has not been obeyed yet. Costs one ``stat`` while nothing changes.

        A file that is half written or holds something else is no order (yet): it is read again when it changes.
        """
        newest = self._newest()
        if newest is None or (self.obeyed is not None and newest.id == self.obeyed.envelope.id):
            return None
        return newest

    def unfinished_hold(self, epoch: Epoch) -> Obeyed | None:
        """The order to hold that an earlier process obeyed in this epoch and that nothing has ended yet."""
        newest, obeyed = self._newest(), self.obeyed
        if newest is None or obeyed is None or newest.id != obeyed.envelope.id or obeyed.epoch != epoch:
            return None
        return obeyed if isinstance(newest.order, SaveAndHold) else None

    def recalled_release(self, epoch: Epoch) -> Release | None:
        """The release that an earlier process obeyed, unless the job was started in a newer ``epoch`` since."""
        released = self.obeyed.released if self.obeyed is not None and self._listen else None
        return released if released is not None and released.epoch >= epoch else None

    def obey(self, envelope: OrderEnvelope, *, epoch: Epoch, saved: SnapshotId | None = None) -> None:
        """Remember that the order was carried out. Atomic; survives the death of the process (not a power cut, which ends a hold too)."""
        released = self.obeyed.released if self.obeyed is not None else None
        if isinstance(envelope.order, Release):
            released = envelope.order
        self.obeyed = Obeyed(envelope, epoch, saved, released)
        self._replace(OBEYED, self.obeyed)

    def report(self, progress: TrainingProgress, *, now: bool) -> None:
        """Write the progress; without ``now`` only when the last report is old enough."""
        clock_s = time.monotonic()
        if now or clock_s - self._reported_s >= self._report_every_s:
            self._replace(PROGRESS, progress)
            self._reported_s = clock_s

    def _newest(self) -> OrderEnvelope | None:
        if not self._listen:
            return None
        path = self._directory / ORDER
        try:
            status = path.stat()
            seen = (status.st_mtime_ns, status.st_ino, status.st_size)
            if seen != self._order_seen:
                self._order = msgspec.json.decode(path.read_bytes(), type=OrderEnvelope)
                self._order_seen = seen
        except FileNotFoundError:
            self._order, self._order_seen = None, None
        except (OSError, msgspec.DecodeError):
            return None
        return self._order

    def _read_obeyed(self) -> Obeyed | None:
        try:
            return msgspec.json.decode((self._directory / OBEYED).read_bytes(), type=Obeyed)
        except (FileNotFoundError, msgspec.DecodeError):
            return None

    def _replace(self, name: str, value: msgspec.Struct) -> None:
        temporary = self._directory / f".{name}.{os.getpid()}"
        temporary.write_bytes(msgspec.json.encode(value))
        temporary.replace(self._directory / name)
