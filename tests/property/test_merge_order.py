"""Merging: the order of facts changes nothing, unknown never wins, no value is lost, and only gauges change (M2, design rule 1)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.discovery.draft import draft
from bridgehead.discovery.knowledge import known_of
from bridgehead.discovery.merge import View, is_gauge, merge
from bridgehead.kernel.ids import SiteId
from bridgehead.model.fact import Fact, Source, Status

SUBJECTS = ("node:a", "node:a/gpu:2", "node:a/gpu:10", "node:b", "node:b/nic:x", "node:?")
ATTRIBUTES = ("gpu-count", "memory", "model", "rate", "link-layer", "power-draw", "measured-rate")
VALUES = (1, 1.0, 8, True, "8", "H100", "infiniband", ("a", "b"), 2.5)

sources = st.builds(
    Source, st.sampled_from(("t", "u")), st.sampled_from(("f", "g", "h")), st.integers(1, 3), st.none() | st.sampled_from((1.0, 2.0))
)
known = st.builds(
    Fact, st.sampled_from(SUBJECTS), st.sampled_from(ATTRIBUTES), st.sampled_from(VALUES), st.sampled_from(("", "W")),
    st.sampled_from((Status.KNOWN, Status.KNOWN, Status.KNOWN, Status.CONFLICT)), sources, st.sampled_from(("", "n"))
)  # fmt: skip
unknown = st.builds(
    Fact, st.sampled_from(SUBJECTS), st.sampled_from(ATTRIBUTES), st.none(), st.sampled_from(("", "W")), st.just(Status.UNKNOWN), sources,
    st.sampled_from(("printed 'N/A'", "cut"))
)  # fmt: skip
facts = st.lists(known | unknown, max_size=12)


def told(views: tuple[View, ...]) -> str:
    """All of it, types of values too, which == would hide (1 is True)."""
    return repr(views)


@given(facts.flatmap(lambda some: st.tuples(st.just(some), st.permutations(some))))
def test_order_changes_nothing(pair: tuple[list[Fact], list[Fact]]) -> None:
    first, second = (merge(some) for some in pair)
    assert told(first) == told(second)
    estates = [draft({SiteId("s"): known_of(views)}, name="n") for views in (first, tuple(reversed(second)))]
    assert estates[0] == estates[1]


@given(facts, st.lists(unknown, max_size=4))
def test_unknown_changes_no_value(some: list[Fact], more: list[Fact]) -> None:
    before = {(view.subject, view.attribute): view for view in merge(some) if view.status is not Status.UNKNOWN}
    after = {(view.subject, view.attribute): view for view in merge([*some, *more])}
    assert all(repr(after[key]) == repr(view) for key, view in before.items())


@given(facts)
def test_identity_is_known_only_when_all_agree(some: list[Fact]) -> None:
    for view in merge(some):
        said = [one for one in some if (one.subject, one.attribute) == (view.subject, view.attribute) and one.status is not Status.UNKNOWN]
        if view.status is Status.KNOWN and not is_gauge(view.attribute):
            assert {one.source for one in said} == set(view.claims[0].sources)
            assert all(one.value == view.value and one.unit == view.claims[0].unit for one in said)
        if view.status is Status.CONFLICT:
            assert {one.source for one in said} == {source for claim in view.claims for source in claim.sources}
            assert all(source.file in view.note for claim in view.claims for source in claim.sources) or len(view.claims) == 1
        assert (view.status is Status.UNKNOWN) == (not said)


@given(st.lists(facts, max_size=4))
def test_doubled_captures_change_nothing(parts: list[list[Fact]]) -> None:
    some = [one for part in parts for one in part]
    assert told(merge(some)) == told(merge([*some, *some]))
