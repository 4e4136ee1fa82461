"""Decode: the plain bytes of an encoded block, hashed before they are given out (V30, V31)."""

from __future__ import annotations

from collections.abc import Callable

from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId
from bridgehead.vault.codec.frame import BadFrame, Codec, Frame, parse
from bridgehead.vault.codec.kernels import Prediction, from_planes
from bridgehead.vault.codec.planes import unpack
from bridgehead.vault.codec.predict import Predictor, exact

Fetch = Callable[[BlockId], bytes | memoryview]
"""The plain bytes of a base."""


def decode(
    data: bytes | memoryview, *, size_bytes: int, fetch: Fetch, block: BlockId | None = None, skew: int = 0, verify: bool = True
) -> bytes | memoryview:
    """The plain bytes.

    Args:
        size_bytes: what the caller expects: a frame that promises another size is refused before it costs memory.
        block: the hash that they must have, when the caller knows it.
        skew: where they will be put behind the begin of a page of a file: what is large then lies alike in memory, to be written as it is.
        verify: no when nobody gets these bytes but a block that is made of them, and verified.

    Raises:
        BadFrame: damaged, of another size, or its bases are not those that it was made with.
        Whatever ``fetch`` raises.
    """
    frame = parse(data)
    if frame.size_bytes != size_bytes:
        raise BadFrame(f"it holds {frame.size_bytes} bytes instead of {size_bytes}")
    if block not in (None, frame.block):
        raise BadFrame(f"it holds block {frame.block}")
    try:
        plain = _plain(frame, fetch, skew)
    except BadFrame:
        raise
    except ValueError as error:
        raise BadFrame(str(error)) from error
    if verify and block_hash(plain) != frame.block:
        raise BadFrame("its plain bytes do not match their hash" + _why(frame))
    return plain


def _plain(frame: Frame, fetch: Fetch, skew: int) -> bytes | memoryview:
    if frame.codec in (Codec.RAW, Codec.ZSTD):
        return unpack(frame.runs[0], frame.size_bytes)
    planes = [unpack(run, frame.count) for run in frame.runs]
    prediction = None
    if frame.predictor is not None:
        prediction = Prediction(frame.predictor, tuple((fetch(base.block), base.form) for base in frame.bases), frame.parameters)
    return from_planes(planes, frame.count, frame.form, prediction, tail=frame.tail, skew=skew)


def _why(frame: Frame) -> str:
    computed = frame.predictor is not None and frame.predictor is not Predictor.PREVIOUS
    return (
        " (this process rounds floats in another way than IEEE 754; look for a library that sets flush-to-zero)"
        if (computed and not exact())
        else ""
    )
