"""What is seen in a file (V01, V02, V03, V04, V08, V12)."""

import json

import numpy as np
import pytest
from safetensors.numpy import save as to_safetensors

from bridgehead.vault.cut import MAX_BLOCK_BYTES, MIN_TENSOR_BLOCK_BYTES, Piece, cut
from bridgehead.vault.formats import OPAQUE, Contents, examine
from bridgehead.vault.snapshots import tensors_in


def look(data: bytes, path: str = "model.safetensors") -> Contents:
    return examine(path, len(data), lambda offset, size: data[offset : offset + size])


def raw(header: object, body: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


def row(begin: int, end: int, dtype: str = "U8", shape: list[int] | None = None) -> dict[str, object]:
    return {"dtype": dtype, "shape": [end - begin] if shape is None else shape, "data_offsets": [begin, end]}


def test_table_of_a_real_file() -> None:
    data = to_safetensors({"b": np.arange(6, dtype=np.float32).reshape(2, 3), "a": np.arange(4, dtype=np.int64)}, {"step": "3"})
    tensors = {tensor.name: tensor for tensor in look(data).tensors}
    assert {name: (tensor.dtype, tensor.shape) for name, tensor in tensors.items()} == {"a": ("I64", (4,)), "b": ("F32", (2, 3))}
    begin = tensors["a"].offset_bytes
    assert data[begin : begin + tensors["a"].size_bytes] == np.arange(4, dtype=np.int64).tobytes()


def test_V08_format_is_seen_in_the_bytes_not_in_the_name() -> None:
    data = to_safetensors({"a": np.zeros(4, dtype=np.float32)})
    assert look(data, "weights.pt") == look(data, "model.safetensors")
    assert look(b"PK\x03\x04" + bytes(100), "model.safetensors") == OPAQUE


def test_V01_names_that_share_bytes_keep_both_names_and_are_cut_once() -> None:
    size = 3 * MIN_TENSOR_BLOCK_BYTES
    data = raw({"tied": row(0, size), "embed": row(0, size), "part": row(size // 3, size)}, bytes(size))
    contents = look(data)
    assert [tensor.name for tensor in contents.tensors] == ["embed", "tied", "part"]
    pieces = cut(len(data), contents)
    assert sum(piece.size_bytes for piece in pieces) == len(data)


@pytest.mark.parametrize("header", [{}, {"__metadata__": {}}, {"__metadata__": {"format": "pt"}}])
def test_V02_file_without_tensors(header: object) -> None:
    data = raw(header)
    contents = look(data)
    assert contents.tensors == ()
    assert contents.cut_off_at is None
    assert contents.header_bytes == len(data)
    assert cut(len(data), contents) == [Piece(0, len(data))]


@pytest.mark.parametrize("dtype", ["BF16", "F8_E4M3", "F8_E5M2", "F8_E8M0", "F4", "U16", "BOOL", "C64", "INVENTED_77"])
def test_V03_every_dtype_is_taken_as_it_is(dtype: str) -> None:
    assert [tensor.dtype for tensor in look(raw({"a": row(0, 5, dtype)}, bytes(5))).tensors] == [dtype]


def test_V04_tensor_of_no_elements() -> None:
    data = raw({"empty": row(0, 0, "F32", [0, 7]), "full": row(0, 4, "F32", [1])}, bytes(4))
    contents = look(data)
    assert [(tensor.name, tensor.shape, tensor.size_bytes) for tensor in contents.tensors] == [("empty", (0, 7), 0), ("full", (1,), 4)]
    assert sum(piece.size_bytes for piece in cut(len(data), contents)) == len(data)


def test_V12_file_that_was_cut_off_is_noticed_wherever_it_ends() -> None:
    data = to_safetensors({"a": np.arange(100, dtype=np.float32)})
    assert look(data).cut_off_at is None
    for end in range(len(data)):
        contents = look(data[:end])
        assert contents.cut_off_at is not None, end
        assert contents.tensors == ()


def test_V12_file_of_zeros_was_never_written() -> None:
    assert look(bytes(1000)).cut_off_at is not None
    assert look(bytes(1000), "data.bin") == OPAQUE


def test_short_file_of_another_name_is_just_opaque() -> None:
    assert look(b"", "notes.txt") == OPAQUE
    assert look(b"abc", "notes.txt") == OPAQUE


@pytest.mark.parametrize(
    "header",
    [
        b"not json at all",
        b"{",
        b"{" * 100_000,
        b"[]",
        b'{"a":1}',
        b'{"a":{"dtype":"F32","shape":[1]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[4,0]}}',
        b'{"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[true],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[false,true]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,1e400]}}',
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,' + b"9" * 5000 + b"]}}",
        b'{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,99999999999999999999]}}',
        b'{"\\ud800":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}}',
        b'{"a":{"dtype":"\\ud800","shape":[1],"data_offsets":[0,4]}}',
        b'{"a":\xff\xfe}',
    ],
)
def test_header_that_is_none_makes_an_opaque_file(header: bytes) -> None:
    assert look(raw(header, bytes(8))) == OPAQUE


def test_size_of_the_header_is_bounded() -> None:
    def read(offset: int, size: int) -> bytes:
        assert size <= 8, "it must not read what the file claims"
        return b"\xff\xff\xff\xff\xff\xff\xff\x7f"[:size]

    assert examine("model.safetensors", 1 << 40, read) == OPAQUE


def test_cut_follows_tensors_and_splits_large_ones() -> None:
    small, large = MIN_TENSOR_BLOCK_BYTES, 2 * MAX_BLOCK_BYTES + 5
    header = {"a": row(0, small), "b": row(small, small + large), "c": row(small + large, small + large + 7)}
    head = len(raw(header))
    contents = examine("m", head + small + large + 7, lambda offset, size: (raw(header) + bytes(8))[offset : offset + size])
    pieces = cut(head + small + large + 7, contents)
    assert [piece.size_bytes for piece in pieces] == [head, small, MAX_BLOCK_BYTES, MAX_BLOCK_BYTES, 5, 7]


def test_small_neighbours_share_a_block() -> None:
    header = {f"bias.{index:03d}": row(index * 100, index * 100 + 100) for index in range(2000)}
    data = raw(header, bytes(200_000))
    contents = look(data)
    sizes = [piece.size_bytes for piece in cut(len(data), contents)]
    assert len(sizes) <= 1 + 200_000 // MIN_TENSOR_BLOCK_BYTES + 1 + 1
    assert sum(sizes) == len(data)


def test_file_without_a_table_is_cut_in_pieces_of_fixed_size() -> None:
    assert cut(0, OPAQUE) == []
    assert [piece.size_bytes for piece in cut(2 * MAX_BLOCK_BYTES + 1, OPAQUE)] == [MAX_BLOCK_BYTES, MAX_BLOCK_BYTES, 1]


def test_tensors_of_a_block_are_known_by_name(tmp_path) -> None:
    from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
    from bridgehead.vault import Vault

    size = MIN_TENSOR_BLOCK_BYTES
    data = raw({"first": row(0, size), "second": row(size, 2 * size), "empty": row(size, size)}, b"y" * size + b"x" * size)
    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path))))
    (file,) = vault.save({"m": data}, workload="w", step=0, epoch=0, site="a").snapshot.files
    assert [tensors_in(file, ref) for ref in file.blocks] == [[], ["first"], ["second"]]
