"""Objectives files: YAML to ``Continuity`` and back, with checks that need more than one field. Every fault is located (R1, R2, R3, R5)."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from typing import Annotated, Any, Final

import msgspec

from bridgehead.kernel.decode import Decoder
from bridgehead.kernel.document import dump, read_document, to_file
from bridgehead.kernel.located import Mark, Path
from bridgehead.kernel.phrase import nearest
from bridgehead.kernel.quantity import Seconds, format_duration
from bridgehead.kernel.schema import json_schema
from bridgehead.kernel.shape import Keyed, shape_of
from bridgehead.model.estate import Estate
from bridgehead.model.objective import (
    CLASSES,
    DAY_S,
    HOUR_S,
    MINUTE_S,
    REGULATIONS,
    DataClass,
    Need,
    Objective,
    Regulation,
    needs_of,
)  # fmt: skip
from bridgehead.model.tariff import Assumptions, LineTerms, Tariff, Terms

RPO_LADDER: Final = (0.0, 5 * MINUTE_S, 15 * MINUTE_S, HOUR_S, 4 * HOUR_S, DAY_S)
RTO_LADDER: Final = (MINUTE_S, 15 * MINUTE_S, HOUR_S, 2 * HOUR_S, 4 * HOUR_S, 8 * HOUR_S, DAY_S)
"""R1, R2 and R5 name these times."""


class Ladder(msgspec.Struct, frozen=True):
    """The times that are priced side by side, growing.

    Attributes:
        rpo: how much work may be lost.
        rto: how long it may take; none of them 0.
    """

    rpo: Annotated[tuple[Seconds, ...], msgspec.Meta(min_length=1)] = RPO_LADDER
    rto: Annotated[tuple[Annotated[Seconds, msgspec.Meta(gt=0)], ...], msgspec.Meta(min_length=1)] = RTO_LADDER


class Continuity(msgspec.Struct, frozen=True):
    """What must hold after a disaster, of a whole estate, and what keeping ready for it costs.

    Attributes:
        name: its name.
        currency: of all prices, as its three letters.
        accept_defaults: whether a workload or data set without an objective has that of its kind (R1, R2); without it, it is reported.
        classes: the file's own classes of data, or other numbers for those of R1 and R2.
        regulations: the file's own regulations, or other numbers for those of R5.
        ladder: the times that are priced side by side.
        patterns: what the patterns of R11 mean here.
        prices: what things cost.
        assumptions: what is assumed of a disaster.
        lines: what is set up on the links between the sites (R17).
    """

    name: str = msgspec.field(name="continuity")
    objectives: Annotated[tuple[Objective, ...], Keyed("objective")]
    currency: Annotated[str, msgspec.Meta(pattern="^[A-Z]{3}$")] = "EUR"
    accept_defaults: bool = False
    classes: Annotated[tuple[DataClass, ...], Keyed("class")] = ()
    regulations: Annotated[tuple[Regulation, ...], Keyed("regulation")] = ()
    ladder: Ladder = Ladder()
    patterns: Annotated[tuple[Terms, ...], Keyed("pattern")] = ()
    prices: Tariff = Tariff()
    assumptions: Assumptions = Assumptions()
    lines: Annotated[tuple[LineTerms, ...], Keyed("line")] = ()

    def needs(self, estate: Estate) -> tuple[Need, ...]:
        """The need of every workload, service and data set of an estate."""
        return needs_of(estate, self.objectives, classes=self.classes, regulations=self.regulations)


def read_objectives(text: str, *, file: str, estate: Estate | None = None) -> Continuity:
    """Read an objectives file. Raises BadFile (BAD_INPUT) with every fault: file, line, field, what was found and expected.

    Args:
        estate: what it is for; what objectives cover must be there, and nothing may have two. None leaves that unchecked.
    """
    return read_objectives_with_places(text, file=file, estate=estate)[0]


def read_objectives_with_places(text: str, *, file: str, estate: Estate | None = None) -> tuple[Continuity, Mapping[Path, Mark]]:
    """As ``read_objectives``, and where each part stands in the file."""

    def check(continuity: Continuity, decoder: Decoder) -> None:
        check_objectives(continuity.objectives, decoder, classes=continuity.classes, regulations=continuity.regulations, estate=estate)
        _check_ladder(continuity.ladder, decoder)
        links = None if estate is None else {link.id for link in estate.links}
        for line in continuity.lines:
            if links is not None and line.id not in links:
                decoder.fault_at(("lines", line.id), f"the estate has no link '{line.id}'", nearest(line.id, links))

    return read_document(text, Continuity, file=file, what="objectives", check=check)


def write_objectives(continuity: Continuity) -> str:
    """YAML that ``read_objectives`` reads as an equal value."""
    return dump(to_file(continuity, shape_of(Continuity)))


def objectives_schema() -> dict[str, Any]:
    """JSON Schema of objectives files, for editors."""
    return json_schema(Continuity, title="Bridgehead objectives")


def check_objectives(
    objectives: Collection[Objective],
    decoder: Decoder,
    *,
    classes: Collection[DataClass] = (),
    regulations: Collection[Regulation] = (),
    estate: Estate | None = None,
    at: Path = ("objectives",),
) -> None:
    """Report what the types cannot say, for any file that has a section of objectives.

    Args:
        at: the path of the section.
    """
    kinds = {one.id for one in (*classes, *CLASSES)}
    laws = {one.id for one in (*regulations, *REGULATIONS)}
    covered: dict[str, str] = {}
    for one in objectives:
        path = (*at, one.id)
        if one.data_class and one.data_class not in kinds:
            decoder.fault_at((*path, "data_class"), f"there is no class '{one.data_class}'", nearest(one.data_class, kinds))
        for number, law in enumerate(one.regulations):
            if law not in laws:
                decoder.fault_at((*path, "regulations", f"[{number}]"), f"there is no regulation '{law}'", nearest(law, laws))
        if one.rpo_s is None and one.rto_s is None and not one.data_class and not one.regulations:
            decoder.fault_at(path, "it says nothing", "expected 'rpo' and 'rto', or a 'data_class', or 'regulations'")
        for number, name in enumerate(one.covers):
            place = (*path, "covers", f"[{number}]")
            if name in covered:
                decoder.fault_at(place, f"'{name}' has the objective '{covered[name]}' already", "expected one objective for each thing")
            covered.setdefault(name, one.id)
            if estate is not None:
                _check_cover(name, one, place, decoder, estate)
    if estate is not None:
        _check_named(objectives, decoder, estate, at)
        twice = {one.id for one in estate.datasets} & {*(one.id for one in estate.workloads), *(one.id for one in estate.services)}
        for name in sorted(twice):
            decoder.fault_at(at, f"the estate calls a data set and something else '{name}'", "expected different ids in the estate")


def _check_cover(name: str, objective: Objective, place: Path, decoder: Decoder, estate: Estate) -> None:
    named: dict[str, str | None] = {one.id: one.objective for one in estate.workloads}
    named |= {one.id: one.objective for one in estate.services}
    known = {*named, *(one.id for one in estate.datasets)}
    if name not in known:
        decoder.fault_at(place, f"the estate has no workload, service or data set '{name}'", nearest(name, known))
    elif (other := named.get(name)) is not None and other != objective.id:
        decoder.fault_at(place, f"the estate gives '{name}' the objective '{other}'", "expected the same one, or to leave it out here")


def _check_named(objectives: Collection[Objective], decoder: Decoder, estate: Estate, at: Path) -> None:
    known = {one.id for one in objectives}
    named = [*((one.id, one.objective) for one in estate.workloads), *((one.id, one.objective) for one in estate.services)]
    for name, objective in named:
        if objective is not None and objective not in known:
            found = f"the estate gives '{name}' the objective '{objective}', which is not here"
            decoder.fault_at(at, found, nearest(objective, known))


def _check_ladder(ladder: Ladder, decoder: Decoder) -> None:
    for which, rungs in (("rpo", ladder.rpo), ("rto", ladder.rto)):
        for number, (before, after) in enumerate(itertools.pairwise(rungs), start=1):
            if after <= before:
                found = f"found {format_duration(after)} after {format_duration(before)}"
                decoder.fault_at(("ladder", which, f"[{number}]"), found, "expected growing times")
