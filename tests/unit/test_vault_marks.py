"""When a checkpoint is complete, by the rules of each format (V07, V11, V12)."""

from __future__ import annotations

import json
import pickle
import re
from pathlib import Path

import pytest

from bridgehead.testing.torch_files import torch_file, zipped
from bridgehead.vault.checkpoints import Checkpoint, signature_of, usual_steps
from bridgehead.vault.completeness import LOOKED_AT, Watcher
from bridgehead.vault.marks import MarkKind, missing

TORCH = zipped({"archive/data.pkl": b"\x80\x02}.", "archive/version": b"3\n"})


def lacking(folder: Path, *, step: int = 1200, mark: MarkKind | None = None) -> tuple[str, ...]:
    return missing(Checkpoint(folder, step, signature_of(folder)), mark=mark or MarkKind())


def make(folder: Path, *names: str, content: bytes = TORCH) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


def test_V11_hugging_face_trainer_is_complete_with_trainer_state_and_all_shards(tmp_path: Path) -> None:
    folder = make(tmp_path / "checkpoint-1200", "config.json", "model-00001-of-00002.safetensors", "optimizer.pt")
    index = {"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    assert lacking(folder) == ("lacks trainer_state.json", "lacks model-00002-of-00002.safetensors")
    make(folder, "model-00002-of-00002.safetensors", "trainer_state.json")
    assert lacking(folder) == ()
    (folder / "model.safetensors.index.json").write_text(json.dumps(index)[:-9])
    assert "index cannot be read" in lacking(folder)[0]


def test_V07_index_that_names_a_file_outside_of_the_series(tmp_path: Path) -> None:
    folder = make(tmp_path / "step-1", "a.bin")
    (folder / "w.bin.index.json").write_text(json.dumps({"weight_map": {"x": "a.bin", "y": "b.bin"}}))
    assert lacking(folder) == ("lacks b.bin",)


def test_accelerate_has_no_trainer_state(tmp_path: Path) -> None:
    folder = make(tmp_path / "checkpoint-1200", "model.safetensors", "optimizer.bin", "scheduler.bin")
    assert lacking(folder) == ("lacks random_states_0.pkl",)
    make(folder, "random_states_0.pkl")
    assert lacking(folder) == ()


def test_own_folder_with_usual_names_needs_no_mark(tmp_path: Path) -> None:
    assert lacking(make(tmp_path / "checkpoint-1200", "model.safetensors", "optimizer.pt")) == ()


def test_V11_deepspeed_needs_latest_and_all_ranks(tmp_path: Path) -> None:
    states = [f"bf16_zero_pp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(4)]
    folder = make(tmp_path / "global_step1200", *states[:2], states[3])
    world = torch_file({"module": {}, "dp_world_size": 5, "mp_world_size": 1}, {})
    make(folder, "mp_rank_00_model_states.pt", content=world)
    assert lacking(folder) == (
        "lacks latest beside it, which is not there",
        "lacks bf16_zero_pp_rank_2_mp_rank_00_optim_states.pt",
        "lacks bf16_zero_pp_rank_4_mp_rank_00_optim_states.pt",
    ), "rank 2 is a gap, and rank 4 is known from the number of ranks in the states"
    make(folder, states[2], "bf16_zero_pp_rank_4_mp_rank_00_optim_states.pt")
    (tmp_path / "latest").write_text("global_step1100")
    assert lacking(folder) == ("lacks latest beside it, which names 'global_step1100'",)
    for newest in ("global_step1200", "global_step1300"):
        (tmp_path / "latest").write_text(newest)
        assert lacking(folder) == ()


def test_V11_deepspeed_inside_a_trainer_checkpoint(tmp_path: Path) -> None:
    folder = make(tmp_path / "checkpoint-1200", "trainer_state.json", "global_step1200/mp_rank_00_model_states.pt", "latest", content=b"x")
    assert lacking(folder) == ("lacks latest in it, which does not name global_step1200",)
    (folder / "latest").write_text("global_step1200")
    assert lacking(folder) == ()


def test_V11_megatron_needs_its_mark_and_the_same_files_of_all_ranks(tmp_path: Path) -> None:
    ranks = [f"mp_rank_0{tensor}_00{pipe}" for tensor in range(2) for pipe in range(2)]
    folder = make(tmp_path / "iter_0001200", *(f"{rank}/model_optim_rng.pt" for rank in ranks if rank != "mp_rank_00_001"))
    make(folder, "mp_rank_00_000/distrib_optim.pt")
    found = lacking(folder)
    assert "lacks latest_checkpointed_iteration.txt beside it, which is not there" in found
    assert {"lacks mp_rank_01_000/distrib_optim.pt", "lacks mp_rank_00_001"} <= set(found)
    make(folder, *(f"{rank}/{name}" for rank in ranks for name in ("model_optim_rng.pt", "distrib_optim.pt")))
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("1100")
    assert lacking(folder) == ("lacks latest_checkpointed_iteration.txt beside it, which names '1100'",)
    (tmp_path / "latest_checkpointed_iteration.txt").write_text("1200")
    assert lacking(folder) == ()


def test_V11_distributed_checkpoint_needs_metadata_and_every_file_that_it_names(tmp_path: Path) -> None:
    folder = make(tmp_path / "step-1200", "__0_0.distcp")
    assert lacking(folder) == ("lacks .metadata",)
    named = {"storage_data": [("a", "__0_0.distcp", 0, 9), ("b", "__1_0.distcp", 0, 9), ("c", "odd name.distcp", 9, 9)]}
    for protocol in (2, 4):
        (folder / ".metadata").write_bytes(pickle.dumps(named, protocol=protocol))
        assert lacking(folder) == ("lacks __1_0.distcp", "lacks odd name.distcp")
    make(folder, "__1_0.distcp", "odd name.distcp")
    assert lacking(folder) == ()


def test_V11_files_that_are_named_as_being_written(tmp_path: Path) -> None:
    folder = make(tmp_path / "step-1200", ".metadata.tmp", "a.bin")
    assert lacking(folder) == (".metadata.tmp is still being written",)


def test_marks_that_the_user_names(tmp_path: Path) -> None:
    folder = make(tmp_path / "step-1200", "a.bin")
    mark = MarkKind(inside="_SUCCESS", beside="newest.txt")
    assert lacking(folder, mark=mark) == ("lacks the mark _SUCCESS", "lacks newest.txt beside it, which is not there")
    make(folder, "_SUCCESS", content=b"")
    (tmp_path / "newest.txt").write_text("step-1200\n")
    assert lacking(folder, mark=mark) == ()


@pytest.mark.parametrize(("name", "is_folder", "step"), [
    ("step-1200", True, 1200), ("step_1200", True, 1200), ("step1200", True, 1200), ("checkpoint-1200", True, 1200),
    ("global_step1200", True, 1200), ("iter_0001200", True, 1200), ("epoch=3-step=1200.ckpt", False, 1200),
    ("epoch=3-step=1200-v1.ckpt", False, 1200), ("model_step_1200.pt", False, 1200), ("ckpt-1200.safetensors", False, 1200),
    ("run2-step1200-val_loss=0.25.ckpt", False, 1200), ("llama--step=1200-last", True, 1200), ("Iteration 12", True, None),
    ("tmp-checkpoint-1200", True, None), ("checkpoint-1200.tmp", True, None), (".checkpoint-1200", True, None),
    ("step-1200", False, None), ("checkpoint-1200-backup", True, None), ("last.ckpt", False, None), ("events.out.17", False, None),
])  # fmt: skip
def test_usual_names(name: str, is_folder: bool, step: int | None) -> None:
    assert usual_steps({name: is_folder}) == ({} if step is None else {name: step})


def test_epochs_and_numbers_only_where_there_are_no_steps() -> None:
    assert usual_steps({"epoch_3": True, "epoch_4.pt": False}) == {"epoch_3": 3, "epoch_4.pt": 4}
    assert usual_steps({"epoch_3": True, "step_9": True}) == {"step_9": 9}
    assert usual_steps({"100": True, "200": True, "7": False}) == {"100": 100, "200": 200}


def test_V11_incomplete_says_what_lacks_and_is_tried_again(tmp_path: Path) -> None:
    watcher = Watcher(tmp_path, pattern=None, mark=MarkKind(inside="_SUCCESS"), stable_s=1.0)
    folder = make(tmp_path / "step-1", "a.pt")
    assert watcher.complete(now_s=0.0) == []
    assert "not seen before" in watcher.incomplete[folder][0]
    assert watcher.complete(now_s=1.0) == []
    assert watcher.incomplete[folder] == ("lacks the mark _SUCCESS",)
    make(folder, "_SUCCESS", content=b"")
    watcher.complete(now_s=2.0)
    assert [one.step for one in watcher.complete(now_s=3.0)] == [1]
    (folder / "a.pt").write_bytes(TORCH[:-10])
    watcher.complete(now_s=4.0)
    assert watcher.complete(now_s=5.0) == []
    assert watcher.incomplete[folder] == ("a.pt: cut off: its header or its directory is not whole",)


def test_old_checkpoints_at_rest_cost_one_stat_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watcher = Watcher(tmp_path, pattern=re.compile("step-([0-9]+)"), mark=MarkKind(), stable_s=0.0)
    for step in range(10):
        make(tmp_path / f"step-{step}", "a.bin")
    for checkpoint in watcher.complete(now_s=0.0):
        watcher.rest(checkpoint)
    assert watcher.complete(now_s=1.0) == []
    make(tmp_path / "step-0", "b.bin")
    (tmp_path / "step-8" / "a.bin").write_bytes(b"changed in place")
    (tmp_path / "step-1" / "a.bin").write_bytes(b"changed in place")
    assert [one.step for one in watcher.complete(now_s=2.0)] == [0, 8], "its folder changed; it is among the newest; the third is neither"
    assert LOOKED_AT == 3
