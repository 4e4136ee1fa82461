"""The watcher: each whole checkpoint once, whatever the trainer does meanwhile (R6, R12; V11, V12, V13, V14, V16)."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.testing.faulty_blobs import Fault, FaultKind, FaultyBlobs, Operation
from bridgehead.training.ingest import place
from bridgehead.vault import Vault
from bridgehead.vault.checkpoints import Checkpoint, signature_of
from bridgehead.vault.held import HeldSource, held
from bridgehead.vault.marks import MarkKind
from bridgehead.vault.watch import Extra, Look, Watch, WatchOrder
from bridgehead.vault.watch_state import WatchFolder

W, LAB = WorkloadId("train"), SiteId("lab")


class Trainer:
    """A trainer's directory, and watchers of it."""

    def __init__(self, folder: Path, *, codec: bool) -> None:
        self.out = folder / "out"
        self.out.mkdir()
        self.store = LocalBlobs(LocalBlobsOptions(str(folder / "vault")))
        Vault.init(self.store, codec=codec)
        self.now_s = 0.0

    def write(self, step: int, *, name: str = "step", seed: int | None = None) -> Path:
        path = self.out / f"{name}-{step}"
        path.mkdir(exist_ok=True)
        rng = np.random.default_rng(step if seed is None else seed)
        save_file({"w": rng.standard_normal(50_000).astype(np.float32)}, path / "model.safetensors")
        (path / "args.json").write_text(f'{{"step": {step}}}')
        return path

    def watch(self, vault: Vault | None = None, *, extra: Callable[[], Extra] = Extra, epoch: int = 0) -> Watch:
        folder = WatchFolder(self.out / ".scratch")
        folder.open()
        self.folder = folder
        order = WatchOrder(directory=self.out, workload=W, site=LAB, epoch=Epoch(epoch), stable_s=1.0)
        return Watch(vault or self.vault, order, folder, extra=extra)

    @property
    def vault(self) -> Vault:
        return Vault.open(self.store)

    def settle(self, watch: Watch) -> Look:
        """Two looks, far enough apart."""
        first = watch.look(now_s=self.now_s)
        self.now_s += 5.0
        second = watch.look(now_s=self.now_s)
        return Look((*first.saved, *second.saved), second.incomplete, second.failed)

    def restart(self) -> Watch:
        self.folder.close()
        return self.watch()

    def steps(self) -> list[int]:
        return [name.step for name in self.vault.names(W)]


@pytest.fixture(params=[False, True], ids=["plain", "codec"])
def trainer(request: pytest.FixtureRequest, tmp_path: Path) -> Trainer:
    return Trainer(tmp_path, codec=request.param)


def load(trainer: Trainer, step: int) -> dict[str, bytes]:
    (name,) = [name for name in trainer.vault.names(W) if name.step == step]
    return trainer.vault.load(name.id)


def on_disk(path: Path) -> dict[str, bytes]:
    return {file.relative_to(path).as_posix(): file.read_bytes() for file in path.rglob("*") if file.is_file()}


def test_each_checkpoint_is_saved_once_the_newest_first_also_after_a_restart(trainer: Trainer) -> None:
    paths = {step: trainer.write(step) for step in (10, 20)}
    (trainer.out / "notes").mkdir()
    watch = trainer.watch()
    assert [one.result.snapshot.step for one in trainer.settle(watch).saved] == [20, 10]
    assert trainer.settle(watch).saved == ()
    paths[30] = trainer.write(30)
    watch = trainer.restart()
    assert [one.name for one in trainer.settle(watch).saved] == ["step-30"]
    assert trainer.steps() == [30, 20, 10]
    for step, path in paths.items():
        assert load(trainer, step) == on_disk(path)
    newest = trainer.vault.newest(W)
    assert newest is not None
    assert newest.step == 30
    context = trainer.vault.snapshot(newest.id).context
    assert (context["checkpoint"], context["checkpoint-form"], watch.state.newest) == ("step-30", "folder", newest.id)


def test_lost_state_costs_no_second_snapshot(trainer: Trainer) -> None:
    trainer.write(10)
    captured = iter([{"git.commit": "a"}, {"git.commit": "b"}])
    extras = lambda: Extra(files={".bridgehead/context.json": str(next(captured)).encode()})  # noqa: E731 - it is a value here
    trainer.settle(trainer.watch(extra=extras))
    trainer.folder.close()
    (trainer.out / ".scratch" / "state.json").write_bytes(b"{torn")
    watch = trainer.watch(extra=extras)
    assert trainer.settle(watch).saved == (), "the snapshot says of which checkpoint it is, though the context would differ now"
    assert trainer.steps() == [10]
    assert [one.name for one in watch.state.done] == ["step-10"]


def test_a_rewritten_checkpoint_of_the_same_step_is_saved_beside_the_first(trainer: Trainer) -> None:
    path = trainer.write(10)
    watch = trainer.watch()
    trainer.settle(watch)
    trainer.write(10, seed=99)
    assert len(trainer.settle(watch).saved) == 1
    assert trainer.steps() == [10, 10]
    newest = trainer.vault.newest(W)
    assert newest is not None
    assert trainer.vault.load(newest.id) == on_disk(path)


