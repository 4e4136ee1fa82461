"""Quorum: a fence is in force only when a majority of the voters recorded it, and only one can ever be (J05, J06; ADR 17).

Voters are the vaults of the two sites and the witness. They decide nothing: they keep what was written, create-only, and show it. The
controllers decide with Disk Paxos (Gafni and Lamport, 2003): write a bid at each voter, *then* read the others' ballots there; after a
majority without a higher bid, vote for the fence that the highest earlier vote names, or for one's own; a vote that a majority keeps
without a higher bid is decided for ever. Whoever is frozen in between, cut off, or late, writes ballots that decide nothing.

``elect`` is the protocol without any input or output: it yields what to ask of which voter. ``raise_fence`` asks real ones.
"""

from __future__ import annotations

import random
import secrets
from collections import Counter
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import TypeVar, assert_never

import msgspec

from bridgehead.kernel.errors import Conflict, PortError, Transient
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp
from bridgehead.ports.registers import FenceRegister

ROUNDS = 8
"""Bids of one call; a caller who is outbid so often tries again later."""


class Raised(msgspec.Struct, frozen=True, tag="raised"):
    """Decided for the caller, and recorded at a majority.

    Attributes:
        fence: as it was decided; a repeat finds what the first call wrote.
        recorded: voters that have it.
        missing: voters that do not have it yet, and why; a repeat of the call brings it there.
    """

    fence: Fence
    recorded: tuple[SiteId, ...]
    missing: dict[SiteId, str]


class Superseded(msgspec.Struct, frozen=True, tag="superseded"):
    """Somebody else opened that epoch, or a later one: ``fence``. The caller has lost for good and must decide anew."""

    fence: Fence

    @property
    def happened(self) -> str:
        """For people."""
        return f"{self.fence.opened_by} opened epoch {self.fence.epoch} of {self.fence.workload} for {self.fence.holder}"


class NoMajority(msgspec.Struct, frozen=True, tag="no-majority"):
    """Too few voters answered: nothing is in force that was not before. Repeating may help when they come back."""

    reached: tuple[SiteId, ...]
    missing: dict[SiteId, str]

    @property
    def happened(self) -> str:
        """For people."""
        voters = len(self.reached) + len(self.missing)
        seen = ", ".join(self.reached) or "none"
        why = "; ".join(f"{voter}: {text}" for voter, text in self.missing.items())
        return f"no majority: {majority(voters)} of {voters} voters are needed, reached {seen} ({why})"

    @property
    def remedy(self) -> str:
        """For people."""
        return (
            "This side may be the one that is cut off: it must not promote anything. Bring a second voter (the witness or the other site) "
            "back within reach, then try again."
        )


class Outbid(msgspec.Struct, frozen=True, tag="outbid"):
    """Another controller bids at the same moment."""


FenceOutcome = Raised | Superseded | NoMajority


class Look(msgspec.Struct, frozen=True):
    """Read a voter's fences."""

    voter: SiteId
    workload: WorkloadId


class Cast(msgspec.Struct, frozen=True):
    """Write a ballot at a voter, then read all."""

    voter: SiteId
    ballot: Ballot


class Record(msgspec.Struct, frozen=True):
    """Record a decided fence at a voter."""

    voter: SiteId
    fence: Fence


Request = Look | Cast | Record
Answer = tuple[Fence, ...] | tuple[Ballot, ...] | Fence | PortError
T = TypeVar("T")
Steps = Generator[Request, Answer, T]


class Standing(msgspec.Struct, frozen=True):
    """What is in force, as a majority tells it.

    Attributes:
        fence: the newest, None before the first one.
        unread: voters that did not answer, and why; they can only lag behind.
    """

    fence: Fence | None
    unread: dict[SiteId, str]


def majority(voters: int) -> int:
    """How many of them decide."""
    return voters // 2 + 1


