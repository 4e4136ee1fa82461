"""Fleet: which nodes are judged, and how things are named and compared in sentences (design rule 1). Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TypeVar

import msgspec

from bridgehead.assess.scope import Scope
from bridgehead.kernel.quantity import format_quantity
from bridgehead.kernel.units import Dimension
from bridgehead.model.equipment import Node
from bridgehead.model.estate import Site
from bridgehead.model.fabric import Fabric, FabricPurpose

_FEW = 5
_T = TypeVar("_T")

PURPOSES = (FabricPurpose.COMPUTE, FabricPurpose.STORAGE, FabricPurpose.MANAGEMENT)
"""What fabrics are compared for; each purpose is kept apart (F01)."""


class Placed(msgspec.Struct, frozen=True):
    """A node and the site that describes it."""

    site: Site
    node: Node

    @property
    def subject(self) -> str:
        """Of findings about it."""
        return f"{self.site.id}/node:{self.node.id}"

    @property
    def path(self) -> str:
        """Of its facts in the estate."""
        return f"sites.{self.site.id}.nodes.{self.node.id}"


def judged_nodes(scope: Scope) -> tuple[Placed, ...]:
    """Nodes that have to work at the target when all is done: its own, and those that are carried there. Sorted by site and name."""
    own = [Placed(scope.target, node) for node in scope.target.nodes]
    coming = [] if scope.source is None else [Placed(scope.source, node) for node in scope.incoming]
    return tuple(sorted([*own, *coming], key=lambda placed: (placed.site.id, placed.node.id)))


def fabrics_for(site: Site, purpose: FabricPurpose) -> tuple[Fabric, ...]:
    """Fabrics of one purpose, by name."""
    return tuple(sorted((fabric for fabric in site.fabrics if fabric.purpose is purpose), key=lambda fabric: fabric.id))


def fabric_subject(site: Site, fabrics: Iterable[Fabric]) -> str:
    """Of findings about all fabrics of one purpose together."""
    return f"{site.id}/fabric:{'+'.join(sorted(fabric.id for fabric in fabrics))}"


def few(names: Iterable[str]) -> str:
    """Names for a sentence: all of them while they are few, in the order of the alphabet."""
    ordered = sorted(set(names))
    more = f" and {len(ordered) - _FEW} more" if len(ordered) > _FEW else ""
    return ", ".join(ordered[:_FEW]) + more


def counting(count: int, thing: str) -> str:
    """``1 rack``, ``3 racks``: a number of things whose plural is made by an s."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


def waiting_words(count: int, site: str) -> str:
    """How many findings at a site one measurement settles."""
    return f"{counting(count, 'finding')} at {site} {'waits' if count == 1 else 'wait'} for one thing to be found out"


def shown(value: float, dimension: Dimension) -> str:
    """A quantity for people, with three digits that count."""
    return format_quantity(value, dimension, digits=3)


def by_class(items: Mapping[str, _T]) -> dict[_T, tuple[str, ...]]:
    """Names by what they have, the most frequent first; the order of ``items`` changes nothing."""
    found: defaultdict[_T, list[str]] = defaultdict(list)
    for name in sorted(items):
        found[items[name]].append(name)
    ordered = sorted(found.items(), key=lambda entry: (-len(entry[1]), entry[1][0]))
    return {value: tuple(names) for value, names in ordered}


def counted(classes: Counter[str]) -> str:
    """``24 x H100, 2 x A100``, for sentences."""
    return ", ".join(f"{count} x {name}" for name, count in sorted(classes.items())) or "none"
