"""Tables that go into a file or a program have no blanks at the ends of their lines; the commands of the page of objectives work."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bridgehead.cli.main import call

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "how-to" / "set-objectives.md"
COMMANDS = re.findall(r"^\$ bridgehead (objectives .*)$", PAGE.read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", [*COMMANDS, f"{COMMANDS[1]} --figures", f"{COMMANDS[0]} --all"])
def test_commands_of_the_page_of_objectives(command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.delenv("COLUMNS", raising=False)
    assert call(shlex.split(command)) == (1 if " check " in command else 0)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 5
    assert [line for line in lines if line != line.rstrip()] == []