def raise_fence(fence: Fence, *, voters: Mapping[SiteId, FenceRegister], stamp: Stamp) -> FenceOutcome:
    """Decide that ``fence`` opens its epoch, and record it at all voters that can be reached. Repeating is safe at any time, by anybody.

    Raises:
        Conflict: the epoch is not the next one; or a voter has seen a newer driver of the run.
        Transient: another controller bids at the same moment; wait a random moment.
    """
    # Never the same twice: also two control planes that were restored from one backup must not take each other's bids for their own.
    proposer = f"{stamp.key}/{stamp.epoch}/{secrets.token_hex(8)}"
    outcome = _ask(elect(fence, tuple(voters), proposer=proposer), voters, stamp)
    if isinstance(outcome, Outbid):
        raise Transient(
            "another controller bids for the same epoch at this moment",
            tried="raise a fence",
            subject=f"epoch {fence.epoch} of {fence.workload} for {fence.holder}",
            retry_after_s=random.uniform(0.1, 1.0),
        )
    return outcome


def fence_in_force(workload: WorkloadId, *, voters: Mapping[SiteId, FenceRegister]) -> Standing:
    """The newest fence. Raises Transient when no majority answers: what cannot be seen is not "none" (design rule 7)."""
    seen: list[Fence] = []
    unread: dict[SiteId, str] = {}
    for voter, register in voters.items():
        try:
            seen += register.fences(workload)[-1:]
        except PortError as error:
            unread[voter] = error.happened
    if len(voters) - len(unread) < majority(len(voters)):
        outcome = NoMajority(tuple(voter for voter in voters if voter not in unread), unread)
        raise Transient(outcome.happened, tried="see which epoch is in force", subject=workload, remedy=outcome.remedy)
    return Standing(max(seen, key=lambda fence: fence.epoch, default=None), unread)


def elect(fence: Fence, voters: Sequence[SiteId], *, proposer: str) -> Steps[FenceOutcome | Outbid]:
    """The protocol, voter by voter. Raises Conflict as ``raise_fence``."""
    held: dict[SiteId, tuple[Fence, ...]] = {}
    missing: dict[SiteId, str] = {}
    for voter in voters:
        answer = yield Look(voter, fence.workload)
        if isinstance(answer, PortError):
            missing[voter] = answer.happened
        else:
            held[voter] = _fences(answer)
    if len(held) < majority(len(voters)):
        return NoMajority(tuple(held), missing)
    known = _known(held, len(voters))
    newest = max(known, default=Epoch(0))
    if newest > fence.epoch:
        return Superseded(known[newest])
    if newest < fence.epoch - 1:
        raise Conflict(
            f"epoch {newest} is in force, so that the next one is {newest + 1}",
            tried="raise a fence",
            subject=f"epoch {fence.epoch} of {fence.workload} for {fence.holder}",
            remedy="Read which epoch is in force and decide again.",
        )
    decided = known.get(fence.epoch)
    if decided is None:
        result = yield from _decide(fence, voters, proposer)
        if not isinstance(result, Fence):
            return result
        decided = known[result.epoch] = result
    recorded, missing = yield from _install(decided, known, voters)
    if decided.opened_by != fence.opened_by:
        return Superseded(decided)
    if len(recorded) < majority(len(voters)):
        return NoMajority(tuple(recorded), missing)
    return Raised(decided, tuple(recorded), missing)


def _known(held: Mapping[SiteId, tuple[Fence, ...]], voters: int) -> dict[Epoch, Fence]:
    """The fence of each epoch. Raises Conflict where voters differ and no majority agrees: somebody raised one without a majority."""
    known: dict[Epoch, Fence] = {}
    for epoch in sorted({one.epoch for fences in held.values() for one in fences}):
        here = {voter: one for voter, fences in held.items() for one in fences if one.epoch == epoch}
        openers = Counter(one.opened_by for one in here.values())
        opener, holders = openers.most_common(1)[0]
        if len(openers) > 1 and holders < majority(voters):
            texts = "; ".join(f"{voter}: {one.opened_by} for {one.holder}" for voter, one in here.items())
            raise Conflict(
                f"the voters hold different fences for epoch {epoch} ({texts})",
                tried="see which epoch is in force",
                subject=next(iter(here.values())).workload,
                remedy="A fence was recorded at one site alone, without a majority. Bring all voters within reach, then try again; if it "
                "stays so, stop both writers and open the next epoch by hand for the one that shall go on.",
            )
        known[epoch] = next(one for one in here.values() if one.opened_by == opener)
    return known


