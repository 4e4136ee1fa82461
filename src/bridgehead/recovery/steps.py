"""Steps of recoveries: what the runbooks of moves, failovers and failbacks share."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from bridgehead.kernel.ids import ServiceId, SiteId, SnapshotId, StepId, WorkloadId
from bridgehead.model.estate import WorkloadKind
from bridgehead.model.recovery import Deadlines, Protected, Recovery
from bridgehead.model.runbook import ActionStep, ApprovalStep, OnFailure, Retry, Step, UndoPolicy
from bridgehead.model.snapshot import SnapshotInfo
from bridgehead.ports.scheduler import JobSpec
from bridgehead.recovery.loss import LastSeen

APPROVE = StepId("approve")
RETRY = Retry(attempts=3, backoff_s=0.5)
LONG_PAUSE_S = 30 * 86_400.0
"""A recovery that waits for a person is not taken back because it is the weekend."""


class Case(msgspec.Struct, frozen=True):
    """One workload on its way, with what was seen of it when the runbook was made.

    Attributes:
        source, target: from where to where.
        point: the newest verified snapshot at the target that counts.
        last: what its trainer at the source did last.
        model: the snapshot that is served.
        copy_from: a site whose vault holds what the target's does not; None when nothing has to be fetched.
        gated: whether its service has counters by which a gate can judge.
        saved: whether the source's vault holds snapshots of it; None: not known.
    """

    workload: Protected
    source: SiteId
    target: SiteId
    point: SnapshotInfo | None = None
    last: LastSeen | None = None
    model: SnapshotId | None = None
    copy_from: SiteId | None = None
    gated: bool = False
    saved: bool | None = None

    @property
    def may_have_saved(self) -> bool:
        """Unless its vault was seen to hold nothing of it, what it saved has to come along."""
        return self.saved is not False

    @property
    def id(self) -> WorkloadId:
        """Of the workload."""
        return self.workload.id

    def step(self, name: str) -> StepId:
        """Id of one of its steps."""
        return StepId(f"{name}-{self.id}")

    def spec(self, site: SiteId, *, standby: bool = False) -> JobSpec:
        """Its job at a site, for the scheduler."""
        job = self.workload.job(site)
        command = tuple(word.replace("{snapshot}", self.model or "{snapshot}") for word in job.command)
        env = {**job.env, "BRIDGEHEAD_STANDBY": "1"} if standby else job.env
        return JobSpec(name=job.name, command=command, env=env, workdir=job.workdir, grace_s=job.grace_s)

    @property
    def trains(self) -> bool:
        """Its trainer can be held, and released from standby."""
        return self.workload.kind is WorkloadKind.TRAINING

    @property
    def service(self) -> ServiceId | None:
        """What answers requests with it."""
        return self.workload.service


class Maker:
    """Makes the steps of one runbook.

    Args:
        kept: why effects stay after a rollback; empty: they are undone.
        on_failure: of action steps.
    """

    def __init__(self, recovery: Recovery, *, kept: str = "", on_failure: OnFailure = OnFailure.ROLLBACK) -> None:
        self.recovery = recovery
        self.deadlines: Deadlines = recovery.deadlines
        self._kept = kept
        self._on_failure = on_failure

    def step(
        self,
        step_id: StepId,
        action: str,
        params: msgspec.Struct,
        *,
        needs: Iterable[StepId],
        title: str,
        deadline_s: float | None = None,
        kept: str = "",
        on_failure: OnFailure | None = None,
    ) -> ActionStep:
        """One action step."""
        given = {key: value for key, value in msgspec.json.decode(msgspec.json.encode(params)).items() if value is not None}
        reason = kept or self._kept
        return ActionStep(
            id=step_id,
            action=action,
            params=given,
            deadline_s=deadline_s or self.deadlines.step_s,
            needs=tuple(dict.fromkeys(needs)),
            retry=RETRY,
            undo=UndoPolicy.KEEP if reason else UndoPolicy.ACTION,
            undo_reason=reason,
            undo_deadline_s=self.deadlines.step_s,
            title=title,
            on_failure=on_failure or self._on_failure,
        )

    def approval(self, text: str, *, needs: Iterable[StepId], title: str) -> list[Step]:
        """The question to the approvers; nothing where there are none."""
        approvers = self.recovery.approvers
        if approvers is None:
            return []
        return [ApprovalStep(APPROVE, approvers.people, approvers.answer_s, tuple(needs), quorum=approvers.quorum, text=text, title=title)]


def percent(share: float) -> int:
    """Whole percent, at least one."""
    return max(1, round(share * 100))
