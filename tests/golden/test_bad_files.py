"""A file for each kind of fault that an estate, policy or runbook can have, with the exact message.

``BRIDGEHEAD_WRITE_GOLDEN=1`` writes the expected texts anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bridgehead.app.wiring import action_params, driver_options, undoable_actions
from bridgehead.kernel.located import BadFile
from bridgehead.model.estatefile import read_estate
from bridgehead.model.policy import read_policy
from bridgehead.runbook.finding import WARNINGS, LintCode, Severity
from bridgehead.runbook.language import read_located
from bridgehead.runbook.lint import lint_located

BAD = Path(__file__).parent / "bad"
FILES = sorted(BAD.rglob("*.yaml"))
FROM_CODE_ONLY = {LintCode.UNKNOWN_ACTION, LintCode.BAD_PARAMS}
"""Faults that the reader finds in files before the linter does; runbooks that are built in code can have them."""


def message(path: Path) -> str:
    """What a user is told about the file."""
    text = path.read_text(encoding="utf-8")
    try:
        match path.parent.name:
            case "estate":
                read_estate(text, file=path.name, drivers=driver_options())
            case "policy":
                read_policy(text, file=path.name)
            case _:
                located = read_located(text, file=path.name, actions=action_params())
                return "".join(f"{finding}\n" for finding in lint_located(located, action_params(), undoable=undoable_actions()))
    except BadFile as error:
        return f"{error}\n"
    return ""


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_bad_file_has_exactly_this_message(path: Path) -> None:
    expected = path.with_suffix(".txt")
    seen = message(path)
    assert seen, "the file has no fault"
    if os.environ.get("BRIDGEHEAD_WRITE_GOLDEN") == "1":
        expected.write_text(seen, encoding="utf-8")
    assert seen == expected.read_text(encoding="utf-8")


def test_every_lint_code_has_a_file_that_shows_it() -> None:
    shown = {code for code in LintCode for path in (BAD / "runbooks").glob(f"{code.value}*.yaml") if f"[{code.value}]" in message(path)}
    assert shown == set(LintCode) - FROM_CODE_ONLY


def test_lint_codes_are_documented_with_their_severity() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "runbook-lint.md").read_text(encoding="utf-8")
    headings = {line[3:].strip() for line in page.splitlines() if line.startswith("## ")}
    assert headings >= {code.value for code in LintCode}
    for code in LintCode:
        section = page.split(f"## {code.value}\n")[1].split("\n## ")[0]
        severity = Severity.WARNING if code in WARNINGS else Severity.ERROR
        assert section.strip().startswith(f"*{severity.value.capitalize()}.*"), code


def test_no_expected_text_without_its_file() -> None:
    assert {path.with_suffix(".yaml") for path in BAD.rglob("*.txt")} <= set(FILES)
