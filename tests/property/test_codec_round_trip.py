"""Whatever is encoded comes back bit for bit; whatever is decoded ends in right bytes or in a ValueError (V03, V30, V31)."""

import random
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from bridgehead.kernel.hashing import block_hash
from bridgehead.vault.codec import BadFrame, Base, Candidate, Codec, Form, Predictor, decode, encode, form_of
from bridgehead.vault.codec.forms import ordered, rotate, unordered, unrotate, unzigzag, zigzag
from bridgehead.vault.codec.frame import parse

forms = st.sampled_from(list(Form))
SPECIAL = [0.0, -0.0, float("inf"), float("-inf"), float("nan"), 1e-45, -1e-45, 1.1754942e-38, 3.4e38, 1.0, -2.5e-3]
floats = st.one_of(st.sampled_from(SPECIAL), st.floats(width=32))
signalling = st.sampled_from([b"\x01\x00\x80\x7f", b"\x01\x00\x80\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x80"])
pieces = st.one_of(st.binary(max_size=40), signalling, st.builds(lambda values: struct.pack(f"<{len(values)}f", *values), st.lists(floats)))
blobs = st.one_of(
    st.lists(pieces, max_size=8).map(b"".join),
    st.builds(lambda piece, times: piece * times, pieces, st.integers(0, 200)),
    st.integers(0, 9).map(lambda seed: np.random.default_rng(seed).standard_normal(3000).astype(np.float32).tobytes()),
)


def base(data: bytes, form: Form) -> Base:
    return Base(block_hash(data), form, data)


@st.composite
def candidates(draw: st.DrawFn, data: bytes, form: Form) -> list[Candidate]:
    """Predictions from right, near, wrong and garbage bases."""
    count = len(data) // form.width
    found = []
    for predictor in draw(st.lists(st.sampled_from(list(Predictor)), max_size=4)):
        bases = []
        for _ in range(draw(st.sampled_from([predictor.bases, predictor.bases, predictor.bases, predictor.bases + 1, 0]))):
            of = draw(st.one_of(st.just(form), forms))
            size = count * of.width
            bases.append(base(draw(st.one_of(st.just(data), st.just((data * 8)[:size]), st.just(bytes(size)), st.binary(max_size=60))), of))
        found.append(Candidate(predictor, tuple(bases)))
    return found


@settings(max_examples=250, deadline=None)
@given(data=blobs, form=forms, draws=st.data())
def test_chosen_encoding_gives_the_bits_back_and_costs_at_most_a_header(data: bytes, form: Form, draws: st.DataObject) -> None:
    tried = draws.draw(candidates(data, form))
    encoded = encode(data, form=form, candidates=tried)
    store = {each.block: each.data for candidate in tried for each in candidate.bases}
    assert decode(encoded.data, size_bytes=len(data), fetch=store.__getitem__) == data
    assert len(encoded.data) <= len(data) + 700
    assert encoded.frame.block == block_hash(data)


@settings(max_examples=250, deadline=None)
@given(data=blobs, form=forms, only=st.sampled_from([*Codec, *Predictor]), draws=st.data())
def test_forced_encoding_gives_the_bits_back(data: bytes, form: Form, only: Codec | Predictor, draws: st.DataObject) -> None:
    count = len(data) // form.width
    other = draws.draw(st.one_of(st.just(data), st.just((data[::-1] * 2)[: len(data)]), st.just(bytes(len(data)))))
    tried = [Candidate(each, (base(other, form),) * each.bases, parameters=((0.5,) * each.parameters,)) for each in Predictor]
    try:
        encoded = encode(data, form=form, candidates=tried, only=only)
    except ValueError:
        assert only is not Codec.RAW
        assert count == 0 or not form.computable
        return
    assert only in (encoded.frame.codec, encoded.frame.predictor)
    assert decode(encoded.data, size_bytes=len(data), fetch=lambda _: other) == data


