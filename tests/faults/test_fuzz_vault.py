"""The fuzzer of vaults and courier drives finds nothing in a few seconds, and would find what is wrong."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from bridgehead.testing import fuzz_vault


@pytest.fixture(scope="module")
def sample() -> fuzz_vault.Sample:
    return fuzz_vault.Sample()


def test_unchanged_objects_pass(sample: fuzz_vault.Sample) -> None:
    fuzz_vault.check(sample, sample.stores)
    for frame, size_bytes in sample.frames:
        fuzz_vault.check_frame(frame, size_bytes)


def test_sample_has_every_class_of_object(sample: fuzz_vault.Sample) -> None:
    folders = {key.split("/")[0] for key in sample.stores[0]}
    assert folders >= {"vault.json", "data", "index", "snapshots", "receipts", "fences", "holds", "state"}
    assert {key.split("/")[0] for key in sample.stores[1]} >= {"set.json", "objects", "shares", "hashes", "manifest.json", "custody"}


def test_a_few_seconds_find_nothing() -> None:
    said: list[str] = []
    assert list(fuzz_vault.run(seed=7, seconds=3, say=said.append)) == []
    assert int(said[-1].split()[0]) > 20


def test_changes_are_the_same_for_a_seed(sample: fuzz_vault.Sample) -> None:
    assert fuzz_vault.changed(sample.stores, random.Random(3)) == fuzz_vault.changed(sample.stores, random.Random(3))
    assert fuzz_vault.changed(sample.stores, random.Random(3)) != fuzz_vault.changed(sample.stores, random.Random(4))


def test_a_vault_that_gives_other_bytes_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fuzz_vault.Vault, "load", lambda vault, snapshot: {"other": b""})
    monkeypatch.setattr(fuzz_vault.resource, "setrlimit", lambda *_: None)
    assert fuzz_vault.main(["--seconds", "5", "--seed", "1", "--output", str(tmp_path)]) == 1
    assert "came back otherwise; seed 1" in capsys.readouterr().out
    assert any(path.is_file() for path in tmp_path.rglob("data~*"))
