"""Merge: facts of many captures become one view for each subject and attribute (M2; design rule 1). Pure.

- Equal values of several sources are one claim with all sources.
- Different values are a CONFLICT that names all of them; a later capture does not silently win.
- Only a gauge (temperature, power draw, utilisation, a measured rate, what a scheduler says of a node) may change between captures: the
  newest reading is taken, and the note says what the others were. Readings whose order in time is not known are a conflict.
- UNKNOWN never takes the place of a value.

The order of facts changes nothing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from bridgehead.model.fact import Fact, Source, Status, Value

GAUGE_WORDS: Final = frozenset(
    {"collected", "draw", "fan", "free", "idle", "load", "measured", "seen", "temperature", "uptime", "used", "utilisation", "utilization"}
)
"""An attribute with one of these words, between dashes, is a gauge: ``power-draw``, ``measured-rate-sent``. All others are identity."""
GAUGES: Final = frozenset(
    {"scheduler-state", "scheduler-state-brief", "scheduler-reason", "scheduler-reason-by", "scheduler-reason-at-local"}
)
"""Attributes that are gauges without such a word: a node is drained, and comes back."""
_MOST_NAMED: Final = 8
_DIGITS: Final = re.compile(r"([0-9]{1,18})")


class Claim(msgspec.Struct, frozen=True, gc=False):
    """A value, and all who say it, sorted."""

    value: Value
    unit: str
    sources: tuple[Source, ...]


class View(msgspec.Struct, frozen=True, gc=False):
    """What is known of one attribute of one subject.

    Attributes:
        status: KNOWN has one claim; CONFLICT all that were made; UNKNOWN one without a value.
        claims: sorted.
        note: what contradicts what, which reading was taken, or why there is no value.
    """

    subject: str
    attribute: str
    status: Status
    claims: tuple[Claim, ...]
    note: str = ""

    @property
    def value(self) -> Value:
        """The value; None unless KNOWN."""
        return self.claims[0].value if self.status is Status.KNOWN else None


def merge(facts: Iterable[Fact]) -> tuple[View, ...]:
    """All views, sorted by subject and attribute with numbers in their order."""
    return tuple(view_of(subject, attribute, some) for subject, attribute, some in grouped(facts))


def grouped(facts: Iterable[Fact]) -> Iterator[tuple[str, str, list[Fact]]]:
    """Subject, attribute and what is said of it, in the order of ``merge``."""
    subjects: dict[str, dict[str, list[Fact]]] = {}
    for fact in facts:
        attributes = subjects.get(fact.subject)
        if attributes is None:
            attributes = subjects[fact.subject] = {}
        if fact.attribute in attributes:
            attributes[fact.attribute].append(fact)
        else:
            attributes[fact.attribute] = [fact]
    for subject, attributes in sorted(subjects.items(), key=_place):
        for attribute in _ordered(tuple(attributes)):
            yield subject, attribute, attributes[attribute]


def is_gauge(attribute: str) -> bool:
    """Whether the attribute changes by itself, so that the newest reading is the right one."""
    return attribute in GAUGES or not GAUGE_WORDS.isdisjoint(attribute.partition(":")[0].split("-"))


def told(claim: Claim) -> str:
    """A claim in words, with where it stands."""
    places = [f"{source.tool}, {source.file}:{source.line}" for source in claim.sources]
    more = f" and {len(places) - _MOST_NAMED} more" if len(places) > _MOST_NAMED else ""
    value = ", ".join(claim.value) if isinstance(claim.value, tuple) else str(claim.value)
    return f"{value}{' ' + claim.unit if claim.unit else ''} ({'; '.join(places[:_MOST_NAMED])}{more})"


def view_of(subject: str, attribute: str, facts: Sequence[Fact]) -> View:
    """What is known of one attribute of one subject, of which all ``facts`` are."""
    if len(facts) == 1:  # as most are
        [fact] = facts
        return View(subject, attribute, fact.status, (Claim(fact.value, fact.unit, (fact.source,)),), fact.note)
    stated = [fact for fact in facts if fact.status is not Status.UNKNOWN]
    if not stated:
        silent = Claim(None, min(fact.unit for fact in facts), _sources(facts))
        return View(subject, attribute, Status.UNKNOWN, (silent,), "; ".join(_notes(facts)))
    claims = _claims(stated)
    notes = _notes(stated)
    if any(fact.status is Status.CONFLICT for fact in stated):
        return View(subject, attribute, Status.CONFLICT, claims, "; ".join([*notes, *_sides(claims)]))
    if len(claims) == 1:
        return View(subject, attribute, Status.KNOWN, claims, "; ".join(notes))
    newest = _newest(claims) if is_gauge(attribute) else None
    if newest is None:
        return View(subject, attribute, Status.CONFLICT, claims, "; ".join([*notes, *_sides(claims)]))
    others = " and ".join(told(claim) for claim in claims if claim is not newest)
    return View(subject, attribute, Status.KNOWN, (newest,), "; ".join([*notes, f"the newest reading; earlier: {others}"]))


def _claims(facts: Sequence[Fact]) -> tuple[Claim, ...]:
    by_value: defaultdict[tuple[str, Value, str], list[Fact]] = defaultdict(list)
    for fact in facts:
        by_value[_kind(fact.value), fact.value, fact.unit].append(fact)
    # 5 and 5.0 are one value; which of the two is shown must not depend on the order.
    claims = [Claim(min((fact.value for fact in said), key=_plainest), said[0].unit, _sources(said)) for said in by_value.values()]
    return tuple(sorted(claims, key=lambda claim: (_sort_value(claim.value), claim.unit)))


def _newest(claims: Sequence[Claim]) -> Claim | None:
    """The claim with the latest reading; None where the order in time is not known or two are equally late."""
    times: list[tuple[float, int]] = []
    for number, claim in enumerate(claims):
        known = [source.at_s for source in claim.sources if source.at_s is not None]
        if len(known) < len(claim.sources):
            return None
        times.append((max(known), number))
    times.sort()
    return None if times[-1][0] == times[-2][0] else claims[times[-1][1]]


def _sides(claims: Sequence[Claim]) -> list[str]:
    return [" against ".join(told(claim) for claim in claims)] if len(claims) > 1 else []


def _sources(facts: Iterable[Fact]) -> tuple[Source, ...]:
    found = {fact.source for fact in facts}
    return tuple(sorted(found, key=lambda one: (one.tool, one.file, one.line, -1.0 if one.at_s is None else one.at_s)))


def _notes(facts: Iterable[Fact]) -> list[str]:
    return sorted({fact.note for fact in facts if fact.note})


def _kind(value: Value) -> str:
    """True is not 1, and "8" is not 8."""
    return "number" if isinstance(value, int | float) and not isinstance(value, bool) else type(value).__name__


def _plainest(value: Value) -> str:
    return type(value).__name__.replace("int", "")


def _sort_value(value: Value) -> tuple[str, float, str]:
    return (_kind(value), float(value) if isinstance(value, int | float) else 0.0, repr(value))


def _place(item: tuple[str, object]) -> tuple[object, ...]:
    return (tuple(natural(part) for part in item[0].split("/")), item[0])


@lru_cache(maxsize=1 << 12)
def _ordered(attributes: tuple[str, ...]) -> tuple[str, ...]:
    """Sorted; things of one kind have the same attributes."""
    return tuple(sorted(attributes, key=_natural_and_text))


@lru_cache(maxsize=1 << 16)
def _natural_and_text(text: str) -> tuple[object, ...]:
    return (natural(text), text)


@lru_cache(maxsize=1 << 16)
def natural(text: str) -> tuple[tuple[str, int], ...]:
    """A key that puts ``gpu:9`` before ``gpu:10``."""
    parts = _DIGITS.split(text)
    return tuple((word, int(number or 0)) for word, number in zip(parts[::2], [*parts[1::2], ""], strict=True))
