"""Facts: what a demo left behind, read once, from which the summary and the promises are judged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from bridgehead.app.demo.places import SOURCE, TARGET
from bridgehead.app.demo.play import Seen
from bridgehead.app.demo.records import LoadSummary, Record
from bridgehead.app.demo.script import Script
from bridgehead.app.demo.summary import LossPoint
from bridgehead.kernel.ids import StepId
from bridgehead.model import event as ev
from bridgehead.ports.journal import Entry
from bridgehead.runbook import state as st


class Facts(msgspec.Struct, frozen=True):
    """Raw material. ``losses``: steps of the moved training, from the trainers' own logs at both sites."""

    script: Script
    seen: Seen
    entries: Sequence[Entry]
    load: LoadSummary
    records: Sequence[Record]
    losses: Sequence[LossPoint]

    @property
    def reported(self) -> dict[str, Any]:
        """What the run itself reported of the cut-over; empty when there was none."""
        release = self.seen.state.steps[StepId("release")]
        return release.verified if isinstance(release, st.Finished) else {}

    @property
    def verdict(self) -> ev.Verdict | None:
        """How the run ended; None when it is stuck."""
        return self.seen.state.mode.verdict if isinstance(self.seen.state.mode, st.Ended) else None

    def done_at_s(self, step: str, phase: ev.Phase) -> float | None:
        """When a phase of a step was done first, None when it never was."""
        for entry in self.entries:
            if isinstance(entry.event, ev.PhaseDone) and entry.event.step == step and entry.event.phase is phase:
                return entry.event.at_s
        return None

    def asked_at_s(self, step: str, phase: ev.Phase) -> float | None:
        """When a phase of a step was intended first, None when it never was."""
        for entry in self.entries:
            if isinstance(entry.event, ev.Intent) and entry.event.step == step and entry.event.phase is phase:
                return entry.event.at_s
        return None

    def computed_twice(self) -> set[int]:
        """Steps that both sites computed."""
        at_source = {point.step for point in self.losses if point.site == SOURCE}
        return at_source & {point.step for point in self.losses if point.site == TARGET}

    def steps_lost(self) -> int | None:
        """Steps that the source had completed when the target was released, and that the target computed again; None without a move."""
        released_s = self.done_at_s("release", ev.Phase.PRECHECK)
        if released_s is None or not any(point.site == TARGET for point in self.losses):
            return None
        again = self.computed_twice()
        return len({point.step for point in self.losses if point.site == SOURCE and point.step in again and point.at_s <= released_s})

    def first_at_target_s(self) -> float | None:
        """When the first request was sent that the target answered."""
        return min((record.sent_s for record in self.records if record.site == TARGET), default=None)


def weight_periods(entries: Sequence[Entry]) -> list[tuple[int, float, float]]:
    """(percent at the target, from when these weights were read back, until when another change was asked for)."""
    last_s = entries[-1].event.at_s
    periods: list[tuple[int, float, float]] = []
    for entry in entries:
        event = entry.event
        if isinstance(event, ev.Intent) and event.step.startswith("shift-") and event.phase in (ev.Phase.APPLY, ev.Phase.UNDO):
            periods = [(percent, begin_s, min(end_s, event.at_s)) for percent, begin_s, end_s in periods]
        if isinstance(event, ev.PhaseDone) and event.step.startswith("shift-") and event.phase is ev.Phase.VERIFY:
            periods.append((int(event.step.removeprefix("shift-")), event.at_s, last_s))
    return periods


def weights_at_target(entries: Sequence[Entry], at_s: float) -> tuple[int, ...]:
    """The weights of the target that may be in force at a time: one, or two while a change is on its way.

    That is from the intent until the new one was read back from the proxy, however long that takes. A change that was never read back
    leaves every weight possible.
    """
    percent = 0
    begun_s: float | None = None
    for entry in entries:
        event = entry.event
        if not isinstance(event, ev.Intent | ev.PhaseDone) or not event.step.startswith("shift-"):
            continue
        if isinstance(event, ev.Intent):
            if begun_s is None and event.at_s > at_s:
                break
            if begun_s is None and event.phase in (ev.Phase.APPLY, ev.Phase.UNDO):
                begun_s = event.at_s
        elif event.phase in (ev.Phase.VERIFY, ev.Phase.UNDO):
            changed = event.evidence["weights"].get(TARGET, 0)
            if event.at_s >= at_s:
                return (percent,) if begun_s is None else (percent, changed)
            percent, begun_s = changed, None
    return (percent,) if begun_s is None else (percent, 0, 100)


def weight_at_target(entries: Sequence[Entry], at_s: float) -> int:
    """The weight of the target in force at a time: the newest that was read back from the proxy, forward or undone; 0 before the first."""
    percent = 0
    for entry in entries:
        event = entry.event
        if event.at_s > at_s:
            break
        if isinstance(event, ev.PhaseDone) and event.step.startswith("shift-") and event.phase in (ev.Phase.VERIFY, ev.Phase.UNDO):
            percent = event.evidence["weights"].get(TARGET, 0)
    return percent
