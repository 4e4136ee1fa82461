"""lldpctl -f json and -f json0: neighbours of a host's interfaces (M2, M3; case D18).

In ``json`` what could be a list is an object or a text where there is one of it, and the chassis is an object with its name as the key;
in ``json0`` everything is a list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from bridgehead.discovery.jsontext import Unreadable, decode
from bridgehead.discovery.lldp import NEIGHBOR_YIELDS, Neighbor, state_neighbors
from bridgehead.discovery.parsing import Capture, Parsed, Parser, Statements

_HEAD: Final = re.compile(rb'\{\s*"lldp"\s*:\s*[\[{]')
_KEYS: Final = frozenset({"name", "via", "rid", "age", "chassis", "port", "vlan", "ppvid", "pi", "lldp-med", "unknown-tlvs"})


def recognises(head: bytes) -> bool:
    """The one key of the whole."""
    return _HEAD.search(head) is not None


def parse(capture: Capture) -> Parsed:
    """All neighbours."""
    say = Statements("lldpctl", capture)
    document = decode(capture)
    if isinstance(document, Unreadable):
        say.skip(document.line, document.reason)
        return say.done()
    lines = _Lines(capture.data)
    found = [_neighbor(name, entry, lines.of(name)) for name, entry in _interfaces(document)]
    if not found:
        say.skip(1, "no neighbour is in it: the link is down, the other end is silent, or lldpd does not run")
    state_neighbors(say, found)
    return say.done()


class _Lines:
    """Lines of names that stand one behind the other."""

    def __init__(self, data: bytes) -> None:
        self._data, self._offset, self._counted, self._line = data, 0, 0, 1

    def of(self, name: str) -> int:
        """The line of the next place of ``name``; the last one where there is none."""
        at = self._data.find(f'"{name}"'.encode(errors="replace"), self._offset)
        if at >= 0:
            self._line += self._data.count(b"\n", self._counted, at)
            self._counted, self._offset = at, at + len(name)
        return self._line


def _interfaces(document: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    for root in _each(document.get("lldp") if isinstance(document, dict) else None):
        for holder in _each(root.get("interface") if isinstance(root, dict) else None):
            if not isinstance(holder, dict):
                continue
            if isinstance(name := holder.get("name"), str):
                yield name, holder
                continue
            for key, entries in holder.items():
                if key not in _KEYS:
                    yield from ((key, entry) for entry in _each(entries) if isinstance(entry, dict))


def _neighbor(interface: str, entry: dict[str, Any], line: int) -> Neighbor:
    chassis, name = _chassis(entry.get("chassis"))
    port = _object(entry.get("port"))
    enabled = [
        one.get("type")
        for one in _each(chassis.get("capability"))
        if isinstance(one, dict) and one.get("enabled") in (True, "on", "true", "yes")
    ]
    return Neighbor(
        interface,
        line,
        name=name,
        chassis=_id(chassis.get("id")),
        description=_text(chassis.get("descr")),
        addresses=tuple(text for one in _each(chassis.get("mgmt-ip")) if (text := _text(one))),
        capabilities=tuple(kind.lower() for kind in enabled if isinstance(kind, str)),
        port=_id(port.get("id")),
        port_description=_text(port.get("descr")),
        frame=_text(port.get("mfs")),
        via=_text(entry.get("via")),
    )


def _chassis(value: Any) -> tuple[dict[str, Any], str]:
    holder = _object(value)
    if "id" in holder or "name" in holder:
        return holder, _text(holder.get("name"))
    named = [(key, inner) for key, inner in holder.items() if isinstance(inner, dict)]
    return (named[0][1], named[0][0]) if len(named) == 1 else (holder, "")


def _id(value: Any) -> tuple[str, str]:
    holder = _object(value)
    return _text(holder.get("type")), _text(holder.get("value"))


def _each(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _object(value: Any) -> dict[str, Any]:
    first = value[0] if isinstance(value, list) and value else value
    return first if isinstance(first, dict) else {}


def _text(value: Any) -> str:
    """A text, or that of ``{"value": text}``, alone or first in a list."""
    first = value[0] if isinstance(value, list) and value else value
    inner = first.get("value") if isinstance(first, dict) else first
    return inner.strip() if isinstance(inner, str) else str(inner) if isinstance(inner, int) and not isinstance(inner, bool) else ""


PARSER = Parser(tool="lldpctl", command="lldpctl -f json", recognises=recognises, marks=(b'"lldp"',), parse=parse, yields=NEIGHBOR_YIELDS)
