"""Several shards save and restore one snapshot: all of it, or none; never a mixture (V10, V17, V18)."""

import itertools
import os
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save as tensor_file

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, Conflict, ErrorCode
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.vault import Vault
from bridgehead.vault.sharded_restore import MARKER
from bridgehead.vault.shards import PARTS_PREFIX, WAITING_S, PartSaved
from bridgehead.vault.sharing import Shard, Share, deal
from bridgehead.vault.sources import MemorySource

A, TRAIN = SiteId("a"), WorkloadId("train")


@pytest.fixture(params=[False, True], ids=["plain", "codec"])
def vault(tmp_path: Path, request: pytest.FixtureRequest) -> Vault:
    return Vault.init(blobs(tmp_path), codec=request.param)


def blobs(tmp_path: Path) -> LocalBlobs:
    return LocalBlobs(LocalBlobsOptions(str(tmp_path / "vault")))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "checkpoint"
    (made / "deep").mkdir(parents=True)
    for number, size in enumerate((3_000_000, 2_000_000, 1_500_000, 700_000, 10, 0)):
        (made / "deep" / f"{number}.bin").write_bytes(np.random.default_rng(number).bytes(size))
    os.link(made / "deep" / "0.bin", made / "again.bin")
    os.symlink("deep/1.bin", made / "link")
    (made / "closed").mkdir(mode=0o700)
    return made


def save(vault: Vault, what: object, shard: str, *, step: int = 1, **more: object) -> PartSaved:
    return vault.save_part(what, shard=Shard.parse(shard), workload=TRAIN, step=step, epoch=Epoch(0), site=A, **more)


def commit(vault: Vault, shards: int, *, step: int = 1, **more: object) -> str:
    return vault.commit_parts(workload=TRAIN, step=step, epoch=Epoch(0), shards=shards, **more).id


def parts(tmp_path: Path) -> list[str]:
    return list(blobs(tmp_path).list(PARTS_PREFIX))


@pytest.mark.parametrize("order", list(itertools.permutations((1, 2, 3))))
def test_last_shard_closes_what_one_save_would_have_made(vault: Vault, folder: Path, tmp_path: Path, order: tuple[int, ...]) -> None:
    saved = [save(vault, folder, f"{number}/3", context={"loss": "1", "by": str(number)}) for number in order]
    assert [one.snapshot is None for one in saved] == [True, True, False]
    assert [one.missing for one in saved] == [tuple(sorted(order[1:])), (order[2],), ()]
    closed = saved[2].snapshot
    assert vault.newest(TRAIN).id == closed.id == vault.save(folder, workload=TRAIN, step=1, epoch=Epoch(0), site=A).id
    assert closed.context["by"] == "1"
    assert parts(tmp_path) == []
    vault.restore(closed.id, to=tmp_path / "back")
    assert (tmp_path / "back" / "again.bin").samefile(tmp_path / "back" / "deep" / "0.bin")


def test_missing_shard_is_named_and_nothing_is_committed(vault: Vault, folder: Path) -> None:
    save(vault, folder, "1/4")
    save(vault, folder, "3/4")
    with pytest.raises(Conflict, match="shards 2, 4 of 4 have not stored any share"):
        commit(vault, 4)
    assert vault.newest(TRAIN) is None


def test_commit_and_save_can_be_repeated(vault: Vault, folder: Path, tmp_path: Path) -> None:
    save(vault, folder, "1/2", close=False)
    save(vault, folder, "2/2", close=False)
    assert vault.newest(TRAIN) is None
    closed = commit(vault, 2)
    assert commit(vault, 2) == closed
    again = save(vault, folder, "1/2")
    assert (again.snapshot.id, again.written_blocks) == (closed, 0)
    assert parts(tmp_path) == []
    with pytest.raises(Conflict, match="shards 1, 2, 3 of 3"):
        commit(vault, 3)


def test_two_that_finish_at_once_close_one_snapshot(tmp_path: Path, folder: Path) -> None:
    Vault.init(blobs(tmp_path))
    vaults = [Vault.open(blobs(tmp_path)) for _ in range(4)]
    for number, one in enumerate(vaults, 1):
        save(one, folder, f"{number}/4", close=False)
    found: list[str] = []
    threads = [threading.Thread(target=lambda one=one: found.append(commit(one, 4))) for one in vaults]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert len(vaults[0].names(TRAIN)) == 1
    assert parts(tmp_path) == []


