"""Whatever the bytes are, looking at them only ever ends in a table or in "opaque", and the cut tiles the file (V01, V05, V08, V12)."""

from __future__ import annotations

import contextlib
import io
import pickle
import tempfile
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.model.snapshot import TensorEntry
from bridgehead.testing.torch_files import ITEM_BYTES, Raw, Tensor, torch_file, zipped
from bridgehead.vault import Vault
from bridgehead.vault.cut import MAX_BLOCK_BYTES, MIN_TENSOR_BLOCK_BYTES, cut
from bridgehead.vault.formats import Contents, Extent, examine
from bridgehead.vault.formats.pickleshape import Unreadable
from bridgehead.vault.formats.torchtable import read_torch_table

PATHS = st.sampled_from(["m.pt", "m.bin", "m.safetensors", "m.npy", "m.npz", "__0_0.distcp", "other"])
OPCODES = b"\x80\x95(02N\x88\x89JKM\x8aGX\x8cBCTU]\x8f\x90\x91})\x85\x86\x87tqr\x94hjc\x93QR\x81\x92baesu."
NAMES = [b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch\nFloatStorage\n", b"ccollections\nOrderedDict\n", b"X\x07\x00\x00\x00storage"]

tensors = st.builds(
    Tensor,
    storage=st.sampled_from("0123"),
    dtype=st.sampled_from([*ITEM_BYTES, "float8_e4m3fn", "invented"]),
    shape=st.lists(st.integers(0, 5), max_size=3).map(tuple),
    offset=st.integers(0, 40),
    stride=st.one_of(st.none(), st.lists(st.integers(0, 9), max_size=3).map(tuple)),
)
pickle_steps = st.lists(
    st.one_of(
        st.sampled_from(NAMES), st.integers(0, len(OPCODES) - 1).map(lambda index: OPCODES[index : index + 1]), st.binary(max_size=4)
    ),
    max_size=40,
).map(b"".join)
states = st.recursive(
    st.one_of(tensors, st.none(), st.integers(-(2**40), 2**40), st.text(max_size=5), pickle_steps.map(Raw)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), st.integers(0, 9)), inner, max_size=4),
    ),
    max_leaves=8,
)
storages = st.dictionaries(st.sampled_from("0123"), st.one_of(st.binary(max_size=200), st.integers(0, 9).map(lambda n: b"abcd" * 9000 * n)))


@st.composite
def torch_like(draw: st.DrawFn) -> bytes:
    state = draw(states)
    try:
        return torch_file(state, draw(storages), compressed=draw(st.booleans()) and draw(st.booleans()))
    except (UnicodeEncodeError, TypeError):
        return b""


@st.composite
def numpy_like(draw: st.DrawFn) -> bytes:
    array = np.zeros(draw(st.lists(st.integers(0, 4), max_size=3)), dtype=draw(st.sampled_from(["f4", ">i2", "?", "c8", "U3", "O"])))
    out = io.BytesIO()
    if draw(st.booleans()):
        np.save(out, array, allow_pickle=True)
    else:
        np.savez(out, allow_pickle=True, a=array, b=array)
    return out.getvalue()


@st.composite
def hurt_files(draw: st.DrawFn) -> bytes:
    """Files of a known format, one or two after each other, some with bytes changed, cut out or put in."""
    data = bytearray(b"".join(draw(st.lists(st.one_of(torch_like(), numpy_like()), min_size=1, max_size=2))))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.integers(0, 8)))
        data[at:end] = draw(st.one_of(st.binary(max_size=8), st.just(b"\xff" * (end - at)), st.just(b"PK\x05\x06"), st.just(b"PK\x01\x02")))
    return bytes(data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data)


def look(data: bytes, path: str) -> Contents:
    return examine(path, len(data), lambda offset, size: data[offset : offset + size])


