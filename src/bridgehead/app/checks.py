"""Checks: the only list of their families. Adding one is one file in ``assess`` and one line here, sorted by name."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import Final

from bridgehead.assess.checking import Check

FAMILIES: Final[tuple[str, ...]] = (
    "acceptance",
    "cables",
    "commissioning",
    "cooling",
    "cooling_loss",
    "data_moves",
    "equivalence",
    "fabric",
    "fabric_settings",
    "firmware",
    "generations",
    "gpus",
    "growth",
    "interconnect",
    "phases",
    "placement",
    "power",
    "power_bridge",
    "power_facts",
    "presence",
    "reserve",
    "space",
    "storage",
    "stretched",
    "wan",
    "workloads",
)
"""Modules of ``bridgehead.assess``; each has a tuple ``CHECKS``."""


@cache
def checks() -> tuple[Check, ...]:
    """All checks, sorted by code."""
    found: list[Check] = [check for name in FAMILIES for check in import_module(f"bridgehead.assess.{name}").CHECKS]
    return tuple(sorted(found, key=lambda check: check.code))
