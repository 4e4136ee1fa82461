"""Writes docs/reference/metrics.md: findings, report, metrics and alert rules of `bridgehead watch`, from the code that makes them.

With ``--check`` it writes nothing and ends with 1 when the page is not what it would write.
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

import msgspec

from bridgehead.recovery.watch.alarm import AlarmState
from bridgehead.recovery.watch.finding import WatchFinding
from bridgehead.recovery.watch.liveness import Limits, SiteState, SiteVerdict
from bridgehead.recovery.watch.metrics import METRICS
from bridgehead.recovery.watch.readiness import CODES, SnapshotLine, WatchReport, WorkloadLine
from bridgehead.recovery.watch.rules import alert_rules
from bridgehead.recovery.watch.scene import Terms

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "metrics.md"

HEAD = """\
# The watch: findings, report, metrics and alert rules

<!-- Written by `make docs` from src/bridgehead/recovery/watch; edit that. -->

How to use it: [watch readiness](../how-to/watch-readiness.md). Exit codes of `watch --once`: 0 everything passes, 1 something fails,
3 nothing fails and something is not known. A warning that fails is not green either.
"""

STATES = {
    SiteState.ALIVE: "somebody has had a sign of life that is fresh",
    SiteState.SILENT: "most observers that see other places get no answer; it may well be alive",
    SiteState.LOST: "a person, or power that is off, says so, and no sign of life is younger than the grace",
    SiteState.UNKNOWN: "nobody who could tell has looked lately",
}


def page() -> str:
    """The whole page."""
    lines = [HEAD, "## Findings", "", "| code | asks | how | serves | when it fails |", "|---|---|---|---|---|"]
    for code, _ in CODES:
        formula, remedy = code.formula.replace("|", "\\|"), code.remedy.replace("|", "\\|")
        lines.append(f"| `{code.code}` | {code.title} | {formula} | {', '.join(code.requirement)} | {remedy} |")
    lines += ["", "Each has the status `pass`, `fail` or `unknown`; `foreseen` marks one that passes now and will not for long.", ""]
    lines += ["## States of a site", "", "| state | |", "|---|---|"]
    lines += [f"| `{state.value}` | {words} |" for state, words in STATES.items()]
    lines += ["", "## What it goes by", "", *_defaults(Limits), *_defaults(Terms)]
    lines += ["## The report", "", "`bridgehead watch --once --json`; `bridgehead watch schema` prints its JSON Schema.", ""]
    for kind in (WatchReport, SiteVerdict, WorkloadLine, SnapshotLine, WatchFinding, AlarmState):
        lines += _fields(kind)
    lines += [
        "## Metrics",
        "",
        "All are gauges, and carry `estate` and `observer` beside their own labels. What is not known has no sample.",
        "",
    ]
    lines += ["| metric | labels | |", "|---|---|---|"]
    for metric in METRICS:
        lines.append(f"| `{metric.name}` | {', '.join(f'`{label}`' for label in metric.labels)} | {metric.help} |")
    lines += ["", "## Alert rules", "", "`bridgehead watch rules` prints them; with `--every 30s --lead 15min`:", ""]
    lines += ["| alert | severity | for | expression |", "|---|---|---|---|"]
    for rule in alert_rules():
        lines.append(f"| `{rule.name}` | {rule.severity} | {rule.for_s:g} s | `{rule.expr.replace('|', chr(92) + '|')}` |")
    return "\n".join(lines) + "\n"


def _defaults(kind: type[msgspec.Struct]) -> list[str]:
    docs = _attributes(kind)
    lines = ["| | default | |", "|---|---|---|"]
    lines += [f"| `{field.name}` | {field.default:g} | {docs.get(field.name, '')} |" for field in msgspec.structs.fields(kind)]
    return [*lines, ""]


def _fields(kind: type[msgspec.Struct]) -> list[str]:
    docs = {name: text for base in reversed(kind.__mro__) for name, text in _attributes(base).items()}
    lines = [f"### {kind.__name__}", "", "| field | |", "|---|---|"]
    lines += [f"| `{field.name}` | {docs.get(field.name, '')} |" for field in msgspec.structs.fields(kind)]
    return [*lines, ""]


def _attributes(kind: type) -> dict[str, str]:
    """What the docstring says of each attribute; one entry may speak of several."""
    if not kind.__module__.startswith("bridgehead."):
        return {}
    _, _, text = (inspect.cleandoc(kind.__doc__ or "")).partition("Attributes:\n")
    found: dict[str, str] = {}
    for entry in re.split(r"\n(?=    \w)", "\n" + text.partition("\n\n")[0]):
        names, colon, words = entry.strip().partition(":")
        if colon:
            for name in names.split(","):
                found[name.strip()] = " ".join(words.split()).replace("``", "`").replace("|", "\\|")
    return found


def main() -> int:
    """Write the page, or compare it."""
    if "--check" in sys.argv[1:]:
        if PAGE.exists() and PAGE.read_text(encoding="utf-8") == page():
            return 0
        print(f"{PAGE} is not up to date: make docs", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
