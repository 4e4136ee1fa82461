"""Planted faults: controllers that break the rules of fencing on purpose, so that the checks are seen to find them (J05, J06)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from bridgehead.kernel.ids import SiteId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import Fence
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.actions.takeover import TakeOver, TakeOverParams
from bridgehead.recovery.quorum import Cast, FenceOutcome, NoMajority, Outbid, Raised, Record, Steps, elect
from bridgehead.runbook.action import Action, Call, Done, Outcome
from bridgehead.testing.virtual_lab import ActionsOf


def hasty(fence: Fence, voters: Sequence[SiteId], *, proposer: str) -> Steps[FenceOutcome | Outbid]:
    """Records where it can, and takes one voter for enough."""
    recorded: list[SiteId] = []
    missing: dict[SiteId, str] = {}
    for voter in voters:
        answer = yield Record(voter, fence)
        if isinstance(answer, Fence) and answer.opened_by == fence.opened_by:
            recorded.append(voter)
        else:
            missing[voter] = "it has not got it"
    return Raised(fence, tuple(recorded), missing) if recorded else NoMajority((), missing)


def deaf(fence: Fence, voters: Sequence[SiteId], *, proposer: str) -> Steps[FenceOutcome | Outbid]:
    """Keeps to the protocol, and does not read the ballots of others."""
    steps = elect(fence, voters, proposer=proposer)
    answer = None
    while True:
        try:
            request = next(steps) if answer is None else steps.send(answer)
        except StopIteration as end:
            told: FenceOutcome | Outbid = end.value
            return told
        answer = yield request
        if isinstance(request, Cast) and isinstance(answer, tuple):
            answer = tuple(one for one in answer if isinstance(one, Ballot) and one.proposer == proposer)


class AsksOne(TakeOver):
    """Asks the vault of the new holder alone, where it should ask a majority."""

    def precheck(self, params: TakeOverParams, call: Call) -> Outcome:
        """See the class."""
        return super().precheck(_alone(params), call)

    def apply(self, params: TakeOverParams, call: Call) -> Outcome:
        """See the class."""
        return super().apply(_alone(params), call)

    def verify(self, params: TakeOverParams, call: Call) -> Outcome:
        """See the class."""
        return super().verify(_alone(params), call)


class FencesNothing(TakeOver):
    """Says that it has opened an epoch, and has not."""

    def apply(self, params: TakeOverParams, call: Call) -> Outcome:
        """See the class."""
        return Done({"epoch": call.recorded["epoch"] + 1, "holder": params.holder, "recorded": list(params.voters)})

    def verify(self, params: TakeOverParams, call: Call) -> Outcome:
        """See the class."""
        epoch, counts = call.recorded["epoch"] + 1, call.recorded["counts"]
        return Done({"epoch": epoch, "holder": params.holder, "counts": counts, "decided_s": call.now_s, "missing": {}})


def asks_one(actions_of: ActionsOf) -> ActionsOf:
    """All actions, with that fault."""

    def changed(ports: Switchboard) -> Mapping[str, Action]:
        broken: Any = AsksOne(ports)
        return {**actions_of(ports), AsksOne.name: broken}

    return changed


def fences_nothing(actions_of: ActionsOf) -> ActionsOf:
    """All actions, with that fault."""

    def changed(ports: Switchboard) -> Mapping[str, Action]:
        broken: Any = FencesNothing(ports)
        return {**actions_of(ports), FencesNothing.name: broken}

    return changed


def _alone(params: TakeOverParams) -> TakeOverParams:
    return msgspec.structs.replace(params, voters=(params.holder,))
