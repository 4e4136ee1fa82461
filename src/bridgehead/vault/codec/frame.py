"""Frame: one encoded block, self-describing. Parsed without trust: every length is checked before anything is allocated.

Little endian: ``BHc1``; codec, predictor, form, number of bases, of parameters, of runs, of tail bytes, 0 (one byte each); size of the
plain bytes (8); BLAKE3 of the plain bytes (32). Then the parameters (double each); the bases (form, 32 bytes BLAKE3 of the base's plain
bytes each); the runs (method, 4 bytes length each); the tail (bytes after the last whole element); the runs' bytes.
"""

from __future__ import annotations

import enum
import math
import struct
from typing import Final

import msgspec

from bridgehead.kernel.ids import BlockId
from bridgehead.vault.codec.forms import Form
from bridgehead.vault.codec.planes import Method, Run
from bridgehead.vault.codec.predict import Predictor

MAGIC: Final = b"BHc1"
"""The last character is the version of the frame."""
_HEAD: Final = struct.Struct("<4s8BQ32s")
_PARAMETER: Final = struct.Struct("<d")
_BASE: Final = struct.Struct("<B32s")
_RUN: Final = struct.Struct("<BI")


class Codec(enum.IntEnum):
    """How the plain bytes are written."""

    RAW = 0
    ZSTD = 1
    PLANES = 2
    PREDICTED = 3


class BadFrame(ValueError):
    """An encoded block is not what an encoder writes, or does not give the bytes that it promises."""


class BaseRef(msgspec.Struct, frozen=True):
    """A block that is needed to decode, and what its elements are."""

    block: BlockId
    form: Form


class Frame(msgspec.Struct, frozen=True):
    """One encoded block, taken apart. ``predictor`` is set exactly for PREDICTED."""

    codec: Codec
    form: Form
    size_bytes: int
    block: BlockId
    runs: tuple[Run, ...]
    tail: bytes = b""
    predictor: Predictor | None = None
    parameters: tuple[float, ...] = ()
    bases: tuple[BaseRef, ...] = ()

    @property
    def count(self) -> int:
        """Whole elements."""
        return self.size_bytes // self.form.width


def compose(frame: Frame) -> tuple[bytes | memoryview, ...]:
    """The bytes of a frame, in parts: the runs are not copied."""
    head = _HEAD.pack(
        MAGIC, frame.codec, frame.predictor or 0, frame.form, len(frame.bases), len(frame.parameters), len(frame.runs), len(frame.tail), 0,
        frame.size_bytes, bytes.fromhex(frame.block),
    )  # fmt: skip
    before = [
        head,
        *[_PARAMETER.pack(value) for value in frame.parameters],
        *[_BASE.pack(base.form, bytes.fromhex(base.block)) for base in frame.bases],
        *[_RUN.pack(run.method, len(run.payload)) for run in frame.runs],
        frame.tail,
    ]
    return (b"".join(before), *[run.payload for run in frame.runs])


def parse(data: bytes | memoryview) -> Frame:
    """Take a frame apart; the runs are views. Raises BadFrame."""
    view = memoryview(data)
    if len(view) < _HEAD.size or bytes(view[:4]) != MAGIC:
        raise BadFrame("it does not begin like an encoded block of a version that is known")
    _, codec, predictor, form, bases, parameters, runs, tail, zero, size, block = _HEAD.unpack_from(view)
    at = _HEAD.size
    if len(view) < at + parameters * _PARAMETER.size + bases * _BASE.size + runs * _RUN.size + tail or zero:
        raise BadFrame("its header is cut off")
    numbers = tuple(_PARAMETER.unpack_from(view, at + index * _PARAMETER.size)[0] for index in range(parameters))
    at += parameters * _PARAMETER.size
    refs = [_BASE.unpack_from(view, at + index * _BASE.size) for index in range(bases)]
    at += bases * _BASE.size
    lengths = [_RUN.unpack_from(view, at + index * _RUN.size) for index in range(runs)]
    at += runs * _RUN.size
    rest = bytes(view[at : at + tail])
    at += tail
    found = []
    try:
        for method, length in lengths:
            found.append(Run(Method(method), view[at : at + length]))
            at += length
        frame = Frame(
            codec=Codec(codec),
            form=Form(form),
            size_bytes=size,
            block=BlockId(block.hex()),
            runs=tuple(found),
            tail=rest,
            predictor=Predictor(predictor) if predictor else None,
            parameters=numbers,
            bases=tuple(BaseRef(BlockId(name.hex()), Form(base)) for base, name in refs),
        )
    except ValueError as error:
        raise BadFrame(f"its header names something unknown ({error})") from error
    fault = "it has another length than its runs" if at != len(view) else _fault(frame)
    if fault:
        raise BadFrame(fault)
    return frame


def _fault(frame: Frame) -> str:
    """Why the parts do not fit together; empty when they do."""
    predicted = frame.codec is Codec.PREDICTED
    runs = frame.form.width if predicted or frame.codec is Codec.PLANES else 1
    tail = frame.size_bytes % frame.form.width if runs > 1 or predicted else 0
    predictor = frame.predictor
    if len(frame.runs) != runs or len(frame.tail) != tail:
        return "its runs do not fit its codec"
    if predicted != (predictor is not None):
        return "its predictor does not fit its codec"
    bases, parameters = (predictor.bases, predictor.parameters) if predictor is not None else (0, 0)
    if len(frame.bases) != bases or len(frame.parameters) != parameters or not all(map(math.isfinite, frame.parameters)):
        return "its bases or parameters do not fit its predictor"
    if predictor is Predictor.PREVIOUS and frame.bases[0].form != frame.form:
        return "its base has another form"
    if predicted and predictor is not Predictor.PREVIOUS and not all(form.computable for form in _forms(frame)):
        return "its predictor cannot compute with its form"
    return ""


def _forms(frame: Frame) -> list[Form]:
    return [frame.form, *[base.form for base in frame.bases]]
