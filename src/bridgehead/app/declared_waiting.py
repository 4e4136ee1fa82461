"""Declared, what waits: things that captures prove but for one value are there as soon as somebody declares it (M5.1). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from typing import Any, Final

from bridgehead.discovery.draft import Pending, crossing_lacks
from bridgehead.discovery.draft_notes import Lack
from bridgehead.discovery.draft_rooms import Waiting
from bridgehead.discovery.draft_stores import Unsized
from bridgehead.discovery.draft_tests import Crossing
from bridgehead.kernel.document import to_file
from bridgehead.kernel.shape import shape_of
from bridgehead.model.equipment import Store
from bridgehead.model.estate import Link, LinkId
from bridgehead.model.power import Circuit

_MEASURED: Final = ("measured", "flows", "delay")


def put_in(found: dict[str, Any], said: dict[str, Any], waiting: Pending) -> tuple[Lack, ...]:
    """Put in what is complete now. Returns what was measured between sites and belongs to no one link.

    Args:
        found: an estate as files write it, which is changed.
        said: what was declared, the same way.
    """
    for site, circuits in waiting.circuits.items():
        _wire(found["sites"][site], circuits, _at(said, "sites", site, "circuits"))
    for site, stores in waiting.stores.items():
        _size(found["sites"][site], stores, _at(said, "sites", site, "stores"))
    for site, body in found["sites"].items():
        _count_servers(body.get("stores", {}), _at(said, "sites", site, "stores"))
    return tuple(crossing_lacks([one for one in waiting.crossings if not _measure(found, one, _at(said, "links"))]))


def _values(said: dict[str, Any], name: str, key: str) -> Iterator[Any]:
    """What is declared of a thing, by its id or a pattern."""
    return (one[key] for pattern, one in said.items() if isinstance(one, dict) and key in one and fnmatchcase(name, pattern))


def _wire(site: dict[str, Any], waiting: Iterable[Waiting], said: dict[str, Any]) -> None:
    """Circuits whose wiring is declared."""
    for one in waiting:
        name = one.circuit.id
        if name not in site.get("circuits", {}) and any(True for _ in _values(said, name, "wiring")):
            data = to_file(one.circuit, shape_of(Circuit))
            site.setdefault("circuits", {})[name] = {key: value for key, value in data.items() if key not in ("id", "wiring")}
            if one.rack in site.get("racks", {}):
                site["racks"][one.rack].setdefault("circuits", []).append(name)


def _size(site: dict[str, Any], waiting: Iterable[Unsized], said: dict[str, Any]) -> None:
    """Stores whose size is declared."""
    for one in waiting:
        name = one.store.id
        if any(True for _ in _values(said, name, "size")):
            data = to_file(one.store, shape_of(Store))
            site.setdefault("stores", {})[name] = {key: value for key, value in data.items() if key not in ("id", "size")}


def _count_servers(stores: dict[str, Any], said: dict[str, Any]) -> None:
    """A name in a mount may be that of several machines: who declares more of them contradicts nothing."""
    for name, store in stores.items():
        seen = store.get("servers")
        if seen is not None and any(isinstance(more, int) and more > seen for more in _values(said, name, "servers")):
            del store["servers"]


def _measure(found: dict[str, Any], crossing: Crossing, said: dict[str, Any]) -> bool:
    """Give a measurement to the one link that is declared between its sites; whether there is one."""
    ours = [name for name, one in said.items() if isinstance(one, dict) and _joins(one.get("between"), crossing)]
    if len(ours) != 1:
        return False
    [name] = ours
    link = Link(
        id=LinkId(name),
        between=crossing.between,
        rate_bps=crossing.received_bps,
        measured_bps=crossing.received_bps,
        flows=crossing.flows,
        # Half of a round trip is a guess of one way: what somebody knows comes first.
        delay_s=None if "delay" in said[name] else crossing.delay_s,
    )
    data = to_file(link, shape_of(Link))
    found.setdefault("links", {})[name] = {key: data[key] for key in _MEASURED if key in data}
    return True


def _joins(between: object, crossing: Crossing) -> bool:
    return isinstance(between, list) and sorted(map(str, between)) == sorted(crossing.between)


def _at(said: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        said = said.get(key) if isinstance(said, dict) else None
    return said if isinstance(said, dict) else {}
