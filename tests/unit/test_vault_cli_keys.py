"""``bridgehead vault`` with encrypted vaults, and ``vault keys``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyrage
import pytest

from bridgehead.cli.main import call

VARIABLES = ("BRIDGEHEAD_PASSPHRASE", "BRIDGEHEAD_KEY_FILE", "BRIDGEHEAD_NEW_PASSPHRASE")


class Shell:
    """Commands in this process, in a folder; ``raw`` and ``anna`` are key files, ``w`` is what is saved."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys, self.err = capsys, ""
        self.anna = pyrage.x25519.Identity.generate()
        (folder / "raw").write_bytes(os.urandom(32))
        (folder / "anna").write_text(f"# a comment\n{self.anna}\n")
        (folder / "w").mkdir()
        (folder / "w" / "model.bin").write_bytes(b"weights" * 1000)

    def __call__(self, *words: str, code: int = 0) -> str:
        found = call(["vault", *words])
        out, self.err = self._capsys.readouterr()
        assert found == code, self.err
        return out

    def json(self, *words: str, code: int = 0) -> Any:
        return json.loads(self(*words, "--json", code=code))

    def save(self, step: int, *words: str, vault: str = "v") -> Any:
        return self.json("save", vault, "w", "--workload", "train", "--step", str(step), *words)


