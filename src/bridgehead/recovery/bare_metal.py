"""Bare metal: the runbook by which the nodes of a site are rebuilt from their specification (R15)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from bridgehead.kernel.ids import Person, StepId
from bridgehead.model.rebuild import NodeBuild, Rebuild
from bridgehead.model.runbook import ActionStep, ApprovalStep, OnFailure, Retry, Runbook, Step, UndoPolicy
from bridgehead.recovery.actions.rebuilding import Expected, RebuildNodes, RebuildParams, needed_of
from bridgehead.recovery.netboot import build_of
from bridgehead.recovery.steps import LONG_PAUSE_S

REBUILD, APPROVE = StepId("rebuild"), StepId("approve")
ANSWER_S = 4 * 3600.0


def rebuild_runbook(rebuild: Rebuild, *, nodes: Sequence[NodeBuild] = (), approvers: Sequence[Person] = ()) -> Runbook:
    """Ask, if somebody is to be asked, then rebuild.

    Args:
        nodes: only these; empty: all of the file.
        approvers: one of them must agree: the disks of the nodes are overwritten.
    """
    chosen = tuple(nodes) or rebuild.nodes
    needed = needed_of(rebuild.needed, len(chosen))
    params = RebuildParams(
        rebuild.site,
        tuple(expected_of(rebuild, node) for node in chosen),
        needed,
        rebuild.at_once,
        rebuild.node_s,
        rebuild.tries,
    )
    text = (
        f"Rebuilds {len(chosen)} nodes of {rebuild.site} from their specification, {rebuild.at_once} at once; {needed} must be back. "
        "EVERYTHING on the disks that the file names is overwritten."
    )
    steps: list[Step] = []
    if approvers:
        steps.append(ApprovalStep(APPROVE, tuple(approvers), ANSWER_S, (), text=text, title=f"approve the rebuild of {rebuild.site}"))
    steps.append(
        ActionStep(
            id=REBUILD,
            action=RebuildNodes.name,
            params=msgspec.json.decode(msgspec.json.encode(params)),
            deadline_s=rebuild.deadline_s,
            needs=tuple(step.id for step in steps),
            retry=Retry(attempts=1, backoff_s=1.0),
            undo=UndoPolicy.KEEP,
            undo_reason="what stood on the disks is gone",
            undo_deadline_s=60.0,
            title=f"rebuild {len(chosen)} nodes of {rebuild.site}",
            on_failure=OnFailure.FREEZE,
        )
    )
    return Runbook(f"rebuild-{rebuild.name}", tuple(steps), description=text, pause_expires_s=LONG_PAUSE_S)


def expected_of(rebuild: Rebuild, node: NodeBuild) -> Expected:
    """What a node must say when it is back."""
    profile = rebuild.profile(node)
    return Expected(node.id, build_of(rebuild, node), profile.gpus, profile.driver, profile.gpu_model)
