"""The codec on states of real optimizers: what is predicted, from what, and how well (design section 5; rules VS1)."""

import ctypes
import ctypes.util
import platform
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from bridgehead.kernel.hashing import block_hash
from bridgehead.vault.codec import Base, Candidate, Codec, Form, Hint, Predictor, decode, encode, encode_alike, form_of
from bridgehead.vault.codec.fit import fit
from bridgehead.vault.codec.predict import exact

COUNT = 40_000
F = np.float32


def block(values: np.ndarray, form: Form = Form.FLOAT32) -> Base:
    data = values.tobytes()
    return Base(block_hash(data), form, data)


def share(target: Base, *candidates: Candidate) -> tuple[float, Predictor | None]:
    store = {base.block: base.data for candidate in candidates for base in candidate.bases}
    encoded = encode(target.data, form=target.form, candidates=candidates)
    assert decode(encoded.data, size_bytes=len(target.data), fetch=store.__getitem__) == target.data
    return len(encoded.data) / len(target.data), encoded.frame.predictor


class Adam:
    """AdamW on noise, in the order of operations that trainers use."""

    def __init__(self, *, decay: float = 0.1, epsilon: float = 1e-8) -> None:
        self.random = np.random.default_rng(3)
        self.w = (self.random.standard_normal(COUNT) * 0.02).astype(F)
        self.m, self.v = np.zeros(COUNT, F), np.zeros(COUNT, F)
        self.t, self.decay, self.epsilon = 0, decay, epsilon

    def step(self, times: int = 1) -> tuple[Base, Base, Base]:
        for _ in range(times):
            self.t += 1
            g = (self.random.standard_normal(COUNT) * 1e-3).astype(F)
            g[: COUNT // 4] *= F(1e-5)  # where epsilon matters
            self.w *= F(1 - 3e-4 * self.decay)
            self.m += F(0.1) * (g - self.m)
            self.v = self.v * F(0.999) + F(0.001) * g * g
            root = np.sqrt(self.v) / F((1 - 0.999**self.t) ** 0.5) + F(self.epsilon)
            self.w -= F(3e-4 / (1 - 0.9**self.t)) * (self.m / root)
        return block(self.w), block(self.m), block(self.v)


@pytest.mark.parametrize(("decay", "epsilon"), [(0.1, 1e-8), (0.0, 1e-8), (0.1, 1e-6), (0.0, 1e-15)])
def test_weights_and_second_moment_follow_from_the_first_one_step_apart(decay: float, epsilon: float) -> None:
    adam = Adam(decay=decay, epsilon=epsilon)
    w0, m0, v0 = adam.step(50)
    w1, m1, v1 = adam.step()
    of_v, how_v = share(v1, Candidate(Predictor.PREVIOUS, (v0,)), Candidate(Predictor.SQUARES, (v0, m0, m1)))
    of_w, how_w = share(
        w1,
        Candidate(Predictor.PREVIOUS, (w0,)),
        Candidate(Predictor.MOMENTUM, (w0, m1, m0)),
        Candidate(Predictor.ADAM, (w0, m1, v1)),
        Candidate(Predictor.ADAM_FAR, (w0, m1, v1, m0, v0)),
    )
    assert how_v is Predictor.SQUARES
    assert how_w is Predictor.ADAM
    assert of_v < 0.07
    assert of_w < 0.04


def test_sgd_with_momentum_is_found_without_a_name() -> None:
    random = np.random.default_rng(5)
    w, m = (random.standard_normal(COUNT) * 0.02).astype(F), np.zeros(COUNT, F)
    for _ in range(30):
        w0, m0 = block(w), block(m)
        m = F(0.9) * m + (random.standard_normal(COUNT) * 1e-3).astype(F)
        w = w - F(0.01) * m
    found, how = share(
        block(w), Candidate(Predictor.ADAM, (w0, block(m), block(np.abs(m)))), Candidate(Predictor.MOMENTUM, (w0, block(m), m0))
    )
    assert how is Predictor.MOMENTUM
    assert found < 0.04


def test_several_steps_apart_both_ends_predict_better_than_the_difference() -> None:
    adam = Adam()
    w0, m0, v0 = adam.step(50)
    w1, m1, v1 = adam.step(10)
    difference, _ = share(w1, Candidate(Predictor.PREVIOUS, (w0,)))
    both, how = share(w1, Candidate(Predictor.PREVIOUS, (w0,)), Candidate(Predictor.ADAM_FAR, (w0, m1, v1, m0, v0)))
    assert how is Predictor.ADAM_FAR
    assert both < difference - 0.02


def test_moment_of_unused_rows_is_its_decay() -> None:
    random = np.random.default_rng(9)
    m0 = random.standard_normal(COUNT).astype(F)
    gradient = np.where(random.random(COUNT) < 0.2, random.standard_normal(COUNT), 0).astype(F)
    m1 = m0 * F(0.9) + F(0.1) * gradient
    found, how = share(block(m1), Candidate(Predictor.SCALED, (block(m0),)))
    assert how is Predictor.SCALED
    assert found < 0.3


def rounded(values: np.ndarray) -> np.ndarray:
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def test_VS1_rounded_copy_of_the_master_costs_nothing_and_exceptions_cost_little() -> None:
    master = (np.random.default_rng(1).standard_normal(COUNT) * 0.02).astype(F)
    copy = rounded(master)
    assert share(block(copy, Form.BFLOAT16), Candidate(Predictor.ROUNDED, (block(master),)))[0] < 0.005
    copy[::1000] += 3
    assert share(block(copy, Form.BFLOAT16), Candidate(Predictor.ROUNDED, (block(master),)))[0] < 0.02
    half = block(master.astype(np.float16), Form.FLOAT16)
    assert share(half, Candidate(Predictor.ROUNDED, (block(master),)))[0] < 0.005


def test_VS1_single_file_is_near_its_entropy() -> None:
    weights = (np.random.default_rng(1).standard_normal(1 << 20) * 0.02).astype(F)
    assert share(block(rounded(weights), Form.BFLOAT16))[0] < 1.01 / 1.51
    assert share(block(weights))[0] < 1.01 / 1.20


def test_identical_tensor_costs_nothing_and_a_new_one_is_not_made_to_depend() -> None:
    random = np.random.default_rng(2)
    old, new = (block(random.standard_normal(COUNT).astype(F)) for _ in range(2))
    assert share(old, Candidate(Predictor.PREVIOUS, (old,)))[0] < 0.005
    assert share(new, Candidate(Predictor.PREVIOUS, (old,), must_save=0.1))[1] is None


def test_saving_below_the_price_of_a_dependence_is_not_taken() -> None:
    adam = Adam()
    w0, _, _ = adam.step(50)
    w1, _, _ = adam.step(1)
    assert share(w1, Candidate(Predictor.PREVIOUS, (w0,), must_save=0.1))[1] is Predictor.PREVIOUS
    assert share(w1, Candidate(Predictor.PREVIOUS, (w0,), must_save=0.6))[1] is None


def test_text_is_compressed_and_noise_is_left_alone() -> None:
    text = b"learning rate: 0.0003\nweight decay: 0.1\n" * 400
    assert encode(text, form=Form.BYTES).frame.codec is Codec.ZSTD
    assert share(Base(block_hash(text), Form.BYTES, text))[0] < 0.05
    noise = np.random.default_rng(4).bytes(50_000)
    assert encode(noise, form=form_of("F8_E8M0")).frame.codec is Codec.RAW
    assert encode(noise, form=Form.FLOAT32).frame.codec is Codec.RAW


def test_this_machine_rounds_as_the_format_demands() -> None:
    assert exact()


def test_fit_gives_nothing_where_nothing_can_be_fitted() -> None:
    zero, nan = np.zeros(100, F), np.full(100, np.nan, F)
    for predictor in Predictor:
        if predictor.parameters:
            assert fit(predictor, nan, [nan] * predictor.bases) == []
            assert fit(predictor, zero, [zero] * predictor.bases) == []


def test_what_was_found_for_one_block_serves_the_next_one_and_is_refused_where_it_does_worse() -> None:
    adam = Adam()
    w0, _, _ = adam.step(50)
    w1, m1, v1 = adam.step()
    candidates = (Candidate(Predictor.PREVIOUS, (w0,)), Candidate(Predictor.ADAM, (w0, m1, v1)))
    searched = encode(w1.data, form=w1.form, candidates=candidates)
    assert searched.frame.predictor is Predictor.ADAM
    size, hint = searched.size_bytes, Hint(Predictor.ADAM, searched.frame.parameters, searched.share)
    alike = encode_alike(w1.data, form=w1.form, hint=hint, candidates=candidates)
    assert alike is not None
    assert alike.size_bytes == size
    store = {base.block: base.data for base in (w0, m1, v1)}
    assert decode(alike.data, size_bytes=len(w1.data), fetch=store.__getitem__) == w1.data
    assert encode_alike(w1.data, form=w1.form, hint=hint) is None, "its bases are not there"
    wrong = Hint(Predictor.ADAM, (0.5, *searched.frame.parameters[1:]), searched.share)
    assert encode_alike(w1.data, form=w1.form, hint=wrong, candidates=candidates) is None
    planes = encode(w1.data, form=w1.form, only=Codec.PLANES)
    alone = encode_alike(w1.data, form=w1.form, hint=Hint(None, (), planes.share))
    assert alone is not None
    assert alone.frame.codec is Codec.PLANES
    noise = np.random.default_rng(1).bytes(len(w1.data))
    assert encode_alike(noise, form=w1.form, hint=Hint(None, (), planes.share)) is None
    assert encode_alike(b"", form=w1.form, hint=Hint(None, (), planes.share)) is None
    assert encode_alike(w1.data, form=w1.form, hint=Hint(None, (), planes.share * 1.2)) is None, (
        "another kind of block: something else may do better"
    )


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the test knows the control word of x86-64 only")
@pytest.mark.parametrize("bits", [0x8000, 0x0040, 0x8040, 0x4000, 0x2000], ids=["flush", "denormals-are-zero", "both", "up", "down"])
def test_a_thread_whose_processor_is_in_another_mode_is_known_and_only_that_one(bits: int) -> None:
    """As after torch.set_flush_denormal or fesetround, between any two blocks."""
    libm = ctypes.CDLL(ctypes.util.find_library("m") or "libm.so.6")

    def switch(on: bool) -> None:
        environment = ctypes.create_string_buffer(32)
        libm.fegetenv(environment)
        word = int.from_bytes(environment[28:32], "little")
        environment[28:32] = (word | bits if on else word & ~bits).to_bytes(4, "little")
        libm.fesetenv(environment)

    def asked(on: bool) -> bool:
        switch(on)
        return exact()

    assert exact()
    with ThreadPoolExecutor(1) as other:
        assert other.submit(asked, True).result() is False
        assert exact()
        assert other.submit(asked, False).result() is True
