"""``bridgehead discover``: what captured output of tools says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import cyclopts
from cyclopts import Parameter, validators

from bridgehead.cli.options import JsonOption
from bridgehead.kernel.errors import BridgeheadError, ErrorCode, ExitCode
from bridgehead.kernel.ids import SiteId
from bridgehead.model.fact import Skipped, Status

if TYPE_CHECKING:
    from bridgehead.app.discover import Discovery
    from bridgehead.app.estate_draft import Kept
    from bridgehead.app.evidence import Told

app = cyclopts.App(name="discover", help="Read captured output of tools: facts with their sources, conflicts, and a draft of an estate.")

_MOST_SHOWN = 20


@app.default
def discover(
    *paths: Path,
    output: Annotated[Path | None, Parameter(name=["--output", "-o"])] = None,
    facts: Path | None = None,
    declared: Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)] = (),
    site: tuple[str, ...] = (),
    host: str = "",
    force: Annotated[bool, Parameter(negative="")] = False,
    jobs: Annotated[int | None, Parameter(validator=validators.Number(gte=1))] = None,
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    json: JsonOption = False,
) -> int:
    """Read captured output of tools. The tool is recognised by the content, never by the file's name.

    A path is a file, an archive (tar, zip; compressed or not), or a folder with a folder per host. Exit code 1 when nothing was recognised.

    Args:
        paths: captured output.
        output: write an estate file with what is proved. One that is there already is compared and left as it is.
        facts: write all facts, one JSON object a line, and a summary as the last line.
        declared: a part of an estate file with what people know and no tool prints; it completes --output and never overwrites what
            was discovered. May be given several times.
        site: NAME=PATH, once or more: captured output of that site. NAME alone: the site to which PATHS belong, site-a if not given.
        host: whose output it is where neither a folder nor the output says.
        force: overwrite the estate file.
        jobs: how many processes; as many as are worth it, if not given.
        list_: name the tools, and the subjects and attributes that each yields.
    """
    if list_:
        _list(json=json)
        return ExitCode.DONE
    if declared and output is None:
        raise _misused("--declared completes an estate file, and none is written", "Give --output.")
    given, named = _given(paths, site)
    from bridgehead.app.discover import discover as read
    from bridgehead.app.evidence import FACTS_BEGIN, FACTS_FILE, read_out, write_facts
    from bridgehead.app.spread import collect_rarely
    from bridgehead.app.whole_file import refuse_odd, refuse_other
    from bridgehead.cli.vault_display import Progress
    from bridgehead.discovery.captures import is_host_name

    if host and not is_host_name(host):
        raise _misused(f"--host '{host}' is no name of a host", "Use letters, digits, '-', and '.' between them.")
    if facts is not None:
        if output is not None and facts.resolve() == output.resolve():
            raise _misused("--facts and --output are one file", "Name two files.")
        refuse_other(facts, what=FACTS_FILE, begins=FACTS_BEGIN)
    if output is not None:
        refuse_odd(output, what="estate")

    collect_rarely()
    with Progress("reading") as progress:
        found = read(given, host=host, jobs=jobs, watch=progress.moved)
    lines: list[bytes] = []
    keep = lines.append if json else None
    said = read_out(found, lines=keep) if facts is None else write_facts(found, facts, lines=keep)
    kept = None
    if output is not None and found.recognised:
        from bridgehead.app.estate_draft import keep_estate

        known = {SiteId(name or named): said.knowledge.get(name, {}) for name in given}
        kept = keep_estate(known, output, force=force, declared=declared)
    if json:
        _print_json(found, said, lines, kept)
    else:
        _print(found, said)
        if kept is not None:
            _print_kept(kept, output=str(output))
    if not found.recognised:
        _print_nothing(found, output)
    elif host and not any(group.root.casefold() == f"node:{host}".casefold() for group in found.groups):
        print(f"--host {host} names no capture here: folders, or what was captured, say other hosts", file=sys.stderr)
    return ExitCode.DONE if found.recognised else ExitCode.NEGATIVE


def _given(paths: tuple[Path, ...], sites: tuple[str, ...]) -> tuple[dict[str, list[Path]], str]:
    """Paths by the site that is named for them ("" for those that stand alone), and the site of those that stand alone."""
    alone = [text for text in sites if "=" not in text]
    placed: dict[str, list[Path]] = {"": list(paths)} if paths else {}
    for text in sites:
        name, sign, path = text.partition("=")
        if sign:
            if not name or not path:
                raise _misused(f"--site {text}: a name and a path must be given", "Write `--site NAME=PATH`.")
            placed.setdefault(name, []).append(Path(path))
    if not placed:
        remedy = "Name a file, a folder or an archive; `bridgehead collect` makes one. `--list` names the tools."
        raise _misused("PATH must be given", remedy)
    if len(alone) > 1 or (alone and not paths):
        raise _misused(f"--site {alone[-1]} names no path, and there are no others that it could be of", "Write `--site NAME=PATH`.")
    named = alone[0] if alone else "site-a"
    if paths and named in placed:
        placed[named] += placed.pop("")
    return placed, named


def _misused(happened: str, remedy: str) -> BridgeheadError:
    return BridgeheadError(
        ErrorCode.BAD_USAGE, tried="read captured output", subject="bridgehead discover", happened=happened, remedy=remedy
    )


def _print_json(found: Discovery, said: Told, lines: list[bytes], kept: Kept | None) -> None:
    import msgspec

    from bridgehead.app.evidence import summary

    facts = [msgspec.Raw(line) for block in lines for line in block.splitlines()]
    document: dict[str, Any] = {"facts": facts, "summary": summary(found, said)}
    if kept is not None:
        document["estate"] = {
            "written": kept.written,
            "differences": [{"path": d.path, "change": d.word, "before": d.before, "after": d.after} for d in kept.differences],
            "lacks": kept.lacks,
            "disputes": [{"path": d.path, "discovered": d.before, "declared": d.after} for d in kept.disputes],
            "declared_only": kept.alone,
        }
    print(msgspec.json.encode(document).decode())


def _print(found: Discovery, said: Told) -> None:
    from bridgehead.cli.vault_display import clean, counted, print_columns

    print(f"{counted(found.recognised, 'file')} recognised of {found.files}")
    print_columns(
        [(tool, counted(files, "file"), counted(said.by_tool.get(tool, 0), "fact")) for tool, files in found.tools.items()],
        indent="  ",
    )
    known, unknown, conflict = (said.by_status[status] for status in (Status.KNOWN, Status.UNKNOWN, Status.CONFLICT))
    print(f"{counted(said.facts, 'fact')}: {known} known, {unknown} unknown, {conflict} in conflict")
    _print_some("CONFLICT", [clean(text) for text in said.conflicts], rest="--facts or --json lists all")
    if said.hostless:
        print(f"{counted(said.hostless, 'conflict')} between captures whose host nobody says: of several hosts, perhaps")
    _print_some("skipped", _skipped_words(found), rest="--facts or --json lists all")


def _print_nothing(found: Discovery, output: Path | None) -> None:
    from bridgehead.cli.vault_display import clean

    if found.files:
        print("no file was recognised; `bridgehead discover --list` names the tools that are known", file=sys.stderr)
    else:
        print("no file could be read there; `bridgehead collect` makes captures", file=sys.stderr)
    if output is not None:
        print(clean(f"{output} is not written"), file=sys.stderr)


def _skipped_words(found: Discovery) -> list[str]:
    """One line for the same reason in files of the same name: a thousand hosts say the same thing a thousand times."""
    from bridgehead.cli.vault_display import clean, counted

    alike: dict[tuple[str, str], list[Skipped]] = {}
    for one in found.skipped:
        alike.setdefault((one.file.rpartition("/")[2], one.reason), []).append(one)
    lines = []
    for first, *others in alike.values():
        more = f" and {counted(len(others), 'place')} more" if others else ""
        lines.append(f"{clean(first.file)}:{first.line}{more}: {clean(first.reason)}")
    return lines


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
    disputes = [clean(f"{d.path}: discovered {d.before}, declared {d.after}; the discovered value stays") for d in kept.disputes]
    _print_some("DISPUTE", disputes, rest="--json lists all")
    _print_some("DECLARED ONLY", [clean(f"{path}: nothing of it was discovered") for path in kept.alone], rest="--json lists all")
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
