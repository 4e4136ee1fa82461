"""A crash, an error or a full disk at every call that tiers, retention, forgetting, healing and repair make of a store (R6, R7, V19, V22).

Whatever happened: what was there before is there whole in at least one vault, both vaults verify, and the next run completes.
"""

from __future__ import annotations

import contextlib
import itertools
import random
from collections.abc import Callable

import pytest

from bridgehead.app.vault_copies import Replication
from bridgehead.app.vault_policy import retain
from bridgehead.app.vault_tiers import tier, tiers_of
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.ports.blobs import Blobs
from bridgehead.testing.faulty_blobs import Crashed, Fault, FaultKind, FaultyBlobs
from bridgehead.testing.memory_blobs import MemoryBlobs
from bridgehead.vault import Vault
from bridgehead.vault.access import Reading, note_restore
from bridgehead.vault.retain import Policy

TRAIN, DAY_S = WorkloadId("train"), 86_400.0
NOW_S = 100 * DAY_S
KINDS = [FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.IO_ERROR, FaultKind.LOST_ANSWER, FaultKind.NO_SPACE]
MAX_CALLS = 400


def files(step: int) -> dict[str, bytes]:
    return {"frozen.bin": random.Random(0).randbytes(30_000), "head.bin": random.Random(step).randbytes(40_000)}


class World:
    """A hot vault with step 1, which is old, and step 2, which is new; a warm one beside it, empty."""

    def __init__(self) -> None:
        self.hot, self.warm = MemoryBlobs(), MemoryBlobs()
        Vault.init(self.warm, now_s=lambda: 1.0)
        Vault.init(self.hot, now_s=lambda: 1.0)
        self.ids = [self._save(1, NOW_S - 50 * DAY_S), self._save(2, NOW_S - 3_600.0)]

    def _save(self, step: int, at_s: float) -> SnapshotId:
        vault = Vault.open(self.hot, now_s=lambda: at_s)
        return vault.save(files(step), workload=TRAIN, step=step, epoch=Epoch(0), site=SiteId("a")).id

    def where(self, step: int) -> list[str]:
        """The vaults that hold a step to the last byte; what one holds otherwise is an error."""
        found = []
        for name, blobs in (("hot", self.hot), ("warm", self.warm)):
            vault = Vault.open(blobs)
            if vault.find(self.ids[step - 1]) is not None:
                assert vault.load(self.ids[step - 1]) == files(step)
                found.append(name)
        return found

    def check(self, *needed: int) -> None:
        for blobs in (self.hot, self.warm):
            assert Vault.open(blobs).verify().damages == ()
        for step in needed:
            assert self.where(step), f"step {step} is nowhere"


def run_tiers(hot: Blobs, warm: Blobs) -> None:
    tiers = tiers_of("hot", Vault.open(hot), colder=[("warm", Vault.open(warm))], limits_s=[7 * DAY_S])
    done = tier(tiers, [TRAIN], dry_run=False, now_s=NOW_S)
    assert [one.failed for one in done.moves if one.failed] == []


def run_retain(hot: Blobs, warm: Blobs) -> None:
    retain(Vault.open(hot), [TRAIN], Policy(last=1), dry_run=False, now_s=NOW_S)


def run_forget(hot: Blobs, warm: Blobs) -> None:
    vault = Vault.open(hot)
    for name in vault.names(TRAIN):
        if name.step == 1:
            vault.forget(name.id)


def run_heal(hot: Blobs, warm: Blobs) -> None:
    replication = Replication(Vault.open(hot), Vault.open(warm), heal=True)
    done = replication.run(replication.plan([TRAIN])[0], say=lambda _: None)
    assert done.failed == ()


def run_repair(hot: Blobs, warm: Blobs) -> None:
    Vault.open(hot).repair()


def as_it_is(world: World) -> None:
    """Nothing to prepare."""


def moved_down(world: World) -> None:
    """The old one is warm, and was restored from there just now."""
    run_tiers(world.hot, world.warm)
    note_restore(Vault.open(world.warm).place.objects, world.ids[0], Reading(NOW_S - 60.0, 70_000, 0.1))


def receipted(world: World) -> None:
    Vault.open(world.hot).receipt(world.ids[0], site=SiteId("a"))


def without_index(world: World) -> None:
    for key in list(world.hot.list("index/")):
        world.hot.delete(key)


def gone_down(world: World) -> None:
    assert (world.where(1), world.where(2)) == (["warm"], ["hot"])


def come_up(world: World) -> None:
    assert (world.where(1), world.where(2)) == (["hot", "warm"], ["hot"])


def gone(world: World) -> None:
    assert (world.where(1), world.where(2)) == ([], ["hot"])
    assert list(world.hot.list("receipts/")) == []


def in_both(world: World) -> None:
    assert (world.where(1), world.where(2)) == (["hot", "warm"], ["hot", "warm"])


def only_hot(world: World) -> None:
    assert (world.where(1), world.where(2)) == (["hot"], ["hot"])


Act = Callable[[Blobs, Blobs], None]
State = Callable[[World], None]
ACTIONS: dict[str, tuple[State, Act, State, tuple[int, ...]]] = {
    "tier-down": (as_it_is, run_tiers, gone_down, (1, 2)),
    "tier-up": (moved_down, run_tiers, come_up, (1, 2)),
    "retain": (receipted, run_retain, gone, (2,)),
    "forget": (receipted, run_forget, gone, (2,)),
    "heal": (as_it_is, run_heal, in_both, (1, 2)),
    "repair": (without_index, run_repair, only_hot, ()),
}
"""How the world is before, what is done, how it is in the end, and which steps are whole somewhere at every moment."""
CASES = [(name, faulty) for name in ACTIONS for faulty in ("hot", "warm") if faulty == "hot" or name.startswith(("tier", "heal"))]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("name", "faulty"), CASES)
def test_broken_off_at_every_call_it_loses_nothing_and_the_next_run_completes(name: str, faulty: str, kind: FaultKind) -> None:
    prepare, act, wanted, needed = ACTIONS[name]
    hits = 0
    for at in itertools.count(2):  # the first call opens the vault
        assert at < MAX_CALLS
        world = World()
        prepare(world)
        stores: dict[str, Blobs] = {"hot": world.hot, "warm": world.warm}
        broken = stores[faulty] = FaultyBlobs(stores[faulty], [Fault(kind, at)])
        with contextlib.suppress(Crashed, BridgeheadError, AssertionError):  # a move that failed by itself is told in what came of it
            act(stores["hot"], stores["warm"])
        if broken.calls < at:
            break
        hits += not broken.missed
        if needed:
            world.check(*needed)
        act(world.hot, world.warm)
        wanted(world)
        world.check(2)
    assert hits >= (1 if kind is FaultKind.NO_SPACE else 8), "the loop must have gone through the calls"
