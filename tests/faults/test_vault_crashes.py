"""A crash, an error or a full disk at every call that the vault makes of its store (V12, V16, V17, V19, V20; rules 3 and 8)."""

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Permanent, PortError
from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp
from bridgehead.ports.blobs import Blobs
from bridgehead.testing.faulty_blobs import Crashed, Fault, FaultKind, FaultyBlobs, Operation
from bridgehead.vault import Damaged, SiteVaults, Vault

A, B, TRAIN = SiteId("a"), SiteId("b"), WorkloadId("train")
STAMP = Stamp(run=RunId("run-1"), step=StepId("s"), attempt=1, epoch=Epoch(1))
OLD = {"model.bin": b"old" * 1000, "kept.bin": b"kept" * 1000}
NEW = {"model.bin": b"new" * 1000, "kept.bin": b"kept" * 1000, "more.bin": b"more" * 1000}
MAX_CALLS = 200


@pytest.fixture(params=[False, True], ids=["plain", "codec"], autouse=True)
def codec(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Every test runs on vaults that store blocks as they are, and on vaults that encode them."""
    monkeypatch.setattr(World, "codec", request.param)
    return bool(request.param)


class World:
    """Two vaults; the source holds step 1 and, except for ``save``, step 2."""

    codec = False

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for site in (A, B):
            Vault.init(self.store(site), codec=self.codec)
        self.old = self.vault(A).save(OLD, workload=TRAIN, step=1, epoch=Epoch(0), site=A).id
        self.sites().replicate(self.old, source=A, target=B, budget_s=9.0, stamp=STAMP)

    def store(self, site: SiteId) -> LocalBlobs:
        return LocalBlobs(LocalBlobsOptions(str(self.folder / site)))

    def vault(self, site: SiteId) -> Vault:
        return Vault.open(self.store(site))

    def sites(self, **stores: Blobs) -> SiteVaults:
        return SiteVaults({site: Vault.open(stores.get(site, self.store(site))) for site in (A, B)})

    def save(self, vault: Vault) -> str:
        return vault.save(NEW, workload=TRAIN, step=2, epoch=Epoch(0), site=A).id

    def check_old(self) -> None:
        """Whatever happened: both vaults verify, and the earlier snapshot is there to the last byte."""
        for site in (A, B):
            vault = self.vault(site)
            assert vault.verify().damages == ()
            assert vault.load(self.old) == OLD
            newest = vault.newest(TRAIN)
            assert newest is not None
            assert vault.load(newest.id) in (OLD, NEW)


def do_save(world: World, store: Blobs) -> None:
    world.save(Vault.open(store))


def check_save(world: World) -> None:
    newest = world.vault(A).newest(TRAIN)
    assert newest is not None
    assert newest.step == 2
    assert world.vault(A).load(newest.id) == NEW


def do_replicate(world: World, store: Blobs) -> None:
    sites = world.sites(b=store)
    newest = sites.newest(TRAIN, site=A)
    assert newest is not None
    while not sites.replicate(newest.id, source=A, target=B, budget_s=0.0, stamp=STAMP).done:
        pass


def check_replicate(world: World) -> None:
    newest = world.vault(B).newest(TRAIN)
    assert newest is not None
    assert newest.step == 2
    assert world.vault(B).load(newest.id) == NEW


def do_fence(world: World, store: Blobs) -> None:
    fence = Fence(TRAIN, Epoch(1), B, (world.old,), "run-1", 1.0)
    assert world.sites(b=store).fence(fence, site=B, stamp=STAMP) == fence


def check_fence(world: World) -> None:
    fence = world.vault(B).newest_fence(TRAIN)
    assert fence is not None
    assert fence.counts == (world.old,)


def do_receipt(world: World, store: Blobs) -> None:
    assert world.sites(b=store).receipt(world.old, site=B, stamp=STAMP).snapshot == world.old


def check_receipt(world: World) -> None:
    assert [key for key in world.store(B).list("receipts/")] == [f"receipts/b/{world.old}.json"]


OPERATIONS: dict[str, tuple[Callable[[World, Blobs], None], Callable[[World], None], SiteId]] = {
    "save": (do_save, check_save, A),
    "replicate": (do_replicate, check_replicate, B),
    "fence": (do_fence, check_fence, B),
    "receipt": (do_receipt, check_receipt, B),
}


@pytest.mark.parametrize("kind", [FaultKind.CRASH_BEFORE, FaultKind.CRASH_AFTER, FaultKind.IO_ERROR, FaultKind.LOST_ANSWER])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_fault_at_every_call(tmp_path: Path, operation: str, kind: FaultKind) -> None:
    act, check, site = OPERATIONS[operation]
    for at in itertools.count(1):
        assert at < MAX_CALLS
        world = World(tmp_path / str(at))
        if operation == "replicate":
            world.save(world.vault(A))
        store = FaultyBlobs(world.store(site), [Fault(kind, at)])
        try:
            act(world, store)
            failed = False
        except (Crashed, PortError):
            failed = True
        if store.missed:
            assert not failed
            break
        assert failed, "the fault was swallowed"
        world.check_old()
        act(world, world.store(site))  # the next process does the same again
        check(world)
        world.check_old()
    assert at > 4, "the loop must have gone through the operation's calls"


@pytest.mark.parametrize("operation", OPERATIONS)
def test_V19_no_space_at_every_write(tmp_path: Path, operation: str) -> None:
    act, check, site = OPERATIONS[operation]
    for at in itertools.count(1):
        world = World(tmp_path / str(at))
        if operation == "replicate":
            world.save(world.vault(A))
        store = FaultyBlobs(world.store(site), [Fault(FaultKind.NO_SPACE, at, Operation.PUT)])
        try:
            act(world, store)
            failed = ""
        except Permanent as error:
            failed = error.happened
        if store.missed:
            break
        assert "no space" in failed
        world.check_old()
        act(world, store)  # the same process goes on when there is space again
        check(world)
    assert at >= 2


def test_V20_torn_write_of_a_store_without_sync_is_never_the_newest(tmp_path: Path) -> None:
    noticed = []
    for at in itertools.count(1):
        world = World(tmp_path / str(at))
        store = FaultyBlobs(world.store(A), [Fault(FaultKind.TORN_WRITE, at, Operation.PUT)])
        files = {"model.bin": b"a" * 1000, "more.bin": b"b" * 1000}
        try:
            Vault.open(store).save(files, workload=TRAIN, step=2, epoch=Epoch(0), site=A)
            noticed.append(False)
        except Damaged:
            noticed.append(True)
        if store.missed:
            break
        vault = world.vault(A)
        newest = vault.newest(TRAIN)
        assert newest is not None
        assert (newest.id == world.old) == noticed[-1]
        assert len(vault.survey(TRAIN).passed_over) <= 1
        assert vault.load(newest.id) == (OLD if noticed[-1] else files)
    assert noticed == [True, True, True, False, True, False], "session, pack, index, a mark without content, record; and none"


def test_V22_torn_block_is_healed_by_saving_again(tmp_path: Path) -> None:
    world = World(tmp_path)
    for at in (2, 3):  # its pack, and the index
        store = FaultyBlobs(world.store(A), [Fault(FaultKind.TORN_WRITE, at, Operation.PUT)])
        with pytest.raises(Damaged):
            do_save(world, store)
        assert store.missed == []
    do_save(world, world.store(A))
    check_save(world)
    world.check_old()


SAVER = """
import os, sys
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.vault import Vault
vault = Vault.open(LocalBlobs(LocalBlobsOptions(sys.argv[1])))
step = int(sys.argv[2])
print("ready", flush=True)
while True:
    step += 1
    files = {name: step.to_bytes(8, "big") * 60_000 for name in ("w.bin", "m.bin", "v.bin", "w2.bin")}
    files = {name: name.encode() + data for name, data in files.items()}
    vault.save(files, workload="train", step=step, epoch=0, site="a")
    print(step, flush=True)
"""


def test_V12_saving_process_killed_at_random_moments(tmp_path: Path, codec: bool) -> None:
    store = LocalBlobs(LocalBlobsOptions(str(tmp_path)))
    Vault.init(store, codec=codec)
    chance = random.Random(11)
    last, lives = 0, 0
    while lives < 10 or (last == 0 and lives < 100):
        lives += 1
        with subprocess.Popen([sys.executable, "-c", SAVER, str(tmp_path), str(last)], stdout=subprocess.PIPE, text=True) as child:
            assert child.stdout is not None
            child.stdout.readline()
            time.sleep(chance.uniform(0.0, 0.03 * lives))  # the moment of death is what varies; a busy machine needs longer lives
            os.kill(child.pid, signal.SIGKILL)
            reported = [int(line) for line in child.stdout.read().split()]
        vault = Vault.open(LocalBlobs(LocalBlobsOptions(str(tmp_path))))
        newest = vault.newest(TRAIN)
        last = newest.step if newest else 0
        assert last >= max(reported, default=0), "what save returned from is there"
        survey = vault.survey(TRAIN)
        assert survey.passed_over == (), "a record comes only after all of its blocks"
        assert [info.step for info in survey.usable] == list(range(last, 0, -1))
        assert vault.verify().damages == ()
        if newest:
            assert vault.load(newest.id)["w.bin"] == b"w.bin" + last.to_bytes(8, "big") * 60_000
    assert last > 0
