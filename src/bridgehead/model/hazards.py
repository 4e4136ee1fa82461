"""Hazards: what goes wrong in a move, how often, and for how long (rules section 7; M10.1). Files are read by ``read_hazards``.

What nobody gives is taken from ``GUESSES`` and shown as a guess; the prior for interruptions is one published run. A higher rate after
transport has no default: it is none unless given.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

import msgspec

from bridgehead.kernel.document import read_document
from bridgehead.kernel.quantity import Seconds, Share
from bridgehead.kernel.schema import json_schema

HOUR_S, DAY_S = 3600.0, 86_400.0
PRIOR_GPU_HOURS: Final = 50_677.0
"""GPU-hours between two unexpected interruptions: 419 in 54 days on 16,384 GPUs, H100 class, one published run (rules section 7)."""

Chance = Annotated[Share, msgspec.Meta(ge=0, le=1)]


class Setback(msgspec.Struct, frozen=True):
    """Something that happens now and then and then takes time.

    Attributes:
        chance: that it happens, each time that it can.
        lasts_s: how long it takes on average; times are exponential.
    """

    chance: Chance
    lasts_s: Seconds = 0.0


class Slowdown(msgspec.Struct, frozen=True):
    """A line that carries less.

    Attributes:
        chance: for each copy.
        rate_share: what is left of the rate then.
    """

    chance: Chance
    rate_share: Annotated[Share, msgspec.Meta(gt=0, le=1)] = 0.5


class Cuts(msgspec.Struct, frozen=True):
    """Nothing travels for a while.

    Attributes:
        every_s: mean time between two cuts.
        lasts_s: mean time until it is joined.
    """

    every_s: Annotated[Seconds, msgspec.Meta(gt=0)]
    lasts_s: Seconds = 2 * HOUR_S


class Interruptions(msgspec.Struct, frozen=True):
    """Jobs that are interrupted by hardware or software; the rates of nodes differ (rules section 7).

    Attributes:
        gpu_hours: between two of them; a site's own figure counts before the prior.
        worst_nodes: share of the nodes that fail most.
        worst_share: share of all interruptions that these cause; in one report the worst 3 of 63 nodes made half.
        restart_s: until the job is started again, before it restores.
    """

    gpu_hours: Annotated[float, msgspec.Meta(gt=0)] | None = None
    worst_nodes: Annotated[Share, msgspec.Meta(gt=0, lt=1)] = 3 / 63
    worst_share: Chance = 0.5
    restart_s: Seconds = 600.0


class Infant(msgspec.Struct, frozen=True):
    """A higher rate of failures after transport.

    Attributes:
        times: the rate of interruptions is so many times as high.
        lasts_s: for so long after a wave has joined.
    """

    times: Annotated[float, msgspec.Meta(ge=1)]
    lasts_s: Seconds


class Hazards(msgspec.Struct, frozen=True):
    """All of them. What is not given is a guess.

    Attributes:
        infant: after transport; none unless given.
        damage: one node of a rack is damaged in transport; it is back after the time of a repair with a spare.
        delivery_s: how long a damaged node takes when the plan's spares are used up.
        late_truck: for each trip, and each courier.
        slow_link: for each copy and each swing.
        cut_link: the lines between the sites.
        failed_gate: for each gate of a canary; until its cause is found and the gate has passed.
        corrupt_checkpoint: for each restore; the one before it is taken.
        no_show: for each task of a crew: it is done in the next shift.
        slow_work: for each task of people; what it takes longer.
    """

    name: str = msgspec.field(name="hazards", default="hazards")
    interruptions: Interruptions | None = None
    infant: Infant | None = None
    damage: Setback | None = None
    delivery_s: Seconds | None = None
    late_truck: Setback | None = None
    slow_link: Slowdown | None = None
    cut_link: Cuts | None = None
    failed_gate: Setback | None = None
    corrupt_checkpoint: Chance | None = None
    no_show: Chance | None = None
    slow_work: Setback | None = None


GUESSES: Final = Hazards(
    interruptions=Interruptions(PRIOR_GPU_HOURS),
    damage=Setback(0.01, 8 * HOUR_S),
    delivery_s=14 * DAY_S,
    late_truck=Setback(0.05, 6 * HOUR_S),
    slow_link=Slowdown(0.05),
    cut_link=Cuts(30 * DAY_S),
    failed_gate=Setback(0.02, 2 * HOUR_S),
    corrupt_checkpoint=0.002,
    no_show=0.01,
    slow_work=Setback(0.1, HOUR_S),
)
"""What is taken where nobody says otherwise: guesses, but for the interruptions, whose rate was published."""

CALM: Final = Hazards(
    name="none",
    interruptions=Interruptions(float("inf")),
    damage=Setback(0.0),
    delivery_s=0.0,
    late_truck=Setback(0.0),
    slow_link=Slowdown(0.0),
    cut_link=Cuts(float("inf")),
    failed_gate=Setback(0.0),
    corrupt_checkpoint=0.0,
    no_show=0.0,
    slow_work=Setback(0.0),
)
"""Nothing goes wrong: a simulation then gives the plan's own dates and losses."""


class Rates(msgspec.Struct, frozen=True):
    """Hazards with a value for everything; ``guesses`` names the fields that nobody gave."""

    interruptions: Interruptions
    infant: Infant | None
    damage: Setback
    delivery_s: Seconds
    late_truck: Setback
    slow_link: Slowdown
    cut_link: Cuts
    failed_gate: Setback
    corrupt_checkpoint: Chance
    no_show: Chance
    slow_work: Setback
    guesses: tuple[str, ...] = ()


def rates_of(given: Hazards, *, site_gpu_hours: float | None = None) -> Rates:
    """What a simulation takes. ``site_gpu_hours``: the source's own GPU-hours between interruptions, better than any prior."""
    taken: dict[str, Any] = {}
    guesses: list[str] = []
    for field in Rates.__struct_fields__:
        if field in ("guesses", "infant"):
            continue
        value = getattr(given, field)
        if value is None:
            value = getattr(GUESSES, field)
            guesses.append(field.removesuffix("_s"))
        taken[field] = value
    found: Interruptions = taken["interruptions"]
    if given.interruptions is None or found.gpu_hours is None:
        hours = site_gpu_hours if site_gpu_hours is not None else PRIOR_GPU_HOURS
        taken["interruptions"] = msgspec.structs.replace(found, gpu_hours=hours)
        if site_gpu_hours is None and "interruptions" not in guesses:
            guesses.append("interruptions")
    return Rates(**taken, infant=given.infant, guesses=tuple(guesses))


def read_hazards(text: str, *, file: str) -> Hazards:
    """Read a file of hazards. Raises BadFile (BAD_INPUT) with every fault."""
    return read_document(text, Hazards, file=file, what="hazards")[0]


def hazards_schema() -> dict[str, Any]:
    """JSON Schema of such files, for editors."""
    return json_schema(Hazards, title="Bridgehead hazards")
