"""V07: the index of a sharded checkpoint against the files beside it: missing, extra and stale are three findings."""

from __future__ import annotations

import json

import pytest

from bridgehead.model.snapshot import TensorEntry
from bridgehead.vault.formats import IndexFindings, index_findings

INDEX = "step/model.safetensors.index.json"
ONE, TWO, THREE = (f"step/model-0000{number}-of-00003.safetensors" for number in (1, 2, 3))
WHERE = {"a": ONE, "b": ONE, "c": TWO, "d": THREE}


def index(where: dict[str, str]) -> bytes:
    return json.dumps({"metadata": {}, "weight_map": {name: path.removeprefix("step/") for name, path in where.items()}}).encode()


def shards(where: dict[str, str]) -> dict[str, list[TensorEntry]]:
    files: dict[str, list[TensorEntry]] = {"step/config.json": [], INDEX: []}
    for name, path in where.items():
        files.setdefault(path, []).append(TensorEntry(name, "F32", (1,), 8, 4))
    return files


def test_V07_index_that_agrees() -> None:
    assert index_findings(INDEX, index(WHERE), shards(WHERE)) == IndexFindings(INDEX)
    assert IndexFindings(INDEX).clean


def test_V07_file_that_is_missing() -> None:
    files = shards(WHERE)
    del files[TWO]
    findings = index_findings(INDEX, index(WHERE), files)
    assert findings == IndexFindings(INDEX, missing=(TWO,))
    assert not findings.clean


def test_V07_shard_that_is_extra() -> None:
    files = shards(WHERE) | {"step/model-00004-of-00004.safetensors": [], "step/adapter.safetensors": [], "model-1-of-1.safetensors": []}
    assert index_findings(INDEX, index(WHERE), files) == IndexFindings(INDEX, extra=("step/model-00004-of-00004.safetensors",))


def test_V07_index_that_is_stale_although_all_files_are_there() -> None:
    findings = index_findings(INDEX, index(WHERE), shards({"a": ONE, "b": TWO, "c": TWO, "d": THREE, "e": THREE}))
    assert findings.missing == findings.extra == ()
    assert findings.stale == (f"{ONE} does not hold 'b'", f"'e' of {THREE} is not in the index")


def test_V07_moved_tensor_is_named_from_the_index() -> None:
    assert index_findings(INDEX, index(WHERE), shards({**WHERE, "b": TWO})).stale == (f"{ONE} does not hold 'b'",)


def test_V07_files_whose_tensors_are_not_known_say_nothing_about_them() -> None:
    assert index_findings(INDEX, index(WHERE), {path: [] for path in (ONE, TWO, THREE)}).clean


@pytest.mark.parametrize("document", [b"", b"[]", b"{}", b'{"weight_map": {"a": 1}}', b'{"weight_map": []}', b"[" * 100_000, b"\xff"])
def test_V07_index_that_cannot_be_read(document: bytes) -> None:
    assert index_findings(INDEX, document, shards(WHERE)).stale == ("the index cannot be read",)


def test_V07_index_of_torch_files() -> None:
    name, shard = "pytorch_model.bin.index.json", "pytorch_model-00001-of-00002.bin"
    document = json.dumps({"weight_map": {"a": shard}}).encode()
    files = {shard: [], "pytorch_model-00002-of-00002.bin": [], "optimizer.bin": []}
    assert index_findings(name, document, files).extra == ("pytorch_model-00002-of-00002.bin",)