def check_tiles(size_bytes: int, contents: Contents) -> None:
    at = 0
    pieces = cut(size_bytes, contents)
    for piece in pieces:
        assert piece.offset_bytes == at
        assert 0 < piece.size_bytes <= MAX_BLOCK_BYTES
        at += piece.size_bytes
    assert at == size_bytes
    assert len(pieces) <= 3 + 2 * size_bytes / MIN_TENSOR_BLOCK_BYTES, "blocks cost: no table may make many small ones"


@settings(max_examples=300)
@given(data=hurt_files(), path=PATHS)
def test_any_file_is_looked_at_and_tiled(data: bytes, path: str) -> None:
    contents = look(data, path)
    check_tiles(len(data), contents)
    for tensor in (*contents.tensors, *contents.views):
        assert 0 < tensor.offset_bytes <= tensor.offset_bytes + tensor.size_bytes <= len(data)
    for extent in contents.extents:
        assert 0 < extent.offset_bytes <= extent.end_bytes <= len(data)
    assert contents.unreached_bytes is None or 0 <= contents.unreached_bytes <= len(data)


@settings(max_examples=300)
@given(steps=pickle_steps)
def test_any_opcodes_end_in_a_table_or_unreadable(steps: bytes) -> None:
    with contextlib.suppress(Unreadable):
        read_torch_table(b"\x80\x02" + steps + b".")


@settings(max_examples=100)
@given(
    value=st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(), st.binary()),
        lambda inner: st.one_of(st.lists(inner), st.tuples(inner, inner), st.dictionaries(st.text(), inner), st.frozensets(st.integers())),
        max_leaves=20,
    ),
    protocol=st.integers(2, 5),
)
def test_pickles_of_plain_values_are_followed_to_the_end(value: object, protocol: int) -> None:
    assert read_torch_table(pickle.dumps(value, protocol)).named == ()


ranges = st.tuples(st.integers(0, 1 << 21), st.one_of(st.integers(0, 99), st.integers(0, 1 << 20)))


@settings(max_examples=300)
@given(
    header=st.integers(0, 300), found=st.lists(ranges, max_size=30), extents=st.lists(ranges, max_size=10), behind=st.integers(0, 1 << 17)
)
def test_cut_tiles_for_every_table(header: int, found: list[tuple[int, int]], extents: list[tuple[int, int]], behind: int) -> None:
    """Gaps, overlaps, ranges within ranges, trailing bytes."""
    size = header + max([0, *(begin + length for begin, length in [*found, *extents])]) + behind
    entries = tuple(TensorEntry(str(index), "U8", (length,), header + begin, length) for index, (begin, length) in enumerate(found))
    contents = Contents(header, entries, extents=tuple(Extent(header + begin, length) for begin, length in extents))
    check_tiles(size, contents)


@pytest.fixture(scope="module")
def vault() -> Iterator[Vault]:
    with tempfile.TemporaryDirectory() as folder:
        yield Vault.init(LocalBlobs(LocalBlobsOptions(folder)))


@settings(max_examples=40)
@given(data=hurt_files(), path=PATHS)
def test_V08_any_file_under_any_name_comes_back_bit_for_bit(vault: Vault, data: bytes, path: str) -> None:
    saved = vault.save({path: data}, workload="w", step=1, epoch=0, site="a")
    assert vault.load(saved.id) == {path: data}
    assert vault.snapshot(saved.id).files == Vault.open(vault.place.objects.blobs).snapshot(saved.id).files, "the table survives the record"


@given(
    members=st.dictionaries(
        st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=20),
        st.binary(max_size=100),
        max_size=5,
    )
)
def test_stored_members_of_any_zip_are_found(members: dict[str, bytes]) -> None:
    data = zipped(members)
    contents = look(data, "any.zip")
    assert contents.cut_off_at is None
    assert sorted(data[extent.offset_bytes : extent.end_bytes] for extent in contents.extents) == sorted(
        filter(None, members.values())
    ) or any(name.endswith(".npy") for name in members)
