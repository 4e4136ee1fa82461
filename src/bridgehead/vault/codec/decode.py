"""Decode: the plain bytes of an encoded block, hashed before they are given out (V30, V31)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId
from bridgehead.vault.codec.forms import Bits, Form, elements, ordered, unordered, unrotate, unzigzag
from bridgehead.vault.codec.frame import BadFrame, Codec, Frame, parse
from bridgehead.vault.codec.planes import ByteArray, gather, unpack
from bridgehead.vault.codec.predict import CHUNK, Predictor, exact, predict

Fetch = Callable[[BlockId], bytes | memoryview]
"""The plain bytes of a base."""


def decode(data: bytes | memoryview, *, size_bytes: int, fetch: Fetch, block: BlockId | None = None) -> bytes:
    """The plain bytes. ``size_bytes`` is what the caller expects: a frame that promises another size is refused before it costs memory.
    ``block`` is the hash that they must have, when the caller knows it.

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
        plain = _plain(frame, fetch)
    except BadFrame:
        raise
    except ValueError as error:
        raise BadFrame(str(error)) from error
    if block_hash(plain) != frame.block:
        raise BadFrame("its plain bytes do not match their hash" + _why(frame))
    return plain


def _plain(frame: Frame, fetch: Fetch) -> bytes:
    if frame.codec in (Codec.RAW, Codec.ZSTD):
        return bytes(unpack(frame.runs[0], frame.size_bytes))
    planes: list[ByteArray] = [np.frombuffer(unpack(run, frame.count), dtype=np.uint8) for run in frame.runs]
    bases = _bases(frame, fetch)
    out = np.empty(frame.count, dtype=f"<u{frame.form.width}")
    for begin in range(0, frame.count, CHUNK):
        end = min(begin + CHUNK, frame.count)
        bits = gather(planes, begin, end)
        if frame.predictor is None:
            out[begin:end] = unrotate(bits, frame.form)
        else:
            guess = predict(frame.predictor, [(base[begin:end], form) for base, form in bases], frame.parameters, frame.form)
            out[begin:end] = unordered(ordered(guess, frame.form) + unzigzag(bits), frame.form)
    return out.tobytes() + frame.tail


def _bases(frame: Frame, fetch: Fetch) -> list[tuple[Bits, Form]]:
    bases = []
    for base in frame.bases:
        bits = elements(fetch(base.block), base.form)
        if len(bits) != frame.count:
            raise BadFrame(f"base {base.block} has {len(bits)} elements instead of {frame.count}")
        bases.append((bits, base.form))
    return bases


def _why(frame: Frame) -> str:
    computed = frame.predictor is not None and frame.predictor is not Predictor.PREVIOUS
    return (
        " (this process rounds floats in another way than IEEE 754; look for a library that sets flush-to-zero)"
        if (computed and not exact())
        else ""
    )
