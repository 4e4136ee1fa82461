"""Random checkpoints of known formats, odd ones among them, come back bit for bit through a vault and a disk (V01-V05, V08-V10, V12)."""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as to_safetensors

from bridgehead.drivers.localfs import LocalBlobs, LocalBlobsOptions
from bridgehead.testing.dcp_files import checkpoint_files
from bridgehead.testing.disk_trees import look
from bridgehead.testing.torch_files import Tensor, torch_file, zipped
from bridgehead.vault import Vault

DTYPES = ["f2", "f4", "f8", "i1", "i4", "i8", "u1", "u2", "?", "c8"]
names = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=12).map(os.fsencode),
    st.binary(min_size=1, max_size=12).map(lambda raw: raw.replace(b"/", b"_").replace(b"\0", b"_")),
).filter(lambda name: name not in (b".", b".."))


@st.composite
def arrays(draw: st.DrawFn) -> np.ndarray:
    shape = draw(st.sampled_from([(), (0,), (1,), (7,), (2, 0, 3), (3, 5), (1, 1, 1), (40_000,), (300, 70)]))
    zero = draw(st.booleans())
    array = np.arange(int(np.prod(shape)), dtype=np.uint8).reshape(shape) * np.uint8(not zero)
    return np.asarray(array).astype(draw(st.sampled_from(DTYPES)))


safetensors_files = st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=8), arrays(), max_size=4).map(to_safetensors)


@st.composite
def torch_files(draw: st.DrawFn) -> bytes:
    storages = draw(
        st.dictionaries(st.sampled_from("0123"), st.one_of(st.binary(max_size=300), st.integers(0, 200_000).map(bytes)), min_size=1)
    )
    state = {
        f"t{index}": Tensor(key, "U8", (draw(st.integers(0, len(content))),), draw(st.integers(0, 3)))
        for index, (key, content) in enumerate(storages.items())
    }
    return torch_file(state, storages)


zips = st.dictionaries(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=9), st.binary(), max_size=4
)
opaque = st.one_of(
    st.binary(max_size=200),
    st.builds(lambda size, seed: np.random.default_rng(seed).bytes(size), st.integers(0, 900_000), st.integers(0, 5)),
)
files = st.one_of(safetensors_files, torch_files(), zips.map(zipped), opaque, st.builds(bytes, st.just(300_000)))


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "codec"])
def vault(request: pytest.FixtureRequest) -> Iterator[Vault]:
    with tempfile.TemporaryDirectory() as folder:
        yield Vault.init(LocalBlobs(LocalBlobsOptions(folder)), codec=request.param)


steps_taken = itertools.count()
"""The same content at the same step is the same snapshot, with the times that it had first: each example has a step of its own."""


def check(vault: Vault, made: Path) -> None:
    saved = vault.save(made, workload="w", step=next(steps_taken), epoch=0, site="a")
    with tempfile.TemporaryDirectory() as folder:
        vault.restore(saved.id, to=Path(folder) / "out")
        assert look(Path(folder) / "out") == look(made)
    assert vault.snapshot(saved.id) == Vault.open(vault.place.objects.blobs).snapshot(saved.id), "the record survives"


@settings(max_examples=25)
@given(content=st.dictionaries(names, files, min_size=1, max_size=4))
def test_files_of_any_format_under_any_name(vault: Vault, content: dict[bytes, bytes]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, data in content.items():
            with open(os.path.join(os.fsencode(folder), name), "wb") as file:
                file.write(data)
        check(vault, Path(folder))


@settings(max_examples=15)
@given(rows=st.lists(st.integers(0, 5), min_size=1, max_size=5), lost=st.none() | st.integers(0, 4))
def test_distributed_checkpoints_whole_or_not(vault: Vault, rows: list[int], lost: int | None) -> None:
    content = checkpoint_files(rows)
    missing = f"__{lost}_0.distcp" if lost is not None and lost < len(rows) else ""
    content.pop(missing, None)
    saved = vault.save(content, workload="d", step=1, epoch=0, site="a").snapshot
    assert vault.load(saved.id) == content
    assert saved.incomplete == ((missing,) if missing and rows[lost] else ())


MODES = st.sampled_from([0o755, 0o700, 0o750, 0o555])


@st.composite
def trees(draw: st.DrawFn) -> list[tuple[str, str, object]]:
    """Steps that make a folder: files, folders, links, hard links, holes."""
    steps: list[tuple[str, str, object]] = []
    for index in range(draw(st.integers(1, 8))):
        under = draw(st.sampled_from(["", "a/", "b/c/"]))
        kind = draw(st.sampled_from(["file", "folder", "link", "hard", "hole"]))
        match kind:
            case "file":
                value: object = draw(st.one_of(opaque, st.just(b"same")))
            case "folder":
                value = draw(MODES)
            case "link":
                value = draw(st.sampled_from(["../x", "f0", "/etc", "nowhere", "a"]))
            case "hard":
                value = draw(st.integers(0, 7))
            case _:
                value = draw(st.lists(st.tuples(st.integers(0, 5_000_000), st.binary(min_size=1, max_size=9)), max_size=3))
        steps.append((kind, f"{under}{index}", value))
    return [*steps, ("file", "last", b"x")]


@settings(max_examples=25)
@given(steps=trees())
def test_any_tree_comes_back(vault: Vault, steps: list[tuple[str, str, object]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        made: list[Path] = []
        for kind, name, value in steps:
            path = root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            match kind:
                case "file":
                    path.write_bytes(value)  # type: ignore[arg-type]  # the kind says what it is
                    made.append(path)
                case "folder":
                    path.mkdir(mode=0o755)
                    path.chmod(value)  # type: ignore[arg-type]  # the kind says what it is
                case "link":
                    path.symlink_to(str(value))
                case "hard" if made:
                    os.link(made[int(str(value)) % len(made)], path)
                case "hole":
                    with open(path, "wb") as file:
                        file.truncate(5_500_000)
                        for at, data in value:  # type: ignore[attr-defined]  # the kind says what it is
                            file.seek(at)
                            file.write(data)
        check(vault, root)
