"""Pages: memory is used again when nobody looks at it any more, and never before (a save keeps views of what it has read; V22)."""

from __future__ import annotations

import ctypes
import gc
import mmap
import random
from concurrent.futures import ThreadPoolExecutor

import pytest

from bridgehead.host import pages as host_pages
from bridgehead.host.pages import MAX_FREE_BYTES, are_pages, pages

MIB = 1 << 20


@pytest.fixture(autouse=True)
def nothing_waits() -> None:
    gc.collect()
    host_pages._free.clear()


def address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


@pytest.mark.parametrize("size", [0, 1, 4096, 100_003, 2 * MIB, 4 * MIB - 5, 33 * MIB])
def test_memory_has_the_size_that_was_asked_for_and_begins_with_a_page(size: int) -> None:
    memory = pages(size)
    assert len(memory) == size
    memory[:] = bytes([7]) * size
    assert bytes(memory[-3:]) == bytes([7]) * min(size, 3)
    if size:
        assert address(memory) % 4096 == 0


def test_memory_is_used_again_when_the_last_view_is_gone_and_not_before() -> None:
    first = pages(4 * MIB)
    where = address(first)
    inside = first[5:9].toreadonly()
    del first
    second = pages(4 * MIB)
    assert address(second) != where, "a view of it is still held"
    second[:] = bytes([1]) * len(second)
    assert bytes(inside) == bytes(4)
    del inside
    third = pages(4 * MIB)
    assert address(third) == where
    assert address(pages(8 * MIB)) not in (where, address(second)), "another size"


def test_no_two_threads_hold_the_same_memory() -> None:
    def work(seed: int) -> None:
        draw = random.Random(seed)
        held: list[tuple[memoryview, int]] = []
        for _ in range(300):
            size, mark = draw.choice([MIB, 2 * MIB, 4 * MIB]), draw.randrange(256)
            view = pages(size)
            view[::4096] = bytes([mark]) * (size // 4096)
            held.append((view[: size // 2], mark))
            if len(held) > 3:
                held.pop(draw.randrange(3))
            assert all(bytes(part[::4096]) == bytes([own]) * (len(part) // 4096) for part, own in held)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(work, range(6)))


def test_what_waits_is_bounded() -> None:
    held = [pages(4 * MIB) for _ in range(2 * MAX_FREE_BYTES // (4 * MIB))]
    held.clear()
    assert sum(size * len(same) for size, same in host_pages._free.items()) == MAX_FREE_BYTES


def test_what_nobody_asks_for_makes_room() -> None:
    held = [pages(8 * MIB) for _ in range(MAX_FREE_BYTES // (8 * MIB))]
    held.clear()
    first = pages(4 * MIB)
    assert not host_pages._free.get(4 * MIB)
    del first
    assert len(host_pages._free[4 * MIB]) == 1, "it is kept, although all room was taken by another size"
    assert len(host_pages._free[8 * MIB]) == MAX_FREE_BYTES // (8 * MIB) - 1


def test_what_a_view_in_a_circle_of_garbage_still_sees_is_nobody_elses() -> None:
    seen = []

    class Circle:
        def __init__(self) -> None:
            self.me, self.view = self, pages(4 * MIB)
            self.view[:4] = b"mine"

        def __del__(self) -> None:
            other = pages(4 * MIB)
            other[:4] = b"they"
            seen.append(bytes(self.view[:4]))

    Circle()
    gc.collect()
    assert seen == [b"mine"]


def test_pieces_of_any_size_share_few_lengths() -> None:
    draw = random.Random(3)
    sizes = [draw.randrange(256 << 10, 9 * MIB) for _ in range(2000)] + [4 * MIB, 4 * MIB + 4095, 40 * MIB]
    lengths = {size: host_pages._length(size) for size in sizes}
    assert all(size <= length <= size + size // 8 + 4096 and length % 4096 == 0 for size, length in lengths.items())
    assert lengths[4 * MIB] == 4 * MIB
    assert len(set(lengths.values())) < 60


def test_memory_that_is_not_there_is_told_as_such() -> None:
    for size in (1 << 62, 1 << 70):
        with pytest.raises(MemoryError):
            pages(size)


def test_memory_of_others_is_told_from_own_pages() -> None:
    assert are_pages(pages(5 * MIB)[7:99].toreadonly())
    others = [b"x", memoryview(b"x"), memoryview(bytearray(9)), memoryview(mmap.mmap(-1, 4096)), memoryview((ctypes.c_ubyte * (5 * MIB))())]
    assert not any(are_pages(data) for data in others)
