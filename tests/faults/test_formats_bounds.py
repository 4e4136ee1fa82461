"""Files made to cost: each parser's work and memory stay in proportion to the bytes of the file, whatever a header claims (V12)."""

from __future__ import annotations

import contextlib
import struct
import time
import tracemalloc
from collections.abc import Callable

import pytest

from bridgehead.testing.torch_files import Raw, Tensor, pickled, torch_file, zipped
from bridgehead.vault.formats import OPAQUE, Contents, FileFormat, examine
from bridgehead.vault.formats.pickleshape import MAX_OPCODES, Unreadable
from bridgehead.vault.formats.torchtable import read_torch_table

TIME_LIMIT_S = 20
"""Each takes a second or three on a machine that is not busy; what is quadratic would take hours."""
MEMORY_PER_BYTE = 250
"""An empty list is one byte in a pickle, and 56 with its place on the stack and in another list in memory; an entry of the memo is more."""

END = struct.Struct("<4s4H2LH")
ENTRY = struct.Struct("<4s6H3L5H2L")


def timed(act: Callable[[], object]) -> object:
    began = time.process_time()
    try:
        return act()
    finally:
        assert time.process_time() - began < TIME_LIMIT_S


def look(data: bytes, path: str = "m.pt") -> Contents:
    found = timed(lambda: examine(path, len(data), lambda offset, size: data[offset : offset + size]))
    assert isinstance(found, Contents)
    return found


def end_record(count: int, size: int, offset: int) -> bytes:
    return END.pack(b"PK\x05\x06", 0, 0, count, count, size, offset, 0)


def entry(name: bytes, size: int, offset: int) -> bytes:
    return ENTRY.pack(b"PK\x01\x02", 20, 20, 0, 0, 0, 0, 0, size, size, len(name), 0, 0, 0, 0, 0, offset) + name


def local(name: bytes, size: int) -> bytes:
    return struct.pack("<4s5H3L2H", b"PK\x03\x04", 20, 0, 0, 0, 0, 0, size, size, len(name), 0) + name


def test_directory_that_claims_to_be_huge_is_not_read() -> None:
    tail = (
        b"PK\x06\x06"
        + struct.pack("<Q2H2L4Q", 44, 45, 45, 0, 0, 1 << 40, 1 << 40, 1 << 40, 1 << 20)
        + struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    )
    tail += end_record(0xFFFF, 0xFFFFFFFF, 0xFFFFFFFF)
    size = 1 << 42
    asked = []

    def read(offset: int, length: int) -> bytes:
        asked.append(length)
        begin = offset - (size - len(tail))
        window = bytes(min(length, max(0, -begin))) + tail[max(0, begin) : max(0, begin + length)]
        return (b"PK\x03\x04" + window[4:])[:length] if offset == 0 else window

    assert examine("m.bin2", size, read) == OPAQUE
    assert max(asked) < 100_000


def test_many_entries_for_the_same_member_are_refused() -> None:
    header = b"\x93NUMPY\x01\x00\x00\x10" + b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"1," * 30
    body = local(b"a.npy", 5000) + header.ljust(5000)
    directory = entry(b"a.npy", 5000, 0) * 60_000
    data = body + directory + end_record(60_000, len(directory), len(body))
    assert look(data, "m.npz2") == OPAQUE


def test_archive_within_an_archive_is_not_followed_twice() -> None:
    archive = zipped({"a/data.pkl": pickled({"w": Tensor("0", "U8", (8,))}), "a/data/0": b"12345678"})
    for _ in range(5):
        archive = zipped({"x": archive, "y": archive})
    assert look(archive).format is FileFormat.ZIP


def test_chain_of_many_archives() -> None:
    data = zipped({"a": b"12345678"}) * 60_000
    contents = look(data, "many.distcp")
    assert len(contents.extents) == 50_000


def test_directories_that_share_bytes_end() -> None:
    """End records, each of which says that its directory is all that is before it."""
    data = b"PK\x03\x04" + b"".join(end_record(0, 0, 4 + 22 * index) for index in range(50_000))
    assert look(data, "m.other").extents == ()


