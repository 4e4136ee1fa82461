"""Invariants of a simulated world: what must hold at every moment, whatever fails. Looked at after every event.

Words. A trainer *counts* while it computes steps and a snapshot that it saved now would count at the vault of its own site. A *writer*
is a trainer that counts. Where sites vote, it counts while what it saves is in the epoch that a majority has decided for its site.
These checks share no code with actions or drivers; they only look at the world.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from bridgehead.kernel.ids import Epoch, RunId, WorkloadId
from bridgehead.simulate.trainer import Trainer
from bridgehead.simulate.world import World


class Violation(msgspec.Struct, frozen=True):
    """A rule that was broken. ``rule`` is the name of the check."""

    at_s: float
    rule: str
    text: str


def writers(world: World) -> dict[str, list[Trainer]]:
    """The trainers that count now, by workload."""
    found: dict[str, list[Trainer]] = {}
    for workload in world.history:
        found[workload] = [trainer for trainer in world.trainers(workload) if trainer.computing and _counts(world, workload, trainer)]
    return found


def _counts(world: World, workload: WorkloadId, trainer: Trainer) -> bool:
    """With voters, a majority says who may write, whatever a single vault has heard of it."""
    if not world.blueprint.voters:
        return world.vaults[trainer.plan.site].counts(workload, trainer.epoch)
    decided = world.decided(workload)
    return trainer.epoch == 0 if decided is None else (trainer.epoch, trainer.plan.site) == (decided.epoch, decided.holder)


class Invariants:
    """Call ``look`` after every event; ``violations`` holds each broken rule once per subject."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._effects_seen = 0
        self._newest_epoch: dict[tuple[str, RunId], Epoch] = {}
        self._told: set[tuple[str, str]] = set()
        self.violations: list[Violation] = []

    def look(self) -> None:
        """Check everything that can be broken in one moment."""
        self._tell("one-writer", self._two_writers())
        self._tell("decided-first", self._undecided())
        self._tell("serving-capacity", self._serving())
        self._tell("streams", self._streams())
        if self._effects_seen < len(self._world.effects):
            self._tell("epochs", self._older_effects())

    def _tell(self, rule: str, broken: Iterable[str]) -> None:
        for text in broken:
            if (rule, text) not in self._told:
                self._told.add((rule, text))
                self.violations.append(Violation(self._world.now_s, rule, text))

    def _two_writers(self) -> Iterator[str]:
        """Never two writers that count (design rule 8; J05, J06)."""
        for workload, counting in writers(self._world).items():
            if len(counting) > 1:
                names = ", ".join(f"{trainer.plan.job} at {trainer.plan.site} in epoch {trainer.epoch}" for trainer in counting)
                yield f"{workload}: {len(counting)} trainers count: {names}"

    def _undecided(self) -> Iterator[str]:
        """Where sites vote, nobody computes in an epoch before a majority has decided it (design rule 8)."""
        for workload in self._world.history if self._world.blueprint.voters else ():
            decided = self._world.decided(workload)
            for trainer in self._world.trainers(workload):
                if trainer.computing and trainer.epoch > (decided.epoch if decided is not None else 0):
                    yield f"{workload}: {trainer.plan.job} at {trainer.plan.site} computes in epoch {trainer.epoch}, which nobody decided"

    def _serving(self) -> Iterator[str]:
        """Weights in force point only to backends that are up, warm and have the right model, and enough capacity stands behind them.
        What a fault killed is the fault's doing, and so are the weights of a proxy that forgot them, until it is told again."""
        for service, proxy in self._world.proxies.items():
            excused = proxy.forgotten
            for site, weight in proxy.in_force.items():
                if weight == 0 or proxy.forgotten:
                    continue
                backend = self._world.backend(service, site)
                if backend.died:
                    excused = True
                elif not (backend.up and backend.warm and backend.model == proxy.plan.model):
                    state = "is down" if not backend.up else "is cold" if not backend.warm else f"has model {backend.model}"
                    yield f"{service}: {weight} % go to {site}, whose backend {state}"
            if not excused and proxy.capacity_rps() < proxy.plan.floor_rps:
                yield f"{service}: {proxy.capacity_rps():g} of {proxy.plan.floor_rps:g} requests per second can be served"

    def _streams(self) -> Iterator[str]:
        """No open stream is cut by what the run does."""
        for service, proxy in self._world.proxies.items():
            if proxy.streams_cut:
                yield f"{service}: {proxy.streams_cut} open streams were cut"

    def _older_effects(self) -> Iterator[str]:
        """No effect by an older driving epoch after a newer one, at the same place (J13)."""
        for effect in self._world.effects[self._effects_seen :]:
            newest = self._newest_epoch.get((effect.place, effect.run), Epoch(0))
            if effect.epoch < newest:
                yield f"{effect.place}: an effect of epoch {effect.epoch} after one of epoch {newest}"
            self._newest_epoch[effect.place, effect.run] = max(newest, effect.epoch)
        self._effects_seen = len(self._world.effects)