def _decide(fence: Fence, voters: Sequence[SiteId], proposer: str) -> Steps[Fence | NoMajority | Outbid]:
    """Bid and vote until something is decided: the caller's fence, or the one that another one's vote may already have decided."""
    number = 1
    for _ in range(ROUNDS):
        bid = Ballot(fence.workload, fence.epoch, number, proposer, None)
        seen = yield from _poll(bid, voters)
        if isinstance(seen, NoMajority):
            return seen
        higher = max((ballot.number for ballot in seen if ballot.rank > bid.rank), default=0)
        if not higher:
            votes = [(ballot.rank, ballot.fence) for ballot in seen if ballot.fence is not None]
            chosen = max(votes, key=lambda vote: vote[0])[1] if votes else fence
            vote = msgspec.structs.replace(bid, fence=chosen)
            seen = yield from _poll(vote, voters)
            if isinstance(seen, NoMajority):
                return seen
            higher = max((ballot.number for ballot in seen if ballot.rank > vote.rank), default=0)
            if not higher:
                return chosen
        number = higher + 1
    return Outbid()


def _poll(ballot: Ballot, voters: Sequence[SiteId]) -> Steps[list[Ballot] | NoMajority]:
    """Cast it at each voter; what a majority showed after that. Stops early at a higher ballot: it could not win any more."""
    seen: list[Ballot] = []
    missing: dict[SiteId, str] = {}
    for voter in voters:
        answer = yield Cast(voter, ballot)
        if isinstance(answer, PortError):
            missing[voter] = answer.happened
            continue
        ballots = _ballots(answer)
        seen += ballots
        if any(other.rank > ballot.rank for other in ballots):
            return seen
    if len(voters) - len(missing) < majority(len(voters)):
        return NoMajority(tuple(voter for voter in voters if voter not in missing), missing)
    return seen


def _install(decided: Fence, known: Mapping[Epoch, Fence], voters: Sequence[SiteId]) -> Steps[tuple[list[SiteId], dict[SiteId, str]]]:
    """Bring every voter up to ``decided``, epoch by epoch. What it holds is read anew: others may be doing the same."""
    recorded: list[SiteId] = []
    missing: dict[SiteId, str] = {}
    for voter in voters:
        answer = yield Look(voter, decided.workload)
        if isinstance(answer, PortError):
            missing[voter] = answer.happened
            continue
        there = _fences(answer)
        newest = max((one.epoch for one in there), default=Epoch(0))
        problem = "" if decided.epoch > newest or decided in there else "it holds another fence for that epoch, raised without a majority"
        for epoch in map(Epoch, range(newest + 1, decided.epoch + 1)):
            if epoch not in known:
                problem = f"it lacks the fence of epoch {epoch}, which no voter that answered has"
                break
            answer = yield Record(voter, known[epoch])
            if isinstance(answer, PortError):
                problem = answer.happened
                break
        if problem:
            missing[voter] = problem
        else:
            recorded.append(voter)
    return recorded, missing


def _fences(answer: Iterable[Fence | Ballot] | Fence) -> tuple[Fence, ...]:
    assert not isinstance(answer, Fence)
    return tuple(one for one in answer if isinstance(one, Fence))


def _ballots(answer: Iterable[Fence | Ballot] | Fence) -> tuple[Ballot, ...]:
    assert not isinstance(answer, Fence)
    return tuple(one for one in answer if isinstance(one, Ballot))


def _ask(steps: Steps[T], voters: Mapping[SiteId, FenceRegister], stamp: Stamp) -> T:
    """Carry the protocol out on real voters. Raises Conflict when a ballot is refused: this driver was replaced."""
    try:
        request = next(steps)
        while True:
            request = steps.send(_answered(request, voters[request.voter], stamp))
    except StopIteration as end:
        result: T = end.value
        return result


def _answered(request: Request, register: FenceRegister, stamp: Stamp) -> Answer:
    try:
        match request:
            case Look(workload=workload):
                return register.fences(workload)
            case Cast(ballot=ballot):
                return register.cast(ballot, stamp=stamp)
            case Record(fence=fence):
                return register.record(fence, stamp=stamp)
            case _:
                assert_never(request)
    except Conflict as error:
        if isinstance(request, Cast):
            raise
        return error
    except PortError as error:
        return error
