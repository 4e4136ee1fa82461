"""Objects of Kubernetes from JSON and YAML, whatever list or stream they come in, and its quantities (D07). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import msgspec

from bridgehead.discovery.json_items import Item, items_of
from bridgehead.discovery.jsontext import Unreadable, decode
from bridgehead.discovery.parsing import Capture
from bridgehead.discovery.tables import Table, yaml_document

_QUANTITY: Final = re.compile(r"(\d{1,30}(?:\.\d{1,12})?)(?:([eE]\d{1,2})|(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?", re.ASCII)
_FACTORS: Final = {
    **{"m": Decimal("0.001"), "k": Decimal(10**3), "M": Decimal(10**6), "G": Decimal(10**9), "T": Decimal(10**12), "P": Decimal(10**15)},
    **{"E": Decimal(10**18), "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40), "Pi": Decimal(2**50)},
    "Ei": Decimal(2**60),
}
_LIST: Final = re.compile(rb'"items"\s*:\s*\[')
_DIVIDER: Final = re.compile(r"---(?:\s.*)?")
_MOST_DOCUMENTS: Final = 100_000


class Resource(msgspec.Struct):
    """One object, and where it stands."""

    values: dict[str, Any]
    source: Item | Table
    first: int = 0

    def place(self, *keys: str) -> int:
        """The line of the last of ``keys``, which lie in each other; of the last that is found where one is missing."""
        if isinstance(self.source, Item):
            return self.source.place(*keys)
        holder, line = self.source, self.source.line
        for key in keys:
            line = holder.at(key)
            inner = holder.get(key)
            if not isinstance(inner, Table):
                break
            holder = inner
        return line + self.first


def quantity(value: Any) -> int | float | None:
    """The number of ``263514892Ki``, ``64000m`` or ``16``; an integer where it is one. None for what is no quantity."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    found = _QUANTITY.fullmatch(str(value).strip())
    if found is None:
        return None
    exact = Decimal(found[1] + (found[2] or "")) * _FACTORS.get(found[3] or "", Decimal(1))
    if exact > Decimal(2**63):
        return None
    return int(exact) if exact == exact.to_integral_value() else float(exact)


def resources(capture: Capture) -> Iterator[Resource | Unreadable]:
    """All objects of a capture: one in JSON, a list in JSON, YAML documents, lists in those."""
    if capture.data.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] == b"{":
        yield from _from_json(capture)
        return
    for table, first in _documents(capture):
        if isinstance(table, Unreadable):
            yield table
        elif isinstance(table.get("items"), list):
            yield from (Resource(one, one, first) for one in table.tables("items"))
        else:
            yield Resource(table, table, first)


def _from_json(capture: Capture) -> Iterator[Resource | Unreadable]:
    if _LIST.search(capture.data) is not None:
        for key, item in items_of(capture, frozenset({"items"})):
            if isinstance(item, Unreadable):
                yield item
            elif key == "items" and "" not in item:
                yield Resource(item, item)
        return
    document = decode(capture)
    if isinstance(document, Unreadable):
        yield document
    elif isinstance(document, dict):
        begin = capture.data.find(b"{")
        yield Resource(document, Item(document, capture.data[begin:], capture.data.count(b"\n", 0, begin) + 1))
    else:
        yield Unreadable(1, "the JSON is no object")


def _documents(capture: Capture) -> Iterator[tuple[Table | Unreadable, int]]:
    """Each document of a YAML stream with the number of lines before it. A last one that a line without an end closes may be cut off."""
    lines = capture.lines
    starts = [-1, *(number for number, line in enumerate(lines) if line.startswith("---") and _DIVIDER.fullmatch(line))][:_MOST_DOCUMENTS]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        part = lines[start + 1 : end]
        if end == len(lines) and part and part[-1].strip():
            yield Unreadable(end, f"the last line has no end and may be cut off: {part[-1].strip()[:60]!r}"), 0
            part = part[:-1]
        if not any(line.strip() and not line.lstrip().startswith("#") for line in part):
            continue
        found = yaml_document(Capture(capture.file, "\n".join(part).encode("utf-8", "replace")))
        if isinstance(found, Unreadable):
            yield Unreadable(min(found.line + start + 1, len(lines)), found.reason), 0
        elif isinstance(found, Table):
            yield found, start + 1
        else:
            yield Unreadable(start + 2, "the document is no mapping"), 0


def inner(values: Any, *keys: str) -> dict[str, Any]:
    """The mapping under ``keys``; an empty one where there is none."""
    for key in keys:
        values = values.get(key) if isinstance(values, dict) else None
    return values if isinstance(values, dict) else {}


def listed(values: Any, *keys: str) -> list[dict[str, Any]]:
    """The mappings in the list under ``keys``."""
    holder = inner(values, *keys[:-1]).get(keys[-1])
    return [one for one in holder if isinstance(one, dict)] if isinstance(holder, list) else []
