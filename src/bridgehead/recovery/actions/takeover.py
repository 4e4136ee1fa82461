"""Takeover: a majority of sites and witness opens a new epoch for the site that goes on (design rule 8; J05, J06, J13; ADR 17)."""

from __future__ import annotations

from typing import Final, assert_never

import msgspec

from bridgehead.kernel.errors import Transient
from bridgehead.kernel.ids import Epoch, SiteId, StepId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.ports.switchboard import Switchboard
from bridgehead.recovery.actions.losing import Watched, sign_of_life
from bridgehead.recovery.quorum import NoMajority, Raised, Standing, Superseded, fence_in_force, raise_fence
from bridgehead.recovery.registers import voters
from bridgehead.runbook.action import Call, Done, Failed, Json, Outcome


class TakeOverParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``recovery.fence``: ``holder`` may write from now on, when a majority of ``voters`` says so.

    Attributes:
        loser: who had the right before, where no fence says so.
        of: the step that names the last snapshot that counts (a hold, or ``vault.prove``); None where a workload keeps none.
        confirmed: the step that saw no sign of life of the loser; when that is longer ago than ``LOOK_HOLDS_S``, it is looked again.
        watched: what would show that it lives; empty: that does not matter.
    """

    workload: WorkloadId
    holder: SiteId
    loser: SiteId
    voters: tuple[SiteId, ...]
    of: StepId | None = None
    confirmed: StepId | None = None
    watched: tuple[Watched, ...] = ()


LOOK_HOLDS_S: Final = 30.0
"""A driver that had no majority for longer may have been cut off itself, and the loser be alive."""


class TakeOver:
    """Open epoch e+1 for ``holder`` at a majority of the voters; those that are out of reach get it later (``recovery.close``).

    Undo, for planned moves, opens epoch e+2 for the site that had the right before, counting what came back.
    """

    name = "recovery.fence"
    params_type = TakeOverParams
    undoable = True

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: TakeOverParams, call: Call) -> Outcome:
        """The new holder has what counts; a majority says which epoch is in force."""
        counts: list[str] = []
        if params.of is not None:
            snapshot = call.earlier.get(params.of, {}).get("snapshot")
            if snapshot is None:
                return Failed(f"step '{params.of}' names no snapshot", "Let this step need one that does (training.hold, vault.prove).")
            info = self._ports.vaults.find(snapshot, site=params.holder)
            if info is None or not info.verified or not info.counts:
                return Failed(f"{params.holder} does not hold snapshot {snapshot}, verified", "Replicate it and get its receipt first.")
            counts = [snapshot]
        before = self._standing(params).fence
        counts = [*dict.fromkeys([*(before.counts if before else ()), *counts])]
        return Done(
            {
                "epoch": before.epoch if before else 0,
                "holder": before.holder if before else params.loser,
                "counts": counts,
                "opened_by": call.stamp.key,
            }
        )

    def apply(self, params: TakeOverParams, call: Call) -> Outcome:
        """Have it decided. Repeating is safe at any time, by anybody. A loser that came back before it was fenced is not fenced."""
        signs = self._signs_of_life(params, call)
        if signs:
            return Failed(
                f"{params.loser} is alive: {'; '.join(signs)}; {params.workload} was not fenced",
                f"Abort the run; `bridgehead recover move {params.loser}` loses nothing. To give it up all the same: failover --force.",
            )
        return self._raise(_wanted(params, call), params, call)

    def _signs_of_life(self, params: TakeOverParams, call: Call) -> list[str]:
        if params.confirmed is None or call.now_s - call.earlier.get(params.confirmed, {}).get("confirmed_s", 0.0) < LOOK_HOLDS_S:
            return []
        fence = self._standing(params).fence
        if fence is not None and fence.opened_by == call.recorded["opened_by"]:
            return []  # fenced by an earlier call: what lives there is a zombie
        return [sign for one in params.watched if (sign := sign_of_life(self._ports, params.loser, one))]

    def verify(self, params: TakeOverParams, call: Call) -> Outcome:
        """It is in force, and every voter that answers has it: a driver that died may have told only one of them."""
        standing = self._standing(params)
        fence = standing.fence
        if fence is None or fence.opened_by != call.recorded["opened_by"]:
            holder = f"{fence.opened_by} opened epoch {fence.epoch} for {fence.holder}" if fence else "no epoch was opened"
            return Failed(f"the fence of {params.workload} for {params.holder} is not in force: {holder}", "It is asked for again.")
        seen = [register for register in voters(self._ports.vaults, params.voters).items() if register[0] not in standing.unread]
        behind = [voter for voter, register in seen if fence not in register.fences(params.workload)]
        if behind:
            return Failed(f"{', '.join(behind)} does not know the fence of {params.workload} yet", "It is recorded there, too.")
        return Done(
            {
                "epoch": fence.epoch,
                "holder": fence.holder,
                "counts": list(fence.counts),
                "decided_s": call.now_s,
                "missing": standing.unread,
            }
        )

    def undo(self, params: TakeOverParams, call: Call) -> Outcome:
        """Give the right back. Ours is raised even where it is not seen: a call of a driver that is no more may still be on its way."""
        ours, back, epoch = call.recorded["opened_by"], f"{call.recorded['opened_by']}/undo", call.recorded["epoch"]
        fence = self._standing(params).fence
        if fence is not None and fence.epoch > epoch and fence.opened_by not in (ours, back):
            if fence.epoch == epoch + 1:
                return Done({"epoch": epoch})
            return Failed(
                f"{params.workload} has been moved on since: {fence.opened_by} opened epoch {fence.epoch} for {fence.holder}",
                "Undo that first, or move the workload back by a move of its own.",
            )
        before = SiteId(call.recorded["holder"])
        if fence is not None and fence.opened_by == back:
            return self._raise(fence, params, call)
        raised = self._raise(_wanted(params, call), params, call)
        if not isinstance(raised, Done):
            return raised
        newest = self._ports.vaults.newest(params.workload, site=before)
        counts = tuple(dict.fromkeys([*call.recorded["counts"], *([newest.id] if newest is not None else [])]))
        return self._raise(Fence(params.workload, Epoch(epoch + 2), before, counts, back, call.now_s), params, call)

    def _raise(self, fence: Fence, params: TakeOverParams, call: Call) -> Outcome:
        outcome = raise_fence(fence, voters=voters(self._ports.vaults, params.voters), stamp=call.stamp)
        match outcome:
            case Raised():
                return Done({"epoch": outcome.fence.epoch, "holder": outcome.fence.holder, "recorded": list(outcome.recorded)})
            case Superseded():
                return Failed(outcome.happened, "Somebody else decided first. Look at `bridgehead watch` and decide again.")
            case NoMajority():
                raise Transient(outcome.happened, tried="raise a fence", subject=params.workload, remedy=outcome.remedy)
            case _:
                assert_never(outcome)

    def _standing(self, params: TakeOverParams) -> Standing:
        return fence_in_force(params.workload, voters=voters(self._ports.vaults, params.voters))


def _wanted(params: TakeOverParams, call: Call) -> Fence:
    recorded: Json = call.recorded
    epoch = Epoch(recorded["epoch"] + 1)
    return Fence(params.workload, epoch, params.holder, tuple(recorded["counts"]), recorded["opened_by"], call.now_s)


class CloseParams(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """``recovery.close``: the site that has returned, and the workloads that it may no longer write."""

    site: SiteId
    workloads: tuple[WorkloadId, ...]
    voters: tuple[SiteId, ...]


class CloseSite:
    """A site that has returned gets every fence that was raised meanwhile, before anything else is done with it (J06).

    While it is away, the step waits. Nothing that it wrote in a closed epoch counts from here on, at its own vault too.
    """

    name = "recovery.close"
    params_type = CloseParams
    undoable = False

    def __init__(self, ports: Switchboard) -> None:
        self._ports = ports

    def precheck(self, params: CloseParams, call: Call) -> Outcome:
        """Someone else holds each of them."""
        for workload in params.workloads:
            fence = self._standing(workload, params).fence
            if fence is None or fence.holder == params.site:
                holder = "nobody" if fence is None else fence.holder
                return Failed(
                    f"the right to write {workload} is with {holder}: {params.site} is not to be closed for it", "Fail over first."
                )
        return Done()

    def apply(self, params: CloseParams, call: Call) -> Outcome:
        """Record what was decided there. A site that does not answer yet is waited for."""
        for workload in params.workloads:
            fence = self._standing(workload, params).fence
            if fence is None:
                continue
            outcome = raise_fence(fence, voters=voters(self._ports.vaults, params.voters), stamp=call.stamp)
            if isinstance(outcome, Raised) and params.site in outcome.missing:
                raise Transient(outcome.missing[params.site], tried="close a site that was lost", subject=f"{workload} at {params.site}")
        return Done({"closed_s": call.now_s})

    def verify(self, params: CloseParams, call: Call) -> Outcome:
        """Its own vault says so."""
        for workload in params.workloads:
            there = self._ports.vaults.newest_fence(workload, site=params.site)
            fence = self._standing(workload, params).fence
            if there is None or fence is None or there.epoch != fence.epoch:
                return Failed(f"{params.site} does not know the fence of {workload} yet", "It is recorded again.")
        return Done({"closed_s": call.now_s})

    def undo(self, params: CloseParams, call: Call) -> Outcome:
        """Nothing to take back: what was decided stays decided."""
        return Done()

    def _standing(self, workload: WorkloadId, params: CloseParams) -> Standing:
        return fence_in_force(workload, voters=voters(self._ports.vaults, params.voters))
