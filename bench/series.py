"""A training series for the benchmarks of the vault: a small language model under AdamW in mixed precision, in plain numpy.

Word-level text of Python's own standard library; context of eight words; embedding, two hidden layers with layer norm, output layer;
about 10 M parameters. The forward pass uses the bf16 copy of the fp32 master weights, as mixed-precision trainers do; a checkpoint holds
bf16 copy, master, first and second moment. Order of operations in the optimizer as in PyTorch's AdamW.
"""

from __future__ import annotations

import re
import sysconfig
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

VOCABULARY, WIDTH, CONTEXT, HIDDEN, NARROW, BATCH = 4096, 256, 8, 1536, 768, 128
BETA1, BETA2, EPSILON, DECAY, RATE, WARM_UP = 0.9, 0.999, 1e-8, 0.1, 3e-4, 50

Array = np.ndarray[Any, np.dtype[np.float32]]
State = dict[str, np.ndarray[Any, np.dtype[Any]]]


def words() -> np.ndarray[Any, np.dtype[np.int64]]:
    """The text as numbers; 0 stands for rare words."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    found = re.findall(r"\w+|[^\w\s]|\n", "\n".join(file.read_text(errors="replace") for file in files))
    common = [word for word, _ in Counter(found).most_common(VOCABULARY - 1)]
    numbers = {word: number + 1 for number, word in enumerate(common)}
    return np.array([numbers.get(word, 0) for word in found], dtype=np.int64)


def to_bf16(values: Array) -> np.ndarray[Any, np.dtype[np.uint16]]:
    """Round to nearest even, as trainers do."""
    bits = values.view(np.uint32)
    return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16)


def from_bf16(bits: np.ndarray[Any, np.dtype[np.uint16]]) -> Array:
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


class Trainer:
    """Everything from one seed; ``step`` goes one step on."""

    def __init__(self, seed: int = 7) -> None:
        generator = np.random.default_rng(seed)
        shapes = {
            "embedding": (VOCABULARY, WIDTH), "first.weight": (WIDTH * CONTEXT, HIDDEN), "first.bias": (HIDDEN,),
            "norm.gain": (HIDDEN,), "second.weight": (HIDDEN, NARROW), "second.bias": (NARROW,), "out.weight": (NARROW, VOCABULARY),
        }  # fmt: skip
        self.master: dict[str, Array] = {}
        for name, shape in shapes.items():
            scale = 0.02 if len(shape) == 2 else 0.0
            self.master[name] = (generator.standard_normal(shape) * scale).astype(np.float32)
        self.master["norm.gain"] += 1
        self.first = {name: np.zeros_like(value) for name, value in self.master.items()}
        self.second = {name: np.zeros_like(value) for name, value in self.master.items()}
        self.steps = 0
        self._generator = generator
        self._text = words()

    def step(self) -> float:
        """One step of AdamW; returns the loss."""
        places = self._generator.integers(0, len(self._text) - CONTEXT - 1, BATCH)
        inputs = self._text[places[:, None] + np.arange(CONTEXT)]
        loss, gradients = self._gradients(inputs, self._text[places + CONTEXT])
        self.steps += 1
        rate = RATE * min(1.0, self.steps / WARM_UP)
        one = np.float32
        correction = (1 - BETA2**self.steps) ** 0.5
        for name, gradient in gradients.items():
            weights, first, second = self.master[name], self.first[name], self.second[name]
            if weights.ndim == 2:
                weights *= one(1 - rate * DECAY)
            first += one(1 - BETA1) * (gradient - first)
            second *= one(BETA2)
            second += one(1 - BETA2) * gradient * gradient
            weights -= one(rate / (1 - BETA1**self.steps)) * (first / (np.sqrt(second) / one(correction) + one(EPSILON)))
        return loss

    def _gradients(self, inputs: Any, wanted: Any) -> tuple[float, dict[str, Array]]:
        w = {name: from_bf16(to_bf16(value)) for name, value in self.master.items()}
        x0 = w["embedding"][inputs].reshape(BATCH, -1)
        h1 = x0 @ w["first.weight"] + w["first.bias"]
        spread = 1 / np.sqrt((h1 * h1).mean(1, keepdims=True) + 1e-5)
        normal = h1 * spread
        a1 = np.maximum(normal * w["norm.gain"], 0)
        h2 = a1 @ w["second.weight"] + w["second.bias"]
        a2 = np.maximum(h2, 0)
        scores = a2 @ w["out.weight"]
        scores -= scores.max(1, keepdims=True)
        odds = np.exp(scores)
        odds /= odds.sum(1, keepdims=True)
        loss = float(-np.log(odds[np.arange(BATCH), wanted] + 1e-9).mean())
        odds[np.arange(BATCH), wanted] -= 1
        d_scores = odds / BATCH
        d_h2 = (d_scores @ w["out.weight"].T) * (h2 > 0)
        d_a1 = (d_h2 @ w["second.weight"].T) * (a1 > 0)
        d_normal = d_a1 * w["norm.gain"]
        d_h1 = spread * (d_normal - normal * (d_normal * normal).mean(1, keepdims=True))
        d_embedding = np.zeros_like(w["embedding"])
        np.add.at(d_embedding, inputs.reshape(-1), (d_h1 @ w["first.weight"].T).reshape(-1, WIDTH))
        return loss, {
            "embedding": d_embedding, "first.weight": x0.T @ d_h1, "first.bias": d_h1.sum(0), "norm.gain": (d_a1 * normal).sum(0),
            "second.weight": a1.T @ d_h2, "second.bias": d_h2.sum(0), "out.weight": a2.T @ d_scores,
        }  # fmt: skip

    def state(self) -> State:
        """What a checkpoint holds, copied."""
        result: State = {}
        for name, value in self.master.items():
            result[f"model.{name}"] = to_bf16(value)
            result[f"master.{name}"] = value.copy()
            result[f"exp_avg.{name}"] = self.first[name].copy()
            result[f"exp_avg_sq.{name}"] = self.second[name].copy()
        return result


def series(base: int = 100, distances: tuple[int, ...] = (1, 10, 30, 300)) -> Iterator[tuple[int, State]]:
    """The state after ``base`` steps, then at each distance from it."""
    trainer = Trainer()
    stops = [base] + [base + distance for distance in distances]
    for stop in stops:
        while trainer.steps < stop:
            trainer.step()
        yield stop - base, trainer.state()
