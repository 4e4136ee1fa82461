"""Which blocks may predict which: names give hints, shapes and places decide (design section 5)."""

import pytest

from bridgehead.model.snapshot import TensorEntry
from bridgehead.vault.codec import Form, Predictor
from bridgehead.vault.encoding import ALIGNED_ELEMENTS, aligned, slots_of
from bridgehead.vault.pairing import Family, Guess, Slot


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
    assert family.members() == [[3, 1, 2, 0]], "what predicts comes first"
    assert [family.predicts(index) for index in range(4)] == [False, True, True, True], "a copy is of no use for the others"


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
    size = 5 * ALIGNED_ELEMENTS
    tensors = [tensor("copy", "BF16", 8, size), tensor("master", "F32", 8 + size, 2 * size)]
    places = [(8, 4 * ALIGNED_ELEMENTS), (8 + 4 * ALIGNED_ELEMENTS, ALIGNED_ELEMENTS)]
    places += [(8 + size + at, min(8 * ALIGNED_ELEMENTS, 2 * size - at)) for at in range(0, 2 * size, 8 * ALIGNED_ELEMENTS)]
    slots = slots_of("p", tensors, aligned("p", tensors, places))
    copy, master = ([(found.first, found.count) for found in slots if found.tensor == name] for name in ("copy", "master"))
    assert copy == master
    assert len(copy) == 3


def test_second_tensor_of_the_same_name_and_place_predicts_nothing() -> None:
    family = Family([slot("w"), slot("m.w"), slot("w"), slot("other"), slot("ints", Form.INT32)])
    assert family.members() == [[1, 0, 2], [3], [4]]
    assert [family.predicts(index) for index in range(5)] == [True, True, False, True, True]


@pytest.mark.parametrize(
    "paths",
    [
        {rank: (f"rank-{rank}/model.pt", f"rank-{rank}/optim.pt", f"rank-{rank}/optim.pt") for rank in range(3)},
        {rank: (f"mp_rank_{rank:02}.pt",) * 3 for rank in range(3)},
        {rank: (f"model/shard-{rank}.pt", f"optim/shard-{rank}.pt", f"optim/shard-{rank}.pt") for rank in range(3)},
    ],
    ids=["folders", "files", "numbers"],
)
def test_tensors_of_one_name_are_predicted_within_their_rank(paths: dict[int, tuple[str, str, str]]) -> None:
    names = ("w", "m.w", "v.w")
    slots = [Slot(path, name, (8, 8), Form.FLOAT32, 0, 256) for name, *ranks in zip(names, *paths.values(), strict=True) for path in ranks]
    family = Family(slots)
    assert family.members() == [[rank + 3, rank + 6, rank] for rank in range(3)]
    assert all(family.predicts(index) for index in range(9))
    for rank in range(3):
        assert Guess(Predictor.ADAM, ((rank, True), (rank + 3, False), (rank + 6, False))) in list(family.guesses(rank))


def test_files_of_layers_whose_tensors_have_one_name_are_families_of_their_own() -> None:
    """Each is encoded by another thread, and kept for the next save."""
    slots = [Slot(f"layer-{number}.safetensors", "weight", (8, 8), Form.FLOAT32, 0, 256) for number in range(40)]
    family = Family(slots)
    assert family.members() == [[number] for number in range(40)]
    assert all(family.predicts(number) for number in range(40))
    assert list(family.guesses(7)) == [Guess(Predictor.PREVIOUS, ((7, True),))]
