"""Preflight of a run: what its estate connects, and from where. Found before the first step, not after an approval."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any, get_args

import msgspec

from bridgehead.app import wiring
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import ServiceId, SiteId, StepId
from bridgehead.model.runbook import ActionStep, GateStep, Runbook

PATHS = frozenset({"directory", "dynamic_file", "state_file", "config_file", "socket", "master_socket"})
"""Options of drivers that name a file or folder."""


def rooted(connections: Mapping[str, Any]) -> dict[str, Any]:
    """The connections with absolute paths: a run that is resumed from another folder must reach the same places."""
    return {key: _rooted(key, value) for key, value in connections.items()}


def _rooted(key: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        return {inner: _rooted(inner, content) for inner, content in value.items()}
    return os.path.abspath(value) if key in PATHS and isinstance(value, str) and value else value


def refuse_unconnected(runbook: Runbook, connections: Mapping[str, Any]) -> None:
    """Raise RUNBOOK_REFUSED when steps name sites or services that the estate does not connect; all are listed."""
    known = {SiteId: connections["sites"], ServiceId: connections["services"]}
    words = {SiteId: "site", ServiceId: "service"}
    lines = [
        f"step '{step}' names the {words[kind]} '{name}', which the estate does not have; it has {', '.join(sorted(known[kind])) or 'none'}"
        for step, kind, name in _named(runbook)
        if name not in known[kind]
    ]
    if lines:
        raise BridgeheadError(
            ErrorCode.RUNBOOK_REFUSED,
            tried="start a run",
            subject=f"runbook {runbook.name}",
            happened="\n".join(lines),
            remedy="Correct the runbook, or name the estate that it was written for; nothing was started.",
        )


def _named(runbook: Runbook) -> Iterator[tuple[StepId, Any, str]]:
    """(step, SiteId or ServiceId, name) for each site and service that a step names."""
    types = wiring.action_params()
    for step in runbook.steps:
        if isinstance(step, GateStep):
            yield step.id, ServiceId, step.service
            yield from ((step.id, SiteId, site) for site in (step.target, step.baseline) if site is not None)
        elif isinstance(step, ActionStep):
            for field in msgspec.structs.fields(types[step.action]):
                value = step.params.get(field.encode_name)
                for kind in (SiteId, ServiceId):
                    if value is not None and kind in (field.type, *get_args(field.type)):
                        yield from ((step.id, kind, name) for name in ([value] if isinstance(value, str) else value))
