"""Cutting by content: the same bytes give the same chunks, however they are read; what is inserted moves nothing else (R12)."""

from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.kernel.hashing import block_hash
from bridgehead.vault.chunking import SIZES, STRETCH_BYTES, WINDOW_BYTES, Sizes, chunks

SMALL = Sizes(64, 256, 1024)
MIB = 1 << 20


def randomly(size: int, seed: int = 1) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, size, np.uint8).tobytes()


def ends(data: bytes, sizes: Sizes = SMALL, *, begin: int = 0) -> list[int]:
    return list(chunks(lambda offset, size: data[offset : offset + size], begin, len(data), sizes=sizes))


@st.composite
def contents(draw: st.DrawFn) -> bytes:
    """Random stretches, repeated ones, runs of one byte."""
    parts = draw(
        st.lists(
            st.one_of(
                st.builds(randomly, st.integers(0, 5000), st.integers(0, 9)),
                st.builds(lambda byte, size: bytes([byte]) * size, st.integers(0, 255), st.integers(0, 3000)),
                st.builds(lambda word, times: word * times, st.binary(min_size=1, max_size=40), st.integers(0, 100)),
            ),
            max_size=6,
        )
    )
    return b"".join(parts)


@settings(max_examples=200)
@given(data=contents(), begin=st.integers(0, 100))
def test_chunks_cover_the_file_within_their_bounds(data: bytes, begin: int) -> None:
    begin = min(begin, len(data))
    found = ends(data, begin=begin)
    assert found == sorted(set(found))
    assert (found[-1] if found else begin) == len(data)
    sizes = [end - start for start, end in pairwise([begin, *found])]
    assert all(SMALL.min_bytes < size <= SMALL.max_bytes for size in sizes[:-1])
    assert all(size <= SMALL.max_bytes for size in sizes)


def hash_of(window: bytes) -> int:
    """The definition, byte by byte."""
    from bridgehead.vault.chunking import _MIX, _SHIFT, _TABLE

    total = 0
    for byte in window:
        total = (2 * total + _TABLE[byte]) % 2**32
    return (total * _MIX + _SHIFT) % 2**32


@settings(max_examples=100)
@given(data=contents())
def test_boundaries_are_where_the_definition_says(data: bytes) -> None:
    strict, loose = 2**32 // (SMALL.average_bytes * 4), 2**32 // (SMALL.average_bytes // 4)
    expected: list[int] = []
    first = 0
    while len(data) - first > SMALL.min_bytes:
        limit = min(first + SMALL.max_bytes, len(data))
        for at in range(first + SMALL.min_bytes, limit):
            found = hash_of(data[at - WINDOW_BYTES + 1 : at + 1])
            if found < (loose if at - first >= SMALL.average_bytes else strict):
                limit = at + 1
                break
        expected.append(limit)
        first = limit
    assert ends(data) == expected + ([len(data)] if first < len(data) else [])


@settings(max_examples=50)
@given(data=contents(), stretch=st.integers(1, 300), read=st.integers(1, 300))
def test_chunks_do_not_depend_on_how_the_file_is_read(data: bytes, stretch: int, read: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        expected = ends(data)
        patch.setattr("bridgehead.vault.chunking.STRETCH_BYTES", stretch)
        patch.setattr("bridgehead.vault.chunking.READ_BYTES", read)
        assert list(chunks(lambda offset, size: memoryview(data)[offset : offset + size], 0, len(data), sizes=SMALL)) == expected


@settings(max_examples=30)
@given(seed=st.integers(0, 99), at=st.integers(0, 60_000), insert=st.binary(min_size=1, max_size=300))
def test_what_is_inserted_moves_no_boundary_far_behind_it(seed: int, at: int, insert: bytes) -> None:
    data = randomly(60_000, seed)
    changed = data[:at] + insert + data[at:]
    before = {data[start:end] for start, end in pairwise([0, *ends(data)])}
    after = [changed[start:end] for start, end in pairwise([0, *ends(changed)])]
    assert sum(chunk not in before for chunk in after) <= 12


@pytest.mark.parametrize("byte", range(0, 256, 15))
def test_run_of_one_byte_gives_the_longest_chunks(byte: int) -> None:
    assert ends(bytes([byte]) * 5000) == [1024, 2048, 3072, 4096, 5000]


def test_sizes_of_chunks_of_random_bytes_are_near_the_average() -> None:
    found = ends(randomly(64 * MIB), SIZES)
    assert 0.8 * MIB < 64 * MIB / len(found) < 1.5 * MIB


def test_insertion_at_the_begin_of_100_mb_changes_a_few_blocks() -> None:
    data = randomly(100_000_000)
    changed = b"inserted" + data
    before = {block_hash(memoryview(data)[start:end]) for start, end in pairwise([0, *ends(data, SIZES)])}
    after = [block_hash(memoryview(changed)[start:end]) for start, end in pairwise([0, *ends(changed, SIZES)])]
    assert sum(chunk not in before for chunk in after) <= 2
    assert len(after) > 80


def test_memory_does_not_grow_with_the_file() -> None:
    block = randomly(4 * MIB)

    def read(offset: int, size: int) -> bytes:
        at = offset % (2 * MIB)
        return block[at : at + size]

    tracemalloc.start()
    try:
        count = sum(1 for _ in chunks(read, 0, 256 * MIB))
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()
    assert count >= 64
    assert STRETCH_BYTES < MIB
