from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from bridgehead.app.demo import corpus, model
from bridgehead.app.demo.vocabulary import Vocabulary
from bridgehead.kernel.errors import BridgeheadError
from bridgehead.training.state import Capture, decode

SIZE_BYTES = 400_000


@pytest.fixture(scope="module")
def text() -> str:
    return corpus.collect(size_bytes=SIZE_BYTES).decode("utf-8", errors="replace")


@pytest.fixture(scope="module")
def vocabulary(text: str) -> Vocabulary:
    return Vocabulary.build(text, size=model.VOCABULARY_SIZE)


@pytest.fixture(scope="module")
def tokens(text: str, vocabulary: Vocabulary):
    return vocabulary.encode_corpus(text)


def test_corpus_has_exactly_the_size_and_always_the_same_bytes(tmp_path: Path) -> None:
    assert corpus.write(tmp_path / "a", size_bytes=SIZE_BYTES) == corpus.write(tmp_path / "b", size_bytes=SIZE_BYTES)
    assert (tmp_path / "a" / corpus.FILE_NAME).stat().st_size == SIZE_BYTES
    assert corpus.read(tmp_path / "a").startswith(corpus.collect(size_bytes=100).decode())
    assert len(corpus.collect()) == corpus.DEFAULT_SIZE_BYTES, "this Python has enough of it"


def test_corpus_that_is_too_large_or_missing_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(BridgeheadError, match="short of"):
        corpus.collect(size_bytes=10**9)
    with pytest.raises(BridgeheadError, match="read the training text"):
        corpus.read(tmp_path)


def test_vocabulary_loses_no_known_character(vocabulary: Vocabulary, text: str) -> None:
    sample = "def unfrequent_xyzzy(a, b):\n\treturn {a: 'b', 12345: \"q\"}  # ~^\n" + text[:2000]
    assert vocabulary.decode(vocabulary.encode(sample)) == sample
    assert vocabulary.encode("日") == [0]
    assert len(set(vocabulary.tokens)) == len(vocabulary.tokens) == model.VOCABULARY_SIZE


def test_loss_goes_down_by_a_quarter_within_300_steps(tokens) -> None:
    learner = model.Learner.fresh(seed=1)
    begin_s = time.process_time()
    losses = [learner.step(number, tokens) for number in range(1, 301)]
    print(f"a step costs {(time.process_time() - begin_s) / 300 * 1000:.1f} ms of processor time")
    assert np.mean(losses[-20:]) < 0.75 * np.mean(losses[:5])
    size = sum(array.nbytes for part in learner.state().values() for array in part.values())
    assert 3e6 < size < 10e6


def test_resumed_from_a_snapshot_is_bit_identical_to_uninterrupted(tokens) -> None:
    straight = model.Learner.fresh(seed=7)
    for number in range(1, 41):
        straight.step(number, tokens)
    first = model.Learner.fresh(seed=7)
    for number in range(1, 18):
        first.step(number, tokens)
    capture = Capture()
    capture.take(first.state())
    second = model.Learner.from_state(decode(capture.files()), seed=7)
    for number in range(18, 41):
        second.step(number, tokens)
    for part in ("weights", "m", "v"):
        assert model.weights_hash(second.state()[part]) == model.weights_hash(straight.state()[part])
    other = model.Learner.fresh(seed=8)
    assert model.weights_hash(other.weights) != model.weights_hash(model.Learner.fresh(seed=7).weights)


def test_gradients_are_right(tokens) -> None:
    """Against central differences, in a few entries of each weight."""
    weights = {name: array.astype(np.float64) for name, array in model.initial_weights(seed=3).items()}
    random = np.random.default_rng(5)
    context = random.integers(0, model.VOCABULARY_SIZE, size=(model.BATCH, model.CONTEXT))
    target = random.integers(0, model.VOCABULARY_SIZE, size=model.BATCH)
    _, gradients = model._loss_and_gradients(weights, context, target)
    for name, gradient in gradients.items():
        flat = np.abs(gradient).reshape(-1)
        for index in np.argsort(flat)[-3:]:
            place = np.unravel_index(index, gradient.shape)
            kept = weights[name][place]
            losses = []
            for shift in (1e-5, -1e-5):
                weights[name][place] = kept + shift
                losses.append(model._loss_and_gradients(weights, context, target)[0])
            weights[name][place] = kept
            assert gradient[place] == pytest.approx((losses[0] - losses[1]) / 2e-5, rel=1e-3), name


def test_answers_are_deterministic_and_a_longer_one_begins_with_the_shorter(vocabulary: Vocabulary, tokens) -> None:
    learner = model.Learner.fresh(seed=1)
    for number in range(1, 30):
        learner.step(number, tokens)
    answerer = model.Answerer(learner.weights, vocabulary)
    assert answerer.model_hash == model.weights_hash(learner.weights)
    before = [answerer.tokens(prompt, 16) for prompt in model.prompts(50)]
    learner.step(30, tokens)
    assert [answerer.tokens(prompt, 16) for prompt in model.prompts(50)] == before, "it has its own copy of the weights"
    assert answerer.tokens("import os", 5) == answerer.tokens("import os", 16)[:5]
    assert answerer.answer("", 3) == "".join(answerer.tokens("", 3))
    assert len(set(model.prompts(200))) == 200
