"""Kernels: elements to planes and back, predicted or not. With the compiled module where it was built, else with numpy: the same bits.

``_kernels.c`` does in one pass through the cache what numpy does in about twenty. It knows bfloat16 and float32, and every form where
nothing is computed; the rest is numpy's.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from bridgehead.host.pages import pages
from bridgehead.vault.codec.forms import Bits, Form, elements, ordered, rotate, unordered, unrotate, unzigzag, zigzag
from bridgehead.vault.codec.planes import ByteArray, gather, scatter
from bridgehead.vault.codec.predict import CHUNK, Predictor, predict

if TYPE_CHECKING:
    from bridgehead.vault.codec import _kernels as compiled
else:
    try:
        from bridgehead.vault.codec import _kernels as compiled
    except ImportError:  # built without a compiler
        compiled = None

Data = bytes | memoryview
_COMPILED_FLOATS = frozenset({Form.BFLOAT16, Form.FLOAT32})


class Prediction(NamedTuple):
    """A predictor with the bytes and forms of its bases."""

    predictor: Predictor
    bases: tuple[tuple[Data, Form], ...]
    parameters: tuple[float, ...]


def to_planes(data: Data, form: Form, prediction: Prediction | None = None, *, with_numpy: bool = False) -> list[ByteArray]:
    """The planes of all whole elements, the most significant byte first: rotated, or as residuals of a prediction.

    They lie in memory that the next call of this thread uses again."""
    count = len(data) // form.width
    room = _room(form.width * count).reshape(form.width, count)
    if with_numpy or not _is_compiled(form, prediction):
        _to_planes_with_numpy(data, form, prediction, list(room))
    else:
        compiled.to_planes(data, form, *_arguments(prediction), room.data)
    return list(room)


def from_planes(
    planes: Sequence[Data],
    count: int,
    form: Form,
    prediction: Prediction | None = None,
    *,
    tail: bytes = b"",
    skew: int = 0,
    with_numpy: bool = False,
) -> memoryview:
    """The inverse, with ``tail`` at the end, in memory of its own; what is large begins ``skew`` bytes behind the begin of a page.

    Raises ValueError when a plane or a base has not ``count`` elements."""
    for base, of in prediction.bases if prediction else ():
        if len(base) // of.width != count:
            raise ValueError(f"a base has {len(base) // of.width} elements instead of {count}")
    end = count * form.width
    result = pages(skew + end + len(tail))[skew:] if end >= _MIN_PAGES_BYTES else memoryview(bytearray(end + len(tail)))
    result[end:] = tail
    if with_numpy or not _is_compiled(form, prediction):
        result[:end] = _from_planes_with_numpy([np.frombuffer(plane, np.uint8) for plane in planes], count, form, prediction).tobytes()
    else:
        compiled.from_planes(tuple(planes), count, form, *_arguments(prediction), result[:end])
    return result


_MIN_PAGES_BYTES: Final = 256 << 10
"""Smaller results are not worth pages."""
_mine = threading.local()
_ROOM_BYTES: Final = 16 << 20


def _room(size_bytes: int) -> ByteArray:
    """The thread's own memory: pages that are taken anew for each block cost as much as the work itself."""
    if size_bytes > _ROOM_BYTES:
        return np.empty(size_bytes, dtype=np.uint8)
    if not hasattr(_mine, "room") or len(_mine.room) < size_bytes:
        _mine.room = np.empty(size_bytes, dtype=np.uint8)
    room: ByteArray = _mine.room[:size_bytes]
    return room


def _is_compiled(form: Form, prediction: Prediction | None) -> bool:
    if compiled is None:
        return False
    if prediction is None or prediction.predictor is Predictor.PREVIOUS:
        return True
    return form in _COMPILED_FLOATS and all(of in _COMPILED_FLOATS for _, of in prediction.bases)


def _arguments(prediction: Prediction | None) -> tuple[int, tuple[Data, ...], tuple[int, ...], tuple[float, ...]]:
    if prediction is None:
        return 0, (), (), ()
    data, forms = tuple(data for data, _ in prediction.bases), tuple(form for _, form in prediction.bases)
    return prediction.predictor, data, forms, prediction.parameters


def _to_planes_with_numpy(data: Data, form: Form, prediction: Prediction | None, planes: list[ByteArray]) -> None:
    bits = elements(data, form)
    bases = [(elements(base, of), of) for base, of in prediction.bases] if prediction else []
    for begin in range(0, len(bits), CHUNK):
        chunk = bits[begin : begin + CHUNK]
        if prediction is None:
            scatter(rotate(chunk, form), planes, begin)
        else:
            guess = predict(prediction.predictor, [(base[begin : begin + CHUNK], of) for base, of in bases], prediction.parameters, form)
            scatter(zigzag(ordered(chunk, form) - ordered(guess, form)), planes, begin)


def _from_planes_with_numpy(planes: list[ByteArray], count: int, form: Form, prediction: Prediction | None) -> Bits:
    if any(len(plane) != count for plane in planes):
        raise ValueError("a plane has another size than the elements")
    bases = [(elements(base, of), of) for base, of in prediction.bases] if prediction else []
    out = np.empty(count, dtype=f"<u{form.width}")
    for begin in range(0, count, CHUNK):
        end = min(begin + CHUNK, count)
        bits = gather(planes, begin, end)
        if prediction is None:
            out[begin:end] = unrotate(bits, form)
        else:
            guess = predict(prediction.predictor, [(base[begin:end], of) for base, of in bases], prediction.parameters, form)
            out[begin:end] = unordered(ordered(guess, form) + unzigzag(bits), form)
    return out
