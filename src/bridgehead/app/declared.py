"""Declared: what people know and no tool prints, put into an estate that was discovered (M5.1; design rule 1: evidence).

Each file is a part of an estate file. A key with ``*``, ``?`` or ``[`` stands for all discovered things of that kind whose ids it matches.
What was discovered is never overwritten: where both say something and it differs, that is a dispute. Several files are put together first
and checked then, so that their order changes nothing; where they contradict each other, none of them is believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import msgspec

from bridgehead.app.declared_faults import Trees, folded, moved
from bridgehead.app.declared_merge import Merge, plain_of, together, unused
from bridgehead.app.declared_waiting import put_in
from bridgehead.app.runbook_files import read_text
from bridgehead.app.wiring import driver_options
from bridgehead.discovery.draft import Pending, crossing_lacks
from bridgehead.discovery.draft_notes import Lack
from bridgehead.kernel.located import BadFile, Fault, Mapping, Node, compose
from bridgehead.model.difference import Difference, differences
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import estate_data, read_estate_data

WHAT = "declared facts"
NOTHING = Pending()


class Completed(msgspec.Struct, frozen=True):
    """An estate with what was declared.

    Attributes:
        disputes: what was discovered (``before``) and declared (``after``) where they differ.
        alone: paths of sites, and of nodes of sites whose nodes were discovered, that were not: new ones, or typing errors.
        lacks: what was measured between sites and belongs to no one link that is declared.
    """

    estate: Estate
    disputes: tuple[Difference, ...]
    alone: tuple[str, ...] = ()
    lacks: tuple[Lack, ...] = ()


def complete(estate: Estate, *declared: Path, waiting: Pending = NOTHING) -> Completed:
    """Add what files declare, all together: their order changes nothing. Raises BAD_INPUT with every fault of the files, at its line.

    Args:
        waiting: what is there as soon as one value of it is declared.
    """
    trees = _trees(declared)
    said = _together(trees)
    if not said:
        return Completed(estate, (), (), tuple(crossing_lacks(waiting.crossings)))
    drivers = driver_options()
    found = estate_data(estate, drivers=drivers)
    _call(found.get("workloads", {}), _at(said, "workloads"))
    lacks = put_in(found, said, waiting)
    keeping, wanting = Merge(discovered_wins=True), Merge(discovered_wins=False)
    try:
        keep, want = keeping.merged(found, said), wanting.merged(found, said)
        kept = read_estate_data(keep, file="declared", drivers=drivers)
        wanted = kept if keep == want else read_estate_data(want, file="declared", drivers=drivers)
    except BadFile as error:
        raise _bad(trees, folded(moved(fault, trees) for fault in error.faults)) from error
    hint = "expected a pattern of ids that were discovered"
    idle = [moved(Fault("", 1, 1, ".".join(path), "it matches nothing", hint), trees) for path in unused(said, keeping.used)]
    if idle:
        raise _bad(trees, idle)
    if len(trees) > 1:
        _refuse_disorder(found, keep, dict(reversed(trees.items())), trees)
    alone = tuple(_alone(estate, kept))
    if wanted is kept:
        return Completed(kept, (), alone, lacks)
    return Completed(kept, tuple(differences(estate_data(kept, drivers=drivers), estate_data(wanted, drivers=drivers))), alone, lacks)


def _trees(declared: Iterable[Path]) -> dict[str, Node]:
    """What each file holds, in the order of their names; of those that are empty nothing."""
    trees: dict[str, Node] = {}
    for path in sorted(declared):
        tree = compose(read_text(path, what=WHAT), file=str(path), what=WHAT)
        if tree is not None:
            trees[str(path)] = tree
    wrong = [file for file, tree in trees.items() if not isinstance(tree, Mapping)]
    if wrong:
        faults = [Fault(file, 1, 1, "", "this is no mapping", "expected parts of an estate file") for file in wrong]
        raise _bad(trees, faults)
    return trees


def _together(trees: Trees) -> dict[str, Any]:
    said: dict[str, Any] = {}
    faults: list[Fault] = []
    done: dict[str, Node] = {}
    for file, tree in trees.items():
        said, contrary = together(said, {key: value for key, value in plain_of(tree).items() if key != "estate"})
        for path in contrary:
            first = moved(Fault("", 1, 1, ".".join(path), "", ""), done)
            hint = f"expected what {first.file}:{first.line} says, or nothing"
            faults.append(moved(Fault("", 1, 1, ".".join(path), "another file says something else", hint), {file: tree}))
        done[file] = tree
    if faults:
        raise _bad(trees, faults)
    return said


def _refuse_disorder(found: dict[str, Any], keep: dict[str, Any], backwards: Trees, trees: Trees) -> None:
    """Two patterns of two files that stand for one thing must not say different things of it: which of them counts would be the order's."""
    other = Merge(discovered_wins=True).merged(found, _together(backwards))
    if other != keep:
        hint = "expected one value; give it by the id itself, or in one file"
        what = "patterns of two files say different things of it"
        faults = (moved(Fault("", 1, 1, ".".join(path), what, hint), trees) for path in _unlike(keep, other))
        raise _bad(trees, folded(faults))


def _unlike(one: Any, other: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from _unlike(one.get(key), other.get(key), (*path, key))
    elif one != other:
        yield path


def _bad(trees: Trees, faults: Iterable[Fault]) -> BadFile:
    return BadFile(WHAT, file=next(iter(trees)) if len(trees) == 1 else f"{len(trees)} files", faults=faults)


def _alone(found: Estate, completed: Estate) -> Iterator[str]:
    nodes = {site.id: {node.id for node in site.nodes} for site in found.sites}
    for site in completed.sites:
        if site.id not in nodes:
            yield f"sites.{site.id}"
        elif nodes[site.id]:
            yield from (f"sites.{site.id}.nodes.{node.id}" for node in site.nodes if node.id not in nodes[site.id])


def _call(workloads: dict[str, Any], said: dict[str, Any]) -> None:
    """What a workload is for, no scheduler says: its kind is how it is run until somebody declares it."""
    for name, found in workloads.items():
        if any(isinstance(one, dict) and one.get("kind") is not None and fnmatchcase(name, key) for key, one in said.items()):
            del found["kind"]


def _at(said: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        said = said.get(key) if isinstance(said, dict) else None
    return said if isinstance(said, dict) else {}
