"""OpenSLO: objectives as documents of kind Service and SLO (openslo/v1), measured by what ``bridgehead watch`` exports.

An RPO is kept in a slice of time when the loss of the site would lose no more than that (``bridgehead_loss_seconds``), an RTO when recovery
is predicted to take no longer (``bridgehead_recovery_seconds``). Where nothing is measured there is no value, so that blindness spends the
budget of whoever counts slices without data as bad.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from bridgehead.kernel.yamltext import yaml_text
from bridgehead.model.estate import Estate
from bridgehead.model.objective import Bound, Need, Part
from bridgehead.model.objectivefile import Continuity
from bridgehead.recovery.objectives.judge import time_words

API: Final = "openslo/v1"
TARGET: Final = 0.999
"""Share of slices in which it must hold, where the objective gives no availability."""
WINDOW: Final = "28d"
SLICE: Final = "5m"
_METRICS: Final = {"rpo": "bridgehead_loss_seconds", "rto": "bridgehead_recovery_seconds"}
_MOST: Final = 63


def documents(estate: Estate, continuity: Continuity) -> list[dict[str, Any]]:
    """One Service for the estate, and an SLO for each time that a workload or service has. Data sets have no metric and none."""
    owner = slug(estate.name)
    served: dict[str, str | None] = {one.id: one.workload for one in estate.services}
    found: list[dict[str, Any]] = [
        {
            "apiVersion": API,
            "kind": "Service",
            "metadata": {"name": owner, "displayName": estate.name},
            "spec": {"description": f"Recovery of the estate {estate.name}"},
        }
    ]
    taken: set[str] = set()
    for need in continuity.needs(estate):
        if need.part is Part.DATASET or (need.objective is None and not continuity.accept_defaults):
            continue
        for which, bound in (("rpo", need.rpo), ("rto", need.rto)):
            if bound is not None:
                name = _unique(f"{slug(need.id)}-{which}", taken)
                found.append(_slo(need, which, bound, name=name, owner=owner, label=served.get(need.id) or need.id))
    return found


def left_out(estate: Estate) -> tuple[str, ...]:
    """Data sets: their age is in no metric yet."""
    return tuple(sorted(one.id for one in estate.datasets))


def text(found: Iterable[dict[str, Any]]) -> str:
    """YAML, one document after the other."""
    return "---\n".join(yaml_text(one) for one in found)


def slug(name: str) -> str:
    """A name as RFC 1123 has it: at most 63 small letters, digits and dashes."""
    clean = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[: _MOST - 8].strip("-")
    return clean or "objective"


def _unique(name: str, taken: set[str]) -> str:
    """The name, or with a number where it is taken already."""
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}-{number}"
    taken.add(free)
    return free


def _slo(need: Need, which: str, bound: Bound, *, name: str, owner: str, label: str) -> dict[str, Any]:
    words = {"rpo": "lose at most", "rto": "be back within"}[which]
    query = f'max({_METRICS[which]}{{workload="{label}"}})'
    objective = need.objective
    target = TARGET if objective is None or objective.availability is None else objective.availability
    labels = {"part": need.part.value, "objective": slug(objective.id if objective is not None else bound.source)}
    return {
        "apiVersion": API,
        "kind": "SLO",
        "metadata": {"name": name, "displayName": f"{which.upper()} of {need.id}", "labels": labels},
        "spec": {
            "description": f"{need.id} must {words} {time_words(bound.value_s)} ({bound.source}).",
            "service": owner,
            "indicator": {
                "metadata": {"name": f"{name}-sli"},
                "spec": {"thresholdMetric": {"metricSource": {"type": "Prometheus", "spec": {"query": query}}}},
            },
            "timeWindow": [{"duration": WINDOW, "isRolling": True}],
            "budgetingMethod": "Timeslices",
            "objectives": [
                {
                    "displayName": f"{words} {time_words(bound.value_s)}",
                    "op": "lte",
                    "value": bound.value_s,
                    "target": target,
                    "timeSliceTarget": 1.0,
                    "timeSliceWindow": SLICE,
                }
            ],
        },
    }
