from __future__ import annotations

from collections import OrderedDict

import numpy as np
import pytest
import safetensors.numpy

from bridgehead.kernel.errors import BridgeheadError, ErrorCode
from bridgehead.training.state import ARRAYS, TREE, Capture, decode


def round_trip(state):
    capture = Capture()
    capture.take(state)
    return decode(capture.files())


def test_tree_of_arrays_and_plain_values_comes_back() -> None:
    state = {
        "weights": OrderedDict(a=np.arange(6, dtype=np.float32).reshape(2, 3), b=np.zeros((0, 4), dtype=np.int64)),
        "groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0, 1]}],
        "state": {0: {"step": np.float32(3)}, 1: {"mask": np.array([True, False])}},
        "nothing": None,
        "best": float("inf"),
        "name": "run 7 ✓",
        "flag": True,
    }
    back = round_trip(state)
    assert back["groups"] == state["groups"]
    assert isinstance(back["groups"][0]["betas"], tuple)
    assert (back["nothing"], back["best"], back["name"], back["flag"]) == (None, float("inf"), "run 7 ✓", True)
    assert list(back["state"]) == [0, 1]
    for saved, loaded in [
        (state["weights"]["a"], back["weights"]["a"]),
        (state["weights"]["b"], back["weights"]["b"]),
        (np.asarray(state["state"][0]["step"]), back["state"][0]["step"]),
        (state["state"][1]["mask"], back["state"][1]["mask"]),
    ]:
        assert (loaded.dtype, loaded.shape, loaded.tobytes()) == (saved.dtype, saved.shape, saved.tobytes())
    back["weights"]["a"][0, 0] = 9  # writable


def test_flat_state_is_a_plain_safetensors_file_for_others() -> None:
    capture = Capture()
    capture.take({"w": np.ones(3, dtype=np.float16)})
    assert safetensors.numpy.load(capture.files()[ARRAYS])["w"].tolist() == [1, 1, 1]


def test_names_that_read_the_same_stay_apart() -> None:
    back = round_trip({"a/b": np.array([1]), "a": {"b": np.array([2])}, 0: np.array([3]), "0": np.array([4])})
    assert (back["a/b"][0], back["a"]["b"][0], back[0][0], back["0"][0]) == (1, 2, 3, 4)


def test_capture_is_a_copy_and_its_buffers_are_used_again() -> None:
    live = {"w": np.arange(10, dtype=np.float32)[::2], "big-endian": np.array([1, 2], dtype=">i4")}
    capture = Capture()
    capture.take(live)
    live["w"][:] = 7
    assert decode(capture.files())["w"].tolist() == [0, 2, 4, 6, 8]
    buffer = capture._arrays["w"]
    capture.take(live)
    assert capture._arrays["w"] is buffer
    assert decode(capture.files())["w"].tolist() == [7] * 5
    assert decode(capture.files())["big-endian"].tolist() == [1, 2]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (object(), "object"),
        (np.array(["text"]), "<U4"),
        (np.array([1 + 2j]), "complex128"),
        ({1.5: 0}, "1.5"),
        ({"inner": {1, 2}}, "set"),
    ],
)
def test_what_cannot_be_saved_is_refused_by_its_place(value, said: str) -> None:
    with pytest.raises(BridgeheadError, match="the value at model/x") as caught:
        Capture().take({"model": {"x": value}})
    assert caught.value.code is ErrorCode.BAD_USAGE
    assert said in caught.value.happened


@pytest.mark.parametrize("files", [{}, {"model.bin": b"x"}, {TREE: b"{}"}, {TREE: b"[1"}, {TREE: b'{"odd":1}'}, {TREE: b'{"array":"w"}'}])
def test_foreign_files_are_refused_with_a_word(files) -> None:
    with pytest.raises(BridgeheadError, match=r"not saved by bridgehead\.training"):
        decode(files)
