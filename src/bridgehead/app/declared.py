"""Declared: what people know and no tool prints, put into an estate that was discovered (M5.1; design rule 1: evidence).

The file is a part of an estate file. A key with ``*``, ``?`` or ``[`` stands for all discovered things of that kind whose ids it matches.
What was discovered is never overwritten: where both say something and it differs, that is a dispute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as ReadMapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from bridgehead.app.runbook_files import read_text
from bridgehead.app.wiring import driver_options
from bridgehead.discovery.draft_rooms import Waiting
from bridgehead.kernel.document import to_file
from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.located import BadFile, Fault, Mapping, Node, Scalar, Sequence, compose
from bridgehead.kernel.shape import shape_of
from bridgehead.model.difference import Difference, differences
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import estate_data, read_estate_data
from bridgehead.model.power import Circuit

WHAT = "declared facts"
_UNKNOWN = "unknown"
"""What discovery writes for a word that nobody knows yet."""
Waits = ReadMapping[SiteId, Iterable[Waiting]]
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_FRACTION = re.compile(r"-?\d{1,18}\.\d{1,18}", re.ASCII)


class Completed(msgspec.Struct, frozen=True):
    """An estate with what was declared.

    Attributes:
        disputes: what was discovered (``before``) and declared (``after``) where they differ.
        alone: paths of sites, and of nodes of sites whose nodes were discovered, that were not: new ones, or typing errors.
    """

    estate: Estate
    disputes: tuple[Difference, ...]
    alone: tuple[str, ...] = ()


def complete(estate: Estate, declared: Path, *, waiting: Waits = MappingProxyType({})) -> Completed:
    """Add what a file declares. Raises BAD_INPUT with every fault of the file, at its line.

    Args:
        waiting: circuits of each site that are there as soon as their wiring is declared.
    """
    tree = compose(read_text(declared, what=WHAT), file=str(declared), what=WHAT)
    if tree is None:
        return Completed(estate, ())
    if not isinstance(tree, Mapping):
        raise BadFile(
            WHAT, file=str(declared), faults=[_fault(declared, tree, "", "this is no mapping", "expected parts of an estate file")]
        )
    drivers = driver_options()
    found = estate_data(estate, drivers=drivers)
    said = _plain(tree)
    said.pop("estate", None)
    _call(found.get("workloads", {}), _at(said, "workloads"))
    for site, circuits in waiting.items():
        _wire(found["sites"][site], circuits, _at(said, "sites", site, "circuits"))
    keeping, wanting = _Merge(discovered_wins=True), _Merge(discovered_wins=False)
    try:
        keep, want = keeping.merged(found, said), wanting.merged(found, said)
        kept = read_estate_data(keep, file=str(declared), drivers=drivers)
        wanted = kept if keep == want else read_estate_data(want, file=str(declared), drivers=drivers)
    except BadFile as error:
        faults = _folded(_moved(fault, tree, declared) for fault in error.faults)
        raise BadFile(WHAT, file=str(declared), faults=faults) from error
    idle = list(_unused(said, keeping.used))
    if idle:
        hint = "expected a pattern of ids that were discovered"
        faults = [_moved(Fault(str(declared), 1, 1, ".".join(path), "it matches nothing", hint), tree, declared) for path in idle]
        raise BadFile(WHAT, file=str(declared), faults=faults)
    alone = tuple(_alone(estate, kept))
    if wanted is kept:
        return Completed(kept, (), alone)
    return Completed(kept, tuple(differences(estate_data(kept, drivers=drivers), estate_data(wanted, drivers=drivers))), alone)


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
        kinds = (one["kind"] for key, one in said.items() if isinstance(one, dict) and "kind" in one and fnmatchcase(name, key))
        found["kind"] = next(kinds, found["kind"])


def _wire(site: dict[str, Any], waiting: Iterable[Waiting], said: dict[str, Any]) -> None:
    """Put the circuits in whose wiring is declared."""
    for one in waiting:
        name = one.circuit.id
        if name not in site.get("circuits", {}) and any(
            "wiring" in value for key, value in said.items() if isinstance(value, dict) and fnmatchcase(name, key)
        ):
            data = to_file(one.circuit, shape_of(Circuit))
            site.setdefault("circuits", {})[name] = {key: value for key, value in data.items() if key not in ("id", "wiring")}
            if one.rack in site.get("racks", {}):
                site["racks"][one.rack].setdefault("circuits", []).append(name)


def _at(said: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        said = said.get(key) if isinstance(said, dict) else None
    return said if isinstance(said, dict) else {}


def _plain(node: Node) -> Any:
    """Words stay as they are written; plain numbers and truths become such."""
    match node:
        case Mapping():
            return {key.text: _plain(value) for key, value in node.entries}
        case Sequence():
            return [_plain(item) for item in node.items]
        case Scalar():
            return _word(node.text) if node.plain else node.text


def _word(text: str) -> Any:
    if text in ("true", "false"):
        return text == "true"
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if _FRACTION.fullmatch(text) else text


class _Merge:
    """Puts what was declared into what was found. ``used``: patterns that matched something, by the mapping that they stand in."""

    def __init__(self, *, discovered_wins: bool) -> None:
        self._wins = discovered_wins
        self.used: set[tuple[int, str]] = set()

    def merged(self, found: Any, said: Any, *, many: bool = False) -> Any:
        """``many``: ``said`` is declared of several things, and so comes after what is declared of one."""
        if not isinstance(said, dict):
            return said if found in (None, _UNKNOWN) or not (self._wins or many) else found
        merged = dict(found) if isinstance(found, dict) else {}
        plain = {key: value for key, value in said.items() if not _is_pattern(key)}
        before = set(merged)
        for key, value in plain.items():
            inside = self.merged(merged.get(key), value, many=many)
            if inside != {} or key in before or not isinstance(value, dict) or not value:
                merged[key] = inside
        for pattern in (key for key in said if _is_pattern(key)):
            for key in [key for key in merged if fnmatchcase(key, pattern)]:
                self.used.add((id(said), pattern))
                merged[key] = self.merged(merged[key], said[pattern], many=many or key in plain)
        return merged


def _unused(said: Any, used: set[tuple[int, str]], path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Patterns that matched nothing at all: most often a typing error."""
    if isinstance(said, dict):
        for key, value in said.items():
            if _is_pattern(key) and (id(said), key) not in used:
                yield (*path, key)
            else:
                yield from _unused(value, used, (*path, key))


