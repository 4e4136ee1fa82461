"""Files of torch: cut by storage, named by tensor, never unpickled (V01, V03, V04, V05, V08, V12)."""

from __future__ import annotations

import io
import pickle
import struct

import pytest

from bridgehead.kernel.ids import WorkloadId
from bridgehead.testing.dcp_files import metadata_file
from bridgehead.testing.torch_files import Raw, Tensor, pickled, torch_file, zipped
from bridgehead.vault.cut import MIN_TENSOR_BLOCK_BYTES, Piece, cut
from bridgehead.vault.formats import OPAQUE, Contents, FileFormat, examine
from bridgehead.vault.formats.dcp import read_metadata
from bridgehead.vault.formats.zipdirectory import read_archives

LARGE = 2 * MIN_TENSOR_BLOCK_BYTES
COUNT = LARGE // 4
LAST = 0xFFFFFFFF
STORAGE = bytes(range(256)) * (LARGE // 256)


def look(data: bytes, path: str = "run/model.pt") -> Contents:
    return examine(path, len(data), lambda offset, size: data[offset : offset + size])


def rows(contents: Contents) -> dict[str, tuple[str, tuple[int, ...], int]]:
    return {tensor.name: (tensor.dtype, tensor.shape, tensor.size_bytes) for tensor in contents.tensors}


def bytes_of(data: bytes, contents: Contents, name: str) -> bytes:
    (tensor,) = [tensor for tensor in contents.tensors if tensor.name == name]
    return data[tensor.offset_bytes : tensor.offset_bytes + tensor.size_bytes]


def test_names_are_paths_through_dicts_and_lists() -> None:
    state = {
        "model": {"w": Tensor("0", "F32", (COUNT,))},
        "groups": [{"lr": 1}, Tensor("1", "I64", ())],
        "step": 3,
        7: Tensor("1", "I64", (1,)),
    }
    data = torch_file(state, {"0": STORAGE, "1": b"12345678"})
    contents = look(data)
    assert contents.format is FileFormat.TORCH
    assert rows(contents) == {"model.w": ("F32", (COUNT,), LARGE), "groups.1": ("I64", (), 8), "7": ("I64", (1,), 8)}
    assert bytes_of(data, contents, "model.w") == STORAGE
    assert bytes_of(data, contents, "groups.1") == b"12345678"


def test_V01_two_views_of_one_storage_are_stored_once_and_keep_both_names() -> None:
    tied = Tensor("0", "F32", (COUNT,))
    data = torch_file({"embed": tied, "head": tied, "part": Tensor("0", "F32", (5,), offset=7)}, {"0": STORAGE})
    contents = look(data)
    assert rows(contents) == {"embed": ("F32", (COUNT,), LARGE), "head": ("F32", (COUNT,), LARGE), "part": ("F32", (5,), 20)}
    assert bytes_of(data, contents, "part") == STORAGE[28:48]
    place = data.index(STORAGE)
    assert [piece for piece in cut(len(data), contents) if piece.size_bytes >= MIN_TENSOR_BLOCK_BYTES] == [Piece(place, LARGE)]


def test_V01_storage_is_the_same_block_in_every_format_that_holds_it() -> None:
    from safetensors.numpy import save as to_safetensors

    numpy = pytest.importorskip("numpy")
    array = numpy.frombuffer(STORAGE, dtype=numpy.float32)
    out = io.BytesIO()
    numpy.savez(out, w=array)
    files = {
        "m.safetensors": to_safetensors({"w": array}),
        "m.npz": out.getvalue(),
        "m.pt": torch_file({"w": Tensor("0", "F32", (COUNT,))}, {"0": STORAGE}),
    }
    for path, data in files.items():
        contents = look(data, path)
        assert rows(contents) == {"w": ("F32", (COUNT,), LARGE)}, path
        assert STORAGE in [data[piece.offset_bytes :][: piece.size_bytes] for piece in cut(len(data), contents)], path


@pytest.mark.parametrize("dtype", ["BF16", "F16", "F64", "BOOL", "C64", "I64", "U8"])
def test_V03_dtypes_of_typed_storages(dtype: str) -> None:
    assert [tensor.dtype for tensor in look(torch_file({"a": Tensor("0", dtype, (2,))}, {"0": bytes(16)})).tensors] == [dtype]


@pytest.mark.parametrize(
    ("name", "shown", "size"),
    [
        ("float8_e4m3fn", "F8_E4M3", 4),
        ("float8_e5m2", "F8_E5M2", 4),
        ("float8_e8m0fnu", "F8_E8M0", 4),
        ("float4_e2m1fn_x2", "float4_e2m1fn_x2", 4),
        ("uint16", "U16", 8),
    ],
)
def test_V03_dtypes_of_untyped_storages(name: str, shown: str, size: int) -> None:
    assert rows(look(torch_file({"a": Tensor("0", name, (4,))}, {"0": bytes(size)}))) == {"a": (shown, (4,), size)}


def test_V03_invented_dtype_is_bytes_without_a_name() -> None:
    data = torch_file({"a": Tensor("0", "float3_what", (4,)), "b": Tensor("1", "U8", (8,))}, {"0": STORAGE, "1": bytes(8)})
    contents = look(data)
    assert rows(contents) == {"b": ("U8", (8,), 8)}
    assert contents.unreached_bytes == 0, "nobody can say which bytes of the storage are reached: all, then"
    assert Piece(data.index(STORAGE), LARGE) in cut(len(data), contents)


@pytest.mark.parametrize("state", [{}, [], None, {"step": 3, "loss": [1, 2, None]}])
def test_V02_file_without_tensors(state: object) -> None:
    data = torch_file(state, {})
    contents = look(data)
    assert (contents.tensors, contents.cut_off_at, contents.unreached_bytes) == ((), None, 0)
    assert sum(piece.size_bytes for piece in cut(len(data), contents)) == len(data)


def test_V04_tensors_without_elements() -> None:
    contents = look(torch_file({"none": Tensor("0", "F32", (0, 7)), "one": Tensor("1", "F32", ())}, {"0": b"", "1": b"1234"}))
    assert rows(contents) == {"none": ("F32", (0, 7), 0), "one": ("F32", (), 4)}


def test_V05_bytes_that_no_tensor_reaches_are_counted() -> None:
    state = {"a": Tensor("0", "F32", (10,), offset=5), "b": Tensor("0", "F32", (10,), offset=10)}
    data = torch_file(state, {"0": STORAGE, "1": bytes(100)})
    contents = look(data)
    assert contents.unreached_bytes == LARGE - 15 * 4 + 100
    assert Piece(data.index(STORAGE), LARGE) in cut(len(data), contents), "the storage is stored once, whole"


def test_views_that_do_not_lie_in_rows_are_told_apart() -> None:
    contents = look(torch_file({"w": Tensor("0", "F32", (3, 4)), "t": Tensor("0", "F32", (4, 3), stride=(1, 4))}, {"0": bytes(48)}))
    assert list(rows(contents)) == ["w"]
    assert [(view.name, view.shape, view.size_bytes) for view in contents.views] == [("t", (4, 3), 48)]
    assert contents.unreached_bytes == 0


def test_V08_format_is_seen_in_the_bytes() -> None:
    data = torch_file({"w": Tensor("0", "F32", (COUNT,))}, {"0": STORAGE})
    assert look(data, "model.safetensors") == look(data, "model.pt")
    assert look(data, "noname") == look(data, "model.pt")


def test_tensor_that_is_the_whole_file_is_named_after_it() -> None:
    assert list(rows(look(torch_file(Tensor("0", "U8", (8,)), {"0": bytes(8)}), "run/mean.pt"))) == ["mean"]


def test_names_that_meet_are_kept_apart() -> None:
    one, two = Tensor("0", "U8", (1,)), Tensor("0", "U8", (1,), offset=1)
    assert sorted(rows(look(torch_file({"a": {"b": one}, "a.b": two}, {"0": bytes(2)})))) == ["a.b", "a.b#2"]


def test_V04_several_archives_in_one_file_as_in_distcp() -> None:
    parts = [
        torch_file(Tensor("0", "F32", (COUNT,)), {"0": STORAGE}),
        torch_file({"step": 3}, {}),
        torch_file(Tensor("0", "U8", (3,)), {"0": b"abc"}),
    ]
    data = b"".join(parts)
    contents = look(data, "step/__0_0.distcp")
    assert rows(contents) == {"__0_0#0": ("F32", (COUNT,), LARGE), "__0_0#2": ("U8", (3,), 3)}
    assert bytes_of(data, contents, "__0_0#2") == b"abc"
    assert contents.cut_off_at is None
    assert look(b"", "step/__3_0.distcp") == OPAQUE, "a rank that had nothing to write"


def test_V04_six_rows_over_four_ranks_come_back_with_the_empty_shard(tmp_path) -> None:
    from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
    from bridgehead.vault import Vault

    rows_of = {0: 2, 1: 2, 2: 2, 3: 0}
    files = {f"__{rank}_0.distcp": torch_file(Tensor("0", "F32", (count, 5)), {"0": bytes(20 * count)}) for rank, count in rows_of.items()}
    for empty in (files["__3_0.distcp"], b""):
        vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / str(len(empty))))))
        whole = {**files, "__3_0.distcp": empty, ".metadata": metadata_file({})}
        saved = vault.save(whole, workload="w", step=1, epoch=0, site="a").snapshot
        assert saved.incomplete == ()
        assert vault.load(saved.id) == whole
        shapes = [tensor.shape for file in saved.files for tensor in file.tensors]
        assert shapes == [(2, 5), (2, 5), (2, 5), (0, 5)][: len(shapes)]
        assert len(shapes) == (4 if empty else 3)


