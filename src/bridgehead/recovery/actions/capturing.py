"""Capturing: code, dependencies, configuration and a manifest of the data, before a point is taken (R10)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.errors import NotFound
from bridgehead.model.recovery import Capture
from bridgehead.ports.captures import Captures
from bridgehead.ports.switchboard import Switchboard
from bridgehead.runbook.action import Call, Done, Failed, Outcome, Pending

POLL_S = 0.2


class CaptureParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``context.capture``: what, and the folder in which each run has one of its own."""

    capture: Capture
    folder: str


class CaptureContext:
    """Capture it. Undo removes what was captured."""

    name = "context.capture"
    params_type = CaptureParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: CaptureParams, call: Call) -> Outcome:
        """Somebody can."""
        self._captures()
        return Done()

    def apply(self, params: CaptureParams, call: Call) -> Outcome:
        """Do it; hashing the data may take long."""
        folder = _folder(params, call)
        captured = self._captures().capture(params.capture, folder=folder)
        if captured is None:
            return Pending(POLL_S, {"waiting_for": "code and data to be read"})
        return Done({"folder": folder, **msgspec.to_builtins(captured)})

    def verify(self, params: CaptureParams, call: Call) -> Outcome:
        """It is there."""
        captured = self._captures().capture(params.capture, folder=_folder(params, call))
        if captured is None or "files" not in call.applied:
            return Failed("what was captured is not there any more", "It is captured again.")
        return Done()

    def undo(self, params: CaptureParams, call: Call) -> Outcome:
        """Nothing is left of it."""
        self._captures().drop(_folder(params, call))
        return Done()

    def _captures(self) -> Captures:
        if self._ports.captures is None:
            raise NotFound("nothing can capture code here", tried="capture the context", subject="the estate")
        return self._ports.captures


def _folder(params: CaptureParams, call: Call) -> str:
    return f"{params.folder}/{call.stamp.run}/context"