@settings(max_examples=100, deadline=None)
@given(
    bits=st.sampled_from([np.uint8, np.uint16, np.uint32, np.uint64]).flatmap(
        lambda kind: arrays.arrays(kind, st.integers(0, 50), elements=st.integers(0, np.iinfo(kind).max))
    ),
    float_form=st.booleans(),
)
def test_steps_are_bijections(bits: np.ndarray, float_form: bool) -> None:
    form = {1: (Form.BYTES, Form.FLOAT8), 2: (Form.INT16, Form.BFLOAT16), 4: (Form.INT32, Form.FLOAT32), 8: (Form.INT64, Form.FLOAT64)}[
        bits.itemsize
    ][float_form]
    assert np.array_equal(unrotate(rotate(bits, form), form), bits)
    assert np.array_equal(unordered(ordered(bits, form), form), bits)
    assert np.array_equal(unzigzag(zigzag(bits)), bits)


def test_ordered_integers_are_in_the_order_of_the_floats() -> None:
    values = np.array([-np.inf, -3.5, -1e-45, -0.0, 0.0, 1e-45, 2.0, np.inf], np.float32)
    numbers = ordered(values.view(np.uint32), Form.FLOAT32)
    assert (np.diff(numbers.astype(np.int64)) > 0).all()


def test_V03_names_of_dtypes_that_nobody_knows_are_bytes() -> None:
    assert [form_of(name) for name in ("F8_E8M0", "F4", "BOOL", "WHAT")] == [Form.BYTES] * 4
    assert form_of("F8_E4M3") is Form.FLOAT8


def samples() -> list[tuple[bytes, bytes]]:
    """Encoded blocks of every codec, each with its base."""
    weights = np.random.default_rng(0).standard_normal(2000).astype(np.float32)
    data, other = weights.tobytes() + b"\x07", (weights * np.float32(1.001)).tobytes() + b"\x07"
    tried = [Candidate(each, (base(other, Form.FLOAT32),) * each.bases, ((0.5,) * each.parameters,)) for each in Predictor]
    return [
        (encode(data, form=Form.FLOAT32, candidates=tried, only=only).data, other)
        for only in [Codec.RAW, Codec.ZSTD, Codec.PLANES, *Predictor]
    ]


@pytest.mark.parametrize("number", range(10))
def test_V31_every_flip_cut_and_wrong_base_ends_in_a_value_error(number: int) -> None:
    encoded, other = samples()[number]
    stream, size = random.Random(number), 8001
    for _ in range(150):
        broken = bytearray(encoded)
        at = stream.choice([stream.randrange(min(120, len(broken))), stream.randrange(len(broken))])
        broken[at] ^= 1 << stream.randrange(8)
        try:
            found = decode(bytes(broken), size_bytes=size, fetch=lambda _: other)
        except ValueError:
            continue
        # Some bits carry no meaning (the name of a base, which ``fetch`` here does not look at): then the bytes are the right ones.
        assert block_hash(found) == parse(encoded).block
    for end in (0, 3, 40, 60, len(encoded) // 2, len(encoded) - 1):
        with pytest.raises(BadFrame):
            decode(encoded[:end], size_bytes=size, fetch=lambda _: other)
    with pytest.raises(BadFrame):
        decode(encoded + b"x", size_bytes=size, fetch=lambda _: other)
    with pytest.raises(BadFrame, match="instead of 17"):
        decode(encoded, size_bytes=17, fetch=lambda _: other)
    if parse(encoded).bases:
        for wrong in (bytes(8001), other[:4000], b""):
            with pytest.raises(BadFrame):
                decode(encoded, size_bytes=size, fetch=lambda _, wrong=wrong: wrong)


@settings(max_examples=200, deadline=None)
@given(data=st.one_of(st.binary(max_size=300), st.binary(max_size=300).map(lambda rest: b"BHc1" + rest)))
def test_garbage_is_refused(data: bytes) -> None:
    with pytest.raises(BadFrame):
        decode(data, size_bytes=100, fetch=lambda _: b"")


def test_stream_that_promises_too_much_is_refused_before_memory_is_taken() -> None:
    import zstandard

    plain = bytes(1000)
    good = encode(plain, form=Form.BYTES, only=Codec.ZSTD).data
    payload = parse(good).runs[0].payload
    for stated in (True, False):
        bomb = zstandard.ZstdCompressor(write_content_size=stated).compress(bytes(1 << 28))
        head = bytearray(good[: len(good) - len(payload)])
        head[-4:] = struct.pack("<I", len(bomb))
        with pytest.raises(BadFrame):
            decode(bytes(head) + bomb, size_bytes=1000, fetch=lambda _: b"")
