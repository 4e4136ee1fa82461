from __future__ import annotations

import re
import zipfile
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

from bridgehead.kernel.errors import Conflict
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.training import SessionOptions, create_vault
from bridgehead.training.ingest import Ingest, place
from bridgehead.vault.checkpoints import signature_of
from bridgehead.vault.completeness import Watcher, file_fault
from bridgehead.vault.marks import MarkKind

W = WorkloadId("w")
PATTERN = re.compile(r"step-([0-9]+)(?:\.pt)?")


def write(folder: Path, step: int) -> Path:
    path = folder / f"step-{step}"
    path.mkdir(parents=True, exist_ok=True)
    save_file({"w": np.full(1000, step, dtype=np.float32)}, path / "model.safetensors")
    (path / "args.json").write_text("{}")
    return path


def names(checkpoints) -> list[str]:
    return [checkpoint.path.name for checkpoint in checkpoints]


def ingest_into(vault, folder: Path) -> Ingest:
    return Ingest(vault, SessionOptions(workload=W, site=SiteId("a")), folder)


@pytest.fixture
def vault(tmp_path: Path):
    return create_vault(tmp_path / "vault")


def test_V11_stable_for_long_enough_and_not_before(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path, pattern=PATTERN, mark=MarkKind(), stable_s=2.0)
    write(tmp_path, 10)
    write(tmp_path, 5)
    (tmp_path / "other").mkdir()
    assert watcher.complete(now_s=100.0) == []
    assert watcher.complete(now_s=101.9) == []
    assert names(watcher.complete(now_s=102.0)) == ["step-5", "step-10"]
    (tmp_path / "step-10" / "late.bin").write_bytes(b"x")
    assert names(watcher.complete(now_s=103.0)) == ["step-5"]
    assert names(watcher.complete(now_s=105.0)) == ["step-5", "step-10"]


def test_V11_mark_inside(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path, pattern=PATTERN, mark=MarkKind(inside=".metadata"), stable_s=0.0)
    path = write(tmp_path, 10)
    assert watcher.complete(now_s=1.0) == []
    (path / ".metadata").touch()
    assert names(watcher.complete(now_s=2.0)) == ["step-10"]


@pytest.mark.parametrize("text", ["step-10\n", "10"])
def test_V11_mark_beside_names_the_newest(tmp_path: Path, text: str) -> None:
    watcher = Watcher(tmp_path, pattern=PATTERN, mark=MarkKind(beside="latest"), stable_s=0.0)
    write(tmp_path, 10)
    write(tmp_path, 20)
    assert watcher.complete(now_s=1.0) == []
    (tmp_path / "latest").write_text(text)
    assert names(watcher.complete(now_s=2.0)) == ["step-10"]


def test_V11_a_mark_that_moves_too_early_does_not_help_a_torn_file(tmp_path: Path) -> None:
    path = write(tmp_path, 10) / "model.safetensors"
    (tmp_path / "latest").write_text("step-10")
    path.write_bytes(path.read_bytes()[:-7])
    watcher = Watcher(tmp_path, pattern=PATTERN, mark=MarkKind(beside="latest"), stable_s=0.0)
    assert watcher.complete(now_s=1.0) == []
    (fault,) = watcher.faults.values()
    assert re.fullmatch(r"model\.safetensors: \d+ bytes where its header says \d+", fault)


def test_V12_every_truncation_of_a_safetensors_file_is_seen(tmp_path: Path) -> None:
    whole = tmp_path / "m.safetensors"
    save_file({"a": np.arange(4, dtype=np.float32), "empty": np.zeros((0, 3), dtype=np.float32)}, whole)
    data = whole.read_bytes()
    assert file_fault(whole, size_bytes=len(data)) == ""
    for size in range(len(data)):
        whole.write_bytes(data[:size])
        assert file_fault(whole, size_bytes=size), size


