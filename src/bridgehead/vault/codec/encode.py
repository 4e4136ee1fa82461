"""Encode: the shortest of what a sample promises. The same bits come back whatever form or bases are suggested."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

from bridgehead.kernel.hashing import block_hash
from bridgehead.kernel.ids import BlockId
from bridgehead.vault.codec.fit import Parameters, fit
from bridgehead.vault.codec.forms import Bits, Form, elements
from bridgehead.vault.codec.frame import BaseRef, Codec, Frame, compose
from bridgehead.vault.codec.kernels import Prediction, to_planes
from bridgehead.vault.codec.planes import Level, Method, Run, estimate, pack
from bridgehead.vault.codec.predict import Predictor, exact, widen

MAX_PLAIN_BYTES: Final = 1 << 30
SAMPLE_RUNS: Final = 16
SAMPLE_RUN: Final = 512
"""Elements of a trial: 16 stretches of 512."""
_FIRST_LOOK: Final = 1 << 14
_ALIKE: Final = (0.9, 1.01)
"""A hint is taken when its share on this block is between these times the one it had. What is much smaller is another kind of block, for
which something else may do better still."""
_EXCELLENT: Final = 0.07
"""A prediction below this share ends the search."""


class Base(msgspec.Struct, frozen=True):
    """A block whose plain bytes the decoder will have, too."""

    block: BlockId
    form: Form
    data: bytes | memoryview


class Candidate(msgspec.Struct, frozen=True):
    """A prediction worth a trial.

    Attributes:
        bases: in the order that the predictor says.
        parameters: tried instead of a fit when given (those of the tensor's block before).
        must_save: share of the size without it that it has to save, as the price of a dependence: one more block that must be
            there and be decoded.
    """

    predictor: Predictor
    bases: tuple[Base, ...]
    parameters: tuple[Parameters, ...] = ()
    must_save: float = 0.0


class Encoded(NamedTuple):
    """An encoded block in parts, what it turned out to be, and the share of the size that its sample promised.

    Parts and runs are good until this thread encodes the next block: they may lie in memory that it uses again.
    """

    parts: tuple[bytes | memoryview, ...]
    frame: Frame
    share: float

    @property
    def size_bytes(self) -> int:
        """Of all parts."""
        return sum(map(len, self.parts))

    @property
    def data(self) -> bytes:
        """All parts as one copy, which stays."""
        return b"".join(self.parts)


class Hint(NamedTuple):
    """What was found for the block before of the same tensor: taken without a search when it does as well here."""

    predictor: Predictor | None
    parameters: Parameters
    share: float


class _Option(msgspec.Struct, frozen=True):
    codec: Codec
    share: float
    candidate: Candidate | None = None
    parameters: Parameters = ()


def encode(
    data: bytes | memoryview,
    *,
    form: Form,
    candidates: Sequence[Candidate] = (),
    block: BlockId | None = None,
    only: Codec | Predictor | None = None,
) -> Encoded:
    """Encode a block in the best way of all that a sample shows.

    Args:
        form: what the bytes are believed to be.
        candidates: predictions to try, the most promising first; those whose bases do not fit are passed over.
        block: the hash of ``data`` where it is known already.
        only: take this codec or predictor without regard to size (ValueError when it cannot be used); for tests and measurements.
    """
    bits = _elements(data, form)
    return _written(data, bits, form, _best(data, bits, form, candidates, only), block, only=only)


def encode_alike(
    data: bytes | memoryview, *, form: Form, hint: Hint, candidates: Sequence[Candidate] = (), block: BlockId | None = None
) -> Encoded | None:
    """Encode a block as a block of the same tensor was, without a search; None where that does not do as well here, or cannot be done.

    Args:
        candidates: as for ``encode``; only one with the predictor of the hint is used.
    """
    bits = _elements(data, form)
    best = _hinted(bits, form, candidates, hint)
    return _written(data, bits, form, best, block, only=None) if best is not None else None


def _elements(data: bytes | memoryview, form: Form) -> Bits:
    if len(data) > MAX_PLAIN_BYTES:
        raise ValueError(f"a block has at most {MAX_PLAIN_BYTES} bytes")
    return elements(data, form)


def _hinted(bits: Bits, form: Form, candidates: Sequence[Candidate], hint: Hint) -> _Option | None:
    if len(bits) == 0:
        return None
    places = _places(len(bits))
    if hint.predictor is None:
        found = _Option(Codec.PLANES, _share(bits[places], form))
    else:
        same = (each for each in candidates if each.predictor is hint.predictor and _fits(each, form, len(bits)))
        candidate = next(same, None)
        if candidate is None or (hint.predictor is not Predictor.PREVIOUS and not exact()):
            return None
        candidate = msgspec.structs.replace(candidate, parameters=(hint.parameters,))
        found = next(_trials(candidate, bits[places], places, form, ()))
    least, most = (hint.share * times for times in _ALIKE)
    return found if found.share < _EXCELLENT or least <= found.share <= most else None


def _best(data: bytes | memoryview, bits: Bits, form: Form, candidates: Sequence[Candidate], only: Codec | Predictor | None) -> _Option:
    options = list(_options(data, bits, form, candidates, exhaustive=only is not None))
    if only is not None:
        options = [option for option in options if only in (option.codec, option.candidate and option.candidate.predictor)]
        if not options:
            raise ValueError(f"{only.name} cannot be used here")
    plain = min((option.share for option in options if option.candidate is None), default=1.0)
    worth = [option for option in options if only or option.candidate is None or option.share <= plain * (1 - option.candidate.must_save)]
    # Nearly the same with fewer bases is better: each is a block that must be there to restore.
    return min(worth, key=lambda option: option.share * (1 + 0.01 * len(option.candidate.bases if option.candidate else ())))


def _written(
    data: bytes | memoryview, bits: Bits, form: Form, best: _Option, block: BlockId | None, *, only: Codec | Predictor | None
) -> Encoded:
    frame = _frame(data, bits, form, best, block or BlockId(block_hash(data)))
    if only is None and frame.codec is not Codec.RAW and sum(len(run.payload) for run in frame.runs) >= len(data):
        frame = _frame(data, bits, form, _Option(Codec.RAW, 1.0), frame.block)
    return Encoded(compose(frame), frame, best.share)


def _options(data: bytes | memoryview, bits: Bits, form: Form, candidates: Sequence[Candidate], *, exhaustive: bool) -> Iterator[_Option]:
    yield _Option(Codec.RAW, 1.0)
    if len(data) == 0:
        return
    look = memoryview(data)[: _FIRST_LOOK * 2]
    yield _Option(Codec.ZSTD, len(pack(np.frombuffer(look, np.uint8), (Level.USUAL,)).payload) / len(look))
    if len(bits) == 0:
        return
    places = _places(len(bits))
    sample = bits[places]
    yield _Option(Codec.PLANES, _share(sample, form))
    machine_is_exact: bool | None = None
    epsilons: list[float] = []
    for candidate in candidates:
        if not _fits(candidate, form, len(bits)):
            continue
        if candidate.predictor is not Predictor.PREVIOUS:
            machine_is_exact = exact() if machine_is_exact is None else machine_is_exact
            if not machine_is_exact:
                continue
        trials = list(_trials(candidate, sample, places, form, epsilons))
        yield from trials
        if not exhaustive and any(trial.share < _EXCELLENT for trial in trials):
            return
        if candidate.predictor is Predictor.ADAM:
            epsilons = [trial.parameters[2] for trial in trials]


def _trials(candidate: Candidate, sample: Bits, places: Any, form: Form, epsilons: Sequence[float]) -> Iterator[_Option]:
    bases = [(elements(base.data, base.form)[places], base.form) for base in candidate.bases]
    parameters: Sequence[Parameters] = candidate.parameters
    if not parameters and candidate.predictor.parameters == 0:
        parameters = [()]
    elif not parameters:
        wide = np.dtype(np.float64)
        parameters = fit(
            candidate.predictor, widen(sample, form, wide), [widen(bits, base, wide) for bits, base in bases], epsilons=epsilons
        )
    for values in parameters:
        prediction = Prediction(candidate.predictor, tuple((base.tobytes(), of) for base, of in bases), values)
        yield _Option(Codec.PREDICTED, _share(sample, form, prediction), candidate, values)


def _share(sample: Bits, form: Form, prediction: Prediction | None = None) -> float:
    return estimate(to_planes(sample.tobytes(), form, prediction)) / sample.nbytes


def _fits(candidate: Candidate, form: Form, count: int) -> bool:
    predictor, forms = candidate.predictor, [base.form for base in candidate.bases]
    if len(forms) != predictor.bases or any(len(base.data) // base.form.width != count for base in candidate.bases):
        return False
    if predictor is Predictor.PREVIOUS:
        return forms == [form]
    return all(each.computable for each in (form, *forms))


def _places(count: int) -> Any:
    """Indices of the sample; everything when that is not much more."""
    if count <= SAMPLE_RUNS * SAMPLE_RUN:
        return slice(0, count)
    begins = np.linspace(0, count - SAMPLE_RUN, SAMPLE_RUNS).astype(np.int64)
    return (begins[:, None] + np.arange(SAMPLE_RUN)).reshape(-1)


def _frame(data: bytes | memoryview, bits: Bits, form: Form, option: _Option, block: BlockId) -> Frame:
    if option.codec is Codec.RAW:
        return Frame(Codec.RAW, form, len(data), block, (Run(Method.STORED, data),))
    if option.codec is Codec.ZSTD:
        return Frame(Codec.ZSTD, form, len(data), block, (pack(np.frombuffer(data, np.uint8), (Level.USUAL, Level.THOROUGH)),))
    candidate, prediction = option.candidate, None
    if candidate is not None:
        prediction = Prediction(candidate.predictor, tuple((base.data, base.form) for base in candidate.bases), option.parameters)
    planes = to_planes(data, form, prediction)
    return Frame(
        option.codec,
        form,
        len(data),
        block,
        tuple(pack(plane) for plane in planes),
        tail=bytes(memoryview(data)[len(bits) * form.width :]),
        predictor=candidate.predictor if candidate else None,
        parameters=option.parameters,
        bases=tuple(BaseRef(base.block, base.form) for base in candidate.bases) if candidate else (),
    )