def test_single_files_are_checkpoints_too(trainer: Trainer) -> None:
    (trainer.out / "epoch=1-step=7.ckpt").write_bytes(b"opaque")
    (trainer.out / "last.ckpt").symlink_to("epoch=1-step=7.ckpt")
    assert [one.name for one in trainer.settle(trainer.watch()).saved] == ["epoch=1-step=7.ckpt"]
    assert load(trainer, 7) == {"epoch=1-step=7.ckpt": b"opaque"}


def test_V11_incomplete_is_told_and_latest_stays_on_the_last_good_one(trainer: Trainer) -> None:
    trainer.write(10)
    watch = trainer.watch()
    trainer.settle(watch)
    torn = trainer.write(20) / "model.safetensors"
    whole = torn.read_bytes()
    torn.write_bytes(whole[:-100])
    look = trainer.settle(watch)
    assert look.saved == ()
    assert "bytes where its header says" in look.incomplete["step-20"][0]
    newest = trainer.vault.newest(W)
    assert newest is not None
    assert newest.step == 10
    torn.write_bytes(whole)
    assert [one.name for one in trainer.settle(watch).saved] == ["step-20"]


def test_V13_rotated_away_while_it_is_read_is_saved_all_the_same(trainer: Trainer) -> None:
    path = trainer.write(10)
    content = on_disk(path)

    def rotate() -> Extra:
        shutil.rmtree(path)
        return Extra()

    class Rotating(Vault):
        def save(self, files, **how):  # type: ignore[no-untyped-def, override]  # a trainer that rotates in the worst moment
            rotate()
            return super().save(files, **how)

    watch = trainer.watch(Rotating(trainer.store, trainer.vault.file))
    assert len(trainer.settle(watch).saved) == 1
    assert load(trainer, 10) == content
    assert not trainer.folder.hold.exists()


def test_V13_rotated_away_before_it_is_held_is_a_clean_abort(trainer: Trainer) -> None:
    trainer.write(10)
    watch = trainer.watch()
    trainer.settle(watch)
    path = trainer.write(20)

    class Rotating(Vault):
        def names(self, workload):  # type: ignore[no-untyped-def, override]  # asked just before the files are held
            shutil.rmtree(path, ignore_errors=True)
            return super().names(workload)

    watch = Watch(Rotating(trainer.store, trainer.vault.file), watch._order, trainer.folder)
    look = trainer.settle(watch)
    assert look.failed["step-20"].code is ErrorCode.BAD_INPUT
    assert trainer.settle(watch).failed == {}
    assert trainer.steps() == [10]
    assert not trainer.folder.hold.exists()


def test_V11_changed_in_place_while_it_is_read_is_a_clean_abort_and_tried_again(trainer: Trainer) -> None:
    path = trainer.write(10)
    writes = iter([True, False])

    class Writing(Vault):
        def save(self, files, **how):  # type: ignore[no-untyped-def, override]  # a trainer that writes on in the worst moment
            if next(writes):
                os.utime(path / "model.safetensors", ns=(0, 10**18))
            return super().save(files, **how)

    watch = trainer.watch(Writing(trainer.store, trainer.vault.file))
    look = trainer.settle(watch)
    assert "it was changed while it was being saved" in str(look.failed["step-10"])
    assert trainer.steps() == []
    assert len(trainer.settle(watch).saved) == 1, "it is whole again"


@pytest.mark.parametrize("kind", [FaultKind.NO_SPACE, FaultKind.IO_ERROR])
def test_a_store_that_fails_is_tried_again(trainer: Trainer, kind: FaultKind) -> None:
    trainer.write(10)
    faulty = FaultyBlobs(trainer.store, [Fault(kind, 2, Operation.PUT)])
    watch = trainer.watch(Vault.open(faulty))
    assert list(trainer.settle(watch).failed) == ["step-10"]
    assert not faulty.missed
    assert len(trainer.settle(watch).saved) == 1
    assert trainer.vault.verify().damages == ()


