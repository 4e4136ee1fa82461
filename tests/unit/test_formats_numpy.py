"""numpy's files: one array, or a zip of arrays (V02, V03, V04, V08, V12)."""

from __future__ import annotations

import io

import numpy as np
import pytest

from bridgehead.vault.cut import MIN_TENSOR_BLOCK_BYTES, cut
from bridgehead.vault.formats import OPAQUE, Contents, FileFormat, examine

LARGE = np.arange(MIN_TENSOR_BLOCK_BYTES, dtype=np.float32)


def look(data: bytes, path: str = "run/weights.npy") -> Contents:
    return examine(path, len(data), lambda offset, size: data[offset : offset + size])


def npy(array: object, version: tuple[int, int] | None = None) -> bytes:
    out = io.BytesIO()
    np.lib.format.write_array(out, np.asarray(array), version=version)
    return out.getvalue()


def raw(text: str, body: bytes = b"", major: int = 1) -> bytes:
    header = text.encode("utf-8")
    return b"\x93NUMPY" + bytes([major, 0]) + len(header).to_bytes(2 if major == 1 else 4, "little") + header + body


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_table_of_real_files(version: tuple[int, int]) -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    data = npy(array, version)
    (tensor,) = look(data).tensors
    assert (tensor.name, tensor.dtype, tensor.shape) == ("weights", "F32", (2, 3))
    assert data[tensor.offset_bytes :][: tensor.size_bytes] == array.tobytes()


@pytest.mark.parametrize(
    ("dtype", "shown"),
    [
        *[("?", "BOOL"), ("u1", "U8"), ("i2", "I16"), ("u2", "U16"), ("f2", "F16"), ("f8", "F64"), ("c8", "C64"), ("c16", "<c16")],
        *[(">f4", ">f4"), ("U5", "<U5"), ("S3", "|S3"), ("V2", "|V2"), ("M8[ns]", "<M8[ns]"), ("m8", "<m8")],
    ],
)
def test_V03_dtypes(dtype: str, shown: str) -> None:
    array = np.zeros(3, dtype=dtype)
    (tensor,) = look(npy(array)).tensors
    assert (tensor.dtype, tensor.shape, tensor.size_bytes) == (shown, (3,), array.nbytes)


@pytest.mark.parametrize("shape", [(), (0,), (0, 7), (1, 1, 1)])
def test_V04_arrays_of_one_or_no_element(shape: tuple[int, ...]) -> None:
    data = npy(np.zeros(shape))
    (tensor,) = look(data).tensors
    assert (tensor.shape, tensor.offset_bytes + tensor.size_bytes) == (shape, len(data))


def test_fortran_order_is_cut_but_is_no_tensor_of_that_shape() -> None:
    data = npy(np.asfortranarray(LARGE.reshape(2, -1)))
    contents = look(data)
    assert contents.tensors == ()
    assert [(view.name, view.shape, view.size_bytes) for view in contents.views] == [("weights", (2, LARGE.size // 2), LARGE.nbytes)]
    assert [piece.size_bytes for piece in cut(len(data), contents)] == [128, LARGE.nbytes]


def test_arrays_of_records_or_objects_are_opaque() -> None:
    assert look(npy(np.zeros(3, dtype=[("a", "f4"), ("b", "i8")]))) == OPAQUE
    out = io.BytesIO()
    np.save(out, np.array([{"a": 1}, None], dtype=object), allow_pickle=True)
    assert look(out.getvalue()) == OPAQUE


def test_V08_format_is_seen_in_the_bytes() -> None:
    data = npy(LARGE)
    assert look(data, "weights.safetensors") == look(data, "weights.npy")
    assert look(b"{" * 100, "weights.npy") == OPAQUE


def test_V12_file_that_was_cut_off_is_noticed_wherever_it_ends() -> None:
    data = npy(np.arange(100, dtype=np.float32))
    assert look(data).cut_off_at is None
    assert look(data + b"more").cut_off_at is None
    for end in range(len(data)):
        contents = look(data[:end])
        assert contents.cut_off_at is not None or 0 < end < 6, end
        assert contents.tensors == ()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (-3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,,)}",
        "{'descr': '<f4', 'fortran_order': False}",
        "{'descr': '<f4', 'fortran_order': 0, 'shape': (3,)}",
        "{'descr': '|O', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f99999999999', 'fortran_order': False, 'shape': (3,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807,)}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "4611686018427387903, " * 60 + ")}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "1, " * 65 + ")}",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,)} + exit()",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (3,), 'more': 1}",
        "(" * 4000,
    ],
)
def test_header_that_is_none_makes_an_opaque_file(text: str) -> None:
    for major in (1, 2, 3):
        assert look(raw(text, bytes(64), major)) == OPAQUE


def test_keys_may_come_in_any_order() -> None:
    (tensor,) = look(raw("{'shape': (2L, 3), 'descr': '<i8','fortran_order':False , }  \n", bytes(48))).tensors
    assert (tensor.dtype, tensor.shape, tensor.size_bytes) == ("I64", (2, 3), 48)


def test_V02_npz_of_arrays_and_of_nothing() -> None:
    out = io.BytesIO()
    np.savez(out, w=LARGE, b=np.zeros(3), f=np.asfortranarray(np.ones((2, 3))))
    data = out.getvalue()
    contents = look(data, "run/state.npz")
    assert contents.format is FileFormat.NPZ
    assert [(tensor.name, tensor.dtype, tensor.shape) for tensor in contents.tensors] == [("w", "F32", LARGE.shape), ("b", "F64", (3,))]
    assert [view.name for view in contents.views] == ["f"]
    assert LARGE.tobytes() in [data[piece.offset_bytes :][: piece.size_bytes] for piece in cut(len(data), contents)]
    assert look(data, "run/state.safetensors") == contents
    empty = io.BytesIO()
    np.savez(empty)
    assert cut(len(empty.getvalue()), look(empty.getvalue(), "run/state.npz"))
    assert look(empty.getvalue(), "run/state.npz").cut_off_at is None


def test_npz_that_is_compressed_is_opaque() -> None:
    out = io.BytesIO()
    np.savez_compressed(out, w=LARGE)
    contents = look(out.getvalue(), "run/state.npz")
    assert (contents.tensors, contents.extents, contents.cut_off_at) == ((), (), None)
