"""Whoever switches a checker off says why, beside it."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
FILES = sorted(path for folder in ("src", "tests", "bench", "tools") for path in (ROOT / folder).rglob("*.py"))

SWITCH = re.compile(r"#\s*(?P<switch>type:\s*ignore|noqa|ruff:\s*noqa|mypy:|pragma:)(?P<rest>.*)")
NAMED_WITH_REASON = re.compile(r"(\[[a-z, -]+\]|:\s*[A-Z]+[0-9]+(,\s*[A-Z]+[0-9]+)*)\s*(#|-|--|:)?\s*\S.{8,}")


def unexplained(source: str) -> list[str]:
    """Comments that switch a checker off without naming the rule and a reason after it."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        switch = SWITCH.search(token.string) if token.type == tokenize.COMMENT else None
        if switch and not NAMED_WITH_REASON.match(switch["rest"].strip()):
            found.append(f"line {token.start[0]}: {token.string}")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_switched_off_checks_have_a_reason(path: Path) -> None:
    assert unexplained(path.read_text(encoding="utf-8")) == [], "write `# noqa: CODE - why` or `# type: ignore[code]  # why`"


def test_planted_switches_are_found() -> None:
    bare = "x = 1  # " + "noqa\ny = 2  # " + "type: ignore\nz = 3  # " + "type: ignore[arg-type]\nw = 4  # " + "noqa: E501\n"
    assert len(unexplained(bare)) == 4
    explained = "x = 1  # " + "noqa: E501 - a table that is read as a whole\ny = 2  # " + "type: ignore[misc]  # the stub lacks it\n"
    assert unexplained(explained) == []
