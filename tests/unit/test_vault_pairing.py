"""Which blocks may predict which: names give hints, shapes and places decide (design section 5)."""

import pytest

from bridgehead.model.snapshot import TensorEntry
from bridgehead.vault.codec import Form, Predictor
from bridgehead.vault.encoding import ALIGNED_BYTES, aligned, slots_of
from bridgehead.vault.pairing import Family, Guess, Slot, in_order


def slot(name: str, form: Form = Form.FLOAT32, *, shape: tuple[int, ...] = (8, 8), first: int = 0) -> Slot:
    return Slot("s.safetensors", name, shape, form, first, 64 * form.width)


@pytest.mark.parametrize(
    ("weights", "first", "second", "copy"),
    [
        ("master.layer.0.weight", "exp_avg.layer.0.weight", "exp_avg_sq.layer.0.weight", "model.layer.0.weight"),
        ("weights/wte", "m/wte", "v/wte", "model/wte"),
        ("optimizer.state.fp32.h.1", "optimizer.state.h.1.exp_avg", "optimizer.state.h.1.exp_avg_sq", "h.1"),
    ],
)
def test_moments_master_and_copy_are_found_by_usual_names(weights: str, first: str, second: str, copy: str) -> None:
    slots = [slot(copy, Form.BFLOAT16), slot(second), slot(weights), slot(first)]
    family = Family(slots)
    assert Guess(Predictor.ROUNDED, ((2, False),)) in list(family.guesses(0))
    assert Guess(Predictor.SQUARES, ((1, True), (3, True), (3, False))) in list(family.guesses(1))
    assert Guess(Predictor.ADAM, ((2, True), (3, False), (1, False))) in list(family.guesses(2))
    assert Guess(Predictor.SCALED, ((3, True),)) in list(family.guesses(3))
    assert in_order(slots) == [[3], [1], [2], [0]]


def test_other_layers_shapes_and_places_are_no_kin() -> None:
    slots = [slot("w.0"), slot("m.1"), slot("m.0", shape=(64,)), slot("m.0", first=64)]
    assert [guess.predictor for guess in Family(slots).guesses(0)] == [Predictor.PREVIOUS]


def test_bf16_weights_without_master_are_predicted_themselves() -> None:
    slots = [slot("w", Form.BFLOAT16), slot("m.w"), slot("v.w")]
    assert Guess(Predictor.ADAM, ((0, True), (1, False), (2, False))) in list(Family(slots).guesses(0))


def tensor(name: str, dtype: str, offset: int, size: int) -> TensorEntry:
    return TensorEntry(name, dtype, (size,), offset, size)


def test_slots_say_what_a_piece_holds() -> None:
    tensors = [tensor("a", "F32", 100, 400), tensor("b", "F32", 500, 40), tensor("c", "BF16", 540, 60), tensor("d", "F32", 601, 8)]
    slots = slots_of("p", tensors, [(0, 100), (100, 200), (300, 240), (540, 60), (540, 69), (600, 9)])
    assert [(found.tensor, found.form, found.first) for found in slots] == [
        ("", Form.BYTES, 0),
        ("a", Form.FLOAT32, 0),
        ("a", Form.FLOAT32, 50),
        ("c", Form.BFLOAT16, 0),
        ("", Form.BYTES, 540),
        ("", Form.BYTES, 600),
    ]


def test_copy_is_cut_at_the_places_of_its_master() -> None:
    tensors = [tensor("copy", "BF16", 8, 5 * ALIGNED_BYTES // 2), tensor("master", "F32", 8 + 5 * ALIGNED_BYTES // 2, 5 * ALIGNED_BYTES)]
    places = [(8, 2 * ALIGNED_BYTES), (8 + 2 * ALIGNED_BYTES, ALIGNED_BYTES // 2)]
    places += [
        (8 + 5 * ALIGNED_BYTES // 2 + at, min(2 * ALIGNED_BYTES, 5 * ALIGNED_BYTES - at))
        for at in range(0, 5 * ALIGNED_BYTES, 2 * ALIGNED_BYTES)
    ]
    slots = slots_of("p", tensors, aligned("p", tensors, places))
    copy, master = ([(found.first, found.count) for found in slots if found.tensor == name] for name in ("copy", "master"))
    assert copy == master
    assert len(copy) == 3
