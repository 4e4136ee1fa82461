"""``vault save --shard``, ``vault restore --shard`` and ``vault commit``, as a job's nodes call them."""

import json
from pathlib import Path

import pytest

from bridgehead.cli.main import call

SAVE = ["vault", "save", "v", "c", "--workload", "t", "--step", "3"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "a").write_bytes(b"a" * 5000)
    (tmp_path / "c" / "b").write_bytes(b"b" * 50)
    call(["vault", "init", "v"])
    capsys.readouterr()
    return tmp_path


def test_nodes_save_and_restore_their_shares(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call([*SAVE, "--shard", "1/2", "--json"]) == 0
    first = json.loads(capsys.readouterr().out)
    assert first == {"id": None, "shard": "1/2", "missing": [2], "files": 1, "raw_bytes": 5000, "counts": True}
    assert call(["vault", "commit", "v", "--workload", "t", "--step", "3", "--shards", "2"]) == 7
    assert "shard 2 of 2 has not stored any share" in capsys.readouterr().err
    assert call([*SAVE, "--shard", "2/2"]) == 0
    assert "closed, 2 files" in capsys.readouterr().out
    assert call(["vault", "commit", "v", "--workload", "t", "--step", "3", "--shards", "2"]) == 0
    assert call(["vault", "restore", "v", "t@3", "--to", "o", "--shard", "2/2"]) == 0
    assert "other shares are not there yet" in capsys.readouterr().out
    assert call(["vault", "restore", "v", "t@3", "--to", "o", "--shard", "1/2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["whole"] is True
    assert {path.name: path.read_bytes() for path in (folder / "o").iterdir()} == {"a": b"a" * 5000, "b": b"b" * 50}


def test_own_files_need_an_attempt(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert call([*SAVE, "--shard", "1/1", "--mine"]) == 2
    assert "--attempt" in capsys.readouterr().err
    monkeypatch.setenv("BRIDGEHEAD_ATTEMPT", "77-0")
    assert call([*SAVE, "--shard", "1/1", "--mine"]) == 0
    assert call([*SAVE, "--json"]) == 0  # the variable alone makes no share of a save
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["created"] is False


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        ([*SAVE, "--mine"], "--shard"),
        ([*SAVE, "--shard", "3/2"], "shard 3/2"),
        ([*SAVE, "--shard", "1/2", "--capture", "."], "--capture"),
        (["vault", "restore", "v", "t@3", "--to", "o", "--shard", "1/2", "--file", "a"], "--shard 1/2"),
    ],
)
def test_options_that_do_not_go_together_are_refused(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    call(SAVE)
    capsys.readouterr()
    assert call(arguments) == 2
    assert word in capsys.readouterr().err
