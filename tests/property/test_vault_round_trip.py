"""Whatever is saved comes back bit for bit; whatever a header says, nothing crashes (V01, V02, V03, V08)."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.vault import Vault
from bridgehead.vault.cut import cut
from bridgehead.vault.formats import examine
from bridgehead.vault.paths import path_fault

names = st.text(st.characters(blacklist_categories=["Cs"], blacklist_characters="\0/"), min_size=1, max_size=12)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
contents = st.one_of(
    st.binary(max_size=300), st.builds(lambda seed, times: seed * times, st.binary(min_size=1, max_size=9), st.integers(0, 3000))
)
folders = st.dictionaries(paths, contents, min_size=1, max_size=5).filter(lambda files: not path_fault(list(files)))

json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=8)),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=8), inner, max_size=4)),
    max_leaves=8,
)
rows = st.fixed_dictionaries(
    {
        "dtype": st.one_of(st.sampled_from(["F32", "BF16", "F8_E8M0", "WHAT"]), json_values),
        "shape": st.one_of(st.lists(st.integers(0, 9), max_size=3), json_values),
        "data_offsets": st.one_of(st.tuples(st.integers(-1, 600), st.integers(-1, 600)), json_values),
    }
)
tables = st.dictionaries(st.one_of(st.text(max_size=8), st.just("__metadata__")), st.one_of(rows, json_values), max_size=6)


@st.composite
def near_safetensors(draw: st.DrawFn) -> bytes:
    header = draw(st.one_of(tables.map(lambda table: json.dumps(table).encode()), st.binary(max_size=60)))
    length = draw(st.one_of(st.just(len(header)), st.integers(0, 2**64 - 1), st.integers(0, 200)))
    data = length.to_bytes(8, "little") + header + draw(st.binary(max_size=600))
    return data[: draw(st.integers(0, len(data)))] if draw(st.booleans()) else data


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "codec"])
def vault(request: pytest.FixtureRequest) -> Iterator[Vault]:
    with tempfile.TemporaryDirectory() as folder:
        yield Vault.init(LocalBlobs(LocalBlobsOptions(folder)), codec=request.param)


@settings(max_examples=60)
@given(files=folders, step=st.integers(0, 10**12 - 1))
def test_files_come_back_bit_for_bit(vault: Vault, files: dict[str, bytes], step: int) -> None:
    saved = vault.save(files, workload="w", step=step, epoch=0, site="a")
    assert vault.load(saved.id) == files
    with tempfile.TemporaryDirectory() as folder:
        vault.restore(saved.id, to=Path(folder) / "out")
        found = {
            path.relative_to(Path(folder) / "out").as_posix(): path.read_bytes()
            for path in (Path(folder) / "out").rglob("*")
            if path.is_file()
        }
    assert found == files


@settings(max_examples=60)
@given(data=near_safetensors())
def test_file_with_any_header_is_stored_and_comes_back(vault: Vault, data: bytes) -> None:
    saved = vault.save({"model.safetensors": data}, workload="h", step=1, epoch=0, site="a")
    assert vault.load(saved.id) == {"model.safetensors": data}
    assert vault.snapshot(saved.id) == Vault.open(vault.place.objects.blobs).snapshot(saved.id), "the table survives the record"


@settings(max_examples=400)
@given(data=near_safetensors(), path=st.sampled_from(["m.safetensors", "m.bin"]))
def test_pieces_cover_any_file_exactly_once(data: bytes, path: str) -> None:
    found = examine(path, len(data), lambda offset, size: data[offset : offset + size])
    at = 0
    for piece in cut(len(data), found):
        assert piece.offset_bytes == at
        assert piece.size_bytes > 0
        at += piece.size_bytes
    assert at == len(data)
    for tensor in found.tensors:
        assert 0 < tensor.offset_bytes <= tensor.offset_bytes + tensor.size_bytes <= len(data)
