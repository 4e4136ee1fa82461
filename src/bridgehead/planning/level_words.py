"""Levels of a plan's score in words, for people (the ids stay in files)."""

from __future__ import annotations

from bridgehead.model.plan import Level

_WORDS = {
    "lost-gpu-hours": "GPU-hours lost, weighted by priority",
    "days": "days until everything has gone over",
    "cost": "money for trips and days of crews, the part of the cost that the planner decides",
}


def level_words(level: Level) -> str:
    """``48.69 days until everything has gone over; no plan has less than 47.5``."""
    return f"{level.value:,.6g} {_WORDS.get(level.id, level.id)}; no plan has less than {level.bound:,.6g}"