def _is_pattern(key: str) -> bool:
    return any(sign in key for sign in "*?[")


def _moved(fault: Fault, tree: Node, declared: Path) -> Fault:
    """The fault at the place of the declared file that it comes from; at its top where that cannot be told."""
    at, path = tree, fault.path
    while isinstance(at, Mapping):
        step = next(
            (
                (value, path[len(part) :].lstrip("."))
                for key, value in at.entries
                for part in [_head(path, key.text)]
                if part
            ),
            None,
        )  # fmt: skip
        if step is None:
            break
        at, path = step
    return _fault(declared, at, fault.path, fault.found, fault.expected)


def _folded(faults: Iterable[Fault]) -> list[Fault]:
    """One for each place and reason: a mistake below a pattern is one mistake, however many things the pattern stands for."""
    alike: dict[tuple[int, int, str, str], list[Fault]] = {}
    for fault in faults:
        alike.setdefault((fault.line, fault.column, fault.found, fault.expected), []).append(fault)
    folded = []
    for first, *others in alike.values():
        more = f" (the same for {len(others)} more that the pattern stands for)" if others else ""
        folded.append(msgspec.structs.replace(first, expected=first.expected + more))
    return folded


def _head(path: str, key: str) -> str:
    """The beginning of a path that a key stands for; empty when it does not."""
    if not _is_pattern(key):
        return key if path == key or path.startswith((f"{key}.", f"{key}[")) else ""
    parts = path.split(".")
    return next((head for count in range(1, len(parts) + 1) if fnmatchcase(head := ".".join(parts[:count]), key)), "")


def _fault(declared: Path, node: Node, path: str, found: str, expected: str) -> Fault:
    return Fault(str(declared), node.mark.line, node.mark.column, path, found, expected)
