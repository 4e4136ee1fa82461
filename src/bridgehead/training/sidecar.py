"""Sidecar: for a trainer that cannot be changed, ``python -m bridgehead.training.sidecar --help``.

It watches the trainer's checkpoint folder and saves only what is whole (V11, V12, V13). When it also starts the trainer (``-- command``),
it can ask it for a checkpoint by a signal, freeze it once that is on disk, and, at the target, wait in standby and start it from the
released snapshot. Vault, workload, site, control folder and epoch come from the environment (``SessionOptions.from_env``).
"""

from __future__ import annotations

import argparse
import logging
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import assert_never

import msgspec

from bridgehead.kernel.errors import BridgeheadError, PortError
from bridgehead.kernel.ids import SnapshotId
from bridgehead.ports.training import Continue, OrderEnvelope, Release, SaveAndHold, TrainerState, TrainingProgress
from bridgehead.training.control import ControlFolder
from bridgehead.training.ingest import Ingest, place
from bridgehead.training.opening import open_vault
from bridgehead.training.options import SessionOptions, required
from bridgehead.training.standby import check_release
from bridgehead.training.wrapped import WrappedTrainer
from bridgehead.vault import Vault
from bridgehead.vault.checkpoints import Checkpoint
from bridgehead.vault.completeness import Watcher
from bridgehead.vault.marks import MarkKind

log = logging.getLogger("bridgehead.training")


class SidecarOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What to watch and how to steer the trainer.

    Attributes:
        command: the trainer, started by the sidecar; empty when somebody else starts it.
        checkpoint_signal: makes the wrapped trainer write a checkpoint; None when it cannot be asked.
        checkpoint_command, hold_command, continue_command: the same for a trainer that the sidecar did not start.
        grace_s: how long the trainer may take to end after SIGTERM, and its last checkpoint to be whole; then it is killed.
    """

    directory: Path
    pattern: str
    mark: MarkKind = MarkKind()
    stable_s: float = 2.0
    poll_s: float = 0.2
    grace_s: float = 25.0
    command: tuple[str, ...] = ()
    checkpoint_signal: signal.Signals | None = None
    checkpoint_command: tuple[str, ...] = ()
    hold_command: tuple[str, ...] = ()
    continue_command: tuple[str, ...] = ()


class Sidecar:
    """One trainer's companion; ``run`` returns the exit code."""

    def __init__(self, vault: Vault, session: SessionOptions, options: SidecarOptions) -> None:
        self._vault = vault
        self._session = session
        self._options = options
        self._watcher = Watcher(options.directory, pattern=re.compile(options.pattern), mark=options.mark, stable_s=options.stable_s)
        self._ingest = Ingest(vault, session, options.directory)
        self._control = ControlFolder(session.control, report_every_s=session.report_every_s) if session.control is not None else None
        self._trainer: WrappedTrainer | None = None
        self._state = TrainerState.STARTING
        self._epoch = session.epoch
        self._loaded: SnapshotId | None = None
        self._asked: OrderEnvelope | None = None
        self._seen_when_asked: set[tuple[object, ...]] = set()
        self._said: set[str] = set()
        self._step_ended_s = self._first_step_s = 0.0
        self.stop_asked = False

    def run(self) -> int:
        """Until the trainer has ended or SIGTERM came; then a last checkpoint is waited for. Always ends what it started."""
        try:
            if not self._become_writer():
                return 0
            if self._options.command:
                self._trainer = WrappedTrainer(self._options.command)
            self._state = TrainerState.RUNNING
            while not self.stop_asked and (self._trainer is None or self._trainer.exit_code is None):
                self._look()
                time.sleep(self._options.poll_s)
            return self._finish()
        finally:
            if self._trainer is not None and self._trainer.exit_code is None:
                self._trainer.kill()

    def _become_writer(self) -> bool:
        """At once, or in standby when the release comes. False when it was told to stop before."""
        recalled = self._control.recalled_release(self._epoch) if self._control is not None else None
        fence = self._vault.newest_fence(self._session.workload)
        if recalled is not None and (fence is None or fence.epoch <= recalled.epoch):
            self._epoch = recalled.epoch  # it was placed then, and the trainer goes on from its own newest checkpoint
            return True
        if not self._session.standby:
            return True
        while not self.stop_asked:
            newest = self._vault.newest(self._session.workload)
            self._loaded = newest.id if newest is not None else None
            self._state = TrainerState.STANDBY
            order = self._control.order() if self._control is not None else None
            if order is not None and self._take(order):
                return True
            self._report()
            time.sleep(self._session.poll_s)
        return False

    def _take(self, envelope: OrderEnvelope) -> bool:
        match envelope.order:
            case SaveAndHold() | Continue():
                self._obey(envelope)
                return False
            case Release(snapshot=snapshot, epoch=epoch):
                try:
                    check_release(self._vault, self._session.workload, envelope.order)
                    path = place(self._vault, snapshot, self._options.directory, mark=self._options.mark)
                except PortError as error:
                    self._tell_once(f"not released: {error}")
                    return False
                self._epoch, self._loaded = epoch, snapshot
                self._ingest.adopt(path, step=self._vault.snapshot(snapshot).step)
                self._state = TrainerState.RUNNING
                self._obey(envelope)
                return True
            case _:
                assert_never(envelope.order)

    def _look(self) -> None:
        order = self._control.order() if self._control is not None else None
        match order.order if order is not None else None:
            case SaveAndHold() if order is not None and self._state is TrainerState.HOLDING:
                self._obey(order, saved=self._ingest.saved)
            case SaveAndHold() if order is not None and self._asked is None:
                self._ask(order)
            case Continue() if order is not None:
                self._go_on(order)
            case _:
                pass
        if self._state is not TrainerState.HOLDING:
            self._save_what_is_whole()
        self._report()

    def _save_what_is_whole(self) -> None:
        for checkpoint in self._watcher.complete(now_s=time.monotonic()):
            if not self._ingest.is_new(checkpoint):
                continue
            answers = self._asked is not None and _key(checkpoint) not in self._seen_when_asked
            if answers:
                self._hold_trainer()  # first of all: what it computes from here on would be lost
            if not self._ingest.save(checkpoint, epoch=self._epoch):
                continue
            self._step_ended_s = checkpoint.changed_s
            self._first_step_s = self._first_step_s or self._step_ended_s
            if answers and self._asked is not None:
                self._state = TrainerState.HOLDING
                self._obey(self._asked, saved=self._ingest.saved)
                self._asked = None
        for path, fault in self._watcher.faults.items():
            self._tell_once(f"{path.name} is not whole: {fault}")

    def _ask(self, envelope: OrderEnvelope) -> None:
        options = self._options
        by_signal = self._trainer is not None and options.checkpoint_signal is not None
        if not by_signal and not (options.checkpoint_command and options.hold_command):
            self._tell_once("cannot hold this trainer: no --checkpoint-signal with a wrapped command, no --checkpoint- and --hold-command")
            return
        self._asked = envelope
        self._seen_when_asked = {_key(checkpoint) for checkpoint in self._watcher.complete(now_s=time.monotonic())}
        if self._trainer is not None and options.checkpoint_signal is not None:
            self._trainer.send(options.checkpoint_signal)
        else:
            self._command(options.checkpoint_command)

    def _hold_trainer(self) -> None:
        if self._trainer is not None:
            self._trainer.freeze()
        else:
            self._command(self._options.hold_command)

    def _go_on(self, envelope: OrderEnvelope) -> None:
        self._asked = None
        if self._trainer is not None:
            self._trainer.thaw()
        elif self._state is TrainerState.HOLDING:
            self._command(self._options.continue_command)
        self._state = TrainerState.RUNNING
        self._obey(envelope)

    def _finish(self) -> int:
        """End the trainer if it lives, and give its last checkpoint the time to be whole."""
        if self._trainer is not None:
            self._trainer.end()
        deadline_s = time.monotonic() + self._options.grace_s
        settled_s = time.monotonic() + self._options.stable_s + 2 * self._options.poll_s
        while time.monotonic() < deadline_s:
            ended = self._trainer is None or self._trainer.exit_code is not None
            if not ended:
                settled_s = time.monotonic() + self._options.stable_s + 2 * self._options.poll_s
            if self._state is not TrainerState.HOLDING:
                self._save_what_is_whole()
            if ended and (self._state is TrainerState.HOLDING or time.monotonic() >= settled_s):
                break
            time.sleep(self._options.poll_s)
        if self._state is not TrainerState.HOLDING or self.stop_asked:
            self._state = TrainerState.FINISHED
        self._report(now=True)
        code = self._trainer.exit_code if self._trainer is not None else 0
        return 0 if code == 128 + signal.SIGTERM and self.stop_asked else (code if code is not None else 1)

    def _command(self, command: Sequence[str]) -> None:
        if command:
            done = subprocess.run(list(command), check=False, timeout=60, stdin=subprocess.DEVNULL)
            if done.returncode != 0:
                log.error("%s ended with %d", shlex.join(command), done.returncode)

    def _tell_once(self, text: str) -> None:
        if text not in self._said:
            log.warning("%s", text)
            self._said.add(text)

    def _obey(self, envelope: OrderEnvelope, *, saved: SnapshotId | None = None) -> None:
        if self._control is not None:
            self._control.obey(envelope, epoch=self._epoch, saved=saved)
            self._report(now=True)

    def _report(self, *, now: bool = False) -> None:
        """Step and times are those of the newest saved checkpoint: of the steps in between the sidecar knows nothing."""
        if self._control is None:
            return
        obeyed = self._control.obeyed
        progress = TrainingProgress(
            state=self._state,
            step=self._ingest.step,
            epoch=self._epoch,
            saved=self._ingest.saved,
            loaded=self._loaded,
            obeyed=obeyed.envelope.id if obeyed is not None else "",
            reported_s=time.time(),
            step_ended_s=self._step_ended_s,
            first_step_s=self._first_step_s,
        )
        self._control.report(progress, now=now)


