"""The compiled inner loops and numpy's give the same bits for all bits, finite or not (V30)."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bridgehead.vault.codec import Form, Predictor
from bridgehead.vault.codec import kernels as module
from bridgehead.vault.codec.kernels import Prediction, from_planes, to_planes

needs_compiled = pytest.mark.skipif(module.compiled is None, reason="the package was built without a compiler")
COUNTS = st.sampled_from([0, 1, 7, 1023, 1024, 1025, 5000])
FLOATS = st.sampled_from([Form.FLOAT32, Form.BFLOAT16])
PARAMETERS = st.sampled_from([0.0, 1.0, 0.999, -3e-4, 1e-8, 1e-45, 1e300, 65504.5])


def garbage(seed: int, count: int, form: Form) -> bytes:
    """Half any bits at all, NaN and denormals among them; half like weights."""
    random = np.random.default_rng(seed)
    if not form.computable or seed % 2:
        return random.bytes(count * form.width)
    values = (random.standard_normal(count) * 10.0 ** random.integers(-44, 30, count)).astype(np.float32)
    return values.tobytes() if form is Form.FLOAT32 else (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()


def check(data: bytes, form: Form, prediction: Prediction | None) -> None:
    compiled, numpys = ([plane.tobytes() for plane in to_planes(data, form, prediction, with_numpy=way)] for way in (False, True))
    assert compiled == numpys
    for with_numpy in (False, True):
        assert from_planes(compiled, len(data) // form.width, form, prediction, with_numpy=with_numpy, tail=b"end") == data + b"end"


@needs_compiled
@settings(max_examples=150, deadline=None)
@given(data=st.data(), predictor=st.sampled_from(list(Predictor)), count=COUNTS, seed=st.integers(0, 1 << 30))
def test_V30_predictions_are_the_same_bits_compiled_and_in_numpy(data: st.DataObject, predictor: Predictor, count: int, seed: int) -> None:
    form = data.draw(FLOATS)
    forms = [form if predictor is Predictor.PREVIOUS else data.draw(FLOATS) for _ in range(predictor.bases)]
    bases = tuple((garbage(seed + index, count, each), each) for index, each in enumerate(forms, 1))
    parameters = tuple(data.draw(PARAMETERS) for _ in range(predictor.parameters))
    check(garbage(seed, count, form), form, Prediction(predictor, bases, parameters))


@needs_compiled
@pytest.mark.parametrize("form", list(Form))
@pytest.mark.parametrize("count", [0, 1, 1025])
def test_planes_are_the_same_bytes_compiled_and_in_numpy(form: Form, count: int) -> None:
    data, base = garbage(3, count, form), garbage(5, count, form)
    check(data, form, None)
    check(data, form, Prediction(Predictor.PREVIOUS, ((base, form),), ()))


@pytest.mark.parametrize("with_numpy", [True, False])
def test_V30_planes_and_bases_of_another_size_are_refused(with_numpy: bool) -> None:
    planes = [bytes(8)] * 4
    for bad in ([bytes(8)] * 3 + [bytes(7)], [bytes(8)] * 3 + [bytes(9)]):
        with pytest.raises(ValueError, match="another size"):
            from_planes(bad, 8, Form.FLOAT32, with_numpy=with_numpy)
    for size in (0, 28, 36):
        with pytest.raises(ValueError, match="elements instead of 8"):
            from_planes(planes, 8, Form.FLOAT32, Prediction(Predictor.PREVIOUS, ((bytes(size), Form.FLOAT32),), ()), with_numpy=with_numpy)
