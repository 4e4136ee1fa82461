"""Writes pages of docs/reference from the registries and the model: those that ``main`` names.

With ``--check`` it writes nothing and ends with 1 when a page is not what it would write.
"""

from __future__ import annotations

import enum
import inspect
import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app import wiring
from bridgehead.app.checks import checks
from bridgehead.app.parsers import parsers
from bridgehead.app.site_preflight.checks import CHECKS
from bridgehead.discovery.merge import GAUGE_WORDS, GAUGES
from bridgehead.kernel import shape as sh
from bridgehead.kernel.phrase import describe
from bridgehead.kernel.quantity import format_quantity
from bridgehead.model.finding import Severity
from bridgehead.model.rebuild import Rebuild
from bridgehead.model.recovery import Recovery
from bridgehead.model.site_map import SiteMap

REFERENCE = Path(__file__).resolve().parent.parent / "docs" / "reference"

DRIVERS_HEAD = """\
# Drivers and their options

<!-- Written by `make docs` from wiring.py and the option structs; edit those. -->

An estate names a driver for each connection: `scheduler`, `training` and `vault` of a site; `traffic`, `metrics` and `serving` of a service
([estate files](estate-files.md#connections)). Beside `driver` stand its options. An option without default must be given. Paths are best
absolute: a relative one is looked up from the folder of whichever process drives the run.

What the two proxies do at weight 0, on a reload and with cookies is on a [page of its own](traffic-drivers.md), and so is what the
[Kubernetes](kubernetes-driver.md) drivers do, need, and have not met. How to add one:
[write a driver](../how-to/write-a-driver.md). The shared journal (PostgreSQL) and the server of secrets (OpenBao) are no
connections of an estate: machines name them, [here](../how-to/run-several-controllers.md) and [here](../how-to/use-openbao.md).
"""

ACTIONS_HEAD = """\
# Actions and their parameters

<!-- Written by `make docs` from wiring.py and the parameter structs; edit those. -->

What steps of a [runbook](runbook-language.md#action-done-by-software) can do. `with:` holds the parameters; one without default must be
given. An action without an undo needs `undo: {keep: <why that is safe>}` in the runbook. How to add one:
[write an action](../how-to/write-an-action.md).
"""

DISCOVERY_HEAD = """\
# Discovery: tools and what each yields

<!-- Written by `make docs` from what the parsers in src/bridgehead/discovery/parsers declare; edit those. -->

How to use it: [discover an estate](../how-to/discover-an-estate.md). `bridgehead discover --list` prints the same, with `--json` for
scripts.

## A facts file

`--facts FILE` writes one JSON object a line, sorted by subject and attribute, in UTF-8:

| key | |
|---|---|
| `subject` | a path of `kind:name` from the outside in: `node:gpu01/gpu:0`. `node:?` where nobody says which host it is |
| `attribute` | lower case with dashes; a `:` before a part that is a name or a number |
| `value` | text, number, true or false, a list of texts; null exactly when the status is unknown |
| `unit` | of the value: base units of SI, `B`, `bit/s`, `B/s`, `degC`; empty for names, counts and words |
| `status` | `known`, `unknown`, or `conflict`: then there is a line for each value that was said |
| `tool`, `file`, `line` | where it stands; `ARCHIVE!PATH` for a file in an archive; lines count from 1 |
| `at_s` | when it was captured, in seconds since 1970, where that is known |
| `site` | the site that was named for the capture with `--site NAME=PATH`; absent where none was |
| `sources` | all places that say the same, where there are several |
| `note` | why it is unknown, what contradicts it, or which readings it was chosen from |

The last line has one key, `summary`: `facts` (attributes of subjects), `by_status`, `by_tool` (places that say something), `files_read`,
`files_recognised`, `files_by_tool`, and `skipped`, a list of `file`, `line`, `reason`. Keys may be added; none is taken away.

## How facts become one

Equal values are one fact with all sources. Different values are a conflict; a later capture does not win. Unknown never takes the place of
a value. The order of files changes nothing.

Gauges are attributes with one of these words between their dashes: WORDS; and GAUGES. Of a gauge the newest reading is
taken, and the others are named in the note. Readings whose order in time is not known are a conflict.
"""

CHECKS_HEAD = """\
# Checks of an assessment

<!-- Written by `make docs` from what the checks in src/bridgehead/assess declare; edit those. -->

How to use them: [assess a destination](../how-to/assess-a-destination.md). Codes are stable. A *blocking* check decides the verdict when it
fails or is unknown; a *warning* does not. Each finding carries the formula, all inputs with their sources, the state in which it is worst,
and the requirements that it serves.

## Three readings of headroom

A site's `headroom` chooses how the policy's `margin` (20 %) is applied to a circuit; all three are among the inputs of each finding.

| `headroom` | the load is at most |
|---|---|
| `continuous` (default) | (1 - margin) of what may flow for hours |
| `rating` | what may flow for hours, and (1 - margin) of the breaker's rating |
| `need` | what may flow for hours, divided by (1 + margin) |
"""

