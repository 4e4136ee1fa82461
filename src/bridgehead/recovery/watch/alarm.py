"""Alarms: a finding becomes an alarm, and stops being one, without flapping.

- A miss that is certain is an alarm at once. What is only foreseen, or not known, must last ``raise_after_s``.
- An alarm ends when the finding has passed for ``clear_after_s`` without a break. What is not known ends none.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence

import msgspec

from bridgehead.model.finding import FindingStatus, Origin
from bridgehead.recovery.watch.finding import WatchFinding


class AlarmKind(enum.StrEnum):
    """Why it stands."""

    MISSED = "missed"
    """The finding fails."""
    FORESEEN = "foreseen"
    """It will fail if nothing changes."""
    UNKNOWN = "unknown"
    """Nobody can tell, and has not been able to for too long."""


class Patience(msgspec.Struct, frozen=True):
    """See the module."""

    raise_after_s: float = 60.0
    clear_after_s: float = 120.0


class AlarmState(msgspec.Struct, frozen=True):
    """What is remembered of one finding.

    Attributes:
        key: of the finding.
        kind: None while there is no alarm.
        raised_s: since when there is one.
        troubled_s: since when the finding has not passed; None while it does.
        passing_s: since when it passes; None while it does not.
        text: of the finding, when it was last in trouble.
        changed: which inputs had changed when it first was in trouble, each as "name: old -> new".
        inputs: of the finding when it last passed, by where they come from; without what is measured.
        seen_s: when the finding was last made; one that is no longer made is forgotten.
    """

    key: str
    kind: AlarmKind | None = None
    raised_s: float | None = None
    troubled_s: float | None = None
    passing_s: float | None = None
    text: str = ""
    changed: tuple[str, ...] = ()
    inputs: dict[str, str] = {}
    seen_s: float = 0.0


def follow(known: Mapping[str, AlarmState], findings: Sequence[WatchFinding], *, now_s: float, patience: Patience) -> dict[str, AlarmState]:
    """The alarms after these findings. Findings that are no longer made take their alarms with them."""
    return {one.key: _next(known.get(one.key), one, now_s=now_s, patience=patience) for one in findings}


def _next(before: AlarmState | None, finding: WatchFinding, *, now_s: float, patience: Patience) -> AlarmState:
    state = before or AlarmState(finding.key)
    # What is measured changes all the time; what is declared changes when somebody changes it.
    inputs = {one.source or one.name: _word(one.value) for one in finding.inputs if one.origin is not Origin.MEASURED}
    if finding.status is FindingStatus.PASS and not finding.foreseen:
        passing_s = state.passing_s if state.passing_s is not None else now_s
        stands = state.kind is not None and now_s - passing_s < patience.clear_after_s
        return AlarmState(
            finding.key,
            kind=state.kind if stands else None,
            raised_s=state.raised_s if stands else None,
            passing_s=passing_s,
            text=state.text if stands else "",
            changed=state.changed if stands else (),
            inputs=inputs,
            seen_s=now_s,
        )
    troubled_s = state.troubled_s if state.troubled_s is not None else now_s
    kind = _kind(finding)
    due = kind is AlarmKind.MISSED or now_s - troubled_s >= patience.raise_after_s
    raised = state.kind is not None or due
    # What it was before it got into trouble is what a person wants to compare with.
    changed = state.changed or tuple(f"{name}: {state.inputs[name]} -> {now}" for name, now in inputs.items() if _differs(state, name, now))
    return AlarmState(
        finding.key,
        kind=(kind if due else state.kind) if raised else None,
        raised_s=(state.raised_s if state.raised_s is not None else now_s) if raised else None,
        troubled_s=troubled_s,
        text=finding.text,
        changed=changed,
        inputs=state.inputs,
        seen_s=now_s,
    )


def _kind(finding: WatchFinding) -> AlarmKind:
    if finding.status is FindingStatus.FAIL:
        return AlarmKind.MISSED
    return AlarmKind.UNKNOWN if finding.status is FindingStatus.UNKNOWN else AlarmKind.FORESEEN


def _differs(state: AlarmState, name: str, now: str) -> bool:
    return name in state.inputs and state.inputs[name] != now


def _word(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float) else str(value)