def _key(checkpoint: Checkpoint) -> tuple[object, ...]:
    return (checkpoint.path, checkpoint.signature)


def main(arguments: Sequence[str] | None = None) -> int:
    """Watch, save, obey; with ``-- command`` also start the trainer."""
    parser = argparse.ArgumentParser(prog="bridgehead.training.sidecar", description=main.__doc__)
    parser.add_argument("--directory", type=Path, required=True, help="where the trainer writes its checkpoints")
    parser.add_argument("--pattern", required=True, help="regular expression for a checkpoint's name; its first group is the step")
    parser.add_argument("--mark-inside", default="", help="a checkpoint is complete when its folder holds this file (.metadata, _SUCCESS)")
    parser.add_argument("--mark-beside", default="", help="a file beside the checkpoints that names the newest complete one (latest)")
    parser.add_argument("--stable-s", type=float, default=2.0, help="seconds in which nothing may have changed")
    parser.add_argument("--checkpoint-signal", help="USR1 or the like: makes the wrapped trainer write a checkpoint")
    parser.add_argument("--checkpoint-command", default="", help="asks a trainer for a checkpoint that this sidecar did not start")
    parser.add_argument("--hold-command", default="", help="makes it compute no further step")
    parser.add_argument("--continue-command", default="", help="lets it go on")
    parser.add_argument("--grace-s", type=float, default=25.0, help="how long the trainer may take to end after SIGTERM")
    parser.add_argument("command", nargs="*", help="after --: the trainer, to be started by this sidecar")
    asked = parser.parse_args(arguments)
    if re.compile(asked.pattern).groups < 1:
        parser.error("--pattern needs a group for the step, such as step-([0-9]+)")
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s", stream=sys.stderr)
    options = SidecarOptions(
        directory=asked.directory.absolute(),
        pattern=asked.pattern,
        mark=MarkKind(inside=asked.mark_inside, beside=asked.mark_beside),
        stable_s=asked.stable_s,
        grace_s=asked.grace_s,
        command=tuple(asked.command),
        checkpoint_signal=signal.Signals[f"SIG{asked.checkpoint_signal.removeprefix('SIG')}"] if asked.checkpoint_signal else None,
        checkpoint_command=tuple(shlex.split(asked.checkpoint_command)),
        hold_command=tuple(shlex.split(asked.hold_command)),
        continue_command=tuple(shlex.split(asked.continue_command)),
    )
    try:
        vault = open_vault(Path(required(os.environ, "BRIDGEHEAD_VAULT")))
        sidecar = Sidecar(vault, SessionOptions.from_env(os.environ), options)

        def on_sigterm(number: int, frame: FrameType | None) -> None:
            sidecar.stop_asked = True

        signal.signal(signal.SIGTERM, on_sigterm)
        return sidecar.run()
    except BridgeheadError as error:
        log.error("%s", error)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
