"""Saver: writes snapshots beside the training, one at a time, from a copy of the state; and notices when a fence closes the epoch."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

import msgspec

from bridgehead.kernel.errors import PortError
from bridgehead.kernel.ids import Epoch, SnapshotId
from bridgehead.model.snapshot import Fence
from bridgehead.training.options import SessionOptions
from bridgehead.training.state import Capture
from bridgehead.vault import Vault

log = logging.getLogger("bridgehead.training")


class _Job(msgspec.Struct, frozen=True):
    step: int
    epoch: Epoch
    context: dict[str, str]


class Saver:
    """One background thread with one buffer.

    At most one save is under way; the next one waits for it, so that memory stays bounded: one copy of the state, plus one more while it is
    being encoded and written. A snapshot becomes visible whole or not at all, because the vault commits it by a single record.

    Attributes:
        saved: the newest snapshot that this process committed.
        fence: the fence in force at the last look, None before the first one.
    """

    def __init__(self, vault: Vault, options: SessionOptions) -> None:
        self.saved: SnapshotId | None = None
        self.fence: Fence | None = None
        self._vault = vault
        self._options = options
        self._capture = Capture()
        self._changed = threading.Condition()
        self._job: _Job | None = None
        self._failure: BaseException | None = None
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="bridgehead-saver", daemon=True)

    def start(self) -> None:
        """Look for a fence once, then work in the background."""
        self._look_for_fence()
        self._thread.start()

    def save(self, step: int, state: Mapping[str, Any], *, epoch: Epoch, context: Mapping[str, object]) -> None:
        """Copy ``state`` and begin to write it; waits while an earlier save is under way.

        Raises what the earlier save failed with; then nothing new was begun.
        """
        self.wait()
        self._capture.take(state)
        with self._changed:
            self._job = _Job(step, epoch, {key: str(value) for key, value in context.items()})
            self._changed.notify_all()

    def wait(self) -> None:
        """Return when nothing is under way. Raises what the last save failed with (once)."""
        with self._changed:
            while self._job is not None:
                self._changed.wait()
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raise what a save in the background failed with, once; never waits."""
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def close(self) -> None:
        """Finish what is under way and end the thread. Raises what the last save failed with."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()
        self.raise_failure()

    def _work(self) -> None:
        while True:
            with self._changed:
                if self._job is None and not self._closed:
                    self._changed.wait(self._options.fence_check_s)
                job = self._job
                if job is None and self._closed:
                    return
            if job is not None:
                self._write(job)
            self._look_for_fence()

    def _write(self, job: _Job) -> None:
        failure: BaseException | None = None
        try:
            self.saved = self._vault.save(
                self._capture.files(),
                workload=self._options.workload,
                step=job.step,
                epoch=job.epoch,
                site=self._options.site,
                context=job.context,
            ).id
        except Exception as error:  # whatever it is belongs to the script, at its next call
            failure = error
        with self._changed:
            self._failure, self._job = failure, None
            self._changed.notify_all()

    def _look_for_fence(self) -> None:
        try:
            self.fence = self._vault.newest_fence(self._options.workload) or self.fence
        except PortError as error:
            # Not seeing the fence is not a fence, and a writer that is fenced off does no harm: its snapshots never count.
            log.warning("cannot see whether epoch is closed: %s", error)
