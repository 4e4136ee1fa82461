"""The folder of drills in a home: one folder for each bubble that exists, and the signed reports of all that were.

drills/<bubble>/bubble.json     what was begun, by whom, and how it is reached: enough to remove it when its owner is no more
drills/<bubble>/...             what the bubble consists of (drivers.bubble), unless its jobs see only a folder elsewhere
drills/reports/...              see ``app.drills.reports``
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from bridgehead.app.home import Home
from bridgehead.host.durable import create_durably
from bridgehead.host.identity import is_alive
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, Permanent
from bridgehead.kernel.ids import RunId
from bridgehead.model.bubble import Bubble
from bridgehead.ports.journal import DriverIdentity
from bridgehead.recovery.drills.runbook import DrillPlan

RECORD: Final = "bubble.json"
REPORTS: Final = "reports"


class BubbleRecord(msgspec.Struct, frozen=True):
    """A bubble that was begun.

    Attributes:
        by: who asked for the drill.
        recovery: name of the recovery file.
        run: the run that plays the drill in it.
        folder: of the bubble.
        connections: of the bubble, as ``wiring.connect`` takes them.
    """

    plan: DrillPlan
    owner: DriverIdentity
    by: str
    recovery: str
    run: RunId
    folder: str
    connections: dict[str, Any]
    begun_s: float

    @property
    def bubble(self) -> Bubble:
        """What was begun."""
        return self.plan.bubble

    @property
    def owned(self) -> bool:
        """Its process may still live."""
        return is_alive(self.owner)


def root_of(home: Home) -> Path:
    """Where the records of bubbles are."""
    return home.folder / "drills"


def begin(home: Home, record: BubbleRecord) -> None:
    """Note what will be made before anything is. Raises RUN_STATE when there is one of that name, Permanent when the disk refuses."""
    note, folder = root_of(home) / record.bubble.id, Path(record.folder)
    refusing = note
    try:
        note.mkdir(mode=0o700, parents=True)
        refusing = note / RECORD
        create_durably(str(refusing), msgspec.json.encode(record))
        if folder != note:
            refusing = folder
            folder.mkdir(parents=True)
    except FileExistsError:
        raise BridgeheadError(
            ErrorCode.RUN_STATE,
            tried="begin a drill",
            subject=str(note),
            happened="there is a bubble of that name",
            remedy=f"Give it another --name, or remove what was left: `bridgehead recover drill --clean{home.option}`.",
        ) from None
    except OSError as error:
        raise Permanent(
            error.strerror or str(error), tried="begin a drill", subject=str(refusing), remedy="Check the rights and the space there."
        ) from error


def records(home: Home) -> Iterator[tuple[Path, BubbleRecord | None]]:
    """Every bubble that is there; None for a record that cannot be read: it was being written when its process died."""
    root = root_of(home)
    for folder in sorted(root.iterdir()) if root.is_dir() else ():
        if folder.name == REPORTS or not folder.is_dir():
            continue
        try:
            yield folder, msgspec.json.decode((folder / RECORD).read_bytes(), type=BubbleRecord)
        except (FileNotFoundError, msgspec.MsgspecError):
            yield folder, None


def forget(home: Home, record: BubbleRecord) -> None:
    """Everything of it is gone: remove its folder, and the record last."""
    throw_away(home, record)
    note = root_of(home) / record.bubble.id
    (note / RECORD).unlink(missing_ok=True)
    _remove_if_empty(note)


def throw_away(home: Home, record: BubbleRecord) -> None:
    """Remove its folder; the record stays, since its run is not ended."""
    note, folder = root_of(home) / record.bubble.id, Path(record.folder)
    if folder != note:
        shutil.rmtree(folder, ignore_errors=True)
        _remove_if_empty(folder.parent)
    for child in note.iterdir() if note.is_dir() else ():
        if child.name != RECORD:
            shutil.rmtree(child, ignore_errors=True) if child.is_dir() else child.unlink()


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return
