"""Session: what a training script talks to. Ten lines make a trainer that can be moved while it works (R16; design section 6)."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, NoReturn, Self, assert_never

from bridgehead.kernel.errors import BridgeheadError, ErrorCode, PortError
from bridgehead.kernel.ids import Epoch, SnapshotId
from bridgehead.model.snapshot import Fence
from bridgehead.ports.training import Continue, OrderEnvelope, Release, SaveAndHold, TrainerState, TrainingProgress
from bridgehead.training.control import ControlFolder
from bridgehead.training.opening import open_vault
from bridgehead.training.options import SessionOptions, required
from bridgehead.training.saver import Saver
from bridgehead.training.standby import Follower, Load, Loaded, check_release, load_exactly, load_newest, whole_state
from bridgehead.vault import Vault

log = logging.getLogger("bridgehead.training")


class Session:
    """One process of training, from restore to the last save. Used as a context manager, from the script's main thread.

    What the script does between two calls is its own affair; orders, SIGTERM and fences are looked at when it calls
    ``should_checkpoint`` after each step. A snapshot is asynchronous except where somebody waits for it (a hold, the end).

    Args:
        load: what ``restore`` makes of a snapshot. A job of several ranks, whose first one holds the session, gives a function that returns
            which snapshot it is; then each rank loads its own share.

    Attributes:
        step: last completed step; after ``restore`` the one that the restored state is after.
        epoch: the writer's epoch that snapshots carry.
        state: what is reported to the controller.
    """

    def __init__(self, vault: Vault, options: SessionOptions, *, load: Load = whole_state) -> None:
        self.step = 0
        self.epoch = options.epoch
        self.state = TrainerState.STARTING
        self._vault = vault
        self._load_state = load
        self._options = options
        self._saver = Saver(vault, options)
        self._control: ControlFolder | None = None
        self._standby = options.standby
        self._released: Release | None = None
        self._loaded: SnapshotId | None = None
        self._held_for: OrderEnvelope | None = None
        self._total = 0
        self._save_began_s = time.monotonic()
        self._stop_asked = self._stop_latched = False
        self._looked_at = -1
        self._step_ended_s = self._first_step_s = 0.0
        self._recalled_saved: SnapshotId | None = None
        self._reported_saved: SnapshotId | None = None
        self._fence_told = False
        self._old_handler: Any = None

    @classmethod
    def from_env(cls, env: Mapping[str, str] = os.environ) -> Self:
        """The session that the environment describes: ``BRIDGEHEAD_VAULT`` is the vault's directory, the rest see SessionOptions.

        Raises:
            BridgeheadError: ``bad-usage`` for a variable, ``vault-not-found`` when the directory holds no vault.
            Transient: the vault's directory is not there.
        """
        options = SessionOptions.from_env(env)
        return cls(open_vault(Path(required(env, "BRIDGEHEAD_VAULT"))), options)

    def __enter__(self) -> Self:
        options = self._options
        if options.control is not None:
            self._control = ControlFolder(options.control, report_every_s=options.report_every_s, listen=options.listen)
        if threading.current_thread() is threading.main_thread():
            self._old_handler = signal.signal(signal.SIGTERM, self._on_sigterm)
        self._saver.start()
        self._recall_release()
        self._report(now=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self._saver.close()
        except BaseException:
            if error is None:
                raise
            log.exception("the last save failed, too")
        finally:
            if self._old_handler is not None:
                signal.signal(signal.SIGTERM, self._old_handler)
        if error is None or (isinstance(error, SystemExit) and not error.code):
            self.state = TrainerState.FINISHED
            self._report(now=True)

    @property
    def fenced(self) -> Fence | None:
        """The fence that closed this epoch, if one was seen: stop, for whatever is saved from now on never counts (J05)."""
        fence = self._saver.fence
        return fence if fence is not None and fence.epoch > self.epoch else None

    @property
    def stop_asked(self) -> bool:
        """Was SIGTERM received?"""
        return self._stop_asked

    @property
    def saved(self) -> SnapshotId | None:
        """The newest snapshot that this process committed."""
        return self._saver.saved

    def restore(self) -> dict[str, Any] | None:
        """The state to go on from, None to begin afresh. Prepare everything else first: in standby this call waits for the release.

        Raises:
            BridgeheadError: ``vault-damaged`` when snapshots exist and none can be loaded; ``vault-fenced`` for a release out of date.
            SystemExit: with code 0, when a standby is told to stop.
        """
        if self._standby:
            loaded: Loaded | None = self._stand_by()
        else:
            loaded = self._load()
        if loaded is not None:
            self.step, self._loaded = loaded.step, loaded.snapshot
        self._report(now=True)
        return loaded.state if loaded is not None else None

    def steps(self, total: int) -> Iterator[int]:
        """The numbers of the steps to compute, up to ``total``; each counts as completed at the next call of the session.

        Nothing is yielded when the trainer was told to stop before. A trainer that was started again while on hold stays on hold.
        """
        if self._standby:
            raise _misuse("a standby computes nothing", "Call restore() before steps(): it returns when the standby is released.")
        self._total = total
        self._return_to_hold()
        self.state = TrainerState.RUNNING
        self._report(now=True)
        while self.step < total and not self._stop_asked:
            step = self.step + 1
            yield step
            self._complete(step)

    def should_checkpoint(self, step: int) -> bool:
        """Is a save due after ``step``: by schedule, by order, because of SIGTERM, or because it is the last step?

        Raises what a save in the background failed with.
        """
        self._complete(step)
        self._saver.raise_failure()
        self._looked_at = step
        self._stop_latched = self._stop_asked
        self._look_for_order()
        options = self._options
        return (
            self._held_for is not None
            or self._stop_latched
            or step == self._total
            or (options.save_every_steps > 0 and step % options.save_every_steps == 0)
            or (options.save_every_s > 0 and time.monotonic() - self._save_began_s >= options.save_every_s)
        )

    def should_stop(self) -> bool:
        """Was SIGTERM received, or has a fence closed this epoch? Asked after ``should_checkpoint``, so that the last state is saved."""
        fence = self.fenced
        if fence is not None and not self._fence_told:
            self._fence_told = True
            log.error(
                "epoch %d is closed: the fence by %s opened epoch %d for %s; what this trainer saves no longer counts",
                self.epoch,
                fence.opened_by,
                fence.epoch,
                fence.holder,
            )
        # A signal between the two calls waits for the next step, or else the state of this one would be lost.
        return fence is not None or (self._stop_latched if self._looked_at == self.step else self._stop_asked)

    def save(self, step: int, state: Mapping[str, Any], *, context: Mapping[str, object] | None = None) -> None:
        """Save ``state`` (a tree of arrays and plain values, see ``training.state``) as the state after ``step``.

        Returns when the state is copied and an earlier save is done, unless an order asked for it: then it returns when the snapshot is
        committed and the hold is over.

        Raises:
            BridgeheadError: the state cannot be saved, or the earlier save failed; a snapshot is committed whole or not at all.
        """
        self._complete(step)
        self._save_began_s = time.monotonic()
        self._saver.save(step, state, epoch=self.epoch, context=context or {})
        if self._held_for is not None:
            self._saver.wait()
            self._hold_as_asked()

    def save_by(self, step: int, write: Callable[[Epoch], SnapshotId]) -> None:
        """As ``save``, when the script commits the snapshot itself, such as one to which each rank adds its share.

        Args:
            write: given the writer's epoch, returns when the snapshot of the state after ``step`` is committed, with its id.
        """
        self._complete(step)
        self._save_began_s = time.monotonic()
        self._saver.wait()
        self._saver.saved = write(self.epoch)
        if self._held_for is not None:
            self._hold_as_asked()
        else:
            self._report(now=False)

    def _complete(self, step: int) -> None:
        if step <= self.step:
            return
        self.step, self._step_ended_s = step, time.time()
        first = self._first_step_s == 0.0
        if first:
            self._first_step_s = self._step_ended_s
        self._report(now=first)

    def _look_for_order(self) -> None:
        """While computing. A release is for those that stand still: it stays unanswered."""
        envelope = self._order()
        self._held_for = None
        match envelope.order if envelope is not None else None:
            case SaveAndHold():
                self._held_for = envelope
            case Continue():
                self._obey(envelope)
            case Release() | None:
                pass

    def _hold_as_asked(self) -> None:
        envelope, self._held_for = self._held_for, None
        self.state = TrainerState.HOLDING
        self._obey(envelope, saved=self._saver.saved)
        self._hold(self._saver.saved)

    def _hold(self, held: SnapshotId | None) -> None:
        """Compute nothing until an order, or SIGTERM, ends it."""
        complaint = ""
        while not self._stop_asked:
            envelope = self._order()
            try:
                if envelope is not None and self._ends_hold(envelope, held):
                    self.state = TrainerState.RUNNING
                    self._obey(envelope)
                    break
            except PortError as error:
                if str(error) != complaint:
                    log.warning("still on hold: %s", error)
                complaint = str(error)
            self._report(now=False)
            time.sleep(self._options.poll_s)
        self._stop_latched = self._stop_asked

    def _ends_hold(self, envelope: OrderEnvelope, held: SnapshotId | None) -> bool:
        match envelope.order:
            case SaveAndHold():
                self._obey(envelope, saved=held)
                return False
            case Continue():
                return True
            case Release(snapshot=snapshot, epoch=epoch):
                check_release(self._vault, self._options.workload, envelope.order)
                self.epoch = epoch
                self._first_step_s = 0.0
                if snapshot != held:
                    self._obey(envelope)
                    _start_again()
                return True
            case _:
                assert_never(envelope.order)

    def _stand_by(self) -> Loaded:
        follower = Follower(self._vault, self._options.workload, follow_s=self._options.follow_s, load=self._load_state)
        while not self._stop_asked:
            changed = follower.look()
            if follower.loaded is not None:
                self.step, self._loaded = follower.loaded.step, follower.loaded.snapshot
            changed = changed or self.state is not TrainerState.STANDBY
            self.state = TrainerState.STANDBY
            self._report(now=changed)
            envelope = self._order()
            match envelope.order if envelope is not None else None:
                case Release() as release:
                    loaded = follower.take(release)
                    if loaded is not None:
                        self._standby, self.epoch, self.state = False, release.epoch, TrainerState.RUNNING
                        self.step, self._loaded = loaded.step, loaded.snapshot
                        self._obey(envelope)
                        return loaded
                case SaveAndHold() | Continue():
                    self._obey(envelope)  # nothing to do: it computes nothing, and goes on doing so
                case None:
                    pass
            time.sleep(self._options.poll_s)
        raise SystemExit(0)

    def _load(self) -> Loaded | None:
        release = self._released
        if release is not None:
            newest = self._vault.newest(self._options.workload)
            if newest is None or newest.epoch < release.epoch:
                loaded = load_exactly(self._vault, release.snapshot, self._load_state)
                if loaded is not None:
                    return loaded
        return load_newest(self._vault, self._options.workload, self._load_state)

    def _recall_release(self) -> None:
        """A trainer that was released once, and is started again as it was started then, is no standby any more."""
        release = self._control.recalled_release(self.epoch) if self._control is not None else None
        fence = self._saver.fence
        if release is not None and (fence is None or fence.epoch <= release.epoch):
            self._released, self._standby, self.epoch = release, False, release.epoch

    def _return_to_hold(self) -> None:
        held = self._control.unfinished_hold(self.epoch) if self._control is not None else None
        if held is not None:
            self.state = TrainerState.HOLDING
            self._recalled_saved = held.saved
            self._report(now=True)
            self._hold(held.saved)

    def _order(self) -> OrderEnvelope | None:
        return self._control.order() if self._control is not None else None

    def _obey(self, envelope: OrderEnvelope | None, *, saved: SnapshotId | None = None) -> None:
        assert self._control is not None  # orders come from nowhere else
        assert envelope is not None
        self._control.obey(envelope, epoch=self.epoch, saved=saved)
        self._report(now=True)

    def _report(self, *, now: bool) -> None:
        if self._control is None:
            return
        obeyed, saved = self._control.obeyed, self._saver.saved or self._recalled_saved
        progress = TrainingProgress(
            state=self.state,
            step=self.step,
            epoch=self.epoch,
            saved=saved,
            loaded=self._loaded,
            obeyed=obeyed.envelope.id if obeyed is not None else "",
            reported_s=time.time(),
            step_ended_s=self._step_ended_s,
            first_step_s=self._first_step_s,
        )
        self._control.report(progress, now=now or saved != self._reported_saved)
        self._reported_saved = saved

    def _on_sigterm(self, number: int, frame: FrameType | None) -> None:
        self._stop_asked = True


def _start_again() -> NoReturn:
    """Become a fresh process of the same script: the only way to give it another state in the middle of its loop.

    Same process id, same arguments; it finds the release in its control folder and restores what that names.
    """
    log.warning("starting again from the released snapshot")
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, sys.orig_argv)


def _misuse(happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(ErrorCode.BAD_USAGE, tried="train", subject="the training script", happened=happened, remedy=remedy)
