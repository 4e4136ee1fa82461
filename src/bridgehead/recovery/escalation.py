"""Escalation: who is called when nobody answers, or a recovery stands still (G06, G08). Pure; the caller reaches the people."""

from __future__ import annotations

from collections.abc import Sequence

from bridgehead.kernel.ids import StepId
from bridgehead.model.recovery import Escalation
from bridgehead.runbook import state as st


class Escalator:
    """Follows one run: what waits for a person, since when, and who was called about it."""

    def __init__(self, levels: Sequence[Escalation]) -> None:
        self._levels = tuple(sorted(levels, key=lambda level: level.after_s))
        self._waits: dict[StepId, tuple[float, str]] = {}
        self._called: set[tuple[StepId, float, int]] = set()

    def look(self, state: st.RunState) -> None:
        """Take note of what waits for a person now."""
        waits: dict[StepId, tuple[float, str]] = {}
        for step_id in state.active:
            match state.steps[step_id]:
                case st.Asking(started_s=since_s):
                    waits[step_id] = (since_s, f"{state.run} waits for an approval: {step_id}")
                case st.Broken(failed_s=since_s, reason=reason):
                    waits[step_id] = (since_s, f"{state.run}: {step_id} failed: {reason}")
                case _:
                    pass
        self._waits = waits

    def due(self, now_s: float) -> list[str]:
        """Calls that are to be made now; each is said once."""
        calls: list[str] = []
        for step_id, (since_s, what) in list(self._waits.items()):
            for number, level in enumerate(self._levels):
                key = (step_id, since_s, number)
                if now_s - since_s >= level.after_s and key not in self._called:
                    self._called.add(key)
                    calls.append(f"calling {', '.join(level.people)}: {what}")
        return calls