COSTLY: dict[str, Callable[[int], bytes]] = {
    "lists": lambda count: b"]" * count,
    "marks": lambda count: b"(" * count,
    "nested tuples": lambda count: b"N" + b"\x85" * (count - 3),
    "list in itself": lambda count: b"]q\x00" + b"h\x00a" * (count // 2 - 3),
    "large tuple often": lambda count: b"(" + b"N" * (count // 2) + b"tq\x00" + b"h\x00" * (count // 3) + b"t",
    "dict in itself": lambda count: b"}q\x00(" + b"h\x00h\x00" * (count // 3) + b"u",
    "long numbers": lambda count: b"]q\x00" + (b"\x8a\xff" + b"\x7f" * 255) * (count // 50) + b"h\x00" * (count // 2),
    "memo": lambda count: b"N" + b"\x94" * (count - 3),
    "marks that are taken": lambda count: b"](e" * (count // 3),
    "calls of calls": lambda count: b"N" + b")R" * (count // 2 - 3),
    "dicts in dicts": lambda count: b"}" + b"N}" * (count // 4) + b"s" * (count // 4),
    "mixed": lambda count: b"C\x01a2\x85" * (count // 4),
}


@pytest.mark.parametrize("opcodes", COSTLY.values(), ids=COSTLY)
def test_pickles_made_to_cost_time(opcodes: Callable[[int], bytes]) -> None:
    timed(lambda: looked_at(opcodes(MAX_OPCODES)))


@pytest.mark.parametrize("opcodes", COSTLY.values(), ids=COSTLY)
def test_pickles_made_to_cost_memory(opcodes: Callable[[int], bytes]) -> None:
    data = opcodes(30_000)
    tracemalloc.start()
    try:
        looked_at(data)
        assert tracemalloc.get_traced_memory()[1] < len(data) * MEMORY_PER_BYTE
    finally:
        tracemalloc.stop()


def looked_at(opcodes: bytes) -> None:
    with contextlib.suppress(Unreadable):  # either outcome is right; what counts is what it costs
        assert read_torch_table(b"\x80\x02" + opcodes + b".").named == ()


@pytest.mark.parametrize(
    "opcodes", [b"\x8b\xff\xff\xff\x7f", b"X\xff\xff\xff\xff", b"B\xff\xff\xff\xff", b"C\xff", b"\x8e" + b"\xff" * 8, b"r\xff"]
)
def test_sizes_that_opcodes_claim_are_not_believed(opcodes: bytes) -> None:
    with pytest.raises(Unreadable):
        read_torch_table(b"\x80\x02N" + opcodes)


def test_names_that_double_at_each_level_give_up() -> None:
    """A billion laughs: sixty lists, each of which holds the one before it twice."""
    tensor = pickled(Tensor("0", "U8", (1,)))[2:-1]
    levels = b"".join(b"](h" + bytes([level]) + b"h" + bytes([level]) + b"eq" + bytes([level + 1]) for level in range(100, 160))
    data = torch_file(Raw(tensor + b"q\x64" + levels), {"0": b"1"})
    contents = look(data)
    assert (contents.tensors, contents.unreached_bytes) == ((), None)


def test_many_long_names_give_up() -> None:
    tensor = pickled(Tensor("0", "U8", (1,)))[2:-1]
    key = "k" * 60_000
    deep = (
        b"}q\x01" + pickled(key)[2:-1] + b"q\x02" + tensor + b"q\x03s" + b"".join(b"}h\x02h" + b"\x01s"[:1] + b"sq\x01" for _ in range(60))
    )
    rows = b"](" + b"h\x01" * 100_000 + b"e"
    with pytest.raises(Unreadable):
        timed(lambda: read_torch_table(b"\x80\x02" + deep + b"0" * 61 + rows + b"."))


def test_large_honest_table_is_read() -> None:
    state = {f"layers.{index}.weight": Tensor("0", "F32", (2, 2)) for index in range(20_000)}
    state |= {"order": list(range(300_000))}
    contents = look(torch_file(state, {"0": bytes(16)}))
    assert len(contents.tensors) == 20_000


def test_shape_of_a_tensor_is_timed() -> None:
    large = (1 << 61,) * 64
    assert read_torch_table(pickled({"w": Tensor("0", "F32", large, stride=(1,) * 64)})).named == ()
    assert read_torch_table(pickled({"w": Tensor("0", "F32", (1,) * 65)})).named == ()
