"""`people try`: what cannot arrive is said at once, with the file that is missing (issue 6, `notify`)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from bridgehead.cli.main import call

FILE = """
notify: ops
channels:
  chat: {{driver: webhook, url: "http://127.0.0.1:1/hook", secrets: ["file:{folder}/chat.secret"]}}
"""


def test_a_secret_that_is_not_there_is_named_at_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "notify.yaml").write_text(FILE.format(folder=tmp_path))
    began_s = time.monotonic()
    assert call(["people", "try", "--home", str(tmp_path), "--timeout", "60 s"]) == 1
    assert time.monotonic() - began_s < 30
    out = capsys.readouterr().out
    assert "tried once" in out
    assert f"({tmp_path}/chat.secret: No such file or directory)" in out
