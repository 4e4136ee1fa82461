"""Runbook files, as ``bridgehead run`` takes them."""

from __future__ import annotations

from pathlib import Path

from bridgehead.app import wiring
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.runbook import Runbook
from bridgehead.runbook.language import read_located
from bridgehead.runbook.lint import refuse_faults


def read_text(path: Path, *, what: str) -> str:
    """A text file that the user named. Raises BAD_INPUT."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        happened, remedy = error.strerror or str(error), "Check the path and its rights."
        raise BridgeheadError(ErrorCode.BAD_INPUT, tried=f"read the {what}", subject=str(path), happened=happened, remedy=remedy) from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        happened = f"this is no text in UTF-8: line {line} has the byte 0x{error.object[error.start]:02x}"
        remedy = "Name the file that you mean, or save it in UTF-8."
        raise BridgeheadError(ErrorCode.BAD_INPUT, tried=f"read the {what}", subject=str(path), happened=happened, remedy=remedy) from error


def read_runbook_file(path: Path) -> Runbook:
    """A runbook that is safe to run. Raises BAD_INPUT for a file that cannot be read, RUNBOOK_REFUSED when the linter finds errors."""
    actions = wiring.action_params()
    located = read_located(read_text(path, what="runbook"), file=str(path), actions=actions)
    refuse_faults(located, actions, undoable=wiring.undoable_actions())
    return located.runbook
