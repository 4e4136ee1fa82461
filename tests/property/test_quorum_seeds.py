"""Never two that may write: seeds of controllers on both sides of partitions (J05, J06)."""

import pytest

from bridgehead.recovery.quorum import NoMajority, Superseded
from bridgehead.testing.planted import deaf, hasty
from bridgehead.testing.virtual_quorum import play

SEEDS = 600
"""`python bench/partitions.py --seeds 10000` plays more of them."""


@pytest.mark.parametrize("controllers", [2, 3])
def test_J05_of_controllers_on_both_sides_of_a_partition_never_two_win(controllers: int) -> None:
    raised = superseded = refused = 0
    for seed in range(controllers * 1_000_000, controllers * 1_000_000 + SEEDS // 2):
        quorum = play(seed, controllers=controllers)
        assert quorum.faults() == [], f"seed {seed}"
        assert quorum.raised, f"seed {seed}: nobody ever won, although a majority was there at the end"
        raised += quorum.raised
        superseded += quorum.count(Superseded)
        refused += quorum.count(NoMajority)
    # What the seeds are there for did happen.
    assert min(raised, superseded, refused) > SEEDS // 2


@pytest.mark.parametrize("planted", [hasty, deaf])
def test_controllers_that_break_the_rules_are_found_out(planted) -> None:
    """Not in every seed, chance must have its way first; in many of a few."""
    found = [fault for seed in range(60) for fault in play(seed, controllers=3, protocol=planted).faults()]
    assert len(found) > 10
    assert any("was opened by" in fault for fault in found), "two that may write"
