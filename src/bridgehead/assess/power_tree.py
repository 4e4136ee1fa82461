"""Power tree: what stands above each circuit, and what takes it down when it is lost (rules section 2, common cause). Pure, linear."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

from bridgehead.model.estate import Site
from bridgehead.model.power import Circuit, CircuitId, PowerSource, SourceId, SourceKind

ROOTS: Final = frozenset({SourceKind.UTILITY, SourceKind.GENERATOR})
"""Kinds that nothing has to feed. Anything else without ``fed_by`` has an unknown origin."""


def kind_words(kind: SourceKind) -> str:
    """A kind of element for sentences: ``UPS``, ``transfer switch``."""
    return kind.value.upper() if kind in (SourceKind.UPS, SourceKind.PDU) else kind.value.replace("-", " ")


_NOTHING: Final[frozenset[SourceId]] = frozenset()


class PowerTree:
    """The elements above the circuits of one site.

    Attributes:
        circuits: by id.
        sources: by id.
        cyclic: elements that feed themselves in a ring, or hang below one; nothing can be said of them.
    """

    def __init__(self, site: Site) -> None:
        self.circuits: dict[CircuitId, Circuit] = {circuit.id: circuit for circuit in site.circuits}
        self.sources: dict[SourceId, PowerSource] = {source.id: source for source in site.sources}
        self._above: dict[SourceId, frozenset[SourceId]] = {}
        self._critical: dict[SourceId, frozenset[SourceId]] = {}
        self._complete: dict[SourceId, bool] = {}
        self._resolve()
        self.cyclic = frozenset(self.sources) - frozenset(self._above)

    def above(self, circuit: Circuit) -> frozenset[SourceId]:
        """Every element that may carry its load. Where one of several carries it, each of them has to be able to."""
        return self._above.get(circuit.fed_by, _NOTHING) if circuit.fed_by is not None else _NOTHING

    def critical(self, circuit: Circuit) -> frozenset[SourceId]:
        """The elements whose loss takes it down: those on every path to every origin."""
        return self._critical.get(circuit.fed_by, _NOTHING) if circuit.fed_by is not None else _NOTHING

    def complete(self, circuit: Circuit) -> bool:
        """Whether every path above it ends at a utility or a generator. Without that, what it shares with others is unknown."""
        return circuit.fed_by is not None and self._complete.get(circuit.fed_by, False)

    def of_kind(self, source: SourceId, kind: SourceKind) -> tuple[PowerSource, ...]:
        """Elements of a kind above (or at) ``source``, sorted by id."""
        return tuple(self.sources[one] for one in sorted(self._above.get(source, _NOTHING)) if self.sources[one].kind is kind)

    def _resolve(self) -> None:
        """From the origins down, each element after all that feed it; what hangs on a ring is never reached."""
        waits = {source.id: len({parent for parent in source.fed_by if parent in self.sources}) for source in self.sources.values()}
        feeds: defaultdict[SourceId, list[SourceId]] = defaultdict(list)
        for source in self.sources.values():
            for parent in {parent for parent in source.fed_by if parent in self.sources}:
                feeds[parent].append(source.id)
        ready = [name for name, count in waits.items() if not count]
        while ready:
            source = self.sources[ready.pop()]
            self._place(source)
            for child in feeds[source.id]:
                waits[child] -= 1
                if not waits[child]:
                    ready.append(child)

    def _place(self, source: PowerSource) -> None:
        parents = [parent for parent in source.fed_by if parent in self.sources]
        own = frozenset({source.id})
        self._above[source.id] = own.union(*(self._above[parent] for parent in parents))
        shared = frozenset.intersection(*(self._critical[parent] for parent in parents)) if parents else _NOTHING
        self._critical[source.id] = own | shared
        known = len(parents) == len(source.fed_by)
        self._complete[source.id] = known and (all(self._complete[one] for one in parents) if parents else source.kind in ROOTS)
