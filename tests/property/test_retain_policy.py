"""Retention never takes what somebody still needs, whatever the policy (R6, R12)."""

from hypothesis import given
from hypothesis import strategies as st

from bridgehead.kernel.ids import Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.vault.retain import Candidate, Policy, Standing, decide, in_order

W = WorkloadId("w")


@st.composite
def histories(draw: st.DrawFn) -> list[Candidate]:
    count = draw(st.integers(0, 25))
    found = []
    for number in range(count):
        epoch = draw(st.integers(0, 2))
        step = draw(st.integers(0, 12))
        digest = f"{number:016x}"
        found.append(
            Candidate(
                key=f"snapshots/w/{step:012d}-{epoch}-{digest}.json",
                id=SnapshotId(f"w@{step}.{epoch}-{digest}"),
                epoch=Epoch(epoch),
                step=step,
                created_s=draw(st.floats(0, 40 * 86_400)),
                raw_bytes=1,
                standing=draw(st.sampled_from(Standing)),
                held=draw(st.booleans()) and draw(st.booleans()),
                pinned=draw(st.sampled_from(("", "", "", "release"))),
                elsewhere=draw(st.sampled_from(((), (), ("b",)))),
            )
        )
    return found


policies = st.builds(Policy, st.integers(0, 6), st.integers(0, 4), st.integers(0, 4), st.integers(0, 4))


def fence_of(history: list[Candidate], picks: set[int]) -> Fence:
    names = tuple(one.id for index, one in enumerate(history) if index in picks and one.id and one.epoch < 2)
    return Fence(W, Epoch(2), SiteId("b"), names, "run-1", 1.0)


@given(histories(), policies, st.sets(st.integers(0, 25)))
def test_R6_what_is_needed_stays(history: list[Candidate], policy: Policy, picks: set[int]) -> None:
    fence = fence_of(history, picks)
    verdicts = decide(history, policy, fence=fence)
    stays = {verdict.candidate.key for verdict in verdicts if verdict.stays}
    assert [verdict.candidate for verdict in verdicts] == in_order(history)
    assert all(verdict.reasons for verdict in verdicts)
    usable = [one for one in in_order(history) if one.standing is Standing.USABLE]
    assert {one.key for one in usable[: max(1, policy.last)]} <= stays
    received = [one.key for one in usable if one.elsewhere]
    assert set(received[:1]) <= stays
    for one in history:
        if one.held or one.pinned or one.standing in (Standing.EVIDENCE, Standing.UNREADABLE):
            assert one.key in stays
        if one.id in fence.counts and not any(other.epoch == 2 for other in usable):
            assert one.key in stays
    for bucket_s, count in ((3600, policy.hourly), (86_400, policy.daily)):
        buckets = sorted({one.created_s // bucket_s for one in usable}, reverse=True)[:count]
        for bucket in buckets:
            last = max(one.created_s for one in usable if one.created_s // bucket_s == bucket)
            assert any(one.key in stays and one.created_s == last for one in usable)


@given(histories(), policies)
def test_a_second_pass_finds_nothing_to_do(history: list[Candidate], policy: Policy) -> None:
    kept = [verdict.candidate for verdict in decide(history, policy, fence=None) if verdict.stays]
    assert all(verdict.stays for verdict in decide(kept, policy, fence=None))


@given(histories(), policies, policies)
def test_asking_for_more_never_keeps_less(history: list[Candidate], one: Policy, other: Policy) -> None:
    both = Policy(*(max(pair) for pair in zip(vars_of(one), vars_of(other), strict=True)))
    kept = {verdict.candidate.key for policy in (one, other) for verdict in decide(history, policy, fence=None) if verdict.stays}
    assert kept <= {verdict.candidate.key for verdict in decide(history, both, fence=None) if verdict.stays}


def vars_of(policy: Policy) -> tuple[int, ...]:
    return (policy.last, policy.hourly, policy.daily, policy.weekly)


@given(st.lists(st.integers(0, 400), unique=True, max_size=20), policies)
def test_nothing_stays_without_a_cause(days: list[int], policy: Policy) -> None:
    """A plain history of usable snapshots: at most so many stay as the policy has places, and the newest."""
    history = [Candidate(f"k{day}", SnapshotId(f"w@{day}.0-{day:016x}"), Epoch(0), day, day * 86_400.0, 1, Standing.USABLE) for day in days]
    stays = [verdict for verdict in decide(history, policy, fence=None) if verdict.stays]
    assert len(stays) <= max(1, sum(vars_of(policy)))
