"""Model: a small language model in numpy that really learns, with Adam, and is deterministic to the last bit.

The next token is predicted from the embeddings of the last tokens and of hashed pairs of neighbours (most parameters are there, so that a
step and an answer stay cheap), through one hidden layer. Same seed, same machine: same weights. The batch of a step is a function of
(seed, step) alone, so that a run that resumes at step n sees exactly the batches that it would have seen.

Entry points set ``OPENBLAS_NUM_THREADS=1`` before numpy is imported: sums then never depend on how many cores are free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from blake3 import blake3
from numpy.typing import NDArray

from bridgehead.app.demo.vocabulary import UNKNOWN, Vocabulary

Floats = NDArray[np.float32]
Weights = dict[str, Floats]

VOCABULARY_SIZE = 1024
CONTEXT = 6
WIDTH = 32
PAIRS = 2
PAIR_BUCKETS = 5_000
HIDDEN = 128
BATCH = 256
LEARNING_RATE = 3e-3
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's constants as in Kingma and Ba, "Adam: a method for stochastic optimization", algorithm 1."""


def initial_weights(*, seed: int) -> Weights:
    """Freshly drawn weights; about 0.3 million numbers."""
    random = np.random.Generator(np.random.PCG64(seed))
    inputs = (CONTEXT + PAIRS) * WIDTH

    def draw(rows: int, columns: int, scale: float) -> Floats:
        return (random.standard_normal((rows, columns), dtype=np.float32) * np.float32(scale)).astype(np.float32)

    return {
        "tokens": draw(VOCABULARY_SIZE, WIDTH, 0.1),
        "pairs": draw(PAIR_BUCKETS, WIDTH, 0.1),
        "hidden": draw(inputs, HIDDEN, inputs**-0.5),
        "hidden_bias": np.zeros(HIDDEN, dtype=np.float32),
        "output": draw(HIDDEN, VOCABULARY_SIZE, HIDDEN**-0.5),
        "output_bias": np.zeros(VOCABULARY_SIZE, dtype=np.float32),
    }


def weights_hash(weights: Mapping[str, Floats]) -> str:
    """Content hash of names, shapes and bits, 64 hex digits: equal only for bit-identical weights."""
    hasher = blake3()
    for name in sorted(weights):
        array = np.ascontiguousarray(weights[name], dtype=np.float32)
        hasher.update(f"{name}{array.shape}".encode())
        hasher.update(array.tobytes())
    return hasher.hexdigest()


