"""Objectives: what must hold after a disaster, of which workload and which data (R1, R2, R5). Files are read by ``objectivefile``.

The strictest of what is said counts: of the objective itself, of the class of its data, and of the regulations that apply. A number that
nobody gave comes from the class. None means that no time is set, which is not the same as 0.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable
from typing import Annotated, Final

import msgspec

from bridgehead.kernel.quantity import Seconds, Share
from bridgehead.model.estate import Estate, ObjectiveId, WorkloadKind
from bridgehead.model.finding import Origin

Positive = Annotated[Seconds, msgspec.Meta(gt=0)]
Words = tuple[str, ...]
Availability = Annotated[Share, msgspec.Meta(gt=0, lt=1)]

MINUTE_S: Final = 60.0
HOUR_S: Final = 3600.0
DAY_S: Final = 86_400.0
YEAR_S: Final = 365.0 * DAY_S


class DataClass(msgspec.Struct, frozen=True):
    """A class of data or of work, and what is asked of it where nobody says more (R1, R2).

    Attributes:
        rpo_s: how much work may be lost at most; None: no time is set.
        rto_s: how long it may take at most until it serves again.
        aims_rpo_s: the tight end where the source gives a range (training: 2 to 4 h).
        aims_rto_s: as ``aims_rpo_s``, of the recovery time.
        cloud: whether the data may be in a cloud, encrypted with own keys (P21).
        guess: whether the numbers rest on a weak source.
    """

    id: str
    rpo_s: Seconds | None = None
    rto_s: Positive | None = None
    aims_rpo_s: Seconds | None = None
    aims_rto_s: Positive | None = None
    cloud: bool = True
    guess: bool = False


class Regulation(msgspec.Struct, frozen=True):
    """What a law or a supervisor asks (R5).

    Attributes:
        rpo_s: how much may be lost at most; None: no time is set.
        rto_s: how long it may take at most; None: no time is set.
        recoverable: whether it asks that the data can be brought back at all, and that this is tested, without a time.
        cloud: whether the data may be in a cloud, encrypted with own keys.
        guess: whether a number is a reading of words ("same day") and no number of the text.
    """

    id: str
    rpo_s: Seconds | None = None
    rto_s: Positive | None = None
    recoverable: bool = False
    cloud: bool = True
    guess: bool = False


class Objective(msgspec.Struct, frozen=True):
    """What must hold after a disaster.

    Attributes:
        rpo_s: how much work may be lost; 0 for none. Without it, what the class says.
        rto_s: how long it may take until it serves again. Without it, what the class says.
        data_class: the class of its data; one of R1 and R2, or of the file's own.
        regulations: those that apply.
        availability: share of a year in which it must serve.
        covers: workloads, services and data sets that have it, beside those that name it in the estate.
    """

    id: ObjectiveId
    rpo_s: Seconds | None = None
    rto_s: Positive | None = None
    data_class: str = ""
    regulations: Words = ()
    availability: Availability | None = None
    covers: Words = ()


TRAINING: Final = DataClass("training", 4 * HOUR_S, 8 * HOUR_S, aims_rpo_s=2 * HOUR_S, aims_rto_s=4 * HOUR_S)
WEIGHTS: Final = DataClass("weights", 0.0, HOUR_S)
DATASET: Final = DataClass("dataset", DAY_S)
INFERENCE: Final = DataClass("inference", 5 * MINUTE_S, 15 * MINUTE_S)
REGISTRY: Final = DataClass("registry", 0.0, HOUR_S)
DEVELOPMENT: Final = DataClass("development", DAY_S, DAY_S, guess=True)
CLASSES: Final = (TRAINING, WEIGHTS, DATASET, INFERENCE, REGISTRY, DEVELOPMENT)
"""R1 and R2: training 2 to 4 h and 4 to 8 h; weights and hyperparameters 0; data sets 24 h; inference 5 min and 15 min; a registry 1 h, and
0 since it holds weights; development 24 h. R1 says nothing of what development may lose: 24 h is a guess."""

FINANCE: Final = Regulation("finance", rto_s=8 * HOUR_S, guess=True)
HEALTHCARE: Final = Regulation("healthcare-diagnosis", rto_s=4 * HOUR_S)
GDPR: Final = Regulation("gdpr", recoverable=True)
REGULATIONS: Final = (FINANCE, HEALTHCARE, GDPR)
"""R5: finance the same day, diagnosis in healthcare within 4 h, GDPR recoverable without a set time. "The same day" is no number: 8 h, a
working day, is a reading of it and marked as a guess."""

OF_KIND: Final = {WorkloadKind.TRAINING: TRAINING.id, WorkloadKind.INFERENCE: INFERENCE.id}
"""The class of a workload that names none; of batch and service jobs R1 and R2 say nothing."""


class Part(enum.StrEnum):
    """What kind of thing has an objective."""

    WORKLOAD = "workload"
    SERVICE = "service"
    DATASET = "dataset"


class Bound(msgspec.Struct, frozen=True):
    """One number that counts, and who says it.

    Attributes:
        value_s: in seconds.
        origin: DECLARED, DEFAULT (R1, R2, R5) or GUESS.
        source: ``objectives.chat.rpo``, ``class inference``, ``regulation finance``.
    """

    value_s: float
    origin: Origin
    source: str


class Need(msgspec.Struct, frozen=True):
    """What one thing of the estate needs after a disaster: the strictest of all that is said of it.

    Attributes:
        objective: that it has; None when nobody gave it one and only the class of its kind speaks.
        rpo: None: no time is set, or nobody said.
        rto: as ``rpo``.
        own_rpo: what the objective, or else its class, says, before regulations.
        own_rto: as ``own_rpo``.
        recoverable: a regulation asks that it can be brought back at all.
        cloud: whether its data may be in a cloud.
    """

    part: Part
    id: str
    objective: Objective | None
    rpo: Bound | None
    rto: Bound | None
    own_rpo: Bound | None
    own_rto: Bound | None
    recoverable: bool = False
    cloud: bool = True


def need_of(
    part: Part,
    name: str,
    objective: Objective | None,
    *,
    data_class: str = "",
    classes: Iterable[DataClass] = CLASSES,
    regulations: Iterable[Regulation] = REGULATIONS,
) -> Need:
    """The need of one thing.

    Args:
        data_class: the class that its kind, or the estate, gives it; the objective's own goes first.
        classes: all that are known, those of the file before those of R1 and R2.
        regulations: as ``classes``.
    """
    chosen = (objective.data_class if objective is not None else "") or data_class
    kind = next((one for one in classes if one.id == chosen), None)
    laws = [law for law in regulations if objective is not None and law.id in objective.regulations]
    own_rpo, own_rto = _own("rpo", objective, kind), _own("rto", objective, kind)
    return Need(
        part,
        name,
        objective,
        rpo=strictest([own_rpo, *(_law("rpo", law) for law in laws)]),
        rto=strictest([own_rto, *(_law("rto", law) for law in laws)]),
        own_rpo=own_rpo,
        own_rto=own_rto,
        recoverable=any(law.recoverable for law in laws),
        cloud=all(law.cloud for law in laws) and (kind is None or kind.cloud),
    )


def strictest(bounds: Iterable[Bound | None]) -> Bound | None:
    """The smallest; of equal ones the first. None when there is none."""
    return min((one for one in bounds if one is not None), key=lambda one: one.value_s, default=None)


def _own(which: str, objective: Objective | None, kind: DataClass | None) -> Bound | None:
    said = getattr(objective, f"{which}_s") if objective is not None else None
    if objective is not None and said is not None:
        return Bound(said, Origin.DECLARED, f"objectives.{objective.id}.{which}")
    return None if kind is None else class_bound(which, kind)


def class_bound(which: str, kind: DataClass) -> Bound | None:
    """What a class says; ``which`` is ``rpo`` or ``rto``."""
    return _bound(getattr(kind, f"{which}_s"), guess=kind.guess, known=kind in CLASSES, source=f"class {kind.id}")


def _law(which: str, law: Regulation) -> Bound | None:
    return _bound(getattr(law, f"{which}_s"), guess=law.guess, known=law in REGULATIONS, source=f"regulation {law.id}")


def _bound(value_s: float | None, *, guess: bool, known: bool, source: str) -> Bound | None:
    if value_s is None:
        return None
    return Bound(value_s, Origin.GUESS if guess else Origin.DEFAULT if known else Origin.DECLARED, source)


def law_bounds(which: str, objective: Objective, regulations: Collection[Regulation] = REGULATIONS) -> list[Bound]:
    """What the regulations of an objective say; ``which`` is ``rpo`` or ``rto``."""
    found = [_law(which, law) for law in regulations if law.id in objective.regulations]
    return [one for one in found if one is not None]


def needs_of(
    estate: Estate,
    objectives: Collection[Objective],
    *,
    classes: Collection[DataClass] = (),
    regulations: Collection[Regulation] = (),
) -> tuple[Need, ...]:
    """The need of every workload, service and data set of an estate, in the order of their names (R1: none is left out).

    A thing has the objective that the estate names for it, else the one that covers it. Without any, ``Need.objective`` is None and the
    numbers are those of its kind's class, which is a default that somebody has yet to accept.

    Args:
        classes: of the file; they go before those of R1 and R2 with the same name.
        regulations: as ``classes``.
    """
    by_id = {one.id: one for one in objectives}
    covered = {name: one for one in objectives for name in one.covers}
    kinds = (*classes, *(one for one in CLASSES if one.id not in {own.id for own in classes}))
    laws = (*regulations, *(one for one in REGULATIONS if one.id not in {own.id for own in regulations}))

    def need(part: Part, name: str, named: ObjectiveId | None, data_class: str) -> Need:
        objective = by_id.get(named) if named is not None else covered.get(name)
        return need_of(part, name, objective, data_class=data_class, classes=kinds, regulations=laws)

    known = {one.id for one in kinds}
    found = [
        need(Part.WORKLOAD, one.id, one.objective, one.data_class if one.data_class in known else OF_KIND.get(one.kind, ""))
        for one in estate.workloads
    ]
    found += [need(Part.SERVICE, one.id, one.objective, INFERENCE.id if one.workload is not None else "") for one in estate.services]
    found += [need(Part.DATASET, one.id, None, DATASET.id) for one in estate.datasets]
    return tuple(sorted(found, key=lambda one: (one.part, one.id)))