def test_R12_what_did_not_change_is_not_read_again(trainer: Trainer) -> None:
    first = trainer.write(10)
    watch = trainer.watch()
    trainer.settle(watch)
    second = trainer.write(20)
    os.rename(first / "model.safetensors", second / "frozen.safetensors")
    model = second / "frozen.safetensors"
    stamp = model.stat()
    # A rename changes the inode's time of change: the second save reads it, the third need not.
    assert trainer.settle(watch).saved[0].unread_bytes == 0
    (second / "args.json").write_text("another")
    saved = trainer.settle(watch).saved[0]
    assert saved.unread_bytes == sum(file.stat().st_size for file in second.glob("*.safetensors"))
    assert model.stat().st_ctime_ns >= stamp.st_ctime_ns
    newest = trainer.vault.newest(W)
    assert newest is not None
    assert trainer.vault.load(newest.id) == on_disk(second)
    assert trainer.vault.verify().damages == ()
    watch = trainer.restart()
    (second / "args.json").write_text("a third")
    assert trainer.settle(watch).saved[0].unread_bytes > 0, "the restart remembers, too"
    data = model.read_bytes()
    model.write_bytes(data[:-4] + b"\0\0\1\0")
    os.utime(model, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    (second / "args.json").write_text("a fourth")
    saved = trainer.settle(watch).saved[0]
    assert trainer.vault.load(saved.result.id)["frozen.safetensors"] == data[:-4] + b"\0\0\1\0", "same header, size and time: read"


def test_R12_unread_files_whose_blocks_are_gone_are_read(trainer: Trainer, tmp_path: Path) -> None:
    path = trainer.write(10)
    watch = trainer.watch()
    trainer.settle(watch)
    (path / "args.json").write_text("another")
    for pack in (tmp_path / "vault" / "data").rglob("*"):
        if pack.is_file():
            pack.unlink()
    watch._vault = trainer.vault  # a process that has not seen them
    saved = trainer.settle(watch).saved[0]
    assert trainer.vault.load(saved.result.id) == on_disk(path)


def test_J05_closed_epoch_ends_the_watcher(trainer: Trainer) -> None:
    trainer.write(10)
    watch = trainer.watch()
    trainer.vault.fence(Fence(W, Epoch(1), SiteId("b"), (), "run-1", 1.0))
    watch.look(now_s=0.0)
    with pytest.raises(BridgeheadError) as error:
        watch.look(now_s=5.0)
    assert error.value.code is ErrorCode.VAULT_FENCED


def test_two_watchers_one_works_and_the_other_says_so(trainer: Trainer) -> None:
    trainer.watch()
    with pytest.raises(BridgeheadError) as error:
        WatchFolder(trainer.out / ".scratch").open()
    assert error.value.code is ErrorCode.VAULT_BUSY
    trainer.folder.close()
    trainer.watch()


def test_extra_files_and_context_are_saved_with_it(trainer: Trainer) -> None:
    trainer.write(10)
    trainer.settle(trainer.watch(extra=lambda: Extra({"git.commit": "abc"}, {".bridgehead/context.json": b"{}"})))
    assert load(trainer, 10)[".bridgehead/context.json"] == b"{}"
    newest = trainer.vault.newest(W)
    assert newest is not None
    assert trainer.vault.snapshot(newest.id).context["git.commit"] == "abc"


def test_a_watched_checkpoint_is_put_back_without_what_was_captured(trainer: Trainer, tmp_path: Path) -> None:
    folder = trainer.write(10)
    (trainer.out / "step-11.ckpt").write_bytes(b"opaque")
    trainer.settle(trainer.watch(extra=lambda: Extra(files={".bridgehead/context.json": b"{}"})))
    for name in trainer.vault.names(W):
        place(trainer.vault, name.id, tmp_path / "back", mark=MarkKind())
    assert on_disk(tmp_path / "back" / "step-10") == on_disk(folder)
    assert (tmp_path / "back" / "step-11.ckpt").read_bytes() == b"opaque"
    assert len(list((tmp_path / "back").iterdir())) == 2


def test_hold_is_a_link_that_survives_removal_and_keeps_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "step-1"
    (path / "sub").mkdir(parents=True)
    (path / "sub" / "a.bin").write_bytes(b"content")
    (path / "link").symlink_to("sub/a.bin")
    checkpoint = Checkpoint(path, 1, signature_of(path))
    with held(checkpoint, tmp_path / "hold", known=lambda source, place: None) as sources:
        (one,) = [source for source in sources if isinstance(source, HeldSource)]
        shutil.rmtree(path)
        assert (one.path, bytes(one.read(0, 100))) == ("sub/a.bin", b"content")
        one.check_unchanged()
        assert [source.path for source in sources if source.target] == ["link"]
    assert os.listdir(tmp_path) == []


def test_V13_where_files_cannot_be_held_a_rotation_is_a_clean_abort(trainer: Trainer) -> None:
    """The scratch folder is on another file system: neither reflink nor hard link."""
    other = Path("/dev/shm")
    if not os.access(other, os.W_OK) or other.stat().st_dev == trainer.out.stat().st_dev:
        pytest.skip("there is no second file system here")
    with tempfile.TemporaryDirectory(dir=other) as scratch:
        path = trainer.write(10)
        content = on_disk(path)
        folder = WatchFolder(Path(scratch) / "watch")
        folder.open()
        order = WatchOrder(directory=trainer.out, workload=W, site=LAB, epoch=Epoch(0), stable_s=1.0)
        assert len(trainer.settle(Watch(trainer.vault, order, folder)).saved) == 1
        assert load(trainer, 10) == content
        gone = trainer.write(20)
        watch = Watch(trainer.vault, order, folder, extra=lambda: shutil.rmtree(gone) or Extra())
        failed = trainer.settle(watch).failed
        assert "it was removed while it was being saved" in str(failed["step-20"])
        assert trainer.steps() == [10]
        folder.close()
