"""``bridgehead estate``: check, show and compare estate files."""

from __future__ import annotations

from pathlib import Path

import msgspec
from cyclopts import App

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import ExitCode

_MOST_SIGNS = 200

app = App(name="estate", help="Check, show and compare estate files.")


@app.command
def check(first: Path, /, *more: Path, json: JsonOption = False) -> int:
    """Check estate and policy files, and report every fault with file, line, column and field.

    Files that are given together are checked against each other: the policy's sites must be in an estate, and the estates' objectives in
    a policy.

    Args:
        first: an estate or policy file.
        more: further ones.
    """
    from bridgehead.app.estate_files import check_files
    from bridgehead.kernel.located import BadFile

    checked = check_files((first, *more))
    faults = [fault for one in checked for fault in one.faults]
    if json:
        files = [{"file": one.file, "kind": one.kind, "faults": msgspec.to_builtins(one.faults)} for one in checked]
        print(msgspec.json.encode({"ok": not faults, "files": files}).decode())
        return ExitCode.USAGE if faults else ExitCode.DONE
    for one in checked:
        if one.content is not None:
            print(f"{one.file}: {one.kind} '{one.content.name}' has no faults")
    if faults:
        bad = [one for one in checked if one.faults]
        raise BadFile(
            bad[0].kind if len(bad) == 1 else "files", file=bad[0].file if len(bad) == 1 else f"{len(bad)} of {len(checked)}", faults=faults
        )
    return ExitCode.DONE


@app.command
def show(file: Path, /, *, json: JsonOption = False) -> int:
    """Show an estate: sites, equipment, links, workloads, services.

    With --json quantities are in SI units, named in the keys; without, they are written with their units.

    Args:
        file: an estate file.
    """
    from bridgehead.app.estate_files import load_estate

    estate = load_estate(file)
    if json:
        print(msgspec.json.encode(estate).decode())
        return ExitCode.DONE
    from bridgehead.cli.estate_tables import print_estate

    print_estate(estate)
    return ExitCode.DONE


@app.command
def diff(before: Path, after: Path, /, *, json: JsonOption = False) -> int:
    """Compare two estates by identity, whatever the order; exit code 0 when they are the same, 1 when they differ.

    Args:
        before: an estate file.
        after: another.
    """
    from bridgehead.app.estate_files import load_estate
    from bridgehead.app.wiring import driver_options
    from bridgehead.model.difference import differences
    from bridgehead.model.estatefile import estate_data

    drivers = driver_options()
    old, new = (estate_data(load_estate(path), drivers=drivers) for path in (before, after))
    found = differences(old, new)
    if json:
        listed = [{"path": one.path, "change": one.word, "before": one.before, "after": one.after} for one in found]
        print(msgspec.json.encode({"same": not found, "differences": listed}).decode())
    else:
        for one in found:
            print(difference_line(one.path, one.before, one.after))
        print(f"{len(found)} difference{'' if len(found) == 1 else 's'}")
    return ExitCode.NEGATIVE if found else ExitCode.DONE


def difference_line(path: str, before: object, after: object) -> str:
    """One difference for people: what was added, removed or changed. What is long, such as a whole site, is cut off."""
    if before is None:
        return f"+ {path}: {_words(after)}"
    return f"- {path}: {_words(before)}" if after is None else f"~ {path}: {_words(before)} -> {_words(after)}"


def _words(value: object) -> str:
    words = _all_words(value)
    return words if len(words) <= _MOST_SIGNS else f"{words[:_MOST_SIGNS]}..."


def _all_words(value: object) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{key}: {_all_words(part)}" for key, part in value.items()) + "}"
        case list():
            return "[" + ", ".join(_all_words(part) for part in value) + "]"
        case bool():
            return str(value).lower()
        case _:
            return str(value)