def test_members_that_are_compressed_stay_opaque() -> None:
    data = torch_file({"w": Tensor("0", "F32", (COUNT,))}, {"0": STORAGE}, compressed=True)
    contents = look(data)
    assert (contents.tensors, contents.extents, contents.header_bytes) == ((), (), 0)
    assert contents.format is FileFormat.TORCH


def test_big_endian_files_have_no_table() -> None:
    data = zipped({"a/data.pkl": pickled({"w": Tensor("0", "F32", (COUNT,))}), "a/byteorder": b"big", "a/data/0": STORAGE})
    contents = look(data)
    assert (contents.tensors, contents.unreached_bytes) == ((), None)
    assert Piece(data.index(STORAGE), LARGE) in cut(len(data), contents)


def test_nothing_of_a_hostile_pickle_is_called(tmp_path) -> None:
    class Hostile:
        def __reduce__(self) -> tuple[object, ...]:
            return (open, (str(tmp_path / "proof"), "w"))

    hostile = Raw(pickle.dumps(Hostile(), 2)[2:-1])
    data = torch_file({"bad": hostile, "w": Tensor("0", "F32", (COUNT,))}, {"0": STORAGE})
    assert rows(look(data)) == {"w": ("F32", (COUNT,), LARGE)}
    assert not list(tmp_path.iterdir())