@pytest.fixture
def shell(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BRIDGEHEAD_HOME", str(tmp_path / "home"))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return Shell(tmp_path, capsys)


def test_every_verb_opens_an_encrypted_vault_with_the_passphrase(shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BRIDGEHEAD_PASSPHRASE", "correct horse")
    out = shell("init", "v")
    assert "encrypted for" in out
    assert "passphrase" in out
    saved = shell.save(1)
    assert shell("cat", "v", "train", "model.bin").encode() == b"weights" * 1000
    for words in (("list", "v"), ("show", "v", "train"), ("status", "v"), ("verify", "v", "--read-data"), ("keys", "list", "v")):
        assert shell.json(*words)
    shell("restore", "v", "train@1", "--to", "out")
    assert (tmp_path / "out" / "model.bin").read_bytes() == b"weights" * 1000
    assert saved["id"] in shell("receipt", "v", "train@1", "--site", "a")
    assert "nothing was changed" in shell("init", "v")
    for variable in ("absent", "wrong"):
        if variable == "absent":
            monkeypatch.delenv("BRIDGEHEAD_PASSPHRASE")
        else:
            monkeypatch.setenv("BRIDGEHEAD_PASSPHRASE", "wrong")
        for words in (("list", "v"), ("verify", "v"), ("init", "v"), ("cat", "v", "train", "model.bin")):
            shell(*words, code=2)
            assert "[vault-locked]" in shell.err
            assert "BRIDGEHEAD_PASSPHRASE" in shell.err
            assert "(passphrase)" in shell.err
            assert "correct horse" not in shell.err


def test_key_file_may_stand_anywhere_and_is_forgotten_after_the_command(shell: Shell) -> None:
    shell("init", "v", "--encrypt", "--key-file", "raw")
    shell("save", "--key-file=raw", "v", "w", "--workload", "train", "--step", "1")
    assert shell("--key-file", "raw", "cat", "v", "train", "model.bin")
    assert "BRIDGEHEAD_KEY_FILE" not in os.environ
    shell("list", "v", code=2)
    assert "(key-file)" in shell.err
    for words in (("list", "v", "--key-file"), ("list", "v", "--key-file="), ("list", "v", "--key-file", "--", "x")):
        shell(*words, code=2)
        assert "it needs a file" in shell.err
    shell("list", "v", "--key-file", "absent", code=2)
    assert "No such file" in shell.err


def test_init_for_a_recipient_opens_with_his_identity(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    made = shell.json("init", "v", "--recipient", str(shell.anna.to_public()))
    assert made["encrypted"]
    assert "(age)" in made["recipients"][0]
    shell("list", "v", code=2)
    monkeypatch.setenv("BRIDGEHEAD_KEY_FILE", "anna")
    assert shell.save(1)["created"]


def test_encrypt_without_a_key_and_a_key_for_a_plain_vault_are_refused(
    shell: Shell, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    shell("init", "v", "--encrypt", code=2)
    assert "BRIDGEHEAD_PASSPHRASE" in shell.err
    assert not (tmp_path / "v").exists()
    monkeypatch.setenv("BRIDGEHEAD_PASSPHRASE", "")
    shell("init", "v", code=2)
    assert "empty" in shell.err
    monkeypatch.delenv("BRIDGEHEAD_PASSPHRASE")
    assert not shell.json("init", "v")["encrypted"]
    shell("list", "v", "--key-file", "raw", code=2)
    assert "not encrypted" in shell.err
    for words in (("list", "v"), ("rotate", "v"), ("remove", "v", "0" * 16)):
        shell("keys", *words, code=2)
        assert "not encrypted" in shell.err


def test_recipients_are_added_and_removed(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("init", "v", "--key-file", "raw")
    shell.save(1, "--key-file", "raw")
    monkeypatch.setenv("BRIDGEHEAD_NEW_PASSPHRASE", "bob")
    out = shell(
        "keys", "add", "v", "--passphrase", "--recipient", str(shell.anna.to_public()), "--note", "night shift", "--key-file", "raw"
    )
    assert out.count("can open v") == 2
    assert "night shift" in out
    listed = shell.json("keys", "list", "v")  # needs no key
    assert sorted(one["kind"] for one in listed["recipients"]) == ["age", "key-file", "passphrase"]
    assert {one["vouched"] for one in listed["recipients"]} == {None}
    assert {one["vouched"] for one in shell.json("keys", "list", "v", "--key-file", "anna")["recipients"]} == {True}
    assert shell("cat", "v", "train", "model.bin", "--key-file", "anna")
    monkeypatch.setenv("BRIDGEHEAD_PASSPHRASE", "bob")
    assert shell("cat", "v", "train", "model.bin")
    raw = next(one["id"] for one in listed["recipients"] if one["kind"] == "key-file")
    assert "keys rotate" in shell("keys", "remove", "v", raw)
    monkeypatch.delenv("BRIDGEHEAD_PASSPHRASE")
    shell("list", "v", "--key-file", "raw", code=2)
    shell("keys", "remove", "v", raw, "--key-file", "anna", code=6)
    shell("keys", "add", "v", "--key-file", "anna", code=2)
    assert "none was given" in shell.err


def test_a_new_data_key_keeps_the_old_data_readable(shell: Shell) -> None:
    shell("init", "v", "--key-file", "raw")
    shell.save(1, "--key-file", "raw")
    new = shell.json("keys", "rotate", "v", "--key-file", "raw")["active"]
    listed = shell.json("keys", "list", "v", "--key-file", "raw")
    assert listed["active"] == new
    assert len(listed["data_keys"]) == 2
    assert [one["step"] for one in shell.json("list", "v", "--key-file", "raw")["snapshots"]] == [1]
    (Path("w") / "model.bin").write_bytes(b"other" * 900)
    shell.save(2, "--key-file", "raw")
    assert shell("cat", "v", "train@1", "model.bin", "--key-file", "raw").startswith("weights")
    assert shell("cat", "v", "train@2", "model.bin", "--key-file", "raw").startswith("other")
    assert shell.json("verify", "v", "--read-data", "--key-file", "raw")["intact"]


def test_a_recipient_whom_nobody_with_a_key_has_added_is_named(shell: Shell, tmp_path: Path) -> None:
    shell("init", "v", "--key-file", "raw")
    shell("init", "mallory", "--key-file", "anna")
    (record,) = (tmp_path / "mallory" / "keys").glob("*/recipient.json")
    folder = tmp_path / "v" / "keys" / record.parent.name
    folder.mkdir()
    (folder / "recipient.json").write_bytes(record.read_bytes())
    assert "NOT ADDED BY ANYBODY" in shell("keys", "list", "v", "--key-file", "raw", code=1)
    shell("keys", "remove", "v", folder.name, "--key-file", "raw")
    shell("keys", "list", "v", "--key-file", "raw")


def test_like_makes_a_vault_that_can_be_replicated_to(shell: Shell, tmp_path: Path) -> None:
    shell("init", "a", "--key-file", "raw")
    shell("init", "b", "--like", "a", "--recipient", str(shell.anna.to_public()), "--key-file", "raw")
    shell("init", "c", "--key-file", "raw")
    saved = shell.save(1, "--key-file", "raw", vault="a")
    copied = shell.json("replicate", "a", "b", "--key-file", "raw")
    assert copied["copied"] == [saved["id"]]
    assert shell("cat", "b", "train", "model.bin", "--key-file", "anna").startswith("weights")
    shell("list", "a", "--key-file", "anna", code=2)
    shell("replicate", "a", "c", "--key-file", "raw", code=7)
    assert "different families" in shell.err
    assert "--like" in shell.err
    shell("init", "plain")
    shell("init", "d", "--like", "plain", "--encrypt", code=2)
    assert "not encrypted" in shell.err


def test_lost_vault_json_of_an_encrypted_vault_is_made_anew_from_its_replica(shell: Shell, tmp_path: Path) -> None:
    shell("init", "a", "--key-file", "raw")
    shell("init", "b", "--like", "a", "--key-file", "raw")
    shell.save(1, "--key-file", "raw", vault="a")
    shell("replicate", "a", "b", "--key-file", "raw")
    (tmp_path / "a" / "vault.json").unlink()
    shell("repair", "a", "--key-file", "raw", code=7)
    assert "--like" in shell.err
    shell("repair", "a", "--like", "b", "--key-file", "raw")
    assert shell("cat", "a", "train", "model.bin", "--key-file", "raw").startswith("weights")


def test_key_file_in_a_process_of_its_own(shell: Shell, tmp_path: Path) -> None:
    env = {name: value for name, value in os.environ.items() if name not in VARIABLES}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "bridgehead.cli.main", "vault", *words]
        return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert run("init", "v", "--key-file", "raw").returncode == 0
    assert run("list", "v", "--key-file", "raw").returncode == 0
    locked = run("list", "v")
    assert locked.returncode == 2
    assert "vault-locked" in locked.stderr


def test_saves_are_signed_and_judged_by_a_trust_list(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("init", "v")
    saved = shell.save(1)
    (tmp_path / "trust").write_text(shell("keys", "signer"))
    found = shell.json("verify", "v", "--trust", "trust")
    assert found["signatures"] == {"trusted": 1, "findings": []}
    monkeypatch.setenv("BRIDGEHEAD_HOME", str(tmp_path / "other"))
    (Path("w") / "model.bin").write_bytes(b"other")
    foreign = shell.save(2)
    assert "does not name" in shell("verify", "v", "--trust", "trust", code=1)
    shell("verify", "v")
    (tmp_path / "v" / "signatures" / "snapshots" / "train").rename(tmp_path / "away")
    findings = shell.json("verify", "v", "--trust", "trust", code=1)["signatures"]["findings"]
    assert {one["snapshot"]: one["standing"] for one in findings} == {saved["id"]: "unsigned", foreign["id"]: "unsigned"}
    assert "2 signed now" in shell("keys", "sign", "v")
    assert "unknown-signer" in json.dumps(shell.json("verify", "v", "--trust", "trust", code=1))
    (signature,) = (tmp_path / "v" / "signatures" / "snapshots" / "train").glob("000000000001-*")
    signature.write_bytes(next((tmp_path / "away").glob("000000000002-*")).read_bytes())
    assert "BAD SIGNATURE" in shell("verify", "v", "--trust", "trust", code=1)
    assert "damaged signature" in shell("verify", "v", code=1)
    shell("verify", "v", "--trust", "w", code=2)


def test_a_home_without_a_key_does_not_stop_a_save_but_is_told(shell: Shell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shell("init", "v")
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("BRIDGEHEAD_HOME", str(tmp_path / "file"))
    assert shell.save(1)["created"]
    assert "not signed" in shell.err


def test_replicate_without_a_key(shell: Shell, tmp_path: Path) -> None:
    shell("init", "v", "--key-file", "raw")
    saved = shell.save(1, "--key-file", "raw")
    assert "copied" in shell("replicate", "v", "copy", "--without-key")
    assert shell.json("replicate", "v", "copy", "--without-key")["objects"] == 0
    assert shell("cat", "copy", "train", "model.bin", "--key-file", "raw").startswith("weights")
    assert shell.json("show", "copy", "train", "--key-file", "raw")["id"] == saved["id"]
    shell("init", "plain")
    shell("replicate", "v", "plain", "--without-key", code=7)
    assert "another vault" in shell.err
    shell("replicate", "v", "copy", "--without-key", "--heal", code=2)
    shell("replicate", "w", "copy2", "--without-key", code=6)
    (pack,) = (tmp_path / "v" / "data").glob("*/*")
    pack.write_bytes(b"x" + pack.read_bytes()[1:])
    assert "FAILED data/" in shell("replicate", "v", "copy3", "--without-key", code=1)


def test_a_damaged_vault_file_of_an_encrypted_vault_is_named(shell: Shell, tmp_path: Path) -> None:
    shell("init", "v", "--key-file", "raw")
    file = tmp_path / "v" / "vault.json"
    file.write_bytes(file.read_bytes().replace(b"sealed-1", b"sealed-0"))
    shell("verify", "v", "--key-file", "raw", code=1)
    assert "vault.json" in shell.err
