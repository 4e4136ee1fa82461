"""Two writers can never both win (design rule 8; J05, J06)."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.kernel.errors import Conflict, Permanent
from bridgehead.kernel.ids import Epoch, SiteId, WorkloadId
from bridgehead.model.snapshot import Fence, SnapshotInfo
from bridgehead.vault import Vault
from bridgehead.vault.fences import counting
from bridgehead.vault.layout import SnapshotName

A, B, TRAIN = SiteId("a"), SiteId("b"), WorkloadId("train")


def name(step: int, epoch: int) -> SnapshotName:
    return SnapshotName(TRAIN, Epoch(epoch), step, f"{step:016x}")


def fence(epoch: int, *counts: str, by: str = "run-1") -> Fence:
    return Fence(TRAIN, Epoch(epoch), B, counts, by, 1.0)


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path))))


def save(vault: Vault, step: int, epoch: int) -> str:
    return vault.save({"m": f"{step}/{epoch}".encode()}, workload=TRAIN, step=step, epoch=Epoch(epoch), site=A).id


def newest(vault: Vault) -> SnapshotInfo:
    found = vault.newest(TRAIN)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("step", "epoch", "newest_fence", "expected"),
    [
        (5, 0, None, True),
        (5, 1, None, False),
        (5, 0, fence(1, name(5, 0).id), True),
        (6, 0, fence(1, name(5, 0).id), False),
        (6, 1, fence(1, name(5, 0).id), True),
        (6, 2, fence(1, name(5, 0).id), False),
        (5, 0, fence(2, name(5, 0).id), True),
        (5, 0, fence(2, name(6, 1).id), False),
        (6, 1, fence(2, name(6, 1).id), True),
        (7, 1, fence(2, name(6, 1).id), False),
        (7, 2, fence(2), True),
    ],
)
def test_rule_of_what_counts(step: int, epoch: int, newest_fence: Fence | None, expected: bool) -> None:
    assert counting(newest_fence)(name(step, epoch)) is expected


def test_J05_zombie_that_saves_after_the_fence_is_kept_and_told(vault: Vault) -> None:
    good = save(vault, 10, 0)
    vault.fence(fence(1, good))
    zombie = vault.save({"m": b"zombie"}, workload=TRAIN, step=999, epoch=Epoch(0), site=A)
    assert zombie.counts is False
    assert vault.load(zombie.id) == {"m": b"zombie"}, "kept as evidence"
    assert newest(vault).id == good
    (passed,) = vault.survey(TRAIN).passed_over
    assert passed.reason == "written in epoch 0; the fence of epoch 1 does not name it"
    assert vault.verify().intact
    after = vault.save({"m": b"b"}, workload=TRAIN, step=11, epoch=Epoch(1), site=B)
    assert after.counts is True
    assert newest(vault).id == after.id


ZOMBIE = """
import sys
from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.vault import Vault
vault = Vault.open(LocalBlobs(LocalBlobsOptions(sys.argv[1])))
first = vault.save({"m": b"1"}, workload="train", step=1, epoch=0, site="a")
print(first.id, flush=True)
sys.stdin.readline()
for step in range(2, 12):
    assert vault.save({"m": str(step).encode()}, workload="train", step=step, epoch=0, site="a").counts is False
print("done", flush=True)
"""


def test_J06_process_that_slept_through_the_fence_never_counts_again(tmp_path: Path) -> None:
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path))))
    with subprocess.Popen([sys.executable, "-c", ZOMBIE, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        first = child.stdout.readline().strip()
        vault.fence(fence(1, first))
        out, _ = child.communicate("go\n")
        assert out.strip() == "done"
    assert newest(vault).id == first
    assert len(vault.survey(TRAIN).passed_over) == 10


def test_snapshot_of_an_epoch_that_nobody_opened_says_so(vault: Vault) -> None:
    early = vault.save({"m": b"x"}, workload=TRAIN, step=1, epoch=Epoch(3), site=A)
    assert early.counts is False
    assert vault.newest(TRAIN) is None
    assert vault.survey(TRAIN).passed_over[0].reason == "written in epoch 3, which nobody opened (epoch 0 is in force)"


def test_newer_epoch_goes_before_a_higher_step(vault: Vault) -> None:
    """Failover: the new epoch went on from step 80, although the fence names step 100 too."""
    ids = [save(vault, step, 0) for step in (80, 100)]
    vault.fence(fence(1, *ids))
    assert newest(vault).step == 100
    save(vault, 81, 1)
    assert newest(vault).step == 81
    assert [info.step for info in vault.list(TRAIN)] == [81, 100, 80]


def test_same_step_saved_twice_with_other_content_the_later_goes_first(tmp_path: Path) -> None:
    times = iter(range(100))
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path))), now_s=lambda: float(next(times)))
    for content in range(20):
        last = vault.save({"m": bytes([content])}, workload=TRAIN, step=7, epoch=Epoch(0), site=A).id
        assert newest(vault).id == last


def test_of_many_runs_that_open_the_same_epoch_one_wins(tmp_path: Path) -> None:
    Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path))))

    def opens(number: int) -> str:
        try:
            return Vault.open(LocalBlobs(LocalBlobsOptions(str(tmp_path)))).fence(fence(1, by=f"run-{number}")).opened_by
        except Conflict:
            return ""

    with ThreadPoolExecutor(8) as pool:
        winners = [winner for winner in pool.map(opens, range(8)) if winner]
    assert len(winners) == 1


@pytest.mark.parametrize(
    "bad", [fence(0), fence(1, "train@1.1-0123456789abcdef"), fence(1, "other@1.0-0123456789abcdef"), fence(1, "nonsense")]
)
def test_fence_that_makes_no_sense_is_refused(vault: Vault, bad: Fence) -> None:
    with pytest.raises(Permanent):
        vault.fence(bad)
    assert vault.newest_fence(TRAIN) is None