def test_what_lies_in_an_unknown_object_has_no_name_but_is_cut() -> None:
    inside = Raw(b"cargparse\nNamespace\n)\x81" + pickled({"w": Tensor("0", "F32", (COUNT,))})[2:-1] + b"b")
    data = torch_file({"args": inside, "b": Tensor("1", "U8", (8,))}, {"0": STORAGE, "1": bytes(8)})
    contents = look(data)
    assert rows(contents) == {"b": ("U8", (8,), 8)}
    assert contents.unreached_bytes == 0
    assert Piece(data.index(STORAGE), LARGE) in cut(len(data), contents)


@pytest.mark.parametrize(
    "opcodes", [b"", b"I1\n", b"L1L\n", b"i", b"P0\n", b"\x97", b"\x82\x01", b"0" * 5, b"(" * 9, b"h\x07", b"X\xff\xff\xff\xff", b"R", b"Q"]
)
def test_opcodes_that_are_not_followed_leave_the_storages_without_names(opcodes: bytes) -> None:
    data = zipped({"a/data.pkl": b"\x80\x02" + opcodes + b".", "a/data/0": STORAGE})
    contents = look(data)
    assert (contents.tensors, contents.unreached_bytes) in [((), None), ((), LARGE)]
    assert Piece(data.index(STORAGE), LARGE) in cut(len(data), contents)


