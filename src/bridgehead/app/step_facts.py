"""Step facts: the evidence of steps in words for people. Pure; imports nothing heavy, because verbs that only look use it."""

from __future__ import annotations

import datetime
from typing import Final

MOMENTS_FROM_S: Final = 1e9
"""Numbers of seconds from here on are moments (this one was in 2001), and no durations: those would be of 31 years."""
_MOMENTS_TO_S: Final = 1e11
_MOST = 60
"""Characters of one value."""
_MOST_ENTRIES = 6


def facts(evidence: dict[str, object]) -> str:
    """What is known, for people: ``job new, exit code 0``. What has no short words (records, lists of records) is left out."""
    return ", ".join(words for key, value in evidence.items() if (words := _fact(key, value)))


def utc_time(at_s: float) -> str:
    """A moment as the clock of UTC shows it."""
    return datetime.datetime.fromtimestamp(at_s, tz=datetime.UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _fact(key: str, value: object) -> str:
    words = key.replace("_", " ")
    if isinstance(value, float | int) and not isinstance(value, bool) and key.endswith("_s"):
        return f"{words[:-2]} {_time(value)}"
    if isinstance(value, dict) and "step" in value:
        return f"{words} at step {value['step']}"
    text = _short(value)
    return f"{words} {text}" if text else ""


def _time(value_s: float) -> str:
    if MOMENTS_FROM_S <= value_s < _MOMENTS_TO_S:
        return utc_time(value_s)
    return f"{value_s:.0f} s" if 1e4 <= abs(value_s) < MOMENTS_FROM_S else f"{value_s:.4g} s"


def _short(value: object) -> str:
    match value:
        case None:
            text = ""
        case bool():
            text = "yes" if value else "no"
        case float():
            text = f"{value:.3f}"
        case list() | tuple():
            text = "" if any(isinstance(one, dict | list | tuple) for one in value) else "; ".join(map(str, value))
        case dict():
            return _table(value)
        case _:
            text = str(value)
    return text if len(text) <= _MOST else text[: _MOST - 3] + "..."


def _table(value: dict[str, object]) -> str:
    """``site-a 0; site-b 100``, where all values are numbers or all are texts; nothing of a record."""
    numbers = all(isinstance(one, int | float) and not isinstance(one, bool) for one in value.values())
    if not numbers and not all(isinstance(one, str) for one in value.values()):
        return ""
    entries = [f"{key}{' ' if numbers else ': '}{_short(one)}" for key, one in value.items()]
    more = [f"and {len(entries) - _MOST_ENTRIES} more"] if len(entries) > _MOST_ENTRIES else []
    return "; ".join(entries[:_MOST_ENTRIES] + more)
