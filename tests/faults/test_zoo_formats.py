"""The odd-checkpoint zoo, what the formats say: shards, indices, ranks, types (V04, V05, V06, V07, V11, V12)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save as to_safetensors

from bridgehead.cli.main import call
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import FindingKind, Snapshot
from bridgehead.testing.dcp_files import checkpoint_files, metadata_file
from bridgehead.testing.torch_files import Tensor, torch_file
from bridgehead.vault import Vault
from bridgehead.vault.formats.dcp import Item, read_metadata
from bridgehead.vault.typed import Wanted

A, TRAIN = SiteId("a"), WorkloadId("train")
GOOD = {"good.bin": b"good"}


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    made = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "v"))))
    save(made, GOOD, step=0)
    return made


def save(vault: Vault, files: Mapping[str, bytes], step: int = 1) -> Snapshot:
    return vault.save(files, workload=TRAIN, step=step, epoch=Epoch(0), site=A).snapshot


def found(snapshot: Snapshot) -> set[tuple[str, str]]:
    return {(finding.kind.value, finding.path) for finding in snapshot.findings or ()}


def check_never_usable(vault: Vault, snapshot: Snapshot) -> None:
    """Kept, with the reason, and not the newest."""
    assert snapshot.incomplete
    newest = vault.newest(TRAIN)
    assert newest is not None
    assert newest.step == 0
    assert vault.find(snapshot.id).verified is False
    reasons = {one.info.id: one.reason for one in vault.survey(TRAIN).passed_over if one.info}
    assert any(path in reasons[snapshot.id] for path in snapshot.incomplete)


# ---- Hugging Face shards

ONE, TWO, THREE = (f"m/model-0000{number}-of-00003.safetensors" for number in (1, 2, 3))
INDEX = "m/model.safetensors.index.json"


def shards() -> dict[str, bytes]:
    where = {"a": ONE, "b": TWO, "c": THREE}
    index = {"metadata": {}, "weight_map": {name: path.removeprefix("m/") for name, path in where.items()}}
    files = {path: to_safetensors({name: np.full(3, ord(name), np.float32)}) for name, path in where.items()}
    return {**files, INDEX: json.dumps(index).encode(), "m/config.json": b"{}"}


def test_V07_shards_that_agree_with_their_index_have_no_finding(vault: Vault) -> None:
    snapshot = save(vault, shards())
    assert snapshot.findings is not None
    assert found(snapshot) == set()
    assert vault.newest(TRAIN).id == snapshot.id


def test_V07_missing_extra_and_stale_are_three_findings(vault: Vault, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = shards()
    missing = save(vault, {path: data for path, data in files.items() if path != TWO}, step=1)
    assert found(missing) == {("missing", TWO)}
    check_never_usable(vault, missing)
    extra = save(vault, {**files, "m/model-00004-of-00004.safetensors": to_safetensors({"d": np.zeros(1)})}, step=2)
    assert found(extra) == {("extra", "m/model-00004-of-00004.safetensors")}
    assert extra.incomplete == (), "the index says what belongs to it, whatever the left-over's name counts"
    stale = save(vault, {**files, TWO: to_safetensors({"other": np.zeros(1)})}, step=3)
    assert found(stale) == {("stale", INDEX)}
    assert stale.incomplete == ()
    assert [finding.happened for finding in stale.findings] == [
        f"'other' of {TWO} is not in the index",
        f"{TWO} does not hold 'b'",
    ]
    assert vault.newest(TRAIN).id == stale.id
    assert call(["vault", "show", str(tmp_path / "v"), "train@1", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["findings"] == [{"kind": "missing", "path": TWO, "happened": f"{INDEX} names it, and it is not there"}]
    assert call(["vault", "show", str(tmp_path / "v"), "train@1"]) == 0
    assert f"missing   {TWO}: {INDEX} names it" in capsys.readouterr().out
    assert call(["vault", "list", str(tmp_path / "v")]) == 0
    assert f"files were missing when they were saved: {TWO}" in capsys.readouterr().out


def test_V07_shards_are_counted_where_their_index_cannot_be_read(vault: Vault) -> None:
    files = {path: data for path, data in shards().items() if path != TWO}
    snapshot = save(vault, {**files, INDEX: files[INDEX][:-9]})
    assert found(snapshot) == {("missing", TWO), ("stale", INDEX)}
    check_never_usable(vault, snapshot)


def test_V07_save_of_an_incomplete_checkpoint_ends_with_1_and_says_what_lacks(
    vault: Vault, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path, data in shards().items():
        if path != THREE:
            (tmp_path / path).parent.mkdir(exist_ok=True)
            (tmp_path / path).write_bytes(data)
    assert call(["vault", "save", str(tmp_path / "v"), str(tmp_path / "m"), "--workload", "train", "--step", "7", "--json"]) == 1
    out, err = capsys.readouterr()
    assert json.loads(out)["findings"][0]["kind"] == "missing"
    assert "warning: model-00003-of-00003.safetensors: model.safetensors.index.json names it, and it is not there" in err


def test_V07_shards_without_an_index_are_counted_by_their_names(vault: Vault) -> None:
    snapshot = save(vault, {"x-00001-of-00004.bin": b"1", "x-00003-of-00004.bin": b"3", "tf.data-00000-of-00002": b"0"})
    assert found(snapshot) == {
        ("missing", "x-00002-of-00004.bin"),
        ("missing", "x-00004-of-00004.bin"),
        ("missing", "tf.data-00001-of-00002"),
    }
    check_never_usable(vault, snapshot)


# ---- torch's distributed checkpoints


def test_V04_six_rows_over_four_ranks_with_the_file_that_names_them(vault: Vault, tmp_path: Path) -> None:
    files = checkpoint_files([2, 2, 2, 0])
    assert files["__3_0.distcp"] == b""
    snapshot = save(vault, files)
    assert (found(snapshot), snapshot.incomplete) == (set(), ())
    assert vault.load(snapshot.id) == files
    vault.restore(snapshot.id, to=tmp_path / "out")
    assert (tmp_path / "out" / "__3_0.distcp").stat().st_size == 0


def test_V07_shard_that_metadata_names_and_that_is_missing(vault: Vault) -> None:
    files = {f"step/{name}": data for name, data in checkpoint_files([2, 2, 2]).items()}
    del files["step/__1_0.distcp"]
    snapshot = save(vault, files)
    assert found(snapshot) == {("missing", "step/__1_0.distcp")}
    check_never_usable(vault, snapshot)


def test_V12_shard_that_is_shorter_than_metadata_says(vault: Vault) -> None:
    files = checkpoint_files([2, 2])
    files["__1_0.distcp"] = files["__0_0.distcp"][:100]
    snapshot = save(vault, files)
    assert ("cut-off", "__1_0.distcp") in found(snapshot)
    check_never_usable(vault, snapshot)


def test_V11_shards_without_metadata_are_not_complete(vault: Vault) -> None:
    files = checkpoint_files([2, 2])
    del files[".metadata"]
    snapshot = save(vault, files)
    assert found(snapshot) == {("missing", ".metadata")}
    check_never_usable(vault, snapshot)


def test_V07_shard_that_metadata_does_not_name_is_extra(vault: Vault) -> None:
    files = checkpoint_files([2, 2])
    assert found(save(vault, {**files, "__7_0.distcp": b"left over"})) == {("extra", "__7_0.distcp")}


def test_metadata_names_files_and_ranges_and_cannot_lead_out() -> None:
    data = metadata_file({"a": ("__0_0.distcp", 0, 10), "b": ("__0_0.distcp", 10, 7), "c": ("sub/__1_0.distcp", 0, 1)})
    assert read_metadata(data) == (Item("__0_0.distcp", 0, 10), Item("__0_0.distcp", 10, 7), Item("sub/__1_0.distcp", 0, 1))
    assert read_metadata(metadata_file({"a": ("../x", 0, 1)})) is None
    assert read_metadata(metadata_file({"a": ("x", -1, 1)})) is None
    for end in range(0, len(data), 7):
        assert read_metadata(data[:end]) is None


# ---- DeepSpeed and Megatron


def deepspeed(*, data: int = 3, model: int = 2, stage3: bool = False) -> dict[str, bytes]:
    kinds = ["optim", "model"] if stage3 else ["optim"]
    names = [f"zero_pp_rank_{d}_mp_rank_{m:02d}_{kind}_states.pt" for d in range(data) for m in range(model) for kind in kinds]
    names += [] if stage3 else [f"mp_rank_{m:02d}_model_states.pt" for m in range(model)]
    files = {f"global_step10/{name}": torch_file({"w": Tensor("0", "F32", (2,))}, {"0": b"12345678"}) for name in names}
    return {**files, "latest": b"global_step10"}


@pytest.mark.parametrize("stage3", [False, True])
def test_V07_deepspeed_folder_is_complete_with_the_files_of_all_ranks(vault: Vault, stage3: bool) -> None:
    files = deepspeed(stage3=stage3)
    assert found(save(vault, files)) == set()
    for number, lost in enumerate(sorted(path for path in files if "pp_rank_1" in path or "mp_rank_00_model" in path), start=2):
        snapshot = save(vault, {path: content for path, content in files.items() if path != lost}, step=number)
        assert found(snapshot) == {("missing", lost)}, lost


def test_V07_deepspeed_states_say_how_many_ranks_there_were(vault: Vault) -> None:
    files = deepspeed(data=2, model=1)
    state = torch_file({"dp_world_size": 4, "mp_world_size": 1}, {})
    snapshot = save(vault, {**files, "global_step10/mp_rank_00_model_states.pt": state})
    assert found(snapshot) == {("missing", f"global_step10/zero_pp_rank_{rank}_mp_rank_00_optim_states.pt") for rank in (2, 3)}
    check_never_usable(vault, snapshot)


def test_V07_latest_that_names_what_is_not_there(vault: Vault) -> None:
    snapshot = save(vault, {**deepspeed(), "latest": b"global_step20\n"})
    assert found(snapshot) == {("missing", "global_step20/")}
    other = save(vault, {"latest": b"best", "step-1/w.bin": b"w"}, step=2)
    assert found(other) == set(), "a file of that name that is no mark of DeepSpeed"


def test_V07_deepspeed_layers_and_experts(vault: Vault) -> None:
    names = [f"layer_{layer:02d}-model_{m:02d}-model_states.pt" for layer in (1, 3, 4) for m in range(2)]
    names += [f"layer_{layer}_expert_{e}_mp_rank_00_model_states.pt" for layer in (0, 5) for e in range(3)]
    names += [f"expp_rank_{rank}_mp_rank_00_optim_states.pt" for rank in range(2)] + ["mp_rank_00_model_states.pt"]
    content = torch_file({"w": Tensor("0", "U8", (1,))}, {"0": b"w"})
    assert found(save(vault, dict.fromkeys(names, content))) == set(), "layers without parameters have no file"
    lost = {names[2], "layer_5_expert_1_mp_rank_00_model_states.pt", "expp_rank_0_mp_rank_00_optim_states.pt"}
    snapshot = save(vault, {name: content for name in names if name not in lost}, step=2)
    assert found(snapshot) == {("missing", name) for name in lost}


def megatron(ranks: list[str]) -> dict[str, bytes]:
    content = torch_file({"w": Tensor("0", "U8", (1,))}, {"0": b"w"})
    files = {f"iter_0000100/{rank}/{name}": content for rank in ranks for name in ("model_optim_rng.pt", "distrib_optim.pt")}
    return {**files, "latest_checkpointed_iteration.txt": b"100"}


def test_V07_megatron_folder_is_complete_when_all_ranks_have_the_same_files(vault: Vault) -> None:
    ranks = [f"mp_rank_{t:02d}_{p:03d}" for t in range(2) for p in range(3)]
    files = megatron(ranks)
    assert found(save(vault, files)) == set()
    lost = "iter_0000100/mp_rank_01_001/distrib_optim.pt"
    snapshot = save(vault, {path: data for path, data in files.items() if path != lost}, step=2)
    assert found(snapshot) == {("missing", lost)}
    check_newest_is(vault, 1)
    snapshot = save(vault, megatron([rank for rank in ranks if rank != "mp_rank_00_002"]), step=3)
    assert found(snapshot) == {("missing", "iter_0000100/mp_rank_00_002/")}
    snapshot = save(vault, {**files, "latest_checkpointed_iteration.txt": b"200"}, step=4)
    assert found(snapshot) == {("missing", "iter_0000200/")}
    assert found(save(vault, megatron(["mp_rank_00_000_000", "mp_rank_00_000_001"]), step=5)) == set()


def check_newest_is(vault: Vault, step: int) -> None:
    newest = vault.newest(TRAIN)
    assert newest is not None
    assert newest.step == step


# ---- what is in a file


def test_V05_bytes_that_no_tensor_reaches_are_shown(vault: Vault, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = torch_file({"part": Tensor("0", "F32", (5,), offset=100)}, {"0": bytes(range(1, 251)) * 80})
    snapshot = save(vault, {"slice.pt": data, "whole.pt": torch_file({"w": Tensor("0", "U8", (4,))}, {"0": b"1234"})})
    assert [file.unreached_bytes or 0 for file in snapshot.files] == [19_980, 0]
    assert call(["vault", "show", str(tmp_path / "v"), "train"]) == 0
    assert "no tensor reaches 20 kB of it" in capsys.readouterr().out


def test_V06_typed_load_never_casts(vault: Vault) -> None:
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    snapshot = save(vault, {"m.safetensors": to_safetensors({"w": weight, "b": np.zeros(300_000, np.float16)})})
    template = {"w": Wanted("F32", (2, 3)), "b": Wanted("F16", (300_000,))}
    loaded = vault.load_tensors(snapshot.id, template)
    assert loaded == {"w": weight.tobytes(), "b": bytes(600_000)}
    for wrong, says in {
        ("BF16", (2, 3)): r"'w' is F32 \[2, 3\], not BF16 \[2, 3\]",
        ("F32", (3, 2)): r"'w' is F32 \[2, 3\], not F32 \[3, 2\]",
        ("F32", (6,)): "not F32",
        ("F64", (2, 3)): "not F64",
    }.items():
        with pytest.raises(BridgeheadError, match=says) as caught:
            vault.load_tensors(snapshot.id, {**template, "w": Wanted(*wrong)})
        assert caught.value.code is ErrorCode.BAD_INPUT
    with pytest.raises(BridgeheadError, match="no tensor 'gone'"):
        vault.load_tensors(snapshot.id, {"gone": Wanted("F32", ())})
    twice = save(vault, {"1.safetensors": to_safetensors({"w": weight}), "2.safetensors": to_safetensors({"w": weight})}, step=2)
    with pytest.raises(BridgeheadError, match="2 files have a tensor 'w'"):
        vault.load_tensors(twice.id, {"w": Wanted("F32", (2, 3))})


def test_V12_cut_off_and_missing_are_told_apart(vault: Vault) -> None:
    files = shards()
    del files[ONE]
    files[TWO] = files[TWO][:-1]
    snapshot = save(vault, files)
    assert {(finding.kind, finding.path) for finding in snapshot.findings if finding.spoils} == {
        (FindingKind.MISSING, ONE),
        (FindingKind.CUT_OFF, TWO),
    }
    (reason,) = [one.reason for one in vault.survey(TRAIN).passed_over]
    assert reason == f"files were cut off when they were saved: {TWO}; files were missing when they were saved: {ONE}"
