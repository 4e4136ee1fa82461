"""``bridgehead runbook``: check runbook files."""

from __future__ import annotations

from pathlib import Path

import msgspec
from cyclopts import App

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode

app = App(name="runbook", help="Check runbook files.")


@app.command
def lint(file: Path, /, *, json: JsonOption = False) -> int:
    """Check a runbook; exit code 0 without errors (there may be warnings), 1 with errors, 2 when it cannot be read.

    Each code is explained in docs/reference/runbook-lint.md.

    Args:
        file: a runbook file.
    """
    from bridgehead.app.runbook_files import read_text
    from bridgehead.app.wiring import action_params, undoable_actions
    from bridgehead.runbook.finding import Severity
    from bridgehead.runbook.language import read_located
    from bridgehead.runbook.lint import lint_located

    actions = action_params()
    located = read_located(read_text(file, what="runbook"), file=str(file), actions=actions)
    findings = lint_located(located, actions, undoable=undoable_actions())
    errors = sum(finding.severity is Severity.ERROR for finding in findings)
    if json:
        listed = msgspec.to_builtins(findings)
        print(msgspec.json.encode({"runbook": located.runbook.name, "errors": errors, "findings": listed}).decode())
    else:
        for finding in findings:
            print(finding)
        warnings = len(findings) - errors
        print(f"{file}: {errors} error{'' if errors == 1 else 's'}, {warnings} warning{'' if warnings == 1 else 's'}")
    return ExitCode.NEGATIVE if errors else ExitCode.DONE
