"""With ``--json`` an error is a document on stdout too, the same way for all verbs; and where its page is can be opened from here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from bridgehead.cli import failures
from bridgehead.cli.failures import page_of, wants_json
from bridgehead.cli.main import app, call
from bridgehead.kernel.errors import BridgeheadError, ErrorCode

FIELDS = {"code", "tried", "subject", "happened", "remedy", "more", "exit_code"}


def verbs(chain: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Every verb of the command line."""
    _, apps, _ = app.parse_commands(list(chain))
    below = [name for name in apps[-1] if not name.startswith("-")]
    return [verb for name in below for verb in verbs((*chain, name))] if below else [chain]


@pytest.mark.parametrize("verb", verbs(), ids=" ".join)
def test_every_verb_tells_a_wrong_use_as_a_document(verb: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    code = call([*verb, "--json", "--no-such-option"])
    out, err = capsys.readouterr()
    document = json.loads(out)
    assert set(document) == {"error"}
    assert set(document["error"]) == FIELDS
    assert document["error"]["exit_code"] == code == 2
    assert err.startswith(f"error [{document['error']['code']}]: ")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["vault", "list", "nowhere", "--json"], "vault-not-found"),
        (["vault", "nonsense", "--json"], "bad-usage"),
        (["run", "status", "r9", "--home", "h", "--json"], "run-not-found"),
        (["vault", "status", "gopher://x", "--json"], "bad-usage"),
    ],
)
def test_what_is_missing_is_told_as_a_document(folder: Path, capsys: pytest.CaptureFixture[str], words: list[str], code: str) -> None:
    exit_code = call(words)
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["code"] == code
    assert json.loads(out)["error"]["exit_code"] == exit_code != 0
    assert f"[{code}]" in err


def test_without_json_stdout_stays_empty(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["vault", "list", "nowhere"]) == 6
    assert capsys.readouterr().out == ""
    assert call(["vault", "list", "nowhere", "--", "--json"]) != 0
    assert capsys.readouterr().out == ""


def test_there_is_no_second_document_behind_the_verbs_own(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def verb(*, json: bool = False) -> None:
        print('{"mode":"stuck"}')
        raise BridgeheadError(ErrorCode.RUN_STUCK, tried="go on", subject="r1", happened="an undo failed", remedy="")

    app.command(verb, name="prints-then-fails")
    try:
        assert call(["prints-then-fails", "--json"]) == 5
    finally:
        del app["prints-then-fails"]
    out, err = capsys.readouterr()
    assert json.loads(out) == {"mode": "stuck"}
    assert "[run-stuck]" in err


def test_V03_name_that_is_not_utf8_makes_no_second_error(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bridgehead.cli.main", "vault", "list", os.fsdecode(b"w\xff.bin"), "--json"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == 6
    assert json.loads(done.stdout)["error"]["subject"] == "w\\udcff.bin"
    assert b"w\\udcff.bin" in done.stderr


def test_json_after_two_dashes_is_a_name() -> None:
    assert wants_json(["vault", "list", "v", "--json"])
    assert not wants_json(["vault", "list", "--", "--json"])


def test_page_of_an_error_opens_from_where_the_reader_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    anchor = "docs/reference/errors.md#bad-usage"
    for place in (folder, failures._ROOT, failures._ROOT / "docs"):
        monkeypatch.chdir(place)
        page, _, part = page_of(anchor).partition("#")
        assert Path(page).is_file()
        assert part == "bad-usage"
    monkeypatch.setattr(failures, "_ROOT", folder)
    assert page_of(anchor).startswith(f"{anchor} in the documentation of Bridgehead ")


def test_document_is_what_the_page_says() -> None:
    assert {field.name for field in msgspec.structs.fields(failures.Failure)} == FIELDS