def test_shares_of_two_attempts_never_become_one_snapshot(vault: Vault, folder: Path) -> None:
    save(vault, folder, "2/2")  # then the job died, and computed the step again
    (folder / "deep" / "0.bin").write_bytes(b"other")
    with pytest.raises(Conflict, match="do not belong together"):
        save(vault, folder, "1/2")
    assert vault.newest(TRAIN) is None
    closed = save(vault, folder, "2/2").snapshot
    assert vault.load(closed.id)["deep/0.bin"] == b"other"


def test_attempt_keeps_own_files_apart(vault: Vault) -> None:
    save(vault, {"one": b"1, first attempt"}, "1/2", share=Share.OWN, attempt="a")
    with pytest.raises(Conflict, match="shard 1 and shard 2 do not belong together"):
        save(vault, {"two": b"2, second attempt"}, "2/2", share=Share.OWN, attempt="b")
    closed = save(vault, {"one": b"1, second attempt"}, "1/2", share=Share.OWN, attempt="b").snapshot
    assert vault.load(closed.id) == {"one": b"1, second attempt", "two": b"2, second attempt"}


def test_own_files_are_united_and_shared_ones_must_be_identical(vault: Vault) -> None:
    save(vault, {"rank1": b"x" * 100_000, "config": b"same"}, "1/2", share=Share.OWN)
    closed = save(vault, {"rank2": b"y", "config": b"same"}, "2/2", share=Share.OWN).snapshot
    assert vault.load(closed.id) == {"rank1": b"x" * 100_000, "rank2": b"y", "config": b"same"}
    save(vault, {"rank1": b"x", "config": b"one"}, "1/2", step=2, share=Share.OWN)
    with pytest.raises(BridgeheadError, match="two shards saved it, with different content") as raised:
        save(vault, {"rank2": b"y", "config": b"two"}, "2/2", step=2, share=Share.OWN)
    assert raised.value.code is ErrorCode.BAD_INPUT
    assert vault.newest(TRAIN).step == 1


def test_path_of_one_shard_below_a_file_of_another_is_refused(vault: Vault) -> None:
    save(vault, {"a": b"x"}, "1/2", share=Share.OWN)
    with pytest.raises(BridgeheadError, match="both as a file or link and as a folder"):
        save(vault, {"a/b": b"x"}, "2/2", share=Share.OWN)


def test_disagreement_about_number_step_or_epoch_is_told(vault: Vault) -> None:
    save(vault, {"one": b"1"}, "1/2", share=Share.OWN, attempt="a")
    save(vault, {"three": b"3"}, "3/3", share=Share.OWN, attempt="a")
    save(vault, {"two": b"2"}, "2/2", step=2, share=Share.OWN, attempt="a")
    with pytest.raises(
        Conflict, match=r"shard 2 of 2 has not .* disagree: shard 3 was saved for step 1 .* 3 shards; shard 2 was saved for step 2"
    ):
        commit(vault, 2)
    with pytest.raises(Conflict, match="shard 3 was saved for step 1 of train in epoch 0, 3 shards"):
        save(vault, {"two": b"2"}, "2/2", share=Share.OWN, attempt="a")
    assert vault.newest(TRAIN) is None


def test_other_part_than_the_one_that_was_meant_is_refused(vault: Vault) -> None:
    mine = save(vault, {"one": b"1"}, "1/1", share=Share.OWN, close=False)
    assert mine.missing == ()
    save(vault, {"one": b"of somebody else"}, "1/1", share=Share.OWN, close=False)
    with pytest.raises(Conflict, match="shard 1 were saved again meanwhile"):
        commit(vault, 1, digests={1: mine.digest})


def test_V17_collection_keeps_shares_that_wait_and_drops_abandoned_ones(tmp_path: Path, folder: Path) -> None:
    clock = [1e9]
    vault = Vault.init(blobs(tmp_path), now_s=lambda: clock[0])
    save(vault, folder, "1/2")
    assert vault.collect().removed_packs == 0
    closed = save(vault, folder, "2/2").snapshot
    assert not vault.verify().damages
    save(vault, {"a": os.urandom(100_000)}, "1/2", step=2, share=Share.OWN)
    clock[0] += WAITING_S
    assert vault.collect().removed_packs == 1
    with pytest.raises(Conflict, match="blocks of shard 1 are not there any more"):
        save(Vault.open(blobs(tmp_path), now_s=lambda: clock[0]), {"b": b"b"}, "2/2", step=2, share=Share.OWN)
    assert vault.newest(TRAIN).id == closed.id
    save(vault, {"never": b"closed"}, "1/2", step=3, share=Share.OWN)
    clock[0] += WAITING_S
    save(vault, folder, "1/1", step=4)
    assert parts(tmp_path) == []


