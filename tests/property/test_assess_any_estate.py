"""Whole estates, with the checks of all families together: unknown never passes; load, order and units (decision 0015).

The estates are the whole one of the fixtures, of which every check passes, with up to eight values changed at random: numbers grow or
shrink, switches flip, versions differ, adapters and links go, facts are missing. In half of them the hardware itself is carried over.

What is taken away is a fact in the sense of decision 0015: any value whose default is that nobody gave it, each entry of ``firmware``, and
all ``graces`` of a workload together. Not taken away are demands (things themselves, counts, ``DEMANDS`` below, single graces, and
``active_limit`` of what is neither UPS nor generator) and one side of a contradiction (``_contradicts``).
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.app.assess import Assessment, Given, assess, read
from bridgehead.assess.interconnect import links_by_model
from bridgehead.assess.loads import measured_contradicts, nameplate_contradicts
from bridgehead.model.equipment import Node
from bridgehead.model.estate import Estate
from bridgehead.model.estatefile import estate_data, read_estate_data
from bridgehead.model.finding import FindingStatus, Verdict
from bridgehead.model.power import PowerSource, SourceKind

WHOLE = Path(__file__).parents[1] / "fixtures" / "assess"
DEMANDS = {"needs", "endpoints"}
FIXED = {"id", "name", "region", "connections", "between"}
READINGS = {"power_w", "measured_w", "nameplate_w"}
LOSABLE = {"nics", "uplinks", "records", "graces", "couriers", "links", "acceptance", "nodes"}
Key = tuple[str, str]


@cache
def whole() -> Given:
    return read(WHOLE / "whole.yaml", WHOLE / "policy.yaml")


def judged(estate: Estate, *, carried: bool) -> Assessment:
    policy = whole().policy
    assert policy is not None
    return assess(estate, policy=msgspec.structs.replace(policy, hardware=carried), now_s=0.0)


def changes(value: object, draw: random.Random, *, name: str = "") -> Iterator[object]:
    """The value with one thing in it changed at random, once for each thing that can change."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            held = getattr(value, field.name)
            if field.name in FIXED:
                continue
            for other in changes(held, draw, name=field.name):
                yield msgspec.structs.replace(value, **{field.name: other})
            if field.default is None and held is not None:
                yield msgspec.structs.replace(value, **{field.name: None})
    elif isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
        for index, item in enumerate(value):
            for other in changes(item, draw, name=name):
                yield (*value[:index], other, *value[index + 1 :])
            if name in LOSABLE:
                yield (*value[:index], *value[index + 1 :])
    elif isinstance(value, tuple) and value:
        yield value[:-1]
    elif isinstance(value, dict) and name == "firmware":
        for key in value:
            yield value | {key: draw.choice(("550.91", "1.0", "600"))}
    else:
        yield from _other(value, draw)


