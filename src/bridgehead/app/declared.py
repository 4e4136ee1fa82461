"""Declared: what people know and no tool prints, put into an estate that was discovered (M5.1; design rule 1: evidence).

The file is a part of an estate file. A key with ``*``, ``?`` or ``[`` stands for all discovered things of that kind whose ids it matches.
What was discovered is never overwritten: where both say something and it differs, that is a dispute.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from collections.abc import Mapping as ReadMapping
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

from bridgehead.app.runbook_files import read_text
from bridgehead.app.wiring import driver_options
from bridgehead.discovery.draft_rooms import Waiting
from bridgehead.kernel.document import dump, to_file
from bridgehead.kernel.ids import SiteId
from bridgehead.kernel.located import BadFile, Fault, Mapping, Node, Scalar, Sequence, compose
from bridgehead.kernel.shape import shape_of
from bridgehead.model.difference import Difference, differences
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import estate_data, read_estate
from bridgehead.model.power import Circuit

WHAT = "declared facts"
Waits = ReadMapping[SiteId, Iterable[Waiting]]
_INTEGER = re.compile(r"-?\d{1,18}", re.ASCII)
_FRACTION = re.compile(r"-?\d{1,18}\.\d{1,18}", re.ASCII)


class Completed(msgspec.Struct, frozen=True):
    """An estate with what was declared. ``disputes``: what was discovered (``before``) and declared (``after``) where they differ."""

    estate: Estate
    disputes: tuple[Difference, ...]


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
    for site, circuits in waiting.items():
        _wire(found["sites"][site], circuits, _at(said, "sites", site, "circuits"))
    try:
        kept = read_estate(dump(_merged(found, said, discovered_wins=True)), file=str(declared), drivers=drivers)
        wanted = read_estate(dump(_merged(found, said, discovered_wins=False)), file=str(declared), drivers=drivers)
    except BadFile as error:
        faults = [_moved(fault, tree, declared) for fault in error.faults]
        raise BadFile(WHAT, file=str(declared), faults=faults) from error
    return Completed(kept, tuple(differences(estate_data(kept, drivers=drivers), estate_data(wanted, drivers=drivers))))


def _wire(site: dict[str, Any], waiting: Iterable[Waiting], said: dict[str, Any]) -> None:
    """Put the circuits in whose wiring is declared."""
    for one in waiting:
        name = one.circuit.id
        if any("wiring" in value for key, value in said.items() if isinstance(value, dict) and fnmatchcase(name, key)):
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


def _merged(found: Any, said: Any, *, discovered_wins: bool) -> Any:
    if isinstance(found, dict) and isinstance(said, dict):
        merged = dict(found)
        plain = {key: value for key, value in said.items() if not _is_pattern(key)}
        for key, value in plain.items():
            merged[key] = _merged(found.get(key), value, discovered_wins=discovered_wins)
        for pattern in (key for key in said if _is_pattern(key)):
            for key in [key for key in merged if fnmatchcase(key, pattern)]:
                # What is declared of one thing comes before what is declared of many.
                merged[key] = _merged(merged[key], said[pattern], discovered_wins=discovered_wins or key in plain)
        return merged
    return said if found is None or not discovered_wins else found


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


def _head(path: str, key: str) -> str:
    """The beginning of a path that a key stands for; empty when it does not."""
    if not _is_pattern(key):
        return key if path == key or path.startswith((f"{key}.", f"{key}[")) else ""
    parts = path.split(".")
    return next((head for count in range(1, len(parts) + 1) if fnmatchcase(head := ".".join(parts[:count]), key)), "")


def _fault(declared: Path, node: Node, path: str, found: str, expected: str) -> Fault:
    return Fault(str(declared), node.mark.line, node.mark.column, path, found, expected)
