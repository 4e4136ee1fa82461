"""``bridgehead discover``: what captured output of tools says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts
from cyclopts import Parameter

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode
from bridgehead.kernel.ids import SiteId

if TYPE_CHECKING:
    from bridgehead.app.discover import Discovery
    from bridgehead.app.estate_draft import Kept

app = cyclopts.App(name="discover", help="Read captured output of tools: facts with their sources, conflicts, and a draft of an estate.")

_MOST_SHOWN = 20


@app.default
def discover(
    *paths: Path,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    facts: Path | None = None,
    site: str = "site-a",
    host: str = "",
    force: Annotated[bool, Parameter(negative="")] = False,
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    json: JsonOption = False,
) -> int:
    """Read captured output of tools. The tool is recognised by the content, never by the file's name.

    A path is a file, an archive (tar, zip; compressed or not), or a folder with a folder per host. Exit code 1 when nothing was recognised.

    Args:
        paths: captured output.
        output: write an estate file with what is proved. One that is there already is compared and left as it is.
        facts: write all facts, one JSON object a line, and a summary as the last line.
        site: the site of the estate file to which the hosts belong.
        host: whose output it is where neither a folder nor the output says.
        force: overwrite the estate file.
        list_: name the tools, and the subjects and attributes that each yields.
    """
    if list_:
        _list(json=json)
        return ExitCode.DONE
    if not paths:
        raise BridgeheadError(
            ErrorCode.BAD_USAGE,
            tried="read captured output",
            subject="bridgehead discover",
            happened="PATH must be given",
            remedy="Name a file, a folder or an archive; `bridgehead collect` makes one. `--list` names the tools.",
        )
    from bridgehead.app.discover import discover as read
    from bridgehead.app.discover import write_facts
    from bridgehead.cli.vault_display import Progress

    with Progress("reading") as progress:
        found = read(paths, host=host, watch=progress.moved)
    if facts is not None:
        write_facts(found, facts)
    kept = None
    if output is not None and found.recognised:
        from bridgehead.app.estate_draft import keep_estate

        kept = keep_estate(found.views, output, site=SiteId(site), force=force)
    if json:
        _print_json(found, kept)
    else:
        _print(found)
        if kept is not None:
            _print_kept(kept, output=str(output))
    return ExitCode.DONE if found.recognised else ExitCode.NEGATIVE


def _print_json(found: Discovery, kept: Kept | None) -> None:
    import msgspec

    from bridgehead.app.discover import fact_lines

    *lines, last = fact_lines(found)
    document: dict[str, Any] = {"facts": lines, **last}
    if kept is not None:
        document["estate"] = {
            "written": kept.written,
            "differences": [{"path": d.path, "change": d.word, "before": d.before, "after": d.after} for d in kept.differences],
            "lacks": kept.lacks,
        }
    print(msgspec.json.encode(document).decode())


def _print(found: Discovery) -> None:
    from bridgehead.app.discover import conflicts, summary
    from bridgehead.cli.vault_display import clean, counted, print_columns

    counts = summary(found)
    states = counts["by_status"]
    print(f"{counted(found.recognised, 'file')} recognised of {found.files}")
    print_columns(
        [(tool, counted(files, "file"), counted(counts["by_tool"].get(tool, 0), "fact")) for tool, files in found.tools.items()],
        indent="  ",
    )
    print(f"{counted(len(found.views), 'fact')}: {states['known']} known, {states['unknown']} unknown, {states['conflict']} in conflict")
    _print_some("CONFLICT", [clean(text) for text in conflicts(found)], rest="--facts or --json lists all")
    skipped = [f"{clean(one.file)}:{one.line}: {clean(one.reason)}" for one in found.skipped]
    _print_some("skipped", skipped, rest="--facts or --json lists all")


def _print_some(word: str, texts: list[str], *, rest: str) -> None:
    for text in texts[:_MOST_SHOWN]:
        print(f"{word} {text}")
    if len(texts) > _MOST_SHOWN:
        print(f"{word} {len(texts) - _MOST_SHOWN} more; {rest}")


def _print_kept(kept: Kept, *, output: str) -> None:
    from bridgehead.cli.estate import difference_line
    from bridgehead.cli.vault_display import clean, counted

    for one in kept.differences:
        print(clean(difference_line(one.path, one.before, one.after)))
    if kept.written:
        print(f"{output} is written")
    elif kept.differences:
        print(
            f"{output} is left as it is: {counted(len(kept.differences), 'difference')}, listed above; --force overwrites it",
            file=sys.stderr,
        )
    else:
        print(f"{output} says the same")
    _print_some("lacking", [clean(f"{lack.what}: {lack.settled_by}") for lack in kept.lacks], rest="the estate file lists all")


def _list(*, json: bool) -> None:
    from bridgehead.app.parsers import parsers

    if json:
        import msgspec

        listed = [{"tool": one.tool, "command": one.command, "yields": one.yields} for one in parsers()]
        print(msgspec.json.encode(listed).decode())
        return
    from bridgehead.cli.vault_display import print_columns

    for parser in parsers():
        print(f"{parser.tool}: {parser.command}")
        print_columns([(one.subject, one.attribute, one.unit or "-", one.meaning) for one in parser.yields], indent="  ")
