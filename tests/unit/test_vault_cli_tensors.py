"""Tensors on the command line: hashes, single tensors out of a snapshot, differences; all against the bytes themselves (V01, V02, V03)."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pytest
from blake3 import blake3
from safetensors.numpy import load_file, save_file

from bridgehead.app import vault_contents, vault_diff
from bridgehead.app.vault_diff import Change
from bridgehead.app.vaults import init_vault
from bridgehead.cli.main import call
from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.model.snapshot import Snapshot
from bridgehead.testing.vault_damage import flip_in_block
from bridgehead.vault import Vault

ODD = [("tied.a", "F32", [2, 4], 0, 32), ("tied.b", "F32", [8], 0, 32), ("part", "U8", [10], 20, 30), ("scalar", "BF16", [], 40, 42),
       ("empty", "F8_E8M0", [0, 3], 42, 42), ("invented", "F3_WHAT", [5], 50, 60)]  # fmt: skip
"""Two names for the same bytes, an overlap, a scalar, an empty tensor, a gap, a dtype that nobody knows."""


def safetensors(rows: list[tuple[str, str, list[int], int, int]], data: bytes) -> bytes:
    header = json.dumps({name: {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]} for name, dtype, shape, begin, end in rows})
    return len(header).to_bytes(8, "little") + header.encode() + data


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return init_vault(str(tmp_path / "v"))[0]


def saved(vault: Vault, files: dict[str, bytes], *, step: int = 1) -> Snapshot:
    return vault.save(files, workload="train", step=step, epoch=0, site="a").snapshot


def weights(seed: int, **changed: np.ndarray) -> dict[str, np.ndarray]:
    """Small ones that share a block, one of several blocks that does not begin at one, and one that is a block of its own."""
    draw = np.random.default_rng(seed)
    shapes = {"a.bias": (7,), "b.bias": (3,), "embed": (5_000, 700), "head": (300, 100), "z.norm": (11,)}
    return {name: draw.standard_normal(shape, dtype=np.float32) for name, shape in shapes.items()} | changed


def test_V01_V02_V03_hash_of_every_tensor_is_that_of_its_bytes(vault: Vault, tmp_path: Path) -> None:
    save_file(weights(0), tmp_path / "model.safetensors")
    data = random.Random(1).randbytes(64)
    files = {"model.safetensors": (tmp_path / "model.safetensors").read_bytes(), "odd": safetensors(ODD, data), "opaque": b"o" * 99,
             "none": safetensors([], b"")}  # fmt: skip
    snapshot = saved(vault, files)
    shown = vault_contents.show(vault, snapshot, hashes=True)
    found = {(one.file, one.name): one for one in shown.tensors}
    expected = {("model.safetensors", name): blake3(value.tobytes()).hexdigest() for name, value in weights(0).items()}
    expected |= {("odd", name): blake3(data[begin:end]).hexdigest() for name, _, _, begin, end in ODD}
    assert {key: one.hash for key, one in found.items()} == expected
    assert (found["odd", "invented"].dtype, found["odd", "invented"].shape, found["odd", "scalar"].shape) == ("F3_WHAT", (5,), ())
    assert shown.damage == ()
    assert {one.hash for one in vault_contents.show(vault, snapshot, hashes=False).tensors} == {None}


def test_hashes_of_a_damaged_snapshot_are_left_out_and_the_damage_is_named(vault: Vault, tmp_path: Path) -> None:
    save_file(weights(0), tmp_path / "model.safetensors")
    snapshot = saved(vault, {"model.safetensors": (tmp_path / "model.safetensors").read_bytes()})
    ref = snapshot.files[0].blocks[2]
    second_of_embed = ref.stored or ref.block
    flip_in_block(tmp_path / "v", second_of_embed, at=5)
    assert call(["vault", "show", str(tmp_path / "v"), "train", "--json"]) == 1
    shown = vault_contents.show(vault, snapshot, hashes=True)
    assert [one.name for one in shown.tensors if one.hash is None] == ["embed"]
    assert second_of_embed in shown.damage[0]


def test_V01_some_tensors_come_back_as_a_safetensors_file(vault: Vault, tmp_path: Path) -> None:
    save_file(weights(0), tmp_path / "model.safetensors")
    snapshot = saved(vault, {"model.safetensors": (tmp_path / "model.safetensors").read_bytes()})
    out = tmp_path / "out"
    words = ["vault", "restore", str(tmp_path / "v"), "train", "--to", str(out), "--tensor", "embed", "--tensor", "b.bias"]
    assert call(words) == 0
    loaded = load_file(out / "tensors.safetensors")
    assert {name: value.tobytes() for name, value in loaded.items()} == {name: weights(0)[name].tobytes() for name in ("embed", "b.bias")}
    assert call(words) == 0, "the same again is no conflict"
    assert call([*words, "--tensor", "head"]) == 2, "other content is"
    (out / "tensors.safetensors").unlink()
    (out / ".tensors.safetensors.part").write_bytes(b"left by a process that was killed")
    assert call(words) == 0
    assert [path.name for path in out.iterdir()] == ["tensors.safetensors"]
    odd = saved(vault, {"odd": safetensors(ODD, bytes(range(64)))}, step=2)
    picked = vault_contents.pick_tensors(odd, ["tied.a", "tied.b", "invented", "empty"], files=())
    content = b"".join(bytes(piece) for piece in vault_contents.tensor_file(vault, odd, picked))
    size = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    assert size % 8 == 0
    for name, dtype, shape, begin, end in (row for row in ODD if row[0] in header):
        entry = header[name]
        assert (entry["dtype"], entry["shape"]) == (dtype, shape)
        assert data[slice(*entry["data_offsets"])] == bytes(range(64))[begin:end]
    assert header["__metadata__"] == {"snapshot": odd.id}
    assert snapshot.id != odd.id


def test_tensor_of_one_name_in_several_files_must_be_told_apart(vault: Vault) -> None:
    rows = [("step", "I64", [], 0, 8)]
    snapshot = saved(vault, {f"rank-{rank}": safetensors(rows, bytes([rank] * 8)) for rank in range(2)})
    with pytest.raises(BridgeheadError, match="rank-0, rank-1") as error:
        vault_contents.pick_tensors(snapshot, ["step"], files=())
    assert error.value.code is ErrorCode.BAD_USAGE
    ((file, _),) = vault_contents.pick_tensors(snapshot, ["step"], files=["rank-1"])
    assert file.path == "rank-1"
    with pytest.raises(BridgeheadError, match="Did you mean 'step'"):
        vault_contents.pick_tensors(snapshot, ["stepp"], files=())


def changes(vault: Vault, before: Snapshot, after: Snapshot) -> dict[str, Change]:
    return {one.name: one.change for one in vault_diff.compare(vault, before, after).tensors}


def test_diff_tells_tensors_apart_that_share_a_block(vault: Vault, tmp_path: Path) -> None:
    steps = []
    old = weights(0)
    embed = old["embed"].copy()
    embed[-1] += 1
    new = weights(0, **{"a.bias": old["a.bias"] + 1, "embed": embed, "new": np.ones(4, np.float32), "z.norm": old["z.norm"].reshape(1, 11)})
    del new["b.bias"]
    for step, tensors in enumerate((old, new), 1):
        save_file(tensors, tmp_path / "m")
        steps.append(saved(vault, {"model.safetensors": (tmp_path / "m").read_bytes()}, step=step))
    assert changes(vault, *steps) == {
        "a.bias": Change.CHANGED, "b.bias": Change.REMOVED, "embed": Change.CHANGED, "head": Change.SAME, "new": Change.ADDED,
        "z.norm": Change.CHANGED,
    }  # fmt: skip
    found = {one.name: one for one in vault_diff.compare(vault, *steps).tensors}
    assert found["z.norm"].changed_bytes == 0, "only its shape"
    assert (found["z.norm"].before, found["z.norm"].after) == ("F32 [11]", "F32 [1, 11]")
    assert 0 < found["embed"].changed_bytes < found["embed"].size_bytes, "the first of its blocks is the same"
    assert call(["vault", "diff", str(tmp_path / "v"), "train@1", "train@2"]) == 1
    assert call(["vault", "diff", str(tmp_path / "v"), "train@1", "train@1"]) == 0


def test_tensor_that_moved_to_another_file_is_the_same(vault: Vault) -> None:
    row = [("w", "U8", [4], 0, 4)]
    before = saved(vault, {"one.safetensors": safetensors(row, b"same"), "x": b"x" * 10})
    after = saved(vault, {"model-1-of-2.safetensors": safetensors(row, b"same"), "x": b"y" * 10}, step=2)
    found = vault_diff.compare(vault, before, after)
    assert [(one.name, one.change) for one in found.tensors] == [("w", Change.SAME)]
    assert {one.name: one.change for one in found.files} == {
        "model-1-of-2.safetensors": Change.ADDED, "one.safetensors": Change.REMOVED, "x": Change.CHANGED
    }  # fmt: skip
    assert not found.same


@pytest.mark.parametrize("seed", range(12))
def test_diff_agrees_with_the_bytes_for_any_layout(vault: Vault, seed: int) -> None:
    """Tensors of random sizes, order and gaps, so that blocks of both sides lie across each other."""
    draw = random.Random(seed)
    names = [f"t{number}" for number in range(9)]
    contents = [{name: draw.randbytes(draw.choice((0, 5, 900, 70_000, 140_001))) for name in names}]
    contents.append({name: data if draw.random() < 0.6 else draw.randbytes(len(data)) for name, data in contents[0].items()})
    snapshots = []
    for step, tensors in enumerate(contents):
        rows, data = [], b""
        for name in draw.sample(names, len(names)):
            data += draw.randbytes(draw.choice((0, 0, 3)))
            rows.append((name, "U8", [len(tensors[name])], len(data), len(data) + len(tensors[name])))
            data += tensors[name]
        snapshots.append(saved(vault, {"m": safetensors(rows, data)}, step=step))
    expected = {name: Change.SAME if contents[0][name] == contents[1][name] else Change.CHANGED for name in names}
    assert changes(vault, *snapshots) == expected
