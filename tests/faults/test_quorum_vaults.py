"""The quorum on real vaults: two sites and a witness, one of them out of reach (J05, J06, J13)."""

from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Conflict, Transient
from bridgehead.kernel.ids import Epoch, RunId, SiteId, StepId, WorkloadId
from bridgehead.model.snapshot import Fence
from bridgehead.model.stamp import Stamp
from bridgehead.recovery.quorum import NoMajority, Raised, Superseded, fence_in_force, raise_fence
from bridgehead.recovery.registers import voters
from bridgehead.vault import SiteVaults, Vault

A, B, WITNESS = SiteId("site-a"), SiteId("site-b"), SiteId("witness")
WORKLOAD = WorkloadId("train")


def stamp(run: str, epoch: int = 1) -> Stamp:
    return Stamp(RunId(run), StepId("fence"), 1, Epoch(epoch))


def fence(epoch: int, holder: SiteId, by: str) -> Fence:
    return Fence(WORKLOAD, Epoch(epoch), holder, (), by, 1.0)


class Place:
    """Three vaults; ``cut`` are out of the controller's reach."""

    def __init__(self, folder: Path) -> None:
        self.vaults = {}
        for site in (A, B, WITNESS):
            store = LocalBlobs(LocalBlobsOptions(str(folder / site)))
            Vault.init(store)
            self.vaults[site] = store

    def voters(self, *cut: SiteId):
        def opened(site: SiteId) -> Vault:
            if site in cut:
                raise Transient("no route to host", tried="open a vault", subject=site)
            return Vault.open(self.vaults[site])

        return voters(SiteVaults({site: lambda site=site: opened(site) for site in self.vaults}), self.vaults)

    def holders(self) -> list[str]:
        found = [Vault.open(store).newest_fence(WORKLOAD) for store in self.vaults.values()]
        return ["" if one is None else f"{one.holder}.{one.epoch}" for one in found]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_of_two_sides_of_a_partition_the_one_with_the_witness_wins(place: Place) -> None:
    cut_off, whole = place.voters(B, WITNESS), place.voters(A)
    refused = raise_fence(fence(1, A, "run-a"), voters=cut_off, stamp=stamp("run-a"))
    assert isinstance(refused, NoMajority)
    assert "2 of 3 voters are needed, reached site-a" in refused.happened
    assert "no route to host" in refused.happened
    won = raise_fence(fence(1, B, "run-b"), voters=whole, stamp=stamp("run-b"))
    assert isinstance(won, Raised)
    assert (won.recorded, set(won.missing)) == ((B, WITNESS), {A})
    assert place.holders() == ["", "site-b.1", "site-b.1"]
    # The partition heals: the loser learns it, and its own vault does, too.
    lost = raise_fence(fence(1, A, "run-a"), voters=place.voters(), stamp=stamp("run-a"))
    assert isinstance(lost, Superseded)
    assert "run-b opened epoch 1 of train for site-b" in lost.happened
    assert place.holders() == ["site-b.1"] * 3


def test_a_voter_that_missed_epochs_gets_them_in_order(place: Place) -> None:
    for epoch, cut in ((1, A), (2, B), (3, A)):
        assert isinstance(raise_fence(fence(epoch, B, f"run-{epoch}"), voters=place.voters(cut), stamp=stamp(f"run-{epoch}")), Raised)
    repeated = raise_fence(fence(3, B, "run-3"), voters=place.voters(), stamp=stamp("run-3"))
    assert isinstance(repeated, Raised)
    assert not repeated.missing
    assert [one.epoch for one in Vault.open(place.vaults[A]).fences(WORKLOAD)] == [1, 2, 3]
    assert place.holders() == ["site-b.3"] * 3
    for store in place.vaults.values():
        assert Vault.open(store).verify().intact


def test_what_cannot_be_seen_is_not_no_fence(place: Place) -> None:
    assert fence_in_force(WORKLOAD, voters=place.voters(A)).fence is None
    with pytest.raises(Transient, match="2 of 3 voters are needed"):
        fence_in_force(WORKLOAD, voters=place.voters(A, WITNESS))
    raise_fence(fence(1, B, "run-b"), voters=place.voters(A), stamp=stamp("run-b"))
    standing = fence_in_force(WORKLOAD, voters=place.voters(B))
    assert standing.fence is not None
    assert (standing.fence.holder, set(standing.unread)) == (B, {B})


def test_an_epoch_that_is_not_the_next_one_is_refused(place: Place) -> None:
    with pytest.raises(Conflict, match="the next one is 1"):
        raise_fence(fence(2, B, "run-b"), voters=place.voters(), stamp=stamp("run-b"))
    assert place.holders() == [""] * 3


def test_J13_a_driver_that_was_replaced_raises_nothing(place: Place) -> None:
    new, old = stamp("run-a", epoch=2), stamp("run-a", epoch=1)
    assert isinstance(raise_fence(fence(1, A, "run-a"), voters=place.voters(), stamp=new), Raised)
    with pytest.raises(Conflict, match="taken over"):
        raise_fence(fence(2, A, "run-a/again"), voters=place.voters(), stamp=old)
    assert place.holders() == ["site-a.1"] * 3


def test_a_fence_that_was_raised_at_one_site_alone_is_said(place: Place) -> None:
    Vault.open(place.vaults[A]).fence(fence(1, A, "by-hand"))
    won = raise_fence(fence(1, B, "run-b"), voters=place.voters(A), stamp=stamp("run-b"))
    assert isinstance(won, Raised)
    again = raise_fence(fence(1, B, "run-b"), voters=place.voters(), stamp=stamp("run-b"))
    assert isinstance(again, Raised)
    assert again.missing == {A: "it holds another fence for that epoch, raised without a majority"}
    with pytest.raises(Conflict, match="by-hand for site-a; witness: run-b for site-b"):
        raise_fence(fence(1, B, "run-b"), voters=place.voters(B), stamp=stamp("run-b"))
