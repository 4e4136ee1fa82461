"""Blocks that share no base are decoded apart from each other (V24: within the memory budget)."""

from __future__ import annotations

import random

from bridgehead.kernel.ids import BlockId, Epoch, SiteId, SnapshotId, WorkloadId
from bridgehead.model.snapshot import BlockRef, FileEntry, Snapshot
from bridgehead.testing.memory_blobs import MemoryBlobs
from bridgehead.vault.objects import Objects
from bridgehead.vault.reader import Reader


def block(number: int) -> BlockId:
    return BlockId(f"{number:064x}")


def related(refs: list[BlockRef], bases: list[BlockRef]) -> list[list[BlockRef]]:
    file = FileEntry(path="w", mode=0o644, size_bytes=len(refs), blocks=tuple(refs), tensors=())
    name = SnapshotId("t@1.0-" + "0" * 16)
    snapshot = Snapshot(
        id=name, workload=WorkloadId("t"), step=1, epoch=Epoch(0), site=SiteId("a"), created_s=0.0, raw_bytes=len(refs),
        files=(file,), context={}, pinned=tuple(bases),
    )  # fmt: skip
    return Reader(Objects(MemoryBlobs()), snapshot).related(refs)


def ref(number: int, *, at: int = 0, bases: tuple[int, ...] = (), generation: int = 0) -> BlockRef:
    stored = block(number + (1 << 40))
    return BlockRef(block(number), at, 1, stored=stored, stored_bytes=1, bases=tuple(map(block, bases)), generation=generation)


def test_groups_share_no_base_and_come_in_the_order_of_their_first_block() -> None:
    draw = random.Random(5)
    for _ in range(50):
        count = draw.randrange(1, 30)
        bases = [ref(1000 + number) for number in range(count)]
        refs = [
            ref(number, at=number, bases=tuple(1000 + draw.randrange(count) for _ in range(draw.randrange(3))), generation=1)
            for number in range(count)
        ]
        groups = related(refs, bases)
        assert sorted(one.block for group in groups for one in group) == [one.block for one in refs]
        used = [{base for one in group for base in one.bases} for group in groups]
        assert sum(map(len, used)) == len(set().union(*used)), "no base is in two groups"
        for group, bound in zip(groups, used, strict=True):
            left, seen = {one.block for one in group[1:]}, {base for base in group[0].bases}
            while left and (joined := {one.block for one in group if one.block in left and seen & set(one.bases)}):
                left -= joined
                seen |= {base for one in group if one.block in joined for base in one.bases}
            assert not left, "what shares nothing is apart"
            assert bound == seen
        assert [group[0].block for group in groups] == sorted(group[0].block for group in groups)
        assert all([one.block for one in group] == sorted(one.block for one in group) for group in groups)


def test_many_families_that_join_late_cost_no_more_than_so_many_steps() -> None:
    count = 20_000
    bases = [ref(1_000_000 + number) for number in range(count)]
    refs = [ref(number, at=number, bases=(1_000_000 + number,), generation=1) for number in range(count)]
    refs += [
        ref(count + number, at=count + number, bases=(1_000_000 + number, 1_000_001 + number), generation=1) for number in range(count - 1)
    ]
    assert len(related(refs, bases)) == 1
