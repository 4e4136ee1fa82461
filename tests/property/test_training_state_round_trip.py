from __future__ import annotations

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from bridgehead.training.state import Capture, decode

DTYPES = st.sampled_from(["f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "?", "c8", ">f4", ">i8"])
ARRAYS = DTYPES.flatmap(lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)))
PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text()
KEYS = st.text(max_size=4) | st.integers(-3, 3)
TREES = st.recursive(
    ARRAYS | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=8,
)


def same(a, b) -> bool:
    match a:
        case dict():
            return isinstance(b, dict) and list(a) == list(b) and all(same(a[key], b[key]) for key in a)
        case list() | tuple():
            return type(a) is type(b) and len(a) == len(b) and all(map(same, a, b))
        case np.ndarray():
            return b.shape == a.shape and b.dtype == a.dtype.newbyteorder("=") and b.tobytes() == a.astype(b.dtype).tobytes()
        case float() if math.isnan(a):
            return isinstance(b, float) and math.isnan(b)
        case float():
            return isinstance(b, float) and math.copysign(1, a) == math.copysign(1, b) and a == b
        case _:
            return type(a) is type(b) and a == b


@settings(deadline=None)
@given(st.dictionaries(KEYS, TREES, max_size=4), st.dictionaries(KEYS, TREES, max_size=4))
def test_any_tree_comes_back_bit_for_bit_also_from_a_used_buffer(first, second) -> None:
    capture = Capture()
    for state in (first, second, first):
        capture.take(state)
        assert same(state, decode(capture.files()))