SITE_MAP_HEAD = """\
# Site mapping and preflight

<!-- Written by `make docs` from src/bridgehead/model/site_map.py and app/site_preflight/checks.py; edit those. -->

What the same thing is called at each site stands under `mapping` in a [policy file](estate-files.md). How to use it:
[map a job to another site](../how-to/map-a-job-to-another-site.md). `bridgehead schema policy` prints a JSON Schema for editors.

A row is a name of your choice and the word for the thing at each site. It is read in both directions. An empty word (`""`) says that the
site has no such thing and needs none: an option is left out there, anything else is refused. Of rows for paths, endpoints and data sets the
longest that fits counts; other words must be equal. Two rows that fit and say different things refuse the word.
"""

REBUILD_HEAD = """\
# Rebuild files

<!-- Written by `make docs` from src/bridgehead/model/rebuild.py; edit that. -->

A rebuild file says from which images and by which profile each node of a site is [rebuilt](../how-to/rebuild-nodes.md). Values are
written as in [the runbook language](runbook-language.md#how-values-are-written). A whole one:
[examples/rebuild](../../examples/rebuild/rebuild.yaml). `bridgehead schema rebuild` prints a JSON Schema for editors.
"""

RECOVERY_HEAD = """\
# Recovery files

<!-- Written by `make docs` from src/bridgehead/model/recovery.py; edit that. -->

A recovery file says what is protected, where its home and its refuge are, what needs what, and who is asked. How sites and services are
reached stands in the [estate file](estate-files.md); what must be met in the [objectives](../how-to/set-objectives.md). It is read by
[recover](../how-to/recover-a-site.md), [watch](../how-to/watch-readiness.md), [drills](../how-to/run-a-drill.md) and `objectives`. Values
are written as in [the runbook language](runbook-language.md#how-values-are-written). `bridgehead schema recovery` prints a JSON Schema
for editors.

```yaml
recovery: two-halls
sites: [hall-a, hall-b]
witness: office           # a third vault: its word makes a majority when a hall is lost
approvers: {people: [ada, ben], answer: 30 min}
workloads:
  lm:
    kind: training
    home: hall-a
    refuge: hall-b
    gpus: 64
    jobs:
      hall-a: {command: [/srv/lm/train]}
      hall-b: {command: [/srv/lm/train]}
```

"""

PORTS = {
    "scheduler": "The scheduler of a site: starts, watches and stops jobs.",
    "training": "How trainers of a site get orders and report: through [files](files-on-disk.md#control-folder).",
    "vault": "Where the blobs of a site's vault are.",
    "shell": "Where the hooks of a site's applications are run (see [points](../how-to/take-a-consistent-point.md)).",
    "traffic": "The proxy in front of a service.",
    "metrics": "The counters from which gates judge.",
    "bubbles": "Isolated places for drills: a folder, a view of a vault, a network namespace where that is asked for.",
    "machines": "Nodes as bare metal, of a [netboot folder](../how-to/rebuild-nodes.md), not of an estate.",
    "notify": "How people are told: a channel of the [notify file](../how-to/be-told-and-answer.md), not of an estate.",
    "serving": "The health report of a service's backends.",
}


def drivers_page() -> str:
    """The page of all drivers."""
    lines = [DRIVERS_HEAD]
    for port, drivers in {**wiring.DRIVERS, "notify": wiring.CHANNELS}.items():
        lines += [f"## {port}", "", PORTS[port], ""]
        for name, load in drivers.items():
            lines += [f"### {port}: {name}", "", *_struct(load().options, "option", at="", shown={})]
    return _joined(lines)


def actions_page() -> str:
    """The page of all actions."""
    lines, shown = [ACTIONS_HEAD], dict[type, str]()
    for action in wiring.ACTIONS:
        undo = [] if action.undoable else ["", "It has no undo."]
        lines += [
            f"## {action.name}",
            "",
            _prose(action),
            *undo,
            "",
            *_struct(action.params_type, "parameter", at=action.name, shown=shown),
        ]
    return _joined(lines)


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in sorted(words))


def discovery_page() -> str:
    """The page of all parsers."""
    lines = [DISCOVERY_HEAD.replace("GAUGES", _quoted(GAUGES)).replace("WORDS", _quoted(GAUGE_WORDS))]
    for parser in parsers():
        lines += [f"## {parser.tool}", "", f"`{parser.command}`", "", "| subject | attribute | unit | |", "|---|---|---|---|"]
        for one in parser.yields:
            cells = (f"`{one.subject}`", f"`{one.attribute}`", f"`{one.unit}`" if one.unit else "", one.meaning)
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
        lines.append("")
    return _joined(lines)


def checks_page() -> str:
    """The page of all checks."""
    lines = [CHECKS_HEAD]
    for check in checks():
        lines += [f"## {check.code}", "", check.title, "", f"`{check.formula}`", ""]
        lines += [f"{check.severity.value.capitalize()}. Serves {', '.join(check.requirement)}.", ""]
    return _joined(lines)


def recovery_page() -> str:
    """The page of recovery files."""
    return _joined([RECOVERY_HEAD, "## Fields", "", *_struct(Recovery, "field", at="", shown={})])