@pytest.mark.parametrize("path", ["m.pt", "m.pth", "m.ckpt", "m.bin", "__0_0.distcp"])
def test_V12_archive_that_was_cut_off_is_noticed_wherever_it_ends(path: str) -> None:
    data = torch_file({"w": Tensor("0", "F32", (8,))}, {"0": bytes(32)})
    assert look(data, path).cut_off_at is None
    for end in range(8, len(data)):
        contents = look(data[:end], path)
        assert contents.cut_off_at is not None, end
        assert contents.tensors == ()


def test_V12_second_archive_that_was_cut_off_is_noticed() -> None:
    part = torch_file(Tensor("0", "F32", (8,)), {"0": bytes(32)})
    for end in range(4, len(part)):
        assert look(part + part[:end], "__0_0.distcp").cut_off_at is not None, end


def test_V12_file_that_was_never_written() -> None:
    assert look(b"", "model.pt").cut_off_at is not None
    assert look(bytes(5000), "model.pt").cut_off_at is not None
    assert look(b"", "model.npz").cut_off_at is not None
    assert look(bytes(5000), "notes.bin") == OPAQUE


def test_V12_snapshot_with_a_cut_off_file_is_kept_but_is_no_default(tmp_path) -> None:
    from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
    from bridgehead.vault import Vault

    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path))))
    data = torch_file({"w": Tensor("0", "F32", (COUNT,))}, {"0": STORAGE})
    whole = vault.save({"m.pt": data, "notes.txt": b""}, workload="w", step=1, epoch=0, site="a")
    torn = vault.save({"m.pt": data[:-1000], "notes.txt": b""}, workload="w", step=2, epoch=0, site="a")
    assert (whole.snapshot.incomplete, torn.snapshot.incomplete) == ((), ("m.pt",))
    newest = vault.newest(WorkloadId("w"))
    assert newest is not None
    assert newest.id == whole.id
    assert vault.load(torn.id)["m.pt"] == data[:-1000]


def test_V08_torch_file_named_safetensors_is_restored_by_tensor_and_whole(tmp_path) -> None:
    from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
    from bridgehead.vault import Vault

    vault = Vault.init(LocalBlobs(LocalBlobsOptions(str(tmp_path / "vault"))))
    data = torch_file({"w": Tensor("0", "F32", (COUNT,))}, {"0": STORAGE})
    saved = vault.save({"m.safetensors": data}, workload="w", step=1, epoch=0, site="a").snapshot
    (file,) = saved.files
    (tensor,) = file.tensors
    assert b"".join(vault.read(saved, file, offset_bytes=tensor.offset_bytes, size_bytes=tensor.size_bytes)) == STORAGE
    vault.restore(saved.id, to=tmp_path / "out")
    assert (tmp_path / "out" / "m.safetensors").read_bytes() == data