def pair_buckets(first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where the embedding of two neighbouring tokens lies (multiplicative hashing)."""
    return (first * 40_503 + second * 9_973) % PAIR_BUCKETS


class Learner:
    """Weights, Adam's moments, and one step of training at a time."""

    def __init__(self, weights: Weights, m: Weights, v: Weights, *, seed: int) -> None:
        self.weights, self.m, self.v = weights, m, v
        self._seed = seed
        self._scratch = {name: (np.empty_like(array), np.empty_like(array)) for name, array in weights.items()}

    @classmethod
    def fresh(cls, *, seed: int) -> Learner:
        """An untrained learner."""
        weights = initial_weights(seed=seed)
        return cls(weights, _zeros(weights), _zeros(weights), seed=seed)

    @classmethod
    def from_state(cls, state: Mapping[str, Any], *, seed: int) -> Learner:
        """The learner that ``state()`` described. Arrays are copied, so that they are writable and lie in memory as fresh ones do."""
        weights, m, v = ({name: np.array(array) for name, array in state[part].items()} for part in ("weights", "m", "v"))
        return cls(weights, m, v, seed=seed)

    def state(self) -> dict[str, Weights]:
        """All that a resume needs besides the step number; the arrays are the live ones."""
        return {"weights": self.weights, "m": self.m, "v": self.v}

    def step(self, number: int, corpus: NDArray[np.int32]) -> float:
        """Train on the batch of step ``number`` (from 1) and return its loss in nats per token, before the update."""
        loss, gradients = self.gradients(number, corpus)
        self.update(number, gradients)
        return loss

    def gradients(self, number: int, corpus: NDArray[np.int32], *, rank: int = 0) -> tuple[float, Weights]:
        """The loss on the batch of step ``number`` and its gradients; of several ranks each has a batch of its own."""
        random = np.random.Generator(np.random.PCG64([self._seed, number, rank] if rank else [self._seed, number]))
        starts = random.integers(0, len(corpus) - CONTEXT, size=BATCH)
        window = corpus[starts[:, None] + np.arange(CONTEXT + 1)].astype(np.int64)
        return _loss_and_gradients(self.weights, window[:, :CONTEXT], window[:, CONTEXT])

    def update(self, number: int, gradients: Weights) -> None:
        """One step of Adam for the weights that ``gradients`` names."""
        rate = np.float32(LEARNING_RATE * (1 - BETA_2**number) ** 0.5 / (1 - BETA_1**number))
        for name, gradient in gradients.items():
            m, v, (a, b) = self.m[name], self.v[name], self._scratch[name]
            np.subtract(gradient, m, out=a)
            m += np.multiply(a, np.float32(1 - BETA_1), out=a)
            np.multiply(gradient, gradient, out=b)
            b -= v
            v += np.multiply(b, np.float32(1 - BETA_2), out=b)
            np.sqrt(v, out=b)
            b += np.float32(EPSILON)
            np.divide(m, b, out=a)
            self.weights[name] -= np.multiply(a, rate, out=a)


class Answerer:
    """Greedy answers from trained weights: the same prompt always gets the same answer."""

    def __init__(self, weights: Mapping[str, Floats], vocabulary: Vocabulary) -> None:
        self._weights = {name: np.array(array) for name, array in weights.items()}
        self._vocabulary = vocabulary
        self.model_hash = weights_hash(weights)

    def tokens(self, prompt: str, n_tokens: int) -> list[str]:
        """The next ``n_tokens`` tokens after ``prompt``, as pieces of text."""
        weights = self._weights
        tokens, pairs, hidden, hidden_bias = weights["tokens"], weights["pairs"], weights["hidden"], weights["hidden_bias"]
        output, output_bias = weights["output"], weights["output_bias"]
        context = ([UNKNOWN] * CONTEXT + self._vocabulary.encode(prompt))[-CONTEXT:]
        answer: list[int] = []
        for _ in range(n_tokens):
            newest = [(context[-2 - back] * 40_503 + context[-1 - back] * 9_973) % PAIR_BUCKETS for back in range(PAIRS)]
            inputs = np.concatenate((tokens[context].reshape(-1), pairs[newest].reshape(-1)))
            activation = np.tanh(inputs @ hidden + hidden_bias)
            token = int((activation @ output + output_bias).argmax())
            answer.append(token)
            context = [*context[1:], token]
        return [self._vocabulary.tokens[token] for token in answer]

    def answer(self, prompt: str, n_tokens: int) -> str:
        """The next ``n_tokens`` tokens after ``prompt``, joined."""
        return "".join(self.tokens(prompt, n_tokens))


def prompts(count: int) -> Sequence[str]:
    """``count`` different prompts that servers and their clients agree on."""
    heads = ("def ", "import ", "class ", "for ", "if ", "return ", "self.", "raise ", "with ", "# ")
    return [f"{heads[number % len(heads)]}{chr(97 + number // len(heads) % 26)}{number}" for number in range(count)]


def _zeros(weights: Weights) -> Weights:
    return {name: np.zeros_like(array) for name, array in weights.items()}


def _loss_and_gradients(weights: Weights, context: NDArray[np.int64], target: NDArray[np.int64]) -> tuple[float, Weights]:
    rows = np.arange(BATCH)
    newest = np.stack([pair_buckets(context[:, -2 - back], context[:, -1 - back]) for back in range(PAIRS)], axis=1)
    inputs = np.concatenate((weights["tokens"][context].reshape(BATCH, -1), weights["pairs"][newest].reshape(BATCH, -1)), axis=1)
    activation = np.tanh(inputs @ weights["hidden"] + weights["hidden_bias"])
    scores = activation @ weights["output"] + weights["output_bias"]
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    loss = float(-np.log(scores[rows, target] + np.float32(1e-30)).mean())

    scores[rows, target] -= 1
    scores /= np.float32(BATCH)
    back = (scores @ weights["output"].T) * (1 - activation * activation)
    into_inputs = back @ weights["hidden"].T
    split = CONTEXT * WIDTH
    tokens, pairs = np.zeros_like(weights["tokens"]), np.zeros_like(weights["pairs"])
    np.add.at(tokens, context.reshape(-1), into_inputs[:, :split].reshape(-1, WIDTH))
    np.add.at(pairs, newest.reshape(-1), into_inputs[:, split:].reshape(-1, WIDTH))
    return loss, {
        "tokens": tokens,
        "pairs": pairs,
        "hidden": inputs.T @ back,
        "hidden_bias": back.sum(axis=0),
        "output": activation.T @ scores,
        "output_bias": scores.sum(axis=0),
    }