def site_map_page() -> str:
    """The page of mappings and of the checks that a preflight makes."""
    lines = [SITE_MAP_HEAD, "## Fields of `mapping`", "", *_struct(SiteMap, "field", at="", shown={}), "## What a preflight looks at", ""]
    lines += ["| check | question | how | decides |", "|---|---|---|---|"]
    lines += [f"| {one.code} | {one.title} | {one.formula} | {'yes' if one.severity is Severity.BLOCKING else 'no'} |" for one in CHECKS]
    return _joined(lines)


def rebuild_page() -> str:
    """The page of rebuild files."""
    return _joined([REBUILD_HEAD, "## Fields", "", *_struct(Rebuild, "field", at="", shown={})])


def _struct(kind: type[msgspec.Struct], what: str, *, at: str, shown: dict[type, str]) -> list[str]:
    """Prose and table of a struct, and of the structs in it. ``shown``: structs that the page has already, with the heading."""
    fields = sh.fields_of(kind)
    in_files = {field.name: field.key for field in fields}
    lines = [_as_in_files(_prose(kind), in_files), "", f"| {what} | value | default | |", "|---|---|---|---|"]
    inner: list[tuple[str, type[msgspec.Struct]]] = []
    for field in fields:
        cells = (f"`{field.key}`", _value(field.shape), "" if field.required else _default(field), _plain(field.doc))
        lines.append("| " + " | ".join(_as_in_files(cell, in_files).replace("|", "\\|") for cell in cells) + " |")
        inner += [(field.key, struct) for struct in _structs(field.shape)]
    lines.append("")
    for key, struct in inner:
        if struct in shown:
            lines += [f"In `{key}`: as in [{shown[struct]}](#{shown[struct].replace('.', '')}).", ""]
            continue
        if at:
            shown[struct] = at
        first, *rest = _struct(struct, "field", at=at, shown=shown)
        lines += [f"In `{key}`: {first[0].lower()}{first[1:]}", *rest]
    return lines


def _as_in_files(text: str, names: dict[str, str]) -> str:
    """Attributes are called in files without their unit."""
    return re.sub(r"`(\w+)`", lambda found: f"`{names.get(found[1], found[1])}`", text)


def _value(shape: sh.Shape) -> str:
    match shape:
        case sh.TableShape():
            return f"a mapping from text to {_value(shape.value)}"
        case sh.ListShape():
            return f"a list of: {_value(shape.item)}"
        case sh.StructShape():
            return "fields: see below"
        case sh.UnionShape(optional=True, structs=(_,)):
            return "fields: see below"
        case sh.UnionShape(optional=True, scalar=scalar) if scalar is not None:
            return f"{_value(scalar)}, or nothing"
        case _:
            return describe(shape).partition(" such as ")[0]


def _structs(shape: sh.Shape) -> list[type[msgspec.Struct]]:
    match shape:
        case sh.StructShape():
            return [shape.type]
        case sh.KeyedShape():
            return [shape.item.type]
        case sh.TableShape():
            return _structs(shape.value)
        case sh.ListShape():
            return _structs(shape.item)
        case sh.UnionShape(optional=True, structs=(one,)):
            return _structs(one)
        case _:
            return []


def _default(field: sh.Field) -> str:
    value: Any = field.default_value()
    if isinstance(field.shape, sh.QuantityShape):
        return format_quantity(value, field.shape.dimension)
    if isinstance(value, enum.Enum):
        return f"`{value.value}`"
    if isinstance(value, msgspec.Struct):
        return "its defaults"
    if value in ("", None, {}, ()):
        return "none"
    return f"`` {value} ``" if "`" in str(value) else f"`{value}`"


def _prose(kind: type) -> str:
    """A docstring without its sections of attributes, as flowing text."""
    text = re.split(r"^(?:Attributes|Args|Raises)\b.*:$", inspect.getdoc(kind) or "", flags=re.MULTILINE)[0]
    return "\n\n".join(_plain(" ".join(part.split())) for part in text.strip().split("\n\n"))


def _plain(text: str) -> str:
    """Markdown's own marks for code, and no ids of requirements."""
    text = re.sub(r"\s*\((?:[A-Z]\d+[.\d]*|design [a-z]+ [\d.]+|rules? [^()]*|[,;] )+\)", "", text)
    return text.replace("``", "`")


def _joined(lines: list[str]) -> str:
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    """Write the pages, or compare them."""
    pages = {
        REFERENCE / "drivers.md": drivers_page(),
        REFERENCE / "actions.md": actions_page(),
        REFERENCE / "discovery.md": discovery_page(),
        REFERENCE / "checks.md": checks_page(),
        REFERENCE / "recovery-files.md": recovery_page(),
        REFERENCE / "rebuild-files.md": rebuild_page(),
        REFERENCE / "site-mapping.md": site_map_page(),
    }
    if "--check" in sys.argv[1:]:
        stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
        for path in stale:
            print(f"{path} is not up to date: make docs", file=sys.stderr)
        return 1 if stale else 0
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
