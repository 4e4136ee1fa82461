"""``bridgehead schema``: JSON Schemas with which editors complete and check YAML files."""

from __future__ import annotations

from typing import Literal

import msgspec
from cyclopts import App

from bridgehead.kernel.errors import ExitCode

app = App(name="schema", help="Print JSON Schemas for editors.")


@app.default
def schema(kind: Literal["estate", "policy", "plan", "hazards", "notify", "objectives", "rebuild", "recovery", "runbook"], /) -> int:
    """Print the JSON Schema of a kind of file.

    Args:
        kind: which.
    """
    from bridgehead.app.wiring import action_params, channel_options, driver_options
    from bridgehead.model.estatefile import estate_schema
    from bridgehead.model.hazards import hazards_schema
    from bridgehead.model.notifyfile import notifying_schema
    from bridgehead.model.objectivefile import objectives_schema
    from bridgehead.model.plan import plan_schema
    from bridgehead.model.policy import policy_schema
    from bridgehead.model.rebuildfile import rebuild_schema
    from bridgehead.model.recoveryfile import recovery_schema
    from bridgehead.runbook.language import runbook_schema

    match kind:
        case "estate":
            document = estate_schema(driver_options())
        case "policy":
            document = policy_schema()
        case "plan":
            document = plan_schema()
        case "hazards":
            document = hazards_schema()
        case "notify":
            document = notifying_schema(channel_options())
        case "objectives":
            document = objectives_schema()
        case "rebuild":
            document = rebuild_schema()
        case "recovery":
            document = recovery_schema()
        case "runbook":
            document = runbook_schema(action_params())
    print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
    return ExitCode.DONE
