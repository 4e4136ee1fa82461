"""The stamp that every side effect carries (design rule 3, J13)."""

from __future__ import annotations

import msgspec

from bridgehead.kernel.ids import Epoch, RunId, StepId


class Stamp(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who asks for an effect. Drivers accept a repeat of the same stamp and refuse an epoch older than one seen for the run.

    Attributes:
        run: the run on whose behalf.
        step: the step of its runbook.
        attempt: 1 for the first try of the phase; a repeat after a lost answer keeps the number.
        epoch: the driving epoch of the run; it grows by one whenever a process takes the run over.
    """

    run: RunId
    step: StepId
    attempt: int
    epoch: Epoch

    @property
    def key(self) -> str:
        """Idempotency key: the same step asks for the same effect whoever drives and however often."""
        return f"{self.run}/{self.step}"
