"""Writes docs/reference/errors.md from the error table in the code and the advice in docs/reference/errors.yaml.

With ``--check`` it writes nothing and ends with 1 when the page is not what it would write.
"""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from bridgehead.kernel.errors import TABLE, ExitCode

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"

EXAMPLE = (
    "<!-- run -->",
    "```console",
    "$ bridgehead run status no-such-run",
    "error [run-not-found]: could not find the run",
    "  on:   no-such-run",
    "  what: ...",
    "  do:   `bridgehead run list` shows all; ...",
    "  more: .../docs/reference/errors.md#run-not-found",
    "[exit code 6]",
    "```",
)

EXIT_CODES = {
    ExitCode.DONE: "done",
    ExitCode.NEGATIVE: "the verdict is negative: no-go, a promise broken, verification failed",
    ExitCode.USAGE: "wrong use or bad input; nothing was done",
    ExitCode.CANNOT_TELL: "the evidence does not suffice for a verdict",
    ExitCode.BUSY: "another process is at it",
    ExitCode.STUCK: "a person must act",
    ExitCode.NOT_FOUND: "no such thing",
    ExitCode.UNAVAILABLE: "something outside is missing, full or refuses",
    ExitCode.INTERNAL: "a fault in Bridgehead itself",
}


def page() -> str:
    """The whole page. Raises SystemExit, with the reason, when errors.yaml and the table do not name the same codes."""
    advice = yaml.safe_load((REFERENCE / "errors.yaml").read_text(encoding="utf-8"))
    if different := {code.value for code in TABLE} ^ set(advice):
        raise SystemExit(f"only one of the error table and docs/reference/errors.yaml has: {', '.join(sorted(different))}")
    lines = [
        "# Errors and exit codes",
        "",
        "<!-- Written by `make docs` from the error table and errors.yaml; edit those. -->",
        "",
        "Every error says what was tried, on what, what happened, and what to do now. Its code, in brackets at the front, is stable.",
        "",
        *EXAMPLE,
        "",
        "## Exit codes",
        "",
        "| exit code | meaning |",
        "|---|---|",
        *[f"| {code.value} | {EXIT_CODES[code]} |" for code in ExitCode],
        "",
    ]
    for code, entry in TABLE.items():
        lines += [f"## {code.value}", "", f"{entry.title}. Exit code {entry.exit_code.value}.", "", advice[code.value].strip(), ""]
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Write the page, or compare it."""
    path = REFERENCE / "errors.md"
    if "--check" in sys.argv[1:]:
        same = path.exists() and path.read_text(encoding="utf-8") == page()
        if not same:
            print(f"{path} is not up to date: make docs", file=sys.stderr)
        return 0 if same else 1
    path.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