def test_blocks_that_two_shards_encode_differently_are_one_way_in_the_record(tmp_path: Path) -> None:
    vault = Vault.init(blobs(tmp_path), codec=True)
    weights = np.random.default_rng(0).standard_normal((8, 65536)).astype(np.float32)
    for step in range(1, 5):
        one = tensor_file({f"layer{row}": weights[row] for row in range(6)})
        two = tensor_file({f"layer{row}": weights[row] for row in range(2, 8)})
        shares = [({"one.safetensors": one}, "1/2"), ({"two.safetensors": two}, "2/2")]
        if step % 2:
            shares.reverse()
        for files, shard in shares:  # each opened anew, as on nodes of their own
            closed = save(Vault.open(blobs(tmp_path)), files, shard, step=step, share=Share.OWN).snapshot
        assert Vault.open(blobs(tmp_path)).load(closed.id) == {"one.safetensors": one, "two.safetensors": two}
        weights += np.random.default_rng(step).standard_normal(weights.shape).astype(np.float32) * 1e-4
    assert not vault.verify().damages


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(1, 8))
def test_every_file_is_dealt_once_and_evenly(sizes: list[int], count: int) -> None:
    files = [MemorySource(f"{number:02}", bytes(size)) for number, size in enumerate(sizes)]
    hands = [deal(files, Shard(number, count)) for number in range(1, count + 1)]
    assert sorted(file.path for hand in hands for file in hand) == [file.path for file in files]
    held = [sum(file.size_bytes for file in hand) for hand in hands]
    assert max(held) - min(held) <= max(sizes, default=0)


@pytest.mark.parametrize("text", ["", "1", "0/2", "3/2", "1/0", "a/2", "1/2/3", "-1/2"])
def test_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(BridgeheadError) as raised:
        Shard.parse(text)
    assert raised.value.code is ErrorCode.BAD_USAGE


def tree(root: Path) -> dict[str, object]:
    return {
        path.relative_to(root).as_posix(): (
            os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else path.stat().st_mode
        )
        for path in root.rglob("*")
    }


def test_restore_into_a_shared_folder_is_whole_when_the_marker_is_gone(vault: Vault, folder: Path, tmp_path: Path) -> None:
    saved = vault.save(folder, workload=TRAIN, step=1, epoch=Epoch(0), site=A)
    to = tmp_path / "back"
    for number in (2, 3, 1):
        assert not to.exists() or (to / MARKER).is_dir()
        done = vault.restore_share(saved.id, to=to, shard=Shard(number, 3))
        assert done == (number == 1)
    assert tree(to) == tree(folder)
    assert vault.restore_share(saved.id, to=to, shard=Shard(2, 3))  # again: it is all there
    (to / "deep" / "4.bin").write_bytes(b"changed")
    with pytest.raises(Conflict, match="holds something else"):
        vault.restore_share(saved.id, to=to, shard=Shard(2, 3))


def test_restore_into_folders_of_their_own(vault: Vault, folder: Path, tmp_path: Path) -> None:
    saved = vault.save(folder, workload=TRAIN, step=1, epoch=Epoch(0), site=A)
    found: dict[str, object] = {}
    for number in (1, 2):
        to = tmp_path / str(number)
        assert not vault.restore_share(saved.id, to=to, shard=Shard(number, 2))
        assert (to / MARKER / f"{saved.id}-2" / f"done-{number}").exists()
        found |= {path: content for path, content in tree(to).items() if not path.startswith(MARKER)}
    assert found == tree(folder)


def test_V24_restore_that_was_broken_off_goes_on(vault: Vault, folder: Path, tmp_path: Path) -> None:
    saved = vault.save(folder, workload=TRAIN, step=1, epoch=Epoch(0), site=A)
    to = tmp_path / "back"
    vault.restore_share(saved.id, to=to, shard=Shard(1, 2))
    marker = to / MARKER / f"{saved.id}-2"
    (marker / "done-1").unlink()  # killed after its files were moved, before it said so
    (marker / "share-2").mkdir()
    (marker / "share-2" / "rest").write_bytes(b"moved in part")
    assert not vault.restore_share(saved.id, to=to, shard=Shard(2, 2))
    assert vault.restore_share(saved.id, to=to, shard=Shard(1, 2))
    assert tree(to) == tree(folder)


def test_other_snapshot_or_number_in_the_same_folder_is_refused(vault: Vault, folder: Path, tmp_path: Path) -> None:
    saved = vault.save(folder, workload=TRAIN, step=1, epoch=Epoch(0), site=A)
    vault.restore_share(saved.id, to=tmp_path / "back", shard=Shard(1, 2))
    with pytest.raises(Conflict, match="another number of shards"):
        vault.restore_share(saved.id, to=tmp_path / "back", shard=Shard(2, 3))
