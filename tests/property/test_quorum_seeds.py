"""Never two that may write: seeds of controllers on both sides of partitions (J05, J06)."""

import os

import pytest

from bridgehead.recovery.quorum import NoMajority, Superseded
from bridgehead.testing.virtual_quorum import play

SEEDS = int(os.environ.get("BRIDGEHEAD_QUORUM_SEEDS", "600"))
"""`BRIDGEHEAD_QUORUM_SEEDS=10000 pytest tests/property/test_quorum_seeds.py` plays more of them."""


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