def test_zip64_directory_is_read() -> None:
    """As it is written for members beyond 4 GiB: all numbers at their largest, the true ones in the zip64 field and end record."""
    members = {"a/data.pkl": pickled({"w": Tensor("0", "F32", (COUNT,))}), "a/data/0": STORAGE}
    data = directory = b""
    for name, content in members.items():
        extra = struct.pack("<2H3Q", 1, 24, len(content), len(content), len(data))
        fields = (45, 0, 0, 0, 0, 0)
        directory += (
            struct.pack("<4s6H3L5H2L", b"PK\x01\x02", 45, *fields[:5], 0, LAST, LAST, len(name), 28, 0, 0, 0, 0, LAST)
            + name.encode()
            + extra
        )
        data += struct.pack("<4s5H3L2H", b"PK\x03\x04", *fields[:5], 0, LAST, LAST, len(name), 20) + name.encode() + extra[:20] + content
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 2, 2, len(directory), len(data))
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, len(data) + len(directory), 1)
    whole = data + directory + end64 + locator + struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, LAST, LAST, 0)
    assert rows(look(whole)) == {"w": ("F32", (COUNT,), LARGE)}
    assert Piece(whole.index(STORAGE), LARGE) in cut(len(whole), look(whole))
    assert {name: member.place.size_bytes for name, member in zip(members, read_places(whole), strict=True)} == {
        name: len(content) for name, content in members.items()
    }


def read_places(data: bytes):
    found = read_archives(len(data), lambda offset, size: data[offset : offset + size])
    return [member for archive in found.archives for member in archive.members]


def test_metadata_of_a_distributed_checkpoint_is_recognised() -> None:
    data = b"\x80\x04\x95\x00\x00\x00\x00\x00\x00\x00\x00\x8c%torch.distributed.checkpoint.metadata\x94\x8c\x08Metadata\x94\x93."
    contents = look(data, ".metadata")
    assert contents.format is FileFormat.DCP_METADATA
    assert cut(len(data), contents) == [Piece(0, len(data))]


def test_files_of_real_torch(tmp_path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; the same cases are made by hand above")
    weight = torch.arange(COUNT, dtype=torch.float32)
    optimizer = torch.optim.AdamW([torch.nn.Parameter(torch.ones(3, 4))])
    state = {"w": weight, "part": weight[10:20], "t": weight[:12].reshape(3, 4).t(), "o": optimizer.state_dict(), "z": torch.tensor(3)}
    state |= {"p": torch.nn.Parameter(torch.ones(2)), "f8": torch.zeros(4).to(torch.float8_e4m3fn), "size": weight.shape}
    torch.save(state, tmp_path / "m.pt")
    data = (tmp_path / "m.pt").read_bytes()
    contents = look(data)
    assert {"w": ("F32", (COUNT,), LARGE), "part": ("F32", (10,), 40), "z": ("I64", (), 8), "f8": ("F8_E4M3", (4,), 4)}.items() <= rows(
        contents
    ).items()
    assert bytes_of(data, contents, "part") == weight[10:20].numpy().tobytes()
    assert [view.name for view in contents.views] == ["t"]
    assert contents.unreached_bytes == 0


def test_V04_distributed_checkpoint_of_real_torch(tmp_path) -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed; the same cases are made by hand above")
    import torch.distributed.checkpoint as distributed

    weight = torch.arange(COUNT, dtype=torch.float32)
    distributed.save({"w": weight, "none": torch.zeros(0, 3), "step": 3}, checkpoint_id=str(tmp_path))
    (shard,) = tmp_path.glob("*.distcp")
    data = shard.read_bytes()
    contents = look(data, shard.name)
    assert sorted((tensor.dtype, tensor.shape) for tensor in contents.tensors) == [("F32", (0, 3)), ("F32", (COUNT,))]
    assert weight.numpy().tobytes() in [data[piece.offset_bytes :][: piece.size_bytes] for piece in cut(len(data), contents)]
    metadata = (tmp_path / ".metadata").read_bytes()
    assert look(metadata, ".metadata").format is FileFormat.DCP_METADATA
    items = read_metadata(metadata)
    assert {item.file for item in items} == {shard.name}
    assert max(item.offset_bytes + item.size_bytes for item in items) == len(data)
