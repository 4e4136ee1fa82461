"""``bridgehead objectives``: what must hold after a disaster, what contradicts it, what it costs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode

app = App(name="objectives", help="Check and price what must hold after a disaster.")


@app.command
def check(
    estate: Path, objectives: Path, /, *, all: Annotated[bool, Parameter(name="--all", negative="")] = False, json: JsonOption = False
) -> int:
    """Say whether everything has an objective, and whether one contradicts another, a regulation, a dependency, or what lines can carry.

    Each conflict shows what it would cost to resolve it. Exit code 0 when all holds, 1 when something fails, 3 when it cannot be told.

    Args:
        estate: an estate file.
        objectives: an objectives file.
        all: print also what passes.
    """
    from bridgehead.app.objectives import check as judge
    from bridgehead.app.objectives import check_document, load
    from bridgehead.model.finding import Verdict

    given, continuity = load(estate, objectives)
    found = judge(given, continuity)
    if json:
        import msgspec

        print(msgspec.json.encode(check_document(found, estate=given, continuity=continuity)).decode())
    else:
        from bridgehead.cli.objectives_display import print_check

        print_check(found, title=continuity.name, all_of_them=all)
    return {Verdict.GO: ExitCode.DONE, Verdict.NO_GO: ExitCode.NEGATIVE, Verdict.CANNOT_TELL: ExitCode.CANNOT_TELL}[found.verdict]


@app.command
def price(estate: Path, objectives: Path, /, *, figures: Annotated[bool, Parameter(negative="")] = False, json: JsonOption = False) -> int:
    """Find the cheapest way to meet every objective, and say what each pattern, each time and each tightening would cost.

    Exit code 0; 1 when something can be met by no pattern.

    Args:
        estate: an estate file.
        objectives: an objectives file, with the prices that are known.
        figures: print the printed figures of the requirements instead, worked out again with these numbers.
    """
    from bridgehead.app.objectives import load, price_document, price_of

    given, continuity = load(estate, objectives)
    found, worked = price_of(given, continuity)
    if json:
        import msgspec

        print(msgspec.json.encode(price_document(found, worked, estate=given, continuity=continuity)).decode())
    elif figures:
        from bridgehead.cli.objectives_display import print_figures

        print_figures(worked)
    else:
        from bridgehead.cli.objectives_price_display import print_price

        print_price(found, title=continuity.name)
    return ExitCode.NEGATIVE if found.chosen.unmet else ExitCode.DONE


@app.command
def export(estate: Path, objectives: Path, /, *, openslo: Annotated[bool, Parameter(negative="")] = False, json: JsonOption = False) -> int:
    """Write the objectives for other programs.

    Args:
        estate: an estate file.
        objectives: an objectives file.
        openslo: as OpenSLO v1 documents in YAML, measured by the metrics of `bridgehead watch`; it must be named.
        json: as one JSON list instead of YAML.
    """
    from bridgehead.app.objectives import load
    from bridgehead.kernel.errors import BridgeheadError, ErrorCode
    from bridgehead.recovery.objectives.openslo import documents, left_out, text

    if not openslo:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="export objectives",
            subject="bridgehead objectives export",
            happened="no form is named",
            remedy="Add --openslo.",
        )
    given, continuity = load(estate, objectives)
    found = documents(given, continuity)
    if json:
        import msgspec

        print(msgspec.json.encode(found).decode())
    else:
        print(text(found), end="")
    names = left_out(given)
    if names:
        print(f"left out, since no metric measures them: {', '.join(names)}", file=sys.stderr)
    return ExitCode.DONE
