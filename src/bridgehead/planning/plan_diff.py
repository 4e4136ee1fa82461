"""Diff of two plans: by identity, what moved, from what to what (design rule 2). Pure; the order of things in the files changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from bridgehead.kernel.document import to_file
from bridgehead.kernel.moment import format_moment
from bridgehead.kernel.shape import shape_of
from bridgehead.model.fabric import RackId
from bridgehead.model.plan import Plan, SparePart, Wave


class Change(msgspec.Struct, frozen=True):
    """One thing that is otherwise.

    Attributes:
        kind: ``score``, ``plan``, ``phase``, ``service``, ``transfer``, ``swing``, ``shrink``, ``wave``, ``rack``, ``place``, ``spare``,
            ``rollback`` or ``assumption``.
        id: of what.
        field: which of its values; empty where it is added or removed as a whole.
        before, after: as files write them; None where there was, or is, none.
        shift_s: for moments, how much later (negative: earlier).
    """

    kind: str
    id: str
    field: str
    before: str | None
    after: str | None
    shift_s: float | None = None


def plan_changes(before: Plan, after: Plan) -> tuple[Change, ...]:
    """Everything in which two plans differ, the score first."""
    return tuple([*_score(before, after), *_head(before, after), *_things(before, after), *_racks(before, after), *_rest(before, after)])


def _score(before: Plan, after: Plan) -> Iterator[Change]:
    levels = [{level.id: level for level in plan.score.levels} for plan in (before, after)]
    for name in dict.fromkeys([*levels[0], *levels[1]]):
        old, new = levels[0].get(name), levels[1].get(name)
        for field in ("value", "bound"):
            yield from _changed("score", name, field, getattr(old, field, None), getattr(new, field, None))
    yield from _changed("score", "gap", "", before.score.gap, after.score.gap)
    yield from _changed("score", "lost_gpu_hours", "", before.score.lost_gpu_hours, after.score.lost_gpu_hours)
    yield from _changed("score", "binding", "", ", ".join(before.score.binding), ", ".join(after.score.binding))


def _head(before: Plan, after: Plan) -> Iterator[Change]:
    for field in ("name", "source", "target", "estate", "policy", "seed", "generation", "parent"):
        yield from _changed("plan", before.name, field, getattr(before, field), getattr(after, field))
    for field in ("begins_s", "ends_s"):
        yield from _moments("plan", before.name, field, getattr(before, field), getattr(after, field))


def _things(before: Plan, after: Plan) -> Iterator[Change]:
    """All that has an id and values of its own; racks of waves are compared one by one."""
    groups: tuple[tuple[str, Iterable[msgspec.Struct], Iterable[msgspec.Struct]], ...] = (
        ("phase", before.phases, after.phases),
        ("service", before.services, after.services),
        ("transfer", before.transfers, after.transfers),
        ("swing", before.swings, after.swings),
        ("wave", before.waves, after.waves),
        ("rollback", before.rollback, after.rollback),
    )
    for kind, old, new in groups:
        yield from _keyed(kind, _by_id(old), _by_id(new))
    for wave, other in _both(before.waves, after.waves):
        yield from _keyed("step", *({f"{wave.id} {task.id}": task for task in one.tasks} for one in (wave, other)))
    shrinks = [{f"{one.workload} at {one.site} #{number}": one for number, one in _numbered(plan)} for plan in (before, after)]
    yield from _keyed("shrink", *shrinks)


def _numbered(plan: Plan) -> Iterator[tuple[int, Any]]:
    counted: dict[tuple[str, str], int] = {}
    for one in sorted(plan.shrinks, key=lambda one: (one.workload, one.site, one.begins_s)):
        counted[one.workload, one.site] = counted.get((one.workload, one.site), 0) + 1
        yield counted[one.workload, one.site], one


def _both(before: Iterable[Wave], after: Iterable[Wave]) -> Iterator[tuple[Wave, Wave]]:
    other = {wave.id: wave for wave in after}
    yield from ((wave, other[wave.id]) for wave in before if wave.id in other)


def _by_id(things: Iterable[Any]) -> dict[str, msgspec.Struct]:
    return {str(one.id): one for one in things}


def _keyed(kind: str, old: Mapping[str, msgspec.Struct], new: Mapping[str, msgspec.Struct]) -> Iterator[Change]:
    for name in dict.fromkeys([*old, *new]):
        was, now = old.get(name), new.get(name)
        if was is None or now is None:
            there = was or now
            assert there is not None
            words = _span(there)
            yield Change(kind, name, "", None if was is None else words, None if now is None else words)
            continue
        for field in was.__struct_fields__:
            values = getattr(was, field), getattr(now, field)
            if field in ("id", "vehicles", "tasks", "workload", "site"):
                continue
            if field.endswith("_s") and field not in ("lost_s",):
                yield from _moments(kind, name, field, *values)
            else:
                yield from _changed(kind, name, field, *(_written(was, field, value) for value in values))


def _span(thing: msgspec.Struct) -> str:
    begins = getattr(thing, "begins_s", getattr(thing, "out_s", None))
    ends = getattr(thing, "ends_s", getattr(thing, "joins_s", getattr(thing, "until_s", None)))
    return " to ".join(format_moment(moment) for moment in (begins, ends) if moment is not None)


def _written(owner: msgspec.Struct, field: str, value: Any) -> Any:
    """A value with its unit, as files write it."""
    written = to_file(msgspec.structs.replace(owner, **{field: value}), shape_of(type(owner)))
    return next((written[key] for key in (field, field.rpartition("_")[0]) if key in written), value)


def _racks(before: Plan, after: Plan) -> Iterator[Change]:
    carried = [_carried(plan) for plan in (before, after)]
    for rack in sorted({*carried[0], *carried[1]}):
        old, new = (held.get(rack, (None, None)) for held in carried)
        yield from _changed("rack", rack, "wave", old[0], new[0])
        if old[0] == new[0]:
            yield from _changed("rack", rack, "vehicle", old[1], new[1])
    places = [{one.id: one.place for one in plan.placements} for plan in (before, after)]
    for rack in sorted({*places[0], *places[1]}):
        yield from _changed("place", rack, "", places[0].get(rack), places[1].get(rack))


def _carried(plan: Plan) -> dict[RackId, tuple[str, str]]:
    return {rack: (wave.id, vehicle.id) for wave in plan.waves for vehicle in wave.vehicles for rack in vehicle.racks}


def _rest(before: Plan, after: Plan) -> Iterator[Change]:
    spares: list[dict[str, SparePart]] = [{one.model: one for one in plan.spares} for plan in (before, after)]
    for model in sorted({*spares[0], *spares[1]}):
        old, new = (held.get(model) for held in spares)
        yield from _changed("spare", model, "", None if old is None else old.count, None if new is None else new.count)
    taken = [{one.field: one.taken for one in plan.assumptions} for plan in (before, after)]
    for field in sorted({*taken[0], *taken[1]}):
        yield from _changed("assumption", field, "", taken[0].get(field), taken[1].get(field))


def _changed(kind: str, name: str, field: str, old: Any, new: Any) -> Iterator[Change]:
    if old != new:
        yield Change(kind, name, field, _shown(old), _shown(new))


def _shown(value: Any) -> str | None:
    if isinstance(value, float):
        return f"{value:,.6g}"
    return None if value is None else str(value)


def _moments(kind: str, name: str, field: str, old: float | None, new: float | None) -> Iterator[Change]:
    if old != new:
        shift_s = None if old is None or new is None else new - old
        shown = [None if moment_s is None else format_moment(moment_s) for moment_s in (old, new)]
        yield Change(kind, name, field.removesuffix("_s"), shown[0], shown[1], shift_s)
