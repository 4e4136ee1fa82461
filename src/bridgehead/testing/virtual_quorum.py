"""Virtual quorum: controllers on both sides of partitions want the same epoch, under delays, losses, freezes and voters that are gone.

The real protocol (``recovery.quorum.elect``) runs against voters in memory; each message takes its own time, so that calls that were given
up still arrive. What counts is judged from the voters alone, after the fact.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from functools import partial
from typing import Final

import msgspec

from bridgehead.kernel.errors import Conflict, PortError, Transient
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.ballot import Ballot
from bridgehead.model.snapshot import Fence
from bridgehead.recovery.quorum import Answer, Cast, FenceOutcome, Look, Outbid, Raised, Record, Request, Steps, elect, majority

WORKLOAD: Final = WorkloadId("train")
VOTERS: Final = (SiteId("site-a"), SiteId("site-b"), SiteId("witness"))
Protocol = Callable[..., Steps[FenceOutcome | Outbid]]
"""``elect``, or one with a planted fault."""
CALL_LIMIT_S: Final = 1.0
"""After this long without an answer a controller takes the voter for out of reach; the call may still arrive."""


class Voter:
    """What ``vault.ballots`` and ``vault.fences`` do, in memory."""

    def __init__(self) -> None:
        self.ballots: list[Ballot] = []
        self.fences: list[Fence] = []
        self.lost = False

    def answer(self, request: Request) -> Answer:
        """Carry a call out."""
        match request:
            case Look():
                return tuple(self.fences)
            case Cast(ballot=ballot):
                self.ballots.append(ballot)
                return tuple(one for one in self.ballots if one.epoch == ballot.epoch)
            case Record(fence=fence):
                same = [one for one in self.fences if one.epoch == fence.epoch]
                if same:
                    return same[0] if same[0].opened_by == fence.opened_by else Conflict("taken", tried="record", subject="fence")
                if fence.epoch != len(self.fences) + 1:
                    return Conflict("not the next one", tried="record", subject="fence")
                self.fences.append(fence)
                return fence


class Told(msgspec.Struct, frozen=True):
    """What a controller was told, and when it asked and heard."""

    at_s: float
    by: str
    asked: Fence
    outcome: FenceOutcome | Outbid


class VirtualQuorum:
    """One seed: chance decides who wants what when, who is cut off from whom, and how long everything takes."""

    def __init__(self, seed: int, *, controllers: int = 2, length_s: float = 60.0, protocol: Protocol = elect) -> None:
        self.chance = random.Random(seed)
        self._protocol = protocol
        self.voters = {name: Voter() for name in VOTERS}
        self.told: list[Told] = []
        self._now_s = 0.0
        self._length_s = length_s
        self._agenda: list[tuple[float, int, Callable[[], None]]] = []
        self._number = 0
        self._cuts: set[tuple[str, SiteId]] = set()
        self._names = [f"controller-{number}" for number in range(controllers)]
        self._frozen_until_s = dict.fromkeys(self._names, 0.0)
        self._holders = dict(zip(self._names, (SiteId("site-a"), SiteId("site-b")) * controllers, strict=False))

    def run(self) -> None:
        """Play until the end; partitions are healed and every controller has tried once more by then."""
        for name in self._names:
            self._at(self.chance.uniform(0.0, 2.0), partial(self._try, name))
        for _ in range(self.chance.randint(0, 8)):
            self._at(self.chance.uniform(0.0, self._length_s), self._cut)
        for _ in range(self.chance.randint(0, 3)):
            self._at(self.chance.uniform(0.0, self._length_s), self._freeze)
        if self.chance.random() < 0.2:  # one voter, never two: a majority stays
            self._at(self.chance.uniform(0.0, self._length_s), lambda: setattr(self.voters[self.chance.choice(VOTERS)], "lost", True))
        self._at(self._length_s, self._cuts.clear)
        while self._agenda:
            self._now_s, _, happen = heapq.heappop(self._agenda)
            happen()

    def faults(self) -> list[str]:
        """What must never be; empty when all held."""
        found = []
        opened: dict[int, set[str]] = {}
        for name, voter in self.voters.items():
            if [fence.epoch for fence in voter.fences] != list(range(1, len(voter.fences) + 1)):
                found.append(f"{name} has a gap")
            for fence in voter.fences:
                opened.setdefault(fence.epoch, set()).add(fence.opened_by)
        for told in self.told:
            if isinstance(told.outcome, Raised):
                opened.setdefault(told.outcome.fence.epoch, set()).add(told.outcome.fence.opened_by)
                kept = [name for name, voter in self.voters.items() if told.outcome.fence in voter.fences]
                if len(kept) < majority(len(VOTERS)):
                    found.append(f"{told.by} was told that epoch {told.outcome.fence.epoch} is its own, and {kept} have it")
        found += [f"epoch {epoch} was opened by {sorted(who)}" for epoch, who in opened.items() if len(who) > 1]
        return found

    @property
    def raised(self) -> int:
        """Fences that somebody was told are in force."""
        return len({told.outcome.fence.epoch for told in self.told if isinstance(told.outcome, Raised)})

    def count(self, kind: type[msgspec.Struct]) -> int:
        """How often controllers were told this."""
        return sum(isinstance(told.outcome, kind) for told in self.told)

    def _at(self, at_s: float, happen: Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._agenda, (at_s, self._number, happen))

    def _cut(self) -> None:
        """A controller loses one or two voters for a while."""
        name = self.chance.choice(self._names)
        cut = {(name, voter) for voter in self.chance.sample(VOTERS, self.chance.randint(1, 2))}
        self._cuts |= cut
        self._at(self._now_s + self.chance.expovariate(1 / 10.0), lambda: self._cuts.difference_update(cut))

    def _freeze(self) -> None:
        """As by SIGSTOP: it goes on later where it was."""
        self._frozen_until_s[self.chance.choice(self._names)] = self._now_s + self.chance.uniform(0.1, 20.0)

    def _try(self, name: str) -> None:
        """Want the next epoch, as this controller sees it: it may well be behind."""
        seen = [len(self.voters[voter].fences) for voter in VOTERS if (name, voter) not in self._cuts] or [0]
        epoch = Epoch(max(seen) + 1)
        fence = Fence(WORKLOAD, epoch, self._holders[name], (), f"{name}/{self._number}", self._now_s)
        self._go_on(name, fence, self._protocol(fence, VOTERS, proposer=f"{name}/{self._number}"), None)

    def _go_on(self, name: str, fence: Fence, steps: Steps[FenceOutcome | Outbid], answer: Answer | None) -> None:
        if self._now_s < self._frozen_until_s[name]:
            self._at(self._frozen_until_s[name], lambda: self._go_on(name, fence, steps, answer))
            return
        try:
            request = next(steps) if answer is None else steps.send(answer)
        except StopIteration as end:
            self.told.append(Told(self._now_s, name, fence, end.value))
            self._again(name)
        except Conflict:  # it is behind
            self._again(name)
        else:
            self._send(name, fence, steps, request)

    def _again(self, name: str) -> None:
        if self._now_s < self._length_s:
            self._at(self._now_s + self.chance.expovariate(1 / 3.0), lambda: self._try(name))

    def _send(self, name: str, fence: Fence, steps: Steps[FenceOutcome | Outbid], request: Request) -> None:
        """There and back, each with its own delay; what is late is taken for lost, and arrives all the same."""
        voter = self.voters[request.voter]
        there_s, back_s = self._delay_s(), self._delay_s()
        cut = (name, request.voter) in self._cuts
        answers: list[Answer] = []

        def arrive() -> None:
            if not voter.lost:
                answers.append(voter.answer(request))

        if not cut or self.chance.random() < 0.3:  # a partition may hold a message back rather than drop it
            self._at(self._now_s + there_s + (self.chance.uniform(0.0, 10.0) if cut else 0.0), arrive)
        in_time = not cut and not voter.lost and there_s + back_s < CALL_LIMIT_S
        heard_s = self._now_s + (there_s + back_s if in_time else CALL_LIMIT_S)
        nothing: PortError = Transient("out of reach", tried="ask", subject=request.voter)
        self._at(heard_s, lambda: self._go_on(name, fence, steps, answers[0] if in_time and answers else nothing))

    def _delay_s(self) -> float:
        return self.chance.expovariate(1 / 0.02) if self.chance.random() < 0.9 else self.chance.expovariate(1 / 1.0)


def play(seed: int, *, controllers: int = 2, protocol: Protocol = elect) -> VirtualQuorum:
    """A finished run."""
    quorum = VirtualQuorum(seed, controllers=controllers, protocol=protocol)
    quorum.run()
    return quorum
