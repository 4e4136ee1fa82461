"""Preflight: before anything is stopped, everything that a workload needs is proved to be at the site it goes to (issue 6; J14, R4)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import msgspec

from bridgehead.kernel.ids import StepId
from bridgehead.model.finding import Finding, FindingStatus, Severity
from bridgehead.model.runbook import Step
from bridgehead.model.site_needs import SiteNeeds
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.steps import Maker
from bridgehead.runbook.action import Call, Done, Failed, Outcome

NOTHING_CHANGED = "a look changes nothing"
IMAGE_S = 600.0
"""For reading one image."""
_NAMED = 8
"""Findings that a message names; `bridgehead recover preflight` shows all."""


class PreflightParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``sites.preflight``: what has to be at ``needs.target``."""

    needs: SiteNeeds


class PreflightSites:
    """Look at the target. What is missing fails the step and is named; so does what cannot be seen: unknown is never a pass.

    The evidence counts what was looked at, and names what does not decide.
    """

    name = "sites.preflight"
    params_type = PreflightParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: PreflightParams, call: Call) -> Outcome:
        """Somebody can look."""
        if self._ports.preflight is None:
            return Failed("nothing here can look at sites", "Run it where the estate's sites are connected.")
        return Done()

    def apply(self, params: PreflightParams, call: Call) -> Outcome:
        """Nothing to do: looking is what verify does, and a look that could not be had is tried again."""
        return Done()

    def verify(self, params: PreflightParams, call: Call) -> Outcome:
        """Everything that decides is there."""
        assert self._ports.preflight is not None
        findings = self._ports.preflight.judge(params.needs)
        lacking = [one for one in findings if one.status is not FindingStatus.PASS and one.severity is Severity.BLOCKING]
        if lacking or not findings:
            return _failed(params.needs, lacking)
        counts = Counter(one.status.value for one in findings)
        mild = [f"{one.subject}: {one.text}" for one in findings if one.status is not FindingStatus.PASS]
        return Done({"looked_at": len(findings), "there": counts[FindingStatus.PASS.value], "does_not_decide": mild[:_NAMED]})

    def undo(self, params: PreflightParams, call: Call) -> Outcome:
        """Nothing to take back."""
        return Done()


def _failed(needs: SiteNeeds, lacking: list[Finding]) -> Failed:
    missing = [one for one in lacking if one.status is FindingStatus.FAIL]
    named = [f"{one.subject}: {one.text}" for one in sorted(lacking, key=lambda one: one.status is not FindingStatus.FAIL)[:_NAMED]]
    more = f"; and {len(lacking) - _NAMED} more" if len(lacking) > _NAMED else ""
    reason = f"{needs.target} is not proved ready for {needs.workload}: {len(missing)} missing, {len(lacking) - len(missing)} not known: "
    return Failed(
        reason + "; ".join(named) + more,
        f"`bridgehead recover preflight RECOVERY --workload {needs.workload}` names all with what to do. Nothing was stopped.",
    )


def preflight_steps(maker: Maker, needs: Iterable[SiteNeeds], *, after: Iterable[StepId]) -> list[Step]:
    """One step for each workload. What stops or changes anything has to need them."""
    before = list(after)
    return [
        maker.step(
            StepId(f"preflight-{one.workload}"),
            PreflightSites.name,
            PreflightParams(one),
            needs=before,
            title=f"everything that {one.workload} needs is at {one.target}",
            deadline_s=maker.deadlines.step_s + sum(data.limit_s for data in one.datasets) + IMAGE_S * len(one.images),
            kept=NOTHING_CHANGED,
        )
        for one in needs
    ]
