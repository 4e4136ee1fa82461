"""Live lines: what is written about a run where no table can be redrawn: each change once, and now and then what a step waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import msgspec

from bridgehead.app.runs import mode_word
from bridgehead.app.views import StepView, reason_of, step_view
from bridgehead.kernel.ids import StepId
from bridgehead.model.runbook import GateStep
from bridgehead.runbook import state as st
from bridgehead.runbook.gates import gathered, judge

HERE: Final = "this process"
"""The driver of a run that the one who reads the lines can stop."""
LEAVES: Final = "Ctrl-C leaves it there"
REPEAT_S: Final = 55.0
"""About once a minute it is said again what a step waits for; tries of a step are up to a minute apart, and none is to be missed."""
QUIET_S: Final = 5.0
"""Least time between two lines about the same state of a step."""


class News(msgspec.Struct, frozen=True):
    """What is new about a step whose state has no other word yet: told when ``key`` changes, and after ``REPEAT_S`` again.

    Attributes:
        quiet_s: how long after the line before at the earliest.
        hint: whether to say that it can be left alone.
    """

    key: tuple[object, ...]
    quiet_s: float
    hint: bool


class _Said(msgspec.Struct, frozen=True):
    word: str
    key: tuple[object, ...] | None
    at_s: float


class LiveLines:
    """Remembers what was said. ``now_s`` is a clock that never jumps."""

    def __init__(self, state: st.RunState, *, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        at_s = now_s()
        self._said = {step_id: _Said(step_view(state, step_id).state, None, at_s) for step_id in state.plan.steps}
        self._mode, self._driver = mode_word(state), ""

    def of(self, state: st.RunState, *, driver: str) -> list[str]:
        """What is to be said now; nothing when nothing is new."""
        lines: list[str] = []
        skipped: list[StepId] = []
        for step_id in state.plan.steps:
            seen = step_view(state, step_id)
            if seen.state != self._said[step_id].word and seen.state == "skipped":
                self._said[step_id] = _Said(seen.state, None, self._now_s())
                skipped.append(step_id)
                continue
            lines += self._step(state, seen, driver)
        if skipped:
            lines.append(f"{skipped[0]}: skipped" if len(skipped) == 1 else f"{len(skipped)} steps: skipped, they changed nothing")
        if mode_word(state) != self._mode:
            self._mode = mode_word(state)
            lines.append(f"run {state.run}: {self._mode}{_standing(state, driver)}")
        if driver != self._driver:
            self._driver = driver
            lines.append(f"run {state.run}: driven by {driver or 'nobody'}")
        return lines

    def _step(self, state: st.RunState, seen: StepView, driver: str) -> list[str]:
        said, at_s, news = self._said[seen.id], self._now_s(), _news(state, seen.id)
        key = None if news is None else news.key
        hint = f" ({LEAVES})" if news is not None and news.hint and driver == HERE else ""
        line = f"{seen.id}: {seen.state}{'  ' + seen.detail if seen.detail else ''}{hint}"
        if seen.state != said.word:
            self._said[seen.id] = _Said(seen.state, key, at_s)
            return [line]
        if news is None:
            return []
        quiet_s = news.quiet_s if key != said.key else REPEAT_S
        if at_s - said.at_s < quiet_s:
            return []
        self._said[seen.id] = _Said(seen.state, key, at_s)
        return [line]


def _news(state: st.RunState, step_id: StepId) -> News | None:
    plan_step, step = state.plan.steps[step_id], state.steps[step_id]
    match step:
        case st.Measuring() if isinstance(plan_step, GateStep):
            tenths = int(10 * gathered(plan_step, step.samples))
            return News((bool(step.samples), judge(plan_step, step.samples).verdict, tenths, step.paged), QUIET_S, hint=False)
        case st.Working(error=error) | st.Undoing(error=error) if error:
            # Other errors are often mended by the very next try.
            waits = error.startswith("transient")
            return News(("trouble",), 0.0 if waits else QUIET_S, hint=waits)
        case st.Working(progress=progress) if progress.get("waiting_for"):
            return News(("waits",), QUIET_S, hint=True)
        case _:
            return None


def _standing(state: st.RunState, driver: str) -> str:
    if not isinstance(state.mode, st.OnHold):
        return ""
    waits = f"; it waits for `run resume` or `run abort`; {LEAVES}" if driver == HERE else ""
    return f"  {reason_of(state)}{waits}"