def test_V12_truncated_zip_and_empty_files(tmp_path: Path) -> None:
    torch_like = tmp_path / "m.pt"
    with zipfile.ZipFile(torch_like, "w") as archive:
        archive.writestr("archive/data.pkl", b"x" * 1000)
    data = torch_like.read_bytes()
    assert file_fault(torch_like, size_bytes=len(data)) == ""
    torch_like.write_bytes(data[: len(data) // 2])
    assert "cut off" in file_fault(torch_like, size_bytes=len(data) // 2)
    torch_like.write_bytes(b"")
    assert file_fault(torch_like, size_bytes=0) == "it is empty"
    (tmp_path / "_SUCCESS").touch()
    assert file_fault(tmp_path / "_SUCCESS", size_bytes=0) == ""


def test_V08_a_zip_under_a_wrong_name_is_judged_as_a_zip(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a", b"1")
    assert file_fault(path, size_bytes=path.stat().st_size) == ""


def test_whole_checkpoints_are_saved_once_and_come_back(tmp_path: Path, vault) -> None:
    folder = tmp_path / "ckpt"
    write(folder, 10)
    (folder / "step-11.pt").write_bytes(b"opaque")
    watcher = Watcher(folder, pattern=PATTERN, mark=MarkKind(), stable_s=0.0)
    ingest = ingest_into(vault, folder)
    for checkpoint in watcher.complete(now_s=1.0):
        assert ingest.is_new(checkpoint)
        assert ingest.save(checkpoint, epoch=Epoch(0))
        assert not ingest.is_new(checkpoint)
    assert [info.step for info in vault.list(W)] == [11, 10]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ckpt", "vault"], "the hold is taken away"
    again = ingest_into(vault, folder)
    assert (again.step, again.saved) == (11, vault.newest(W).id)
    assert not any(again.is_new(checkpoint) for checkpoint in watcher.complete(now_s=2.0))
    for info in vault.list(W):
        place(vault, info.id, tmp_path / "back", mark=MarkKind(beside="latest"))
    assert sorted(path.name for path in (tmp_path / "back").iterdir()) == ["latest", "step-10", "step-11.pt"]
    for name in ("step-10/model.safetensors", "step-10/args.json", "step-11.pt"):
        assert (tmp_path / "back" / name).read_bytes() == (folder / name).read_bytes()
    assert (tmp_path / "back" / "latest").read_text() == "step-10"
    (tmp_path / "back" / "step-10" / "args.json").write_text("other")
    with pytest.raises(Conflict):
        place(vault, vault.list(W)[1].id, tmp_path / "back", mark=MarkKind())


def test_V13_changed_or_rotated_away_after_it_was_whole_is_a_clean_abort(tmp_path: Path, vault, caplog) -> None:
    folder = tmp_path / "ckpt"
    write(folder, 10)
    rotated, changed = write(folder, 20), write(folder, 30)
    watcher = Watcher(folder, pattern=PATTERN, mark=MarkKind(), stable_s=0.0)
    ten, twenty, thirty = watcher.complete(now_s=1.0)
    ingest = ingest_into(vault, folder)
    assert ingest.save(ten, epoch=Epoch(0))
    for file in rotated.iterdir():
        file.unlink()
    rotated.rmdir()
    (changed / "args.json").write_text('{"other": 1}')
    assert not ingest.save(twenty, epoch=Epoch(0))
    assert not ingest.save(thirty, epoch=Epoch(0))
    assert [info.step for info in vault.list(W)] == [10]
    assert len(caplog.records) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ckpt", "vault"]
    (thirty,) = [checkpoint for checkpoint in watcher.complete(now_s=2.0) if checkpoint.step == 30]
    assert ingest.save(thirty, epoch=Epoch(0)), "once it is whole again it is saved"


def test_V13_rotation_while_it_is_read_does_not_hurt(tmp_path: Path, vault) -> None:
    """The hard links hold what was whole: the trainer removes its checkpoint in the middle of the save."""
    folder = tmp_path / "ckpt"
    path = write(folder, 10)
    (checkpoint,) = Watcher(folder, pattern=PATTERN, mark=MarkKind(), stable_s=0.0).complete(now_s=1.0)

    class RotatingVault:
        def __getattr__(self, name: str):
            return getattr(vault, name)

        def save(self, files, **how):
            for file in path.iterdir():
                file.unlink()
            path.rmdir()
            return vault.save(files, **how)

    assert ingest_into(RotatingVault(), folder).save(checkpoint, epoch=Epoch(0))
    assert len(vault.load(vault.newest(W).id)) == 2


def test_signature_of_what_vanishes_is_empty(tmp_path: Path) -> None:
    assert signature_of(tmp_path / "gone") == ()
    assert signature_of(tmp_path) == ()
