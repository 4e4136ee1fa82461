"""Training control through files: ``order.json`` goes to the trainer, ``progress.json`` comes from it."""

from __future__ import annotations

import msgspec

from bridgehead.drivers.process.statefile import StateDirectory, errors_as_transient, read_struct, write_struct
from bridgehead.kernel.errors import Conflict, NotFound, Transient
from bridgehead.kernel.ids import JobName, SiteId
from bridgehead.model.stamp import Stamp
from bridgehead.ports.training import Order, OrderEnvelope, TrainingProgress


class _Superseded(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    ids: tuple[str, ...] = ()


class FileTrainingControl:
    """Implements :class:`bridgehead.ports.training.TrainingControl` for the trainers of one site.

    Each job has the folder ``<directory>/<job>``, which it is told by the environment variable ``BRIDGEHEAD_CONTROL`` of its ``JobSpec``.
    Both files are replaced by a rename and never written in place.

    Args:
        site: the site whose trainers these are.
        directory: made when missing; on a file system that the trainers share.

    Raises (constructor):
        Transient: the directory cannot be made or read.
        Permanent: the directory belongs to another site.
    """

    def __init__(self, site: SiteId, directory: str) -> None:
        self._site = site
        self._state = StateDirectory(site, directory)

    def request(self, job: JobName, order: Order, *, order_id: str, stamp: Stamp) -> None:
        """Lay ``order`` out for the trainer, whether it runs already or not.

        A repeat of the newest order does nothing, and so does a late repeat of one that a newer order has replaced: the trainer obeys an
        id at most once, and knows only the last.

        Raises:
            Conflict: the epoch is old, or the id was used for a different order.
            Transient: it was not written (no space, directory out of reach).
        """
        tried = "give an order to a trainer"
        folder = self.folder(job)
        with errors_as_transient(tried, self._subject(job)), self._state.locked(folder, tried=tried):
            self._state.check_epoch(stamp, tried=tried)
            current = read_struct(f"{folder}/order.json", OrderEnvelope)
            envelope = OrderEnvelope(id=order_id, order=order)
            if current is not None and current.id == order_id:
                self._require_same(current, envelope, job=job, tried=tried)
                return
            superseded = (read_struct(f"{folder}/superseded.json", _Superseded) or _Superseded()).ids
            if order_id in superseded:
                return
            if current is not None:
                # Before the order itself: a crash in between leaves the current order named twice, which harms nobody.
                write_struct(f"{folder}/superseded.json", _Superseded(ids=(*superseded, current.id)))
            write_struct(f"{folder}/order.json", envelope)

    def progress(self, job: JobName) -> TrainingProgress:
        """The newest report. Raises NotFound when the trainer has not reported yet, Transient when the report is torn or out of reach."""
        tried = "read the progress of a trainer"
        path = f"{self.folder(job)}/progress.json"
        with errors_as_transient(tried, self._subject(job)):
            self._state.require_present()
            try:
                progress = read_struct(path, TrainingProgress)
            except msgspec.MsgspecError as error:
                raise Transient(
                    f"its report is torn or not valid: {error}",
                    tried=tried,
                    subject=self._subject(job),
                    remedy=f"If this lasts, look at {path}: the trainer must replace it by a rename",
                ) from error
        if progress is None:
            raise NotFound("it has not reported yet", tried=tried, subject=self._subject(job), remedy="Check that the trainer is running")
        return progress

    def folder(self, job: JobName) -> str:
        """The folder to give to the trainer as ``BRIDGEHEAD_CONTROL``. Raises Permanent for a name that is no plain file name."""
        return self._state.folder(job, tried="find the control folder of a trainer")

    def _require_same(self, current: OrderEnvelope, wanted: OrderEnvelope, *, job: JobName, tried: str) -> None:
        if current.order != wanted.order:
            raise Conflict(
                f"order {wanted.id} was already given, with another content: {current.order}",
                tried=tried,
                subject=self._subject(job),
                remedy="Give each order an id of its own",
            )

    def _subject(self, job: JobName) -> str:
        return f"trainer {job} at site {self._site}"