def _other(value: object, draw: random.Random) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, int):
        yield max(1, draw.choice((value - 1, value + 1, value * 2, value // 2)))
    elif isinstance(value, float):
        yield value * draw.choice((0.3, 0.7, 0.9) if 0 < value <= 1 else (0.2, 0.5, 0.9, 1.2, 2.0, 5.0))


def estate_of(draw: random.Random) -> tuple[Estate, bool]:
    """A random estate, and whether its hardware is carried."""
    found, carried = whole().estate, draw.random() < 0.5
    if carried:
        source, target = found.sites
        found = msgspec.structs.replace(found, sites=(source, msgspec.structs.replace(target, nodes=())))
    for _ in range(draw.choice((0, 1, 1, 2, 4, 8))):
        place = draw.choice(("sites", "sites", "sites", "links", "workloads", "couriers"))
        ways = list(changes(getattr(found, place), draw, name=place))
        if ways:
            found = msgspec.structs.replace(found, **{place: draw.choice(ways)})
    fitting = tuple(
        msgspec.structs.replace(one, min_gpus=None if one.min_gpus is None else min(one.gpus, one.min_gpus)) for one in found.workloads
    )
    return msgspec.structs.replace(found, workloads=fitting), carried


def _contradicts(value: msgspec.Struct, field: str) -> bool:
    if not isinstance(value, Node):
        return False
    if field in READINGS:
        return measured_contradicts(value) or nameplate_contradicts(value)
    sheet = links_by_model(value.gpu_model)
    return field in ("gpu_links_expected", "gpu_model") and None not in (sheet, value.gpu_links_expected) != (sheet, sheet)


def _is_fact(value: msgspec.Struct, name: str) -> bool:
    if isinstance(value, PowerSource) and name == "active_limit_w":
        return value.kind in (SourceKind.UPS, SourceKind.GENERATOR)
    return name not in DEMANDS and not _contradicts(value, name)


def removals(value: object) -> Iterator[tuple[str, object]]:
    """The value with one fact taken away, in each possible way."""
    if isinstance(value, msgspec.Struct):
        for field in msgspec.structs.fields(value):
            held = getattr(value, field.name)
            for path, less in removals(held):
                yield f".{field.name}{path}", msgspec.structs.replace(value, **{field.name: less})
            nothing: object = field.default
            scalars = isinstance(held, tuple) and (field.name == "graces" or not any(isinstance(one, msgspec.Struct) for one in held))
            removable = nothing is None or (nothing == "" and type(held) is str) or (nothing == () and scalars)
            if removable and held != nothing and _is_fact(value, field.name):
                yield f".{field.name}", msgspec.structs.replace(value, **{field.name: nothing})
    elif isinstance(value, tuple):
        for index, item in enumerate(value):
            for path, less in removals(item):
                yield f"[{getattr(item, 'id', index)}]{path}", (*value[:index], less, *value[index + 1 :])
    elif isinstance(value, dict):
        for key in value:
            yield f".{key}", {name: held for name, held in value.items() if name != key}


def statuses(found: Assessment) -> dict[tuple[str, str, str], FindingStatus]:
    keys = [(one.code, one.subject, one.state) for one in found.findings]
    assert len(keys) == len(set(keys)), "a finding is said once"
    return {(one.code, one.subject, one.state): one.status for one in found.findings}


def _of_subjects(found: Assessment) -> dict[Key, set[FindingStatus]]:
    by: dict[Key, set[FindingStatus]] = {}
    for one in found.findings:
        by.setdefault((one.code, one.subject), set()).add(one.status)
    return by


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_taking_a_fact_away_never_makes_anything_pass(seed: int) -> None:
    draw = random.Random(seed)
    estate, carried = estate_of(draw)
    before = judged(estate, carried=carried)
    had, subjects = statuses(before), _of_subjects(before)
    ways = list(removals(estate))
    assert len(ways) > 100
    for path, less in draw.sample(ways, 8):
        assert isinstance(less, Estate)
        after = judged(less, carried=carried)
        for key, status in statuses(after).items():
            assert status is not FindingStatus.PASS or had.get(key, status) is status, f"{key} passes without {path}"
        for name, states in _of_subjects(after).items():
            if states == {FindingStatus.PASS}:
                assert subjects.get(name, states) == states, f"{name} passes without {path}"
        assert after.verdict is not Verdict.GO or before.verdict is Verdict.GO, f"go without {path}"


def _margins(found: Assessment) -> dict[Key, float]:
    by: dict[Key, float] = {}
    for one in found.findings:
        if one.margin is not None:
            by[one.code, one.subject] = min(one.margin, by.get((one.code, one.subject), one.margin))
    return by


def _loaded(estate: Estate, draw: random.Random) -> Estate:
    """The estate with more load in one place: a node takes more, or a circuit or loop carries more already."""
    sites = list(estate.sites)
    index = draw.randrange(len(sites))
    place, fields = draw.choice((("nodes", sorted(READINGS)), ("circuits", ["other_load_w"]), ("loops", ["other_load_w"])))
    things = list(getattr(sites[index], place))
    if not things:
        return estate
    number = draw.randrange(len(things))
    more = {name: held * 1.5 + 10 for name in fields if (held := getattr(things[number], name)) is not None}
    things[number] = msgspec.structs.replace(things[number], **more)
    sites[index] = msgspec.structs.replace(sites[index], **{place: tuple(things)})
    return msgspec.structs.replace(estate, sites=tuple(sites))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_more_load_never_gives_more_room(seed: int) -> None:
    draw = random.Random(seed)
    estate, carried = estate_of(draw)
    before = _margins(judged(estate, carried=carried))
    for _ in range(3):
        after = _margins(judged(_loaded(estate, draw), carried=carried))
        risen = {key: (before[key], margin) for key, margin in after.items() if key in before and margin > before[key] + 1e-9}
        assert not risen


def _said(found: Assessment) -> dict[tuple[str, str, str], tuple[object, ...]]:
    return {(one.code, one.subject, one.state): (one.status, one.text, one.measurement, one.remedy) for one in found.findings}


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_order_of_things_changes_nothing(seed: int) -> None:
    draw = random.Random(seed)
    estate, carried = estate_of(draw)

    def shuffled(value: Any) -> Any:
        if isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
            return tuple(draw.sample([shuffled(item) for item in value], len(value)))
        if isinstance(value, dict):
            return dict(draw.sample(sorted(value.items()), len(value)))
        if isinstance(value, msgspec.Struct):
            return msgspec.structs.replace(value, **{name: shuffled(getattr(value, name)) for name in value.__struct_fields__})
        return value

    one, other = judged(estate, carried=carried), judged(shuffled(estate), carried=carried)
    assert _said(one) == _said(other)
    assert [(found.code, found.subject, found.state) for found in one.findings] == [
        (found.code, found.subject, found.state) for found in other.findings
    ]
    assert (one.verdict, one.needed) == (other.verdict, other.needed)


OTHER_UNITS = {
    "kW": ("W", 1000), "W": ("kW", "0.001"), "kVA": ("VA", 1000), "VA": ("kVA", "0.001"), "A": ("kA", "0.001"), "V": ("kV", "0.001"),
    "kg": ("g", 1000), "h": ("min", 60), "min": ("s", 60), "s": ("ms", 1000), "ms": ("us", 1000), "Gbps": ("Mbit/s", 1000),
    "TB": ("GB", 1000), "PB": ("TB", 1000), "GB": ("MB", 1000), "m": ("mm", 1000), "L/s": ("L/min", 60), "TiB": ("GiB", 1024),
    "Tbps": ("Gbps", 1000), "Mbps": ("kb/s", 1000),
}  # fmt: skip


def in_other_units(value: Any, counted: list[str]) -> Any:
    """A document of an estate with each quantity that is written as one number and a unit in another unit, exactly."""
    if isinstance(value, dict):
        return {key: in_other_units(held, counted) for key, held in value.items()}
    if isinstance(value, list):
        return [in_other_units(held, counted) for held in value]
    found = re.fullmatch(r"(-?[\d.]+) (\S+)", value) if isinstance(value, str) else None
    if found is None or found[2] not in OTHER_UNITS:
        return value
    unit, factor = OTHER_UNITS[found[2]]
    counted.append(unit)
    return f"{Decimal(found[1]) * Decimal(factor):f} {unit}"


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_the_same_quantity_in_another_unit_changes_nothing(seed: int) -> None:
    estate, carried = estate_of(random.Random(seed))
    counted: list[str] = []
    data = in_other_units(estate_data(estate), counted)
    assert len(counted) > 100
    one, other = judged(estate, carried=carried), judged(read_estate_data(data, file="estate"), carried=carried)
    assert (one.verdict, one.findings) == (other.verdict, other.findings)


def test_random_estates_get_every_verdict() -> None:
    """So the properties above are not empty."""
    found = {(judged(estate, carried=carried).verdict, carried) for estate, carried in map(estate_of, map(random.Random, range(60)))}
    assert {verdict for verdict, _ in found} == set(Verdict)
    assert {carried for _, carried in found} == {True, False}
