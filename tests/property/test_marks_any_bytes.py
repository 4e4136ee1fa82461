"""Marks and checks of completeness on any bytes: always an answer, never an exception (V07, V11, V12)."""

from __future__ import annotations

import pickle
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.testing.torch_files import torch_file
from bridgehead.vault.checkpoints import Checkpoint, signature_of, usual_steps
from bridgehead.vault.completeness import file_fault
from bridgehead.vault.marks import MarkKind, missing

SPECIAL = [
    ".metadata", "model.safetensors.index.json", "mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_optim_states.pt",
    "zero_pp_rank_999999_mp_rank_999999_optim_states.pt", "mp_rank_00_000/model_optim_rng.pt", "mp_rank_999999/model_optim_rng.pt",
    "__0_0.distcp", "trainer_state.json", "config.json", "a-00001-of-00003.bin", "a-2-of-999999.bin", "latest", "x.npy",
]  # fmt: skip
WORLD = torch_file({"dp_world_size": 3, "mp_world_size": 1}, {})
METADATA = pickle.dumps({"a": "__0_0.distcp", "b": "__7_0.distcp"})
CONTENTS = st.one_of(
    st.binary(max_size=300),
    st.sampled_from([WORLD, METADATA, b'{"weight_map": {"a": "b.safetensors"}}', b".distcp" * 50, b"\x8c\x08a.distcp"]),
    st.tuples(st.sampled_from([WORLD, METADATA]), st.integers(0, 400), st.integers(0, 255)).map(
        lambda made: made[0][: made[1]] + bytes([made[2]]) + made[0][made[1] + 1 :]
    ),
)


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(st.sampled_from(SPECIAL), CONTENTS, min_size=1, max_size=6), st.sampled_from(["checkpoint-7", "iter_0000007", "step7"])
)
def test_any_files_get_an_answer(files: dict[str, bytes], name: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / name
        for path, content in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
        found = missing(Checkpoint(folder, 7, signature_of(folder)), mark=MarkKind())
        assert len(found) < 10_000
        assert all(isinstance(text, str) and text for text in found)
        for path, content in files.items():
            file_fault(folder / path, size_bytes=len(content))


@given(st.dictionaries(st.text(max_size=40), st.booleans(), max_size=8))
def test_any_names_get_steps_or_none(names: dict[str, bool]) -> None:
    found = usual_steps(names)
    assert found.keys() <= names.keys()
    assert all(step >= 0 for step in found.values())
